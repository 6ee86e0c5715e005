"""IndexFiles: geometry found from the file, chains, the whole check; sound files by the oracle, damage by hand."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.stores.golden_stores import CLEAN

from rmqcore._native.index.index_reader import IndexFinding, IndexHeader
from rmqcore.disk.index import index_check, slot_count
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.index import index_files
from rmqcore.offline.index.index_files import IndexFileReader, find_index_files, list_index_files


def make(
    slots: int, capacity: int, count: int, *, keys: int = 50, seed: int = 1, start: int = 0
) -> oracle.IndexFile:
    """A file of `count` entries under random keys, three to a message."""
    rng = random.Random(seed)
    file = oracle.IndexFile(slots, capacity)
    for i in range(count):
        phy_offset = start + i // 3 * 300
        assert file.put(
            "T", f"k{rng.randrange(keys)}", phy_offset, 1_700_000_000_000 + i // 3 * 700
        )
    return file


def write(tmp_path: Path, data: bytes, name: str = "20261121024846792") -> Path:
    path = tmp_path / "index" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("case", CLEAN)
def test_golden_files_are_sound_and_tell_their_slots(golden: Path, case: str) -> None:
    config = json.loads((golden / case / "manifest.json").read_text())["storeConfig"]
    readers = find_index_files(StorePaths(golden / case / "store"))
    assert readers
    for reader in readers:
        alone = IndexFileReader(reader.path)
        assert (alone.slot_count, alone.max_index_num) == (
            config["maxHashSlotNum"],
            config["maxIndexNum"],
        )
        check = reader.check()
        assert (check.findings, check.finding_count, check.checked) == ([], 0, True)


@pytest.mark.parametrize(
    ("slots", "capacity", "count"),
    [
        (1, 2, 1),
        (1, 50, 40),
        (2, 50, 49),
        (3, 50, 2),
        (4, 50, 1),
        (7, 60, 59),
        (100, 400, 399),
        (101, 400, 7),
        (997, 20, 19),
    ],
)
@pytest.mark.parametrize("start", [0, 123_456])
def test_slots_are_found_from_the_file(
    tmp_path: Path, slots: int, capacity: int, count: int, start: int
) -> None:
    reader = IndexFileReader(write(tmp_path, make(slots, capacity, count, start=start).encode()))
    assert (reader.slot_count, reader.max_index_num) == (slots, capacity)
    assert reader.check().findings == []


def test_a_file_with_some_damage_still_tells_its_slots(tmp_path: Path) -> None:
    data = bytearray(make(100, 400, 300).encode())
    for entry in range(10, 300, 10):
        data[440 + 20 * entry + 16 : 440 + 20 * entry + 20] = struct.pack(">i", entry + 5)
    reader = IndexFileReader(write(tmp_path, bytes(data)))
    assert reader.slot_count == 100
    assert reader.check().finding_count == 29


@pytest.mark.parametrize("size", [0, 1, 39, 40, 44, 60, 64, 100, 4840])
def test_files_without_entries_do_not_tell(tmp_path: Path, size: int) -> None:
    reader = IndexFileReader(write(tmp_path, bytes(size)))
    assert (reader.slot_count, reader.max_index_num, reader.find(7)) == (None, None, [])
    check = reader.check()
    assert check.checked is False
    assert [finding.field for finding in check.findings] == (["file size"] if size < 40 else [])


@pytest.mark.parametrize("count", [-1, 0, 1, 2, 399, 401, 1 << 20, (1 << 31) - 1, -(1 << 31)])
@pytest.mark.parametrize("seed", range(3))
def test_noise_is_no_index_file(tmp_path: Path, count: int, seed: int) -> None:
    noise = bytearray(random.Random(seed).randbytes(8440))
    noise[36:40] = struct.pack(">i", count)
    path = write(tmp_path, bytes(noise))
    assert IndexFileReader(path).slot_count is None
    reader = IndexFileReader(path, slot_count=100)
    for key_hash in range(100):
        reader.find(key_hash)
    assert reader.check(limit=10).finding_count > 0


def test_a_default_sized_file_needs_no_search(tmp_path: Path) -> None:
    path = write(tmp_path, b"")
    with path.open("r+b") as file:
        file.truncate(420_000_040)
    reader = IndexFileReader(path)
    assert (reader.slot_count, reader.max_index_num) == (5_000_000, 20_000_000)
    assert reader.check().findings == []


def test_a_huge_file_is_not_searched(tmp_path: Path) -> None:
    path = write(tmp_path, make(100, 400, 30).encode())
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    assert IndexFileReader(path).slot_count is None


@pytest.mark.parametrize("window", [1, 3, 10_000])
def test_finds_are_those_of_the_oracle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(index_files, "WINDOW_ENTRIES", window)
    file = make(10, 400, 399, keys=40)
    reader = IndexFileReader(write(tmp_path, file.encode()))
    begin = file.begin_timestamp_ms
    for key in range(45):
        key_hash = oracle.index_key_hash("T", f"k{key}")
        for first, last, limit in (
            (0, 1 << 62, 64),
            (0, 1 << 62, 3),
            (begin + 20_000, begin + 60_000, 64),
            (5, 4, 64),
        ):
            assert reader.find(key_hash, first, last, limit) == file.find(
                key_hash, first, last, limit
            )
    assert reader.find(oracle.index_key_hash("T", "k1"), limit=0) == []
    assert reader.find(-1) == []


@pytest.mark.parametrize("previous", [399, 300, 301, (1 << 31) - 1, -1])
def test_a_chain_with_a_loop_ends(tmp_path: Path, previous: int) -> None:
    data = bytearray(make(1, 400, 399, keys=1).encode())
    data[44 + 20 * 300 + 16 : 44 + 20 * 300 + 20] = struct.pack(">i", previous)
    reader = IndexFileReader(write(tmp_path, bytes(data)), slot_count=1)
    found = reader.find(oracle.index_key_hash("T", "k0"), limit=10_000)
    assert len(found) == 100


def test_a_file_that_ends_early_gives_what_it_has(tmp_path: Path) -> None:
    whole = make(10, 400, 399, keys=1)
    data = whole.encode()
    slot = oracle.index_key_hash("T", "k0") % 10
    half = bytearray(data[: 80 + 20 * 200 + 7])
    half[40 + 4 * slot : 44 + 4 * slot] = struct.pack(">i", 199)
    reader = IndexFileReader(write(tmp_path, bytes(half)), slot_count=10)
    assert len(reader.find(oracle.index_key_hash("T", "k0"), limit=1000)) == 199
    assert found_fields(reader) == {"indexCount", "endPhyOffset"}
    reader = IndexFileReader(write(tmp_path, data[:4000]), slot_count=10)
    assert reader.find(oracle.index_key_hash("T", "k0"), limit=1000) == []


def found_fields(reader: IndexFileReader) -> set[str]:
    return {finding.field for finding in reader.check().findings}


@pytest.mark.parametrize(
    ("pos", "form", "value", "finding"),
    [
        (440 + 20 * 7, ">i", -5, (7, "keyHash", 0, -5)),
        (440 + 20 * 7 + 4, ">q", -1, (7, "phyOffset", 300, -1)),
        (440 + 20 * 7 + 12, ">i", -1, (7, "timeDiff", 0, -1)),
        (440 + 20 * 7 + 16, ">i", 6, (7, "prevIndex", 0, 6)),
        (40 + 4 * 3, ">i", 399, (3, "slot", None, 399)),
        (8, ">q", 5, (0, "endTimestamp", 1_700_000_000_000, 5)),
        (16, ">q", 1, (0, "beginPhyOffset", 0, 1)),
        (24, ">q", 1, (0, "endPhyOffset", 9900, 1)),
        (32, ">i", 0, (0, "hashSlotCount", None, 0)),
        (36, ">i", 401, (0, "indexCount", 400, 401)),
        (36, ">i", -1, (0, "indexCount", 400, -1)),
    ],
)
@pytest.mark.parametrize("chunk", [20, 64, 1 << 20])
def test_each_damage_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pos: int,
    form: str,
    value: int,
    finding: tuple[int, str, int | None, int],
    chunk: int,
) -> None:
    monkeypatch.setattr(index_check, "CHECK_BYTES", chunk)
    data = bytearray(make(100, 400, 100).encode())
    struct.pack_into(form, data, pos, value)
    check = IndexFileReader(write(tmp_path, bytes(data)), slot_count=100).check()
    index, field, expected, found = finding
    matching = [
        f for f in check.findings if (f.entry_index, f.field, f.found) == (index, field, found)
    ]
    assert len(matching) == 1
    if expected is not None:
        assert matching[0] == IndexFinding(index, field, expected, found)
    assert check.finding_count == len(check.findings)


def test_findings_are_counted_past_the_limit(tmp_path: Path) -> None:
    data = bytearray(make(100, 400, 399).encode())
    data[440:] = b"\xff" * len(data[440:])
    check = IndexFileReader(write(tmp_path, bytes(data)), slot_count=100).check(limit=5)
    assert len(check.findings) == 5
    assert check.finding_count > 399 * 2


def test_only_numbers_are_index_files(tmp_path: Path) -> None:
    good = make(10, 40, 30).encode()
    for name in (
        "20261121024846792",
        "7",
        "x",
        "20261121024846792.bak",
        "-5",
        "9" * 19,
        "1" * 40,
        "٣",
    ):
        write(tmp_path, good, name)
    (tmp_path / "index" / "20261121024846793").mkdir()
    found = [info.name for info in list_index_files(StorePaths(tmp_path))]
    assert found == ["20261121024846792", "7"]
    assert list_index_files(StorePaths(tmp_path / "none")) == []


def test_an_empty_file_takes_its_slots_from_another(tmp_path: Path) -> None:
    write(tmp_path, make(10, 40, 39).encode(), "1")
    write(tmp_path, oracle.IndexFile(10, 40).encode(), "2")
    first, second = list_index_files(StorePaths(tmp_path))
    assert (first.slot_count, first.max_index_num, first.entry_count) == (10, 40, 39)
    assert (second.slot_count, second.max_index_num, second.entry_count) == (10, 40, 0)
    assert second.as_dict()["index_count"] == 0


def test_a_sparse_file_is_searched_where_it_has_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four GiB of hole were read for the number of slots: 7 s, and 28 s where the file had ten names."""
    slots, size = 1_000_001, 1 << 30
    entries = 5_000
    path = write(tmp_path, b"")
    made = make(slots, entries, entries - 1).encode()
    with path.open("r+b") as file:
        for at in range(0, len(made), 4096):
            if made[at : at + 4096].strip(b"\0"):
                file.seek(at)
                file.write(made[at : at + 4096])
    os.truncate(path, size)
    with path.open("rb") as whole:
        if (
            not hasattr(os, "SEEK_DATA")
            or os.lseek(whole.fileno(), size // 2, os.SEEK_HOLE) == size
        ):
            pytest.skip("this file system tells of no holes")
    counted = 0
    pread = os.pread

    def count(fd: int, length: int, pos: int) -> bytes:
        nonlocal counted
        data = pread(fd, length, pos)
        counted += len(data)
        return data

    monkeypatch.setattr(os, "pread", count)
    assert IndexFileReader(path).slot_count == slots
    assert counted < 20_000_000


def test_a_file_with_several_names_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, make(100, 400, 300).encode())
    for number in range(9):
        os.link(path, path.with_name(f"2026112102484679{number}9"))
    searched: list[Path] = []
    search = slot_count.find_slot_count

    def noted(path: Path, size: int, header: IndexHeader) -> int | None:
        searched.append(path)
        return search(path, size, header)

    monkeypatch.setattr(index_files, "find_slot_count", noted)
    found = list_index_files(StorePaths(tmp_path))
    assert len(searched) == 1
    assert {file.slot_count for file in found} == {100}
    assert [file.link_of for file in found].count(None) == 1
    (own,) = (file.name for file in found if file.link_of is None)
    assert {file.link_of for file in found} == {None, own}
