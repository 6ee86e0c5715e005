"""A day of a pair, one of which is a real broker: swapped twice, cleaned, backed up, and taken over by rmqcore alone.

RMQCORE_DAYS: how often. Each takes some minutes, most of them the minute before a Java slave asks for topics and offsets.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from interop import test_consumers as consumers
from interop.java_node import JavaNode
from interop.java_process import JavaProcess
from support.doses import dose
from support.eventually import eventually
from support.fail_over import ALONE, METADATA_S, ask, asks_for_halves, begin, goes_on, has_offsets
from support.raw_client import RawClient, pull_request, send_request
from support.replicated_pair import (
    TOPIC,
    Load,
    Node,
    OurNode,
    caught_up,
    check_stores,
    log_begin,
    log_end,
)

from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand

DAYS = dose("RMQCORE_DAYS", test=0, verify=0, night=1)
FILE = 1 << 20
SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": FILE,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1000,
    "diskMaxUsedSpaceRatio": 95,
    "flushConsumerOffsetInterval": 50,
    "enablePropertyFilter": "true",
}
PATIENT: dict[str, Any] = {"slaveTimeout": 20_000}
"""Clients of Java try again after FLUSH_SLAVE_TIMEOUT, and then a message is there twice."""
ANSWERS = 1_500
OLD_S = 200 * 3600.0
"""Age of a file that is deleted: `fileReservedTime` is 72 hours."""
DELETED_S = 90.0
LATER = "later"
SCENARIOS: tuple[Callable[[consumers.Served], None], ...] = (
    consumers.test_a_broker_shares_out_the_queues,
    consumers.test_a_message_is_given_to_a_consumer_by_an_administrator,
    consumers.test_concurrent_push_goes_on_where_it_ended,
    consumers.test_push_by_tags,
    consumers.test_push_by_sql92,
    consumers.test_two_members_share_the_queues,
    consumers.test_orderly_push_keeps_the_order_of_each_queue,
    consumers.test_each_member_of_a_group_that_broadcasts_gets_all,
    consumers.test_lite_pull_goes_on_where_it_ended,
    consumers.test_old_pull_waits_for_a_message,
)
"""What real clients do at a broker."""


class Day:
    """The clients of a pair, and what they were told from the morning on."""

    def __init__(self, java: JavaProcess, rng: random.Random) -> None:
        self._java = java
        self._rng = rng
        self._topics = 0
        self._numbers = self._count()
        self._delayed = itertools.count()
        self.loads: list[Load] = []

    @property
    def latest_topic(self) -> str:
        """The topic that was made last."""
        return f"Consumers{self._topics - 1}"

    def _count(self) -> Iterator[int]:
        while True:
            self._topics += 1
            yield self._topics - 1

    def work(self, master: Node, name_server: str) -> Load:
        """Load the master, let clients of Java do all that they do, and return the load."""
        load = self.send(master)
        self.do_all(master, name_server)
        return load

    def send(self, master: Node, *, half_share: float = 0.0) -> Load:
        """Load the master, and return the load."""
        with Load(master.address, self._rng, 900, half_share) as load:
            eventually(lambda: load.answers >= ANSWERS or load.unexpected, within_s=120)
        assert not load.unexpected
        self.loads.append(load)
        return load

    def do_all(self, master: Node, name_server: str) -> None:
        """Wait for a delayed message, and let clients of Java do all that they do."""
        self._delay(master)
        served = consumers.Served(self._java, name_server, master.address, self._numbers)
        for scenario in SCENARIOS:
            scenario(served)
        self._java.call("endProducer")

    def _delay(self, master: Node) -> None:
        """Send a message that is delivered after a second, and wait for it."""
        body = b"delayed %d;" % next(self._delayed)
        request = send_request(LATER, body)
        request.ext_fields["i"] += "DELAY\x011\x02"
        with RawClient(master.address) as client:
            assert client.ask(request).code == ResponseCode.SUCCESS
            eventually(lambda: is_delivered(client, body), within_s=60)

    def check(self, store: MessageStore) -> None:
        """Look that a store has each message that was answered and not deleted since, at its place."""
        for load in self.loads:
            kept = {
                (queue_id, queue_offset): sent
                for (queue_id, queue_offset), sent in load.stored.items()
                if queue_offset >= store.min_offset(TOPIC, queue_id)
            }
            load.stored = kept
            load.check(store)
        assert self.loads[-1].stored


@pytest.mark.slow
@pytest.mark.parametrize("number", range(DAYS))
def test_a_day(tmp_path: Path, rng: random.Random, java: JavaProcess, number: int) -> None:
    rng.seed(rng.random() + number)
    real, ours = JavaNode(tmp_path / "java", SETTINGS), OurNode(tmp_path / "ours", SETTINGS)
    alone = OurNode(tmp_path / "java", SETTINGS)
    day = Day(java, rng)
    with ExitStack() as stack:
        for node in (real, ours, alone):
            stack.callback(node.end)
        real.lead(**PATIENT)
        begin(real.address)
        ours.follow(real.ha, real)
        eventually(lambda: has_offsets(ours.store), within_s=METADATA_S)
        load = day.work(real, real.name_server)
        part(real, ours, day)

        ours.lead(name_server=real.name_server, **PATIENT)
        real.follow(ours.ha, ours)
        with RawClient(ours.address) as client:
            goes_on(client, load)
        load = day.work(ours, real.name_server)
        part(ours, real, day)

        real.lead(**PATIENT)
        ours.follow(real.ha, real)
        with RawClient(real.address) as client:
            goes_on(client, load)
        day.work(real, real.name_server)
        clean(real, ours)
        back_up(ours, tmp_path / "backup", day)
        part(real, ours, day)
        check_stores(day, real.store, ours.store)

        alone.lead(**ALONE)
        with RawClient(alone.address) as client:
            goes_on(client, day.loads[-1])
        load = day.send(alone, half_share=0.02)
        with RawClient(alone.address) as client:
            asks_for_halves(client, load)
        day.do_all(alone, alone.name_server)
        alone.stop()
        check_stores(day, alone.store)


def is_delivered(client: RawClient, body: bytes) -> bool:
    """Return whether a delayed message has come: after a promotion some that had come before come again."""
    answer = ask(client, RequestCode.GET_MIN_OFFSET, topic=LATER, queueId=0)
    offset = int(answer.ext_fields["offset"])
    while True:
        answer = client.ask(pull_request(LATER, offset, group="delayed"))
        if answer.code != ResponseCode.SUCCESS or body in answer.body:
            return answer.code == ResponseCode.SUCCESS
        offset = int(answer.ext_fields["nextBeginOffset"])


def part(master: Node, slave: Node, day: Day) -> None:
    """End both, the slave last, once it has all of the log and all topics."""
    caught_up(slave, master)
    eventually(lambda: knows_topic(slave.store, day.latest_topic), within_s=METADATA_S)
    master.stop()
    slave.stop()


def knows_topic(store: Path, topic: str) -> bool:
    """Return whether a slave has saved a topic of its master."""
    topics = store / "config" / "topics.json"
    return topics.exists() and f'"{topic}"' in topics.read_text()


def clean(*nodes: Node) -> None:
    """Let all files of the logs but the last two be old, and ask for the deletion of old ones."""
    caught_up(nodes[1], nodes[0])
    kept_from = log_end(nodes[0].address) // FILE * FILE - FILE
    assert kept_from > log_begin(nodes[0].address)
    for node in nodes:
        with RawClient(node.address) as client:
            answer = client.ask(RemotingCommand(RequestCode.DELETE_EXPIRED_COMMITLOG))
        assert answer.code == ResponseCode.SUCCESS, answer

    def are_cleaned() -> bool:
        for file in files_before(kept_from, nodes):
            os.utime(file, (time.time() - OLD_S,) * 2)  # again: a late flush makes it a new one
        return all(log_begin(node.address) == kept_from for node in nodes)

    eventually(
        are_cleaned,
        within_s=DELETED_S,
        details=lambda: [log_begin(node.address) for node in nodes],
    )


def files_before(phy_offset: int, nodes: tuple[Node, ...]) -> Iterator[Path]:
    """Yield the files of the logs that begin before an offset."""
    for node in nodes:
        yield from (
            file
            for file in (node.store / "commitlog").iterdir()
            if file.name.isdigit() and int(file.name) < phy_offset
        )


def back_up(node: Node, place: Path, day: Day) -> None:
    """Back up the store of a broker that runs, and look that the copy has all that was answered."""
    words = [sys.executable, "-m", "rmqcore", "backup", str(node.store), str(place)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    check_stores(day, place)
