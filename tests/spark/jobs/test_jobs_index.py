"""What `find` says when the IndexFiles are missing or broken, or were written under a clock that was set back. No JVM."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore import DamageWarning, Message
from rmqcore.errors import CorruptIndexError, StoreError
from rmqcore.spark.jobs import find as find_job
from rmqcore.spark.jobs.find_by_index import FindPlacesTask, find_places
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.schema import columns_of
from rmqcore.spark.storage.locations import find_stores
from rmqcore.spark.tables.index import IndexRead

SLOTS = 100


def place_of(
    root: Path, key: str, topics: tuple[str, ...] | None = None, **options: Any
) -> list[int]:
    (store,) = find_stores(root)
    parsed = SourceOptions.parse({name: str(value) for name, value in options.items()})
    task = FindPlacesTask(store, frozenset(), frozenset([key]), frozenset(), topics, parsed)
    return list(find_places(task).phy_offsets)


def test_an_index_that_is_gone_is_no_answer(tmp_path: Path) -> None:
    """A store that had lost its index, or all of its queues, answered with nothing, as if no message had such a key."""
    store = BuiltStore(tmp_path).fill(20)
    root = store.write()
    (expected,) = place_of(root, "K4")
    shutil.rmtree(root / "consumequeue")
    with pytest.raises(StoreError, match="consumequeue has no topics"):
        place_of(root, "K4")
    assert place_of(root, "K4", (store.records[4].topic.decode(),)) == [expected]
    shutil.rmtree(root / "index")
    for topics in (None, ("T", "Other")):
        with pytest.raises(StoreError, match="index has no entries, but the log has messages"):
            place_of(root, "K4", topics)


def test_a_topic_whose_queues_are_lost_is_asked_for(tmp_path: Path) -> None:
    """Without topics, those with queues were asked for: the messages of another were left out without a word."""
    with rmqcore.open(tmp_path, services=False, max_hash_slot_num=SLOTS, max_index_num=60) as store:
        for topic in ("T", "U", "V"):
            store.put(Message(topic, b"x", keys=["K"])).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    expected = place_of(tmp_path, "K")
    assert len(expected) == 3
    (tmp_path / "config").mkdir()
    table = {topic: {"topicName": topic} for topic in ("T", "U")}
    (tmp_path / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    shutil.rmtree(tmp_path / "consumequeue" / "U")
    (tmp_path / "batchconsumequeue").mkdir()
    (tmp_path / "consumequeue" / "V").rename(tmp_path / "batchconsumequeue" / "V")
    assert place_of(tmp_path, "K") == expected


def test_a_store_without_messages_needs_no_index(tmp_path: Path) -> None:
    assert place_of(BuiltStore(tmp_path).write(), "K4") == []


def test_a_broken_index_is_no_answer(tmp_path: Path) -> None:
    """Files whose number of slots nobody can tell are passed over: with all of them half written a search found nothing."""
    root = BuiltStore(tmp_path).fill(20).write()
    for path in (root / "index").iterdir():
        data = path.read_bytes()
        path.write_bytes(data[:60])
    with pytest.raises(StoreError, match=r"index/\d+@0: file is damaged: no possible number"):
        place_of(root, "K4")


def zero_header(path: Path) -> None:
    path.write_bytes(bytes(40) + path.read_bytes()[40:])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


@pytest.mark.parametrize("harm", [zero_header, cut])
def test_one_file_that_cannot_be_asked(harm: Callable[[Path], None], tmp_path: Path) -> None:
    """The others were asked, and what the index had in this file was left out without a word; the table left out its rows."""
    root = BuiltStore(tmp_path).fill(60).write()
    files = sorted((root / "index").iterdir())
    assert len(files) > 1
    harm(files[0])
    with pytest.raises(CorruptIndexError, match=rf"index/{files[0].name}@0: file is damaged"):
        place_of(root, "K59")
    options = SourceOptions.parse({"table": "index", "path": str(root)})
    with pytest.raises(CorruptIndexError, match=rf"index/{files[0].name}@0: file is damaged"):
        IndexRead(options, columns_of(options)).planned_parts()


def test_entries_of_messages_that_the_log_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were passed over: a store whose newest log file is gone had no message with the key, and nothing was said."""
    store = BuiltStore(tmp_path).fill(60)
    root = store.write()
    (found,) = place_of(root, "K59")
    assert found == store.records[59].phy_offset
    newest = max((root / "commitlog").iterdir())
    assert int(newest.name) <= found
    newest.unlink()
    (location,) = find_stores(root)
    parsed = SourceOptions.parse({})
    task = FindPlacesTask(location, frozenset(), frozenset(["K59"]), frozenset(), None, parsed)
    assert find_places(task).missing == (found,)

    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return [work(payload) for payload in payloads]

    monkeypatch.setattr(find_job, "run_tasks", run)
    monkeypatch.setattr(find_job, "task_frame", lambda *_: "frame")
    spark: Any = None
    with pytest.warns(DamageWarning, match=f"leads to {found}, where the log has no record"):
        find_job.find(spark, root, keys="K59", useIndex=True)


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """The index dates such a message at its file's beginning, later than it was stored: an end before that left it out."""
    store = BuiltStore(tmp_path).fill(4)
    root = store.write()
    back = store.records[2]
    hour_before = back.store_timestamp_ms - 3_600_000
    # The position of STORETIMESTAMP in a record with IPv4 hosts.
    store.change_log(back.phy_offset + 56, hour_before.to_bytes(8, "big"))
    (found,) = place_of(root, "K2", endingTimestamp=hour_before + 1)
    assert found == back.phy_offset


def lose(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def break_the_chain(path: Path) -> None:
    """Each entry leads to itself, and none has the key's hash."""
    data = bytearray(path.read_bytes())
    first = 40 + 4 * SLOTS
    for entry in range((len(data) - first) // 20):
        struct.pack_into(">i", data, first + 20 * entry, 7)
        struct.pack_into(">i", data, first + 20 * entry + 16, entry)
    path.write_bytes(data)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("harm", [lose, empty, break_the_chain])
def test_an_index_that_is_not_complete_is_no_answer(
    tmp_path: Path, harm: Callable[[Path], None], which: int
) -> None:
    """The job found nothing, and its report was that of a store without such a message."""
    with rmqcore.open(tmp_path, services=False, max_hash_slot_num=SLOTS, max_index_num=60) as store:
        for number in range(150):
            store.put(Message("T", b"x", keys=[f"K{number}"])).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    key = f"K{which * 59 + 5}"
    assert len(place_of(tmp_path, key)) == 1
    harm(sorted((tmp_path / "index").iterdir())[which])
    with pytest.raises(StoreError, match="omit useIndex"):
        place_of(tmp_path, key)
