"""kill -9 of both sides of a pair, one of which is a real broker, over a line that cuts, delays and splits.

RMQCORE_PAIR_KILLS: how often; RMQCORE_PAIR_MB: how many megabytes.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.java_node import JavaNode
from support.doses import dose
from support.replicated_pair import TOPIC, Load, OurNode, check_stores, kill_again_and_again

KILLS = dose("RMQCORE_PAIR_KILLS", test=2, verify=2, night=20)
MEGABYTES = dose("RMQCORE_PAIR_MB", test=3, verify=3, night=1000)
SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": max(1, MEGABYTES // 16) << 20,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1000,
}
MOST_REPEATS = 900
ASKED = 2_000
"""Messages that Java is asked for at most: each is a request to its store."""


@pytest.mark.slow
@pytest.mark.parametrize("who_leads", ["java leads", "java follows"])
def test_both_sides_are_killed(
    tmp_path: Path, rng: random.Random, java_open: OpenJava, who_leads: str
) -> None:
    java, ours = JavaNode(tmp_path / "java", SETTINGS), OurNode(tmp_path / "ours", SETTINGS)
    with ExitStack() as stack:
        stack.callback(java.end)
        stack.callback(ours.end)
        master, slave = (java, ours) if who_leads == "java leads" else (ours, java)
        size = MEGABYTES * 1_000_000
        load = kill_again_and_again(
            master, slave, rng, kills=KILLS, size=size, most_repeats=MOST_REPEATS
        )
    check_stores(load, java.store, ours.store)
    for store in (java.store, ours.store):
        check_by_java(load, store, java_open, rng)


def check_by_java(load: Load, store: Path, java_open: OpenJava, rng: random.Random) -> None:
    """Look that Java gets what was answered from a store."""
    places = sorted(load.stored)
    rng.shuffle(places)
    asked = sorted(islice(places, ASKED))
    requests = [
        {
            "topic": TOPIC,
            "queueId": queue_id,
            "queueOffset": queue_offset,
            "maxMessages": 1,
            "maxBytes": 1 << 20,
        }
        for queue_id, queue_offset in asked
    ]
    with java_open(store, SETTINGS) as opened:
        for place, got in zip(asked, opened.get(requests), strict=True):
            assert (got["status"], got["queue_offsets"]) == ("FOUND", [place[1]])
