"""One bit flipped in each field of a record of a closed store: every other message that Java still serves, we serve.

RMQCORE_FLIPS: how many bits of each field; RMQCORE_SEED: others.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from interop.java_process import JavaProcess
from interop.java_store import JavaStore
from interop.workload import SIZES, ours
from support.doses import dose

import rmqcore
from rmqcore import Message, MessageView

FLIPS = dose("RMQCORE_FLIPS", test=1, verify=2, night=32)
CONFIG: dict[str, Any] = {**SIZES, "mappedFileSizeCommitLog": 16 * 1024}
FIELDS = {
    "TOTALSIZE": (0, 4),
    "MAGICCODE": (4, 4),
    "BODYCRC": (8, 4),
    "QUEUEID": (12, 4),
    "FLAG": (16, 4),
    "QUEUEOFFSET": (20, 8),
    "PHYSICALOFFSET": (28, 8),
    "SYSFLAG": (36, 4),
    "BORNTIMESTAMP": (40, 8),
    "BORNHOST": (48, 8),
    "STORETIMESTAMP": (56, 8),
    "STOREHOST": (64, 8),
    "RECONSUMETIMES": (72, 4),
    "PREPAREDTRANSACTIONOFFSET": (76, 8),
    "BODYLENGTH": (84, 4),
    "BODY": (88, 4),
}
"""Where they lie in a record with hosts of IPv4."""


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("closed") / "store"
    with rmqcore.open(root, services=False, **ours(CONFIG)) as store:
        for number in range(120):
            body = b"" if number % 11 == 4 else b"%03d" % number * 50
            store.put(Message("AB"[number % 2], body, tags="t", keys=[f"k{number}"]))
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    return root


def java_serves(java: JavaProcess, root: Path) -> tuple[int, set[int]]:
    """The end of the log, and the places of all messages that queues lead to."""
    with JavaStore(java, root, CONFIG) as store:
        store.await_dispatch()
        offsets = store.offsets()
        requests = [
            {
                "topic": queue["topic"],
                "queueId": queue["queue_id"],
                "queueOffset": at,
                "maxMessages": 1,
                "maxBytes": 1 << 20,
            }
            for queue in offsets["queues"]
            for at in range(queue["min_offset"], queue["max_offset"])
        ]
        got = store.get(requests)
        places = store.phy_offset_of(
            {name: request[name] for name in ("topic", "queueId", "queueOffset")}
            for request in requests
        )
        found = zip(got, places, strict=True)
        return offsets["max_phy_offset"], {
            place["phy_offset"] for answer, place in found if answer["status"] == "FOUND"
        }


def ours_serves(root: Path) -> tuple[int, set[int]]:
    with rmqcore.open(root, services=False, **ours(CONFIG)) as store:
        while store.dispatch_behind_bytes:
            store.dispatch_once()
        found: set[int] = set()
        for topic, queue_id in store.queues():
            at = store.min_offset(topic, queue_id)
            while at < store.max_offset(topic, queue_id):
                with store.get(topic, queue_id, at, 32) as got:
                    found.update(view.phy_offset for view in got.messages)
                    at = got.next_begin_offset
        return store.max_phy_offset, found


@pytest.mark.parametrize("which", ["middle of the newest file", "last", "first of the newest file"])
@pytest.mark.parametrize("field", FIELDS)
def test_we_serve_what_java_serves(
    java: JavaProcess, closed: Path, tmp_path: Path, field: str, which: str
) -> None:
    views: list[MessageView] = list(rmqcore.read(closed).messages())
    size = CONFIG["mappedFileSizeCommitLog"]
    newest = [view for view in views if view.phy_offset // size == views[-1].phy_offset // size]
    at = {"middle of the newest file": len(newest) // 2, "last": -1}.get(which, 0)
    hurt = newest[at]
    rng = random.Random(f"{field}{which}{os.environ.get('RMQCORE_SEED', '7')}")
    begin, length = FIELDS[field]
    for bit in rng.sample(range(8 * length), min(FLIPS, 8 * length)):
        theirs = Path(shutil.copytree(closed, tmp_path / f"java{bit}"))
        path = theirs / "commitlog" / f"{hurt.phy_offset - hurt.phy_offset % size:020}"
        data = bytearray(path.read_bytes())
        data[hurt.phy_offset % size + begin + bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        mine = Path(shutil.copytree(theirs, tmp_path / f"ours{bit}"))
        end, wanted = java_serves(java, theirs)
        our_end, got = ours_serves(mine)
        assert our_end == end, bit
        assert wanted - got <= {hurt.phy_offset}, bit
