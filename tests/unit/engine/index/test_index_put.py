"""What goes into index files: byte for byte what Java writes, in any batches, over any number of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.stores.golden_stores import CLEAN
from support.stores.index_batches import (
    COMMIT,
    PREPARED,
    ROLLBACK,
    START_MS,
    Opened,
    batches,
    end_of,
    expected_contents,
    index_contents,
    lay_out,
    logs,
    make_record,
    quick_folder,
)

from rmqcore._native.scan.scan import ColumnScan


@pytest.mark.parametrize("case", CLEAN)
def test_golden_messages_make_golden_files(case: str, golden: Path, tmp_path: Path) -> None:
    config = json.loads((golden / case / "manifest.json").read_text())["storeConfig"]
    opened = Opened(tmp_path, config["maxHashSlotNum"], config["maxIndexNum"])
    for path in sorted((golden / case / "store" / "commitlog").iterdir()):
        opened.put(oracle.scan(path.read_bytes()).records, rows=100)
    expected = index_contents(golden / case / "store")
    assert opened.contents() == expected
    ends = [oracle.INDEX_HEADER.unpack_from(data)[1] for data in expected]
    assert opened.full_ms == [0, *ends[:-1]]


@given(
    records=logs(),
    slots=st.integers(1, 9),
    capacity=st.integers(2, 9),
    rows=st.integers(1, 9),
)
def test_files_are_the_oracles(
    records: list[oracle.Record], slots: int, capacity: int, rows: int
) -> None:
    with quick_folder() as folder:
        opened = Opened(Path(folder), slots, capacity).put(records, rows)
        assert opened.contents() == expected_contents(records, slots, capacity)


@given(records=logs(), cuts=st.lists(st.integers(0, 30), max_size=3), back=st.integers(0, 5))
def test_a_clean_reopen_goes_on_where_it_was(
    records: list[oracle.Record], cuts: list[int], back: int
) -> None:
    """A dispatcher may begin some messages early: what is in is not put twice."""
    with quick_folder() as folder:
        done = 0
        for cut in sorted(cuts):
            opened = Opened(Path(folder)).put(records[max(done - back, 0) : cut])
            assert opened.service.resume_offset == (None if done else 0)
            opened.contents()
            done = min(max(cut, done), len(records))
        opened = Opened(Path(folder)).put(records[max(done - back, 0) :])
        assert opened.contents() == expected_contents(records)


def test_rows_before_the_wanted_offset_are_left_out(tmp_path: Path) -> None:
    records = lay_out(make_record(keys=f"k{number}") for number in range(6))
    opened = Opened(tmp_path).put(records, from_offset=records[4].phy_offset)
    assert opened.contents() == expected_contents(records[4:])


def test_only_rolled_back_messages_have_no_entries(tmp_path: Path) -> None:
    flags = [0, PREPARED, COMMIT, ROLLBACK]
    records = lay_out(make_record(keys="k", sys_flag=flag) for flag in flags)
    opened = Opened(tmp_path).put(records)
    assert opened.find("T", "k") == [record.phy_offset for record in records[:3]]
    assert opened.contents() == expected_contents(records)


@pytest.mark.parametrize("sys_flag", [0, ROLLBACK])
def test_a_message_without_keys_makes_the_next_file(tmp_path: Path, sys_flag: int) -> None:
    """Java asks for a file with room before it looks at the message."""
    opened = Opened(tmp_path / "first").put(lay_out([make_record(sys_flag=sys_flag)]))
    (only,) = opened.contents()
    assert oracle.INDEX_HEADER.unpack_from(only) == (0, 0, 0, 0, 0, 1)

    records = lay_out(
        [
            *(make_record(keys="k", store_timestamp_ms=START_MS + number) for number in range(4)),
            make_record(sys_flag=sys_flag),
        ]
    )
    opened = Opened(tmp_path / "full").put(records)
    full, empty = opened.contents()
    end = START_MS + 3, START_MS + 3, records[3].phy_offset, records[3].phy_offset
    assert oracle.INDEX_HEADER.unpack_from(empty) == (*end, 0, 1)
    assert [full, empty] == expected_contents(records)


def test_the_file_made_for_a_message_without_keys_costs_a_page(tmp_path: Path) -> None:
    """A store whose messages have no keys must not pay for 20 MB of slots."""
    Opened(tmp_path, 5_000_000, 20_000_000).put(lay_out([make_record()])).service.close()
    (path,) = (tmp_path / "index").iterdir()
    assert path.stat().st_size == 420_000_040
    assert path.stat().st_blocks * 512 < 1 << 20


def test_nothing_is_put_when_writing_is_switched_off(tmp_path: Path) -> None:
    records = lay_out([make_record(keys="k")])
    switches: list[dict[str, Any]] = [
        {"message_index_enable": False},
        {"index_file_write_enable": False},
    ]
    for switch in switches:
        opened = Opened(tmp_path, **switch).put(records)
        assert opened.service.resume_offset is None
        assert opened.contents() == []
    Opened(tmp_path).put(records).contents()
    opened = Opened(tmp_path, message_index_enable=False)
    assert opened.find("T", "k") == [0]
    opened.put(lay_out([make_record(keys="k")], start=end_of(records)))
    assert opened.contents() == expected_contents(records)


def test_a_batch_without_the_needed_columns_is_refused(tmp_path: Path) -> None:
    (record,) = lay_out([make_record(keys="k")])
    data = oracle.encode_record(record)
    columns = ColumnScan(["phy_offset"])
    columns.feed(data, len(data), 0, 0, 1 << 20)
    with pytest.raises(ValueError, match="columns phy_offset, store_timestamp_ms and key_hashes"):
        Opened(tmp_path).service.put_batch(None, columns.take(), 0)


def test_places_outside_a_batch_are_refused(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    (batch,) = batches(lay_out([make_record(keys="a b"), make_record()]))
    opened.service.put_batch(None, batch, 0)
    native = opened.service.files[0].native
    for row, key in [(-1, 0), (3, 0), (2, 1), (0, -1), (0, 3), (1, 1)]:
        with pytest.raises(ValueError, match="row"):
            native.put(batch, row, key)
    assert native.put(batch, 2, 0) == (2, 0, 0)


def test_many_keys_of_one_message_go_through_many_files(tmp_path: Path) -> None:
    words = " ".join(f"w{number}" for number in range(900))
    records = lay_out([make_record(keys=words, uniq_key="u", tags="t"), make_record(keys="last")])
    opened = Opened(tmp_path, 3, 2).put(records)
    assert len(opened.service.files) == 903
    assert opened.find("T", "w899") == [0]
    assert opened.contents() == expected_contents(records, 3, 2)
