"""Compacted topics: a get is answered from their own logs as by Java; damage in them is named and nothing is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.stores import compacted
from support.stores.compacted import ENTRY, LOG_FILE, TOPIC, clean, java_store, make_store, parts

import rmqcore
from rmqcore import Message, StoreReader
from rmqcore.errors import LinkError
from rmqcore.offline.fsck import fsck
from rmqcore.vocabulary.status import GetMessageStatus, PutMessageStatus


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return clean(make_store(tmp_path / "store"))


def listing(root: Path) -> list[tuple[str, int, int]]:
    found = (path for path in root.rglob("*") if path.is_file())
    return sorted((str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in found)


def live_offsets(root: Path, queue_id: int = 0, topic: str = TOPIC) -> list[int]:
    """Queue offsets by the bytes of the entries alone."""
    found = []
    for _, entries in parts(root, queue_id, topic):
        data = entries.read_bytes()
        rows = ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY.size])
        found += [row[4] for row in rows if row[0] >= 0 and row[1] > 0]
    return found


def walk(reader: StoreReader, queue_id: int, topic: str = TOPIC) -> list[Any]:
    """All messages of a queue, one get after the other, as a consumer does."""
    found: list[Any] = []
    queue_offset = 0
    while True:
        got = reader.get(topic, queue_id, queue_offset)
        if not got.messages:
            assert got.status is GetMessageStatus.OFFSET_OVERFLOW_ONE
            return found
        found += got.messages
        queue_offset = got.next_begin_offset


# ---- answers ----------------------------------------------------------------------------------------


def test_the_store_of_a_broker(tmp_path: Path) -> None:
    """Before, a get was answered from the CommitLog, also once Java had compacted messages away."""
    root = java_store(tmp_path)
    reader = rmqcore.read(root)
    before = listing(root)
    for queue_id, count in ((0, 11), (1, 12)):
        got = reader.get("Compact", queue_id, 0)
        assert (got.status, len(got), got.next_begin_offset) == (
            GetMessageStatus.FOUND,
            count,
            count,
        )
        assert (got.min_offset, got.max_offset) == (0, count)
        assert got.compacted_log == f"compaction/compactionLog/Compact/{queue_id}"
        in_log = [one for one in reader.messages(topics=["Compact"]) if one.queue_id == queue_id]
        assert [one.body for one in got] == [one.body for one in in_log]
        assert got.messages[0].phy_offset == 0
    (topic,) = reader.compacted_topics()
    assert (topic.topic, topic.queues, topic.messages, topic.only_here) == ("Compact", 2, 23, 0)
    assert listing(root) == before
    assert fsck(root).totals == {}


@pytest.mark.parametrize("queue_id", [0, 1])
def test_only_live_messages_are_returned(queue_id: int, store: Path) -> None:
    want = live_offsets(store, queue_id)
    assert len(list(parts(store, queue_id))) > 2
    assert want != list(range(want[0], want[-1] + 1))
    reader = rmqcore.read(store)
    assert [view.queue_offset for view in walk(reader, queue_id)] == want
    assert not reader.damage


def test_a_get_between_messages_starts_at_the_next_one(store: Path) -> None:
    reader, live = rmqcore.read(store), live_offsets(store)
    for queue_offset in range(-1, live[-1] + 1):
        got = reader.get(TOPIC, 0, queue_offset, 1)
        want = next(one for one in live if one >= queue_offset)
        assert [view.queue_offset for view in got] == [want], queue_offset
        assert got.next_begin_offset == want + 1
        assert (got.min_offset, got.max_offset) == (live[0], live[-1] + 1)


def test_a_get_ends_with_a_file(store: Path) -> None:
    """As in Java, which goes to the next file only while it has found nothing."""
    reader = rmqcore.read(store)
    for _, entries in parts(store):
        rows = [row for row in ENTRY.iter_unpack(entries.read_bytes()) if row[0] >= 0 and row[1]]
        got = reader.get(TOPIC, 0, rows[0][4])
        assert [view.queue_offset for view in got] == [row[4] for row in rows]


def test_gets_at_and_behind_the_end(store: Path) -> None:
    reader = rmqcore.read(store)
    end = live_offsets(store)[-1] + 1
    got = reader.get(TOPIC, 0, end)
    assert (got.status.name, got.next_begin_offset) == ("OFFSET_OVERFLOW_ONE", end)
    got = reader.get(TOPIC, 0, end + 5)
    behind = 0 if got.min_offset == 0 else end
    assert (got.status.name, got.next_begin_offset) == ("OFFSET_OVERFLOW_BADLY", behind)


def test_tags_and_limits(store: Path) -> None:
    reader = rmqcore.read(store)
    got = reader.get(TOPIC, 0, 0, 32, tags="T1")
    assert got.messages
    assert {view.tags for view in got} == {"T1"}
    assert len(reader.get(TOPIC, 0, 0, 2)) == 2
    assert len(reader.get(TOPIC, 0, 0, max_bytes=1)) == 1


def test_the_configuration_decides(store: Path) -> None:
    """A topic that was deleted and made again without compaction has a directory that a broker does not read."""
    config = store / "config"
    config.mkdir()
    (config / "topics.json").write_text(
        json.dumps({"topicConfigTable": {TOPIC: {"topicName": TOPIC, "attributes": {}}}})
    )
    reader = rmqcore.read(store)
    assert not reader.get(TOPIC, 0, 0).compacted_log
    assert reader.compacted_topics() == []


def test_all_live_messages(store: Path) -> None:
    reader = rmqcore.read(store)
    want = [(queue_id, one) for queue_id in (0, 1) for one in live_offsets(store, queue_id)]
    views = list(reader.compacted_messages())
    assert [(view.queue_id, view.queue_offset) for view in views] == want
    assert not reader.damage
    (topic,) = reader.compacted_topics()
    in_log = {
        (view.queue_id, view.queue_offset) for view in reader.messages() if view.topic == TOPIC
    }
    gone = sum(place not in in_log for place in want)
    assert (topic.messages, topic.only_here) == (len(want), gone)
    assert gone > 0
    key = views[0].keys[0]
    assert [view.keys for view in reader.compacted_messages(keys=[key])] == [(key,)]
    assert list(reader.compacted_messages(topics=["Orders"])) == []


def test_a_store_whose_queues_are_gone_counts_all(store: Path) -> None:
    shutil.rmtree(store / "consumequeue" / TOPIC)
    (topic,) = rmqcore.read(store).compacted_topics()
    assert topic.only_here == topic.messages


# ---- puts -------------------------------------------------------------------------------------------


def test_a_put_is_refused(store: Path) -> None:
    """It was PUT_OK; Java had entries for it already when it started, and never compacted it: a get of Java lacked it."""
    with rmqcore.open(store, **compacted.SIZES) as opened:
        result = opened.put(Message(TOPIC, b"new", 0, keys=["k"]))
        assert result.status is PutMessageStatus.MESSAGE_ILLEGAL
        assert "cleanup.policy=COMPACTION" in str(result.reason)
        assert opened.put(Message("Orders", b"new", 0)).status is PutMessageStatus.PUT_OK


# ---- damage -----------------------------------------------------------------------------------------


def cut_entries(root: Path) -> None:
    _, entries = list(parts(root))[1]
    os.truncate(entries, 46 * 2 + 10)


def empty_entries(root: Path) -> None:
    _, entries = list(parts(root))[-1]
    entries.write_bytes(b"")


def cut_log(root: Path) -> None:
    log, _ = next(parts(root))
    os.truncate(log, 300)


def empty_log(root: Path) -> None:
    log, _ = next(parts(root))
    log.write_bytes(b"")


def beyond(root: Path) -> None:
    change(root, 1, phy_offset=1 << 40)


def negative(root: Path) -> None:
    change(root, 1, phy_offset=-7)


def huge(root: Path) -> None:
    change(root, 1, msg_size=0x7FFFFFFF)


def unsorted(root: Path) -> None:
    change(root, 1, base_offset=0)


def far(root: Path) -> None:
    change(root, 1, base_offset=(1 << 63) - 1)


def flipped_body(root: Path) -> None:
    log, entries = next(parts(root))
    place = ENTRY.unpack_from(entries.read_bytes())[0]
    data = bytearray(log.read_bytes())
    data[place + 95] ^= 1
    log.write_bytes(data)


def flipped_length(root: Path) -> None:
    log, _ = next(parts(root))
    data = bytearray(log.read_bytes())
    data[1] = 7
    log.write_bytes(data)


def no_entries(root: Path) -> None:
    shutil.rmtree(root / "compaction/compactionCq" / TOPIC / "0")


def other_half(root: Path) -> None:
    log, _ = list(parts(root))[1]
    log.unlink()


def odd_name(root: Path) -> None:
    log, _ = next(parts(root))
    shutil.copy(log, log.with_name(log.name + ".delete"))


def torn_checkpoint(root: Path) -> None:
    (root / "compaction/position-checkpoint").write_text('{"queueOff')


def linked_file(root: Path) -> None:
    log, _ = next(parts(root))
    log.rename(root.parent / "elsewhere")
    log.symlink_to(root.parent / "elsewhere")


def linked_folder(root: Path) -> None:
    folder = root / "compaction/compactionCq" / TOPIC
    folder.rename(root.parent / "elsewhere")
    folder.symlink_to(root.parent / "elsewhere")


def linked_root(root: Path) -> None:
    folder = root / "compaction"
    folder.rename(root.parent / "elsewhere")
    folder.symlink_to(root.parent / "elsewhere")


def lost_entry(root: Path) -> None:
    _, entries = list(parts(root))[-1]
    data = entries.read_bytes()
    count = sum(row[1] > 0 for row in ENTRY.iter_unpack(data))
    entries.write_bytes(data[: 46 * (count - 1)] + bytes(len(data) - 46 * (count - 1)))


def change(root: Path, number: int, **fields: int) -> None:
    """Change an entry of the first file."""
    _, entries = next(parts(root))
    data = bytearray(entries.read_bytes())
    names = ("phy_offset", "msg_size", "tags_code", "store_ms", "base_offset", "batch_size")
    row = list(ENTRY.unpack_from(data, number * 46))
    for name, value in fields.items():
        row[names.index(name)] = value
    ENTRY.pack_into(data, number * 46, *row)
    entries.write_bytes(data)


def sparse_entries(root: Path) -> None:
    """A file that says to have 24 billion entries must not be read through."""
    _, entries = list(parts(root))[-1]
    with entries.open("r+b") as file:
        file.truncate(1 << 40)
        file.seek((1 << 40) - 46)
        file.write(ENTRY.pack(0, 100, 0, 0, 5, 1, -1, 0))


Harm = Callable[[Path], None]
HARMS: dict[Harm, str] = {
    cut_entries: "compaction_file",
    empty_entries: "compaction_entry",
    cut_log: "compaction_file",
    empty_log: "compaction_file",
    beyond: "compaction_entry",
    negative: "compaction_entry",
    huge: "compaction_entry",
    unsorted: "compaction_entry",
    far: "compaction_entry",
    flipped_body: "compaction_entry",
    flipped_length: "compaction_entry",
    no_entries: "compaction_file",
    other_half: "compaction_file",
    odd_name: "compaction_file",
    torn_checkpoint: "compaction_file",
    linked_file: "file_kind",
    linked_folder: "file_kind",
    linked_root: "file_kind",
    lost_entry: "compaction_entry",
    sparse_entries: "compaction_file",
}


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_each_harm_is_a_finding_and_nothing_is_written(harm: Harm, store: Path) -> None:
    assert not {"compaction_entry", "compaction_file", "file_kind"} & fsck(store).totals.keys()
    harm(store)
    before = listing(store)
    report = fsck(store)
    assert HARMS[harm] in report.totals, report.totals
    assert listing(store) == before
    reader = rmqcore.read(store)
    try:
        queue_offset = 0
        for _ in range(100):
            got = reader.get(TOPIC, 0, queue_offset)
            if not got.messages:
                break
            queue_offset = got.next_begin_offset
        list(reader.compacted_messages())
    except LinkError:
        assert "link" in harm.__name__
    assert listing(store) == before


@pytest.mark.parametrize("harm", [beyond, huge, flipped_length], ids=lambda harm: harm.__name__)
def test_a_get_names_entries_without_a_record(harm: Harm, store: Path) -> None:
    harm(store)
    reader = rmqcore.read(store)
    got = reader.get(TOPIC, 0, 0)
    assert got.messages
    reader.get(TOPIC, 0, got.next_begin_offset)
    assert {(one.kind, one.path) for one in reader.damage} == {
        ("queue_entry", f"compaction/compactionLog/{TOPIC}/0")
    }


def test_a_get_names_missing_entries(store: Path) -> None:
    no_entries(store)
    reader = rmqcore.read(store)
    got = reader.get(TOPIC, 0, 0)
    assert got.status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
    (damage,) = reader.damage
    assert damage.path == f"compaction/compactionCq/{TOPIC}/0"


def test_an_unfinished_compaction_is_not_looked_at(store: Path) -> None:
    for part in ("compactionLog", "compactionCq"):
        folder = store / "compaction" / part / TOPIC / "0" / "compacting"
        folder.mkdir()
        (folder / f"{0:020d}").write_bytes(bytes(LOG_FILE))
    assert not {"compaction_entry", "compaction_file"} & fsck(store).totals.keys()
