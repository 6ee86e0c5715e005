"""Checks of a recovery: the same directory, recovered by Java and by us."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from interop.conftest import OpenJava
from interop.files import check_same_bytes, contents
from interop.java_store import JavaStore
from interop.questions import check_gets, check_offsets, check_records, check_times
from interop.workload import ROLLBACK, ours

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.offline.fsck import fsck


def check_recovery(damaged: Path, java_open: OpenJava, config: dict[str, Any]) -> None:
    """Both recover a copy: same offsets, records and answers, same bytes up to the ends; then ours once more.

    Java leaves some queues without entries of messages that the log has, which fsck tells. Ours has them all; of these queues
    nothing is compared, of all others everything.
    """
    root = Path(shutil.copytree(damaged, damaged.with_name("java")))
    mine = Path(shutil.copytree(damaged, damaged.with_name("ours")))
    judged = Path(shutil.copytree(damaged, damaged.with_name("judged")))
    with java_open(judged, config) as java:
        java.offsets()
    unsound = {queue_of(path) for path in queue_errors(judged)}
    with java_open(root, config) as java:
        offsets = java.offsets()
        every = offsets["queues"]
        sound = [one for one in every if (one["topic"], one["queue_id"]) not in unsound]
        with rmqcore.open(mine, services=True, **ours(config)) as store:
            assert store.wait_dispatched(60)
            assert store.dispatch_behind_bytes == 0
            if not unsound:
                check_offsets(offsets, store)
            for name in ("min_phy_offset", "max_phy_offset"):
                assert getattr(store, name) == offsets[name], name
            check_answers(java, store, {**offsets, "queues": sound})
            # What a second open has to find again.
            again = {**offsets, "queues": ends(store)}
    assert list(queue_errors(mine)) == []
    check_up_to_the_ends(mine, root, {**offsets, "queues": sound})
    check_complete(mine)
    check_again(mine, config, again)


def ends(store: MessageStore) -> list[dict[str, Any]]:
    """Where each queue ends."""
    return [
        {"topic": topic, "queue_id": queue_id, "max_offset": store.max_offset(topic, queue_id)}
        for topic, queue_id in store.queues()
    ]


def check_answers(java: JavaStore, store: MessageStore, offsets: dict[str, Any]) -> None:

    messages = [record for record in java.records() if record["kind"] == "MESSAGE"]
    check_records(messages, store)
    rng = random.Random(1)
    check_gets(java, store, offsets["queues"], rng)
    check_times(java, store, offsets["queues"], messages, rng)
    for record in rng.sample(messages, 40):
        unique = record["properties"].get("UNIQ_KEY")
        if unique and record["sys_flag"] & ROLLBACK != ROLLBACK:
            found = store.query(record["topic"], unique).messages
            assert [message.phy_offset for message in found] == [record["phy_offset"]]


def check_up_to_the_ends(mine: Path, java: Path, offsets: dict[str, Any]) -> None:
    """The log up to its end and every queue up to its max offset."""
    end = offsets["max_phy_offset"]
    for name, data in contents(java, "commitlog").items():
        used = min(len(data), end - int(Path(name).name))
        if used > 0:
            check_same_bytes(name, (mine / name).read_bytes()[:used], data[:used])
    for queue in offsets["queues"]:
        folder = Path("consumequeue", queue["topic"], str(queue["queue_id"]))
        end = queue["max_offset"] * 20
        want, got = (
            {
                path.name: path.read_bytes()
                for path in sorted((root / folder).glob("0*"))
                if int(path.name) < end
            }
            for root in (java, mine)
        )
        assert sorted(got) == sorted(want), folder
        for file, data in want.items():
            used = end - int(file)
            check_same_bytes(str(folder / file), got[file][:used], data[:used])


def queue_errors(root: Path) -> list[str]:
    """The files of queues with which fsck finds something wrong."""
    return [
        f.path for f in fsck(root).findings if f.kind.startswith("cq") and f.severity == "error"
    ]


def queue_of(path: str) -> tuple[str, int]:
    """Topic and queue id of a file or directory in ``consumequeue/``."""
    _, topic, queue_id, *_ = Path(path).parts
    return topic, int(queue_id)


def check_complete(mine: Path) -> None:
    """Every key of every message is in the index, once."""
    assert [f for f in fsck(mine).findings if f.kind.startswith("index")] == []


def check_again(mine: Path, config: dict[str, Any], offsets: dict[str, Any]) -> None:
    """A second open has nothing to do."""
    before = contents(mine, "commitlog", "consumequeue", "index")
    with rmqcore.open(mine, services=False, **ours(config)) as store:
        assert store.recovery.clean_exit
        assert store.recovery.cut_bytes == 0
        assert store.dispatch_behind_bytes == 0
        assert store.max_phy_offset == offsets["max_phy_offset"]
        for queue in offsets["queues"]:
            assert store.max_offset(queue["topic"], queue["queue_id"]) == queue["max_offset"]
    after = contents(mine, "commitlog", "consumequeue", "index")
    assert sorted(after) == sorted(before)
    for name, data in before.items():
        check_same_bytes(name, after[name], data)
