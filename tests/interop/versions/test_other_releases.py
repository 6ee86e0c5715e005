"""Stores of other releases of RocketMQ: Java makes one, rmqcore appends, the same Java goes on, and both read the same each time.

Java is the release itself, by its jars from Maven Central, without a broker. docs/compat.md has the table of what holds.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from interop.versions.java_release import SETTINGS, run
from interop.versions.releases import RELEASES, VERIFIED
from interop.versions.same_answers import check
from support.doses import LEVEL, dose

import rmqcore
from rmqcore import Message
from rmqcore.engine.store.store import MessageStore
from rmqcore.offline.fsck import fsck
from rmqcore.vocabulary.rocketmq_versions import readable_records
from rmqcore.vocabulary.status import PutMessageStatus

PUTS = dose("RMQCORE_RELEASE_PUTS", test=400, verify=500, night=2500)
OURS = PUTS // 4
TESTED = RELEASES if LEVEL == "night" else VERIFIED
V6 = "[2001:db8::7]:9"
LONG = "t" * 128

pytestmark = pytest.mark.slow


def append(store: MessageStore, count: int, seed: int) -> None:
    """Put messages of all kinds that the release can read; what it cannot read is refused."""
    rng = random.Random(seed)
    readable = readable_records(store.config.for_version)
    many = []
    for number in range(count):
        topic, queue_id = f"Topic{rng.choice('ABCDEFGHIJ')}", rng.randrange(4)
        message = Message(
            topic,
            rng.randbytes(rng.randrange(300)),
            queue_id,
            tags=rng.choice([None, "TagA", "TagB"]),
            keys=[f"py-{seed}-{number}"] * rng.randrange(2),
            properties={"UNIQ_KEY": f"PY{seed:04}{number:026}"},
            born_host=V6 if readable.ipv6_hosts and number % 20 == 7 else None,
        )
        kind = rng.random()
        if kind < 0.1:
            batch = [Message(topic, b"of a batch", queue_id, keys=[f"b{number}"]) for _ in range(5)]
            store.put_batch(batch).raise_for_status()
        elif kind < 0.15:
            properties = {"DELAY": "16", "REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
            store.put(
                Message("SCHEDULE_TOPIC_XXXX", b"later", 15, properties=properties)
            ).raise_for_status()
        elif kind < 0.5:
            store.put(message).raise_for_status()
        else:
            many.append(message)
    store.put_many(many).raise_for_status()
    for unread, can in (
        (Message("T", b"x", born_host=V6), readable.ipv6_hosts),
        (Message(LONG, b"x"), readable.most_topic_bytes is None),
    ):
        assert (store.put(unread).status is PutMessageStatus.PUT_OK) == can


@pytest.mark.parametrize("halt", [False, True], ids=["clean", "halted"])
@pytest.mark.parametrize("release", TESTED)
def test_a_store_goes_to_rmqcore_and_back(tmp_path: Path, release: str, halt: bool) -> None:
    root, home = tmp_path / "store", tmp_path / "home"
    made = run(release, root, home, puts=PUTS, seed=1 + halt, halt=halt)["after"]
    counts = check(root, made)
    assert counts["messages"] >= PUTS
    assert counts["queries"] > 100
    report = fsck(root)
    assert report.exit_code == 0
    # RocketMQ before 5.4 indexes no tags; a killed one leaves its abort file.
    assert {finding.severity for finding in report.findings} <= {"info"}
    index = sorted(path.name for path in (root / "index").iterdir())
    with rmqcore.open(root, for_version=release) as store:
        found = store.recovery
        assert (found.cut_bytes, found.index.damage) == (0, None)
        if not halt:
            assert found.index.removed_files == ()
        append(store, OURS, seed=3)
        store.wait_dispatched(60)
        end = store.max_phy_offset
    if not halt:
        assert sorted(path.name for path in (root / "index").iterdir())[: len(index)] == index
    back = run(release, root, home, puts=OURS, seed=5)
    assert back["before"]["maxPhyOffset"] >= end  # its delay service may have delivered
    assert len(back["before"]["records"]) >= len(made["records"]) + OURS
    check(root, back["after"])
    with rmqcore.open(root, for_version=release) as store:
        assert store.recovery.cut_bytes == 0
        append(store, 100, seed=7)
    assert fsck(root).exit_code == 0


@pytest.mark.parametrize("release", TESTED)
def test_what_a_release_cannot_read(tmp_path: Path, release: str) -> None:
    """It cuts its log at the first record of that kind, and with it all that rmqcore had appended behind it."""
    readable = readable_records(release)
    for number, (message, can) in enumerate(
        (
            (Message("T", b"x", born_host=V6), readable.ipv6_hosts),
            (Message(LONG, b"x"), readable.most_topic_bytes is None),
        )
    ):
        root = tmp_path / str(number)
        with rmqcore.open(root, **SETTINGS) as store:
            for _ in range(20):
                store.put(Message("T", b"before")).raise_for_status()
            at = store.put(message).phy_offset
            for _ in range(20):
                store.put(Message("T", b"behind")).raise_for_status()
            end = store.max_phy_offset
        found = run(release, root, tmp_path / "home", puts=0)["before"]
        assert found["maxPhyOffset"] == (end if can else at), (release, message.topic)
        shutil.rmtree(root)
