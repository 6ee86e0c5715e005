"""Queries over mapped index files: Java's answers, also over damage, in any number of files, while a writer puts."""

from __future__ import annotations

import json
import os
import struct
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.oracle.strategies import INT32_EDGES
from support.stores.index_batches import (
    MOST,
    START_MS,
    Opened,
    batches,
    end_of,
    java_answer,
    lay_out,
    logs,
    make_record,
    quick_folder,
)

from rmqcore._native.index.mapped_index import IndexAnswer, IndexFiles

SLOTS, CAPACITY = 7, 5
SIZE = 40 + 4 * SLOTS + 20 * CAPACITY


def parts(answer: IndexAnswer) -> tuple[list[int], int, int]:
    return answer.phy_offsets, answer.last_update_timestamp_ms, answer.last_update_phy_offset


def test_golden_queries(golden: Path) -> None:
    asked = 0
    for case in ("basic", "batch", "transaction", "longtopic", "delay"):
        manifest = json.loads((golden / case / "manifest.json").read_text())
        config = manifest["storeConfig"]
        opened = Opened(golden / case / "store", config["maxHashSlotNum"], config["maxIndexNum"])
        for q in manifest["queryMessage"]:
            answer = opened.service.query_offsets(
                q["topic"], q["key"], q["maxNum"], q["begin"], q["end"], q["indexType"]
            )
            assert parts(answer) == (
                q["physicalOffsets"],
                q["indexLastUpdateTimestamp"],
                q["indexLastUpdatePhyoffset"],
            )
            asked += 1
    assert asked > 50


times = st.integers(START_MS - 5000, START_MS + 120_000) | st.sampled_from([0, -1, MOST, START_MS])


@given(
    records=logs(),
    capacity=st.integers(2, 40),
    slots=st.integers(1, 9),
    key=st.integers(0, 12),
    limit=st.integers(-1, 70),
    begin=times,
    end=times,
    reopen=st.booleans(),
)
def test_every_query_is_the_oracles(
    records: list[oracle.Record],
    capacity: int,
    slots: int,
    key: int,
    limit: int,
    begin: int,
    end: int,
    reopen: bool,
) -> None:
    expected = oracle.build_index(records, slots, capacity)
    with quick_folder() as folder:
        opened = Opened(Path(folder), slots, capacity).put(records)
        if reopen:
            opened.service.close()
            opened = Opened(Path(folder), slots, capacity)
        query = opened.service.query_offsets
        wanted = java_answer(expected, "T", f"k{key}", min(limit, 64), begin, end)
        assert parts(query("T", f"k{key}", limit, begin, end)) == wanted
        wanted = java_answer(expected, "T", "T#A", min(limit, 64), begin, end)
        assert parts(query("T", "A", limit, begin, end, "T")) == wanted


def test_more_hits_than_the_stack_holds(tmp_path: Path) -> None:
    records = lay_out(make_record(keys="k") for _ in range(1000))
    opened = Opened(tmp_path, 3, 400).put(records)
    found = IndexFiles([file.native for file in opened.service.files]).query("T", "k", 10**9)
    assert found.phy_offsets == [record.phy_offset for record in records]
    assert len(opened.find("T", "k", 10**9)) == 64
    assert opened.find("T", "k", 64) == [record.phy_offset for record in records[-64:]]


def test_a_word_that_is_twice_in_keys_is_found_twice(tmp_path: Path) -> None:
    """The store takes each record once; the index says what is in it."""
    opened = Opened(tmp_path).put(lay_out([make_record(keys="k k")]))
    assert opened.find("T", "k") == [0, 0]


def test_texts_of_all_kinds(tmp_path: Path) -> None:
    words = ["a", "é", "日本", "\U0001f600", "x" * 300]
    records = lay_out(make_record(topic, word) for topic in ("T", "日本") for word in words)
    opened = Opened(tmp_path, 7, 50).put(records)
    for record in records:
        topic, (word,) = oracle.text_of(record.topic), oracle.index_keys(record)
        assert opened.find(topic, word) == [record.phy_offset]
    assert opened.find("T", "\ud800") == []
    assert opened.find("\ud800", "a") == []


def test_reading_can_be_switched_off(tmp_path: Path) -> None:
    records = lay_out([make_record(keys="k")])
    opened = Opened(tmp_path, index_file_read_enable=False).put(records)
    assert parts(opened.service.query_offsets("T", "k", 10)) == ([], 0, 0)
    assert opened.service.last_update() == (START_MS, 0)
    opened.service.close()
    assert opened.service.last_update() == (0, 0)
    assert Opened(tmp_path).find("T", "k") == [0]


def test_the_most_hits_are_configured(tmp_path: Path) -> None:
    records = lay_out(make_record(keys="k") for _ in range(9))
    opened = Opened(tmp_path, max_msgs_num_batch=2).put(records)
    assert opened.find("T", "k") == [record.phy_offset for record in records[-2:]]


@given(
    records=logs(),
    damage=st.lists(
        st.tuples(
            st.integers(0, 20),
            st.integers(0, SIZE // 4 - 1),
            st.sampled_from(INT32_EDGES) | st.integers(-3, 9),
        ),
        max_size=20,
    ),
)
def test_damage_neither_hangs_nor_crashes(
    records: list[oracle.Record], damage: list[tuple[int, int, int]]
) -> None:
    """Nothing in a file is believed beyond the file; what is put behind the damage is found."""
    with quick_folder() as folder:
        Opened(Path(folder)).put(records).service.close()
        paths = sorted((Path(folder) / "index").glob("*"))
        for number, word, value in damage:
            if number < len(paths):
                data = bytearray(paths[number].read_bytes())
                struct.pack_into(">i", data, 4 * word, value)
                paths[number].write_bytes(data)
        opened = Opened(Path(folder))
        for number in range(12):
            found = opened.find("T", f"k{number}")
            assert len(found) <= 64
            assert found == sorted(found)
        end = opened.service.files[-1].native.end_phy_offset if paths else 0
        start = max(end_of(records), min(end, 1 << 61)) + 1
        later = lay_out((make_record(keys=f"new{number}") for number in range(3)), start)
        opened.put(later)
        if end <= start:
            for record in later:
                assert opened.find("T", oracle.index_keys(record)[0])[-1:] == [record.phy_offset]


def test_a_search_stops_at_the_file_that_begins_before_the_time_asked_for(tmp_path: Path) -> None:
    """Java takes files to be in the order of their times: behind a clock that was set back it finds less."""
    times = [50_000, 51_000, 52_000, 53_000, 0, 1000, 2000, 60_000]
    records = lay_out(make_record(keys="k", store_timestamp_ms=START_MS + time) for time in times)
    opened = Opened(tmp_path).put(records)
    answer = opened.service.query_offsets("T", "k", 9, START_MS + 1500, START_MS + 55_000)
    expected = oracle.build_index(records, SLOTS, CAPACITY)
    wanted = java_answer(expected, "T", "k", 9, START_MS + 1500, START_MS + 55_000)
    assert parts(answer) == wanted
    assert len(answer.phy_offsets) == 1
    assert len(opened.find("T", "k")) == 8


def slot_of(path: Path, slot: int, value: int | None = None) -> int:
    """Read a slot, after writing it."""
    data = bytearray(path.read_bytes())
    if value is not None:
        struct.pack_into(">i", data, 40 + 4 * slot, value)
        path.write_bytes(data)
    return int.from_bytes(data[40 + 4 * slot : 44 + 4 * slot], "big", signed=True)


@pytest.mark.parametrize("value", [-1, -(1 << 31), 4, 5, (1 << 31) - 1])
def test_a_slot_with_a_wild_value_counts_as_empty(tmp_path: Path, value: int) -> None:
    """As in Java; of the values above the newest entry only 3, the number of the next entry, does not count as empty."""
    records = lay_out(make_record(keys="k") for _ in range(3))
    Opened(tmp_path).put(records[:2]).service.close()
    (path,) = (tmp_path / "index").iterdir()
    slot = oracle.index_key_hash("T", "k") % SLOTS
    assert slot_of(path, slot) == 2
    slot_of(path, slot, value)
    opened = Opened(tmp_path)
    assert opened.find("T", "k") == []
    opened.put(records[2:])
    assert opened.find("T", "k") == [records[2].phy_offset]
    opened.service.close()
    data = path.read_bytes()
    assert slot_of(path, slot) == 3
    assert oracle.INDEX_ENTRY.unpack_from(data, 40 + 4 * SLOTS + 60)[3] == 0
    assert oracle.INDEX_HEADER.unpack_from(data)[4] == 2


def test_an_empty_file_answers_nothing_whatever_its_slots_say(tmp_path: Path) -> None:
    Opened(tmp_path).put(lay_out([make_record()])).service.close()
    (path,) = (tmp_path / "index").iterdir()
    for slot in range(SLOTS):
        slot_of(path, slot, 1)
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, 40 + 4 * SLOTS + 20, oracle.index_key_hash("T", "k"))
    path.write_bytes(data)
    assert Opened(tmp_path).find("T", "k") == []


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    records = lay_out(make_record(keys="k") for _ in range(4))
    Opened(tmp_path, 1, 5).put(records).service.close()
    (path,) = (tmp_path / "index").iterdir()
    data = bytearray(path.read_bytes())
    for entry, link in ((1, 4), (2, 2), (3, 1)):
        struct.pack_into(">i", data, 44 + 20 * entry + 16, link)
    path.write_bytes(data)
    wanted = [record.phy_offset for record in (records[0], records[2], records[3])]
    assert Opened(tmp_path, 1, 5).find("T", "k") == wanted


def test_queries_beside_a_writer(tmp_path: Path) -> None:
    """What was put before a query begins is found by it, whatever is put meanwhile; the list of files changes under it."""
    keys, rounds = 8, 400
    records = lay_out(
        make_record(
            keys=f"k{number % keys} only{number}",
            tags="A",
            store_timestamp_ms=START_MS + number,
        )
        for number in range(rounds * 4)
    )
    opened = Opened(tmp_path, 5, 700)
    done = [0]
    stop = threading.Event()
    failures: list[str] = []

    def ask() -> None:
        number = 0
        while not stop.is_set():
            number = (number + 7919) % max(done[0], 1)
            known = done[0]
            if known and (found := opened.find("T", f"only{number}")) != [
                records[number].phy_offset
            ]:
                failures.append(f"only{number}: {found}")
            offsets = opened.find("T", "T#A", 1)
            if known and offsets[0] < records[known - 1].phy_offset:
                failures.append(f"newest of the tag: {offsets}")
            if opened.find("T", "nothing"):
                failures.append("nothing")

    readers = [threading.Thread(target=ask) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for batch in batches(records, 4):
            opened.service.put_batch(None, batch, 0)
            done[0] += len(batch)
            if done[0] % 400 == 0:
                opened.service.flush()
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not failures, failures[:3]
    assert len(opened.service.files) > 5


def test_a_deleted_file_still_answers_who_holds_it(tmp_path: Path) -> None:
    records = lay_out(make_record(keys=f"k{number}") for number in range(14))
    opened = Opened(tmp_path).put(records)
    held = IndexFiles([file.native for file in opened.service.files])
    assert len(opened.service.delete_expired(records[4].phy_offset)) == 1
    assert len(opened.service.delete_expired(MOST)) == 2
    assert len(opened.service.delete_expired(MOST)) == 0
    assert len(os.listdir(tmp_path / "index")) == 1
    opened.service.close()
    del opened
    assert held.query("T", "k0", 9).phy_offsets == [0]


def test_only_files_whose_newest_message_is_gone_expire(tmp_path: Path) -> None:
    records = lay_out(make_record(keys=f"k{number}") for number in range(14))
    opened = Opened(tmp_path).put(records)
    assert len(opened.service.delete_expired(records[3].phy_offset)) == 0
    assert len(opened.service.delete_expired(records[3].phy_offset + 1)) == 1
    assert opened.find("T", "k3") == []
    assert opened.find("T", "k4") == [records[4].phy_offset]
    assert sum(file.file_size for file in opened.service.files) == 3 * SIZE


def test_what_an_answer_looks_like() -> None:
    answer = IndexAnswer([1, 2], 3, 4)
    assert parts(answer) == ([1, 2], 3, 4)
    assert repr(answer) == (
        "IndexAnswer(phy_offsets=[1, 2], last_update_timestamp_ms=3, last_update_phy_offset=4)"
    )


@pytest.mark.parametrize("bad", [("T", None), (None, "k"), (b"T", "k")])
def test_texts_are_str(tmp_path: Path, bad: tuple[str, str]) -> None:
    with pytest.raises(TypeError):
        Opened(tmp_path).service.query_offsets(*bad, 3)
