"""Index files that do not fit the log or themselves, and what Java's recovery leaves."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.oracle import records as oracle
from support.stores.built_store import ENTRIES_POS, INDEX_ENTRIES, SLOTS, BuiltStore, patch

from rmqcore.disk import read_range as ranges
from rmqcore.disk.index import index_entries as entries_on_disk
from rmqcore.offline.fsck import FsckReport, fsck
from rmqcore.offline.fsck.findings import Finding
from rmqcore.offline.fsck.index import index_entries, index_file
from rmqcore.offline.fsck.index import index_pass as fsck_index
from rmqcore.queries.index_match import Match, match_entries

HASH, PHY_OFFSET, TIME_DIFF, PREVIOUS = 0, 4, 12, 16


@pytest.fixture
def broken(tmp_path: Path) -> BuiltStore:
    """A store to be broken: 60 records, 240 entries in four files."""
    built = BuiltStore(tmp_path / "store").fill()
    built.write()
    return built


def only(report: FsckReport, kind: str) -> Finding:
    """The only finding of a kind."""
    (found,) = [finding for finding in report.findings if finding.kind == kind]
    return found


def severities(report: FsckReport) -> dict[str, str]:
    return {kind: " ".join(sorted(counts)) for kind, counts in report.totals.items()}


def entry_pos(number: int, field: int) -> int:
    return ENTRIES_POS + 20 * number + field


def entry(path: Path, number: int) -> tuple[int, int, int, int]:
    found: tuple[int, int, int, int] = struct.unpack_from(
        ">iqii", path.read_bytes(), entry_pos(number, 0)
    )
    return found


def change(path: Path, number: int, field: int, value: int) -> None:
    patch(
        path,
        entry_pos(number, field),
        value.to_bytes(8 if field == PHY_OFFSET else 4, "big", signed=True),
    )


# ---- entries against records ------------------------------------------------------------------------


def test_a_hash_that_fits_no_key(broken: BuiltStore) -> None:
    path = broken.index_file(1)
    key_hash, phy_offset, _, _ = entry(path, 20)
    change(path, 20, HASH, key_hash + SLOTS)  # the same slot: chains stay as they are
    report = fsck(broken.root)
    found = only(report, "index_entry")
    assert (found.field, found.found, found.phy_offset) == ("KEYHASH", key_hash + SLOTS, phy_offset)
    assert (found.path, found.severity) == (f"index/{path.name}", "error")
    assert "entry 20 " in found.message
    # The key whose hash it was is not in the index now.
    assert severities(report) == {"index_entry": "error", "index_missing": "warning"}
    assert report.totals["index_missing"] == {"warning": 1}


def test_an_entry_that_points_at_no_record(broken: BuiltStore) -> None:
    path = broken.index_file(1)
    change(path, 20, PHY_OFFSET, entry(path, 20)[1] + 1)
    found = only(fsck(broken.root), "index_entry")
    assert (found.field, found.expected) == ("PHYOFFSET", "the start of a record")


@pytest.mark.parametrize("to", [-5, 0, 3000, 8000, 1 << 50])
def test_an_entry_far_away(broken: BuiltStore, to: int) -> None:
    path = broken.index_file(1)
    change(path, 20, PHY_OFFSET, to)
    report = fsck(broken.root)
    assert report.totals["index_entry"] == {"error": 1}
    assert report.totals["index_missing"] == {"warning": 1}


def test_an_entry_of_another_record(broken: BuiltStore) -> None:
    path = broken.index_file(1)
    other = next(
        record for record in broken.records if record.phy_offset > entry(path, 20)[1] + 500
    )
    change(path, 20, PHY_OFFSET, other.phy_offset)
    assert only(fsck(broken.root), "index_entry").field == "KEYHASH"


def test_a_wrong_time(broken: BuiltStore) -> None:
    path = broken.index_file(1)
    change(path, 20, TIME_DIFF, entry(path, 20)[2] + 1)
    report = fsck(broken.root)
    assert severities(report) == {"index_entry": "error"}
    assert only(report, "index_entry").field == "TIMEDIFF"


def test_the_first_entry_of_a_file_may_count_from_the_file_before(broken: BuiltStore) -> None:
    assert fsck(broken.root).findings == []
    for number in range(4):
        change(broken.index_file(number), 1, TIME_DIFF, 9)
    assert fsck(broken.root).findings == []


def test_entries_swapped_with_their_neighbours(broken: BuiltStore) -> None:
    # Entries in another order still fit their records; only the chains tell.
    path = broken.index_file(0)
    content = path.read_bytes()
    first, second = entry_pos(10, 0), entry_pos(11, 0)
    patch(path, first, content[second : second + 16])
    patch(path, second, content[first : first + 16])
    assert set(fsck(broken.root).totals) <= {"index_chain"}


def test_index_files_are_read_in_chunks(
    broken: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries_on_disk, "CHUNK_ENTRIES", 7)
    monkeypatch.setattr(fsck_index, "MOST_KEYS", 10)
    assert fsck(broken.root).findings == []
    change(broken.index_file(1), 20, PHY_OFFSET, 1 << 50)
    change(broken.index_file(2), 30, PHY_OFFSET, 0)
    assert fsck(broken.root).totals["index_entry"] == {"error": 2}


def test_any_number_of_wrong_entries_is_compared_few_at_a_time(
    broken: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that all point at the first batch were gathered before they were compared: 1.5 GB for a full file."""
    for number in range(1, INDEX_ENTRIES):
        change(broken.index_file(1), number, PHY_OFFSET, 0)
    whole = fsck(broken.root)
    assert whole.totals["index_entry"]["error"] > 50
    largest = 0

    def compare(*columns: Any) -> Match:
        nonlocal largest
        largest = max(largest, len(columns[-1]))
        return match_entries(*columns)

    monkeypatch.setattr(fsck_index, "match_entries", compare)
    monkeypatch.setattr(entries_on_disk, "CHUNK_ENTRIES", 7)
    monkeypatch.setattr(fsck_index, "MOST_ENTRIES", 10)
    assert fsck(broken.root).totals == whole.totals
    assert 0 < largest <= 17


def test_entries_far_ahead_do_not_all_wait(
    broken: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few low entries at the end of each chunk kept all others, which point far ahead, in memory."""
    for number in range(1, INDEX_ENTRIES):
        change(
            broken.index_file(1),
            number,
            PHY_OFFSET,
            0 if number % 7 in (3, 4, 5, 6, 0) else 1 << 50,
        )
    expected = fsck(broken.root).totals["index_entry"]
    monkeypatch.setattr(entries_on_disk, "CHUNK_ENTRIES", 7)
    monkeypatch.setattr(index_entries, "MOST_WAITING", 4)
    most = 0
    split = index_entries.IndexStream._split

    def watched(stream: index_entries.IndexStream, *where: Any) -> Iterator[Any]:
        nonlocal most
        yield from split(stream, *where)
        most = max(most, sum(map(len, stream._waiting)))

    monkeypatch.setattr(index_entries.IndexStream, "_split", watched)
    assert fsck(broken.root).totals["index_entry"] == expected
    assert 0 < most <= 4


def test_a_file_of_more_slots_than_the_check_keeps(
    broken: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file says how many slots it has, and the check took four bytes for each."""
    monkeypatch.setattr(index_file, "MOST_SLOTS", SLOTS)
    assert fsck(broken.root).findings == []
    monkeypatch.setattr(index_file, "MOST_SLOTS", SLOTS - 1)
    report = fsck(broken.root)
    assert severities(report) == {"index_header": "warning"}
    assert (report.findings[0].field, report.findings[0].found) == ("maxHashSlotNum", SLOTS)


# ---- chains, slots, header --------------------------------------------------------------------------


def chained(path: Path, *, first: bool) -> int:
    """A late entry that is the first of its chain, or not."""
    return next(
        number
        for number in range(INDEX_ENTRIES - 2, 0, -1)
        if (entry(path, number)[3] == 0) is first
    )


def test_a_loop_in_a_chain(broken: BuiltStore) -> None:
    path = broken.index_file(0)
    number = chained(path, first=False)
    change(path, number, PREVIOUS, number)
    report = fsck(broken.root)
    found = only(report, "index_chain")
    assert (found.severity, found.field, found.found) == ("error", "prevIndex", number)


def test_a_chain_that_misses_entries(broken: BuiltStore) -> None:
    path = broken.index_file(0)
    change(path, chained(path, first=False), PREVIOUS, 0)
    assert severities(fsck(broken.root)) == {"index_chain": "error"}


def test_a_chain_that_goes_on_in_another_hides_nothing(broken: BuiltStore) -> None:
    path = broken.index_file(0)
    number = next(number for number in range(5, 20) if entry(path, number)[3] == 0)
    change(path, number, PREVIOUS, 1)
    assert severities(fsck(broken.root)) == {"index_chain": "warning"}


@pytest.mark.parametrize("value", [-1, 1 << 30, 5])
def test_a_slot(broken: BuiltStore, value: int) -> None:
    path = broken.index_file(0)
    slot = entry(path, INDEX_ENTRIES - 1)[0] % SLOTS
    patch(path, 40 + 4 * slot, value.to_bytes(4, "big", signed=True))
    report = fsck(broken.root)
    assert severities(report) == {"index_chain": "error"}
    assert only(report, "index_chain").found == value


@pytest.mark.parametrize(
    ("pos", "size", "field", "severity"),
    [
        (0, 8, "beginTimestamp", "error"),
        (8, 8, "endTimestamp", "error"),
        (16, 8, "beginPhyOffset", "error"),
        (24, 8, "endPhyOffset", "error"),
        (32, 4, "hashSlotCount", "info"),  # a file that two versions of RocketMQ wrote has it
    ],
)
def test_a_header_field_off_by_one(
    broken: BuiltStore, pos: int, size: int, field: str, severity: str
) -> None:
    path = broken.index_file(2)
    value = int.from_bytes(path.read_bytes()[pos : pos + size], "big") + 1
    patch(path, pos, value.to_bytes(size, "big"))
    report = fsck(broken.root)
    found = only(report, "index_header")
    assert (found.field, found.severity, found.found) == (field, severity, value)


def test_a_begin_that_does_not_fit_the_times(broken: BuiltStore) -> None:
    path = broken.index_file(2)
    begin = int.from_bytes(path.read_bytes()[:8], "big")
    patch(path, 0, (begin + 100_000).to_bytes(8, "big"))
    report = fsck(broken.root)
    assert report.totals["index_entry"]["error"] > 50


@pytest.mark.parametrize("by", [-1, 1])
def test_a_count_off_by_one(broken: BuiltStore, by: int) -> None:
    path = broken.index_file(3)
    count = int.from_bytes(path.read_bytes()[36:40], "big")
    patch(path, 36, (count + by).to_bytes(4, "big"))
    report = fsck(broken.root)
    assert report.findings
    assert set(report.totals) <= {"index_header", "index_chain", "index_entry", "index_missing"}


@pytest.mark.parametrize("count", [-(1 << 31), (1 << 31) - 1, 0])
def test_a_count_that_cannot_be(broken: BuiltStore, count: int) -> None:
    patch(broken.index_file(1), 36, count.to_bytes(4, "big", signed=True))
    report = fsck(broken.root)
    assert report.findings
    assert set(report.totals) <= {"index_header", "index_chain", "index_entry", "index_missing"}


@pytest.mark.parametrize("size", [0, 1, 39, 40, 100, 500, 1000])
def test_a_cut_file(broken: BuiltStore, size: int) -> None:
    path = broken.index_file(1)
    path.write_bytes(path.read_bytes()[:size])
    report = fsck(broken.root)
    assert "index_header" in report.totals
    assert set(report.totals) <= {"index_header", "index_chain", "index_entry", "index_missing"}


def test_the_newest_file_may_be_empty(broken: BuiltStore) -> None:
    """A crash between the making of an index file and its length left a store that `fsck` called damaged: Java fills it up."""
    folder = broken.root / "index"
    (oldest, *_) = sorted(folder.iterdir())
    (folder / str(int(oldest.name) - 1)).touch()
    (folder / ("9" * 18)).touch()
    found = [each for each in fsck(broken.root).findings if each.found == 0]
    assert [(each.kind, each.severity) for each in found] == [
        ("index_header", "error"),
        ("index_header", "info"),
    ]
    assert all(each.expected == oldest.stat().st_size for each in found)
    (folder / str(int(oldest.name) - 1)).unlink()
    assert fsck(broken.root).exit_code == 0


def test_a_name_that_is_no_number(broken: BuiltStore) -> None:
    (broken.root / "index" / "old").touch()
    report = fsck(broken.root)
    assert (severities(report), report.exit_code) == ({"file_name": "warning"}, 0)


# ---- what is ordinary -------------------------------------------------------------------------------


def test_stores_before_5_4_do_not_index_tags(tmp_path: Path) -> None:
    built = BuiltStore(tmp_path / "store", index_tags=False).fill()
    report = fsck(built.write())
    assert report.totals == {"index_missing": {"info": 60}}
    assert "5.4" in report.findings[0].message


def test_old_versions_count_a_slot_for_each_entry(broken: BuiltStore) -> None:
    """`fsck` warned of each full file of a sound store that a RocketMQ before 4.7.1 had written."""
    for path in (broken.root / "index").iterdir():
        count = int.from_bytes(path.read_bytes()[36:40], "big")
        patch(path, 32, (count - 1).to_bytes(4, "big"))
    report = fsck(broken.root)
    assert (report.findings, report.exit_code) == ([], 0)


@pytest.mark.parametrize(
    ("slot_count", "severity"),
    [(SLOTS - 1, "warning"), (INDEX_ENTRIES - 2, "info"), (INDEX_ENTRIES, "warning")],
)
def test_a_slot_count_between_those_of_two_versions(
    broken: BuiltStore, slot_count: int, severity: str
) -> None:
    """A file that RocketMQ 4.7.0 began and a later version continued is sound; no version counts more slots than entries."""
    path = broken.index_file(1)
    patch(path, 32, slot_count.to_bytes(4, "big"))
    report = fsck(broken.root)
    found = only(report, "index_header")
    assert (found.field, found.severity) == ("hashSlotCount", severity)
    assert ("before 4.7.1" in found.message) == (severity == "info")


def test_repeats_and_gaps(broken: BuiltStore) -> None:
    records = broken.records
    shutil.rmtree(broken.root / "index")
    # A recovery indexes the message at endPhyOffset twice, and may leave out others.
    broken.records = [*records[:20], records[19], *records[30:]]
    broken.write_index()
    report = fsck(broken.root)
    assert report.totals == {"index_missing": {"warning": 40}}
    assert report.exit_code == 0
    assert report.findings[0].phy_offset == records[20].phy_offset


def test_keys_behind_the_last_entry_are_lag_in_a_store_in_use(broken: BuiltStore) -> None:
    records = broken.records
    shutil.rmtree(broken.root / "index")
    broken.records = records[:50]
    broken.write_index()
    assert severities(fsck(broken.root)) == {"index_missing": "warning"}
    (broken.root / "abort").touch()
    assert severities(fsck(broken.root)) == {"index_missing": "info", "abort": "info"}


def test_no_index_at_all(broken: BuiltStore) -> None:
    shutil.rmtree(broken.root / "index")
    report = fsck(broken.root)
    assert (severities(report), report.exit_code) == ({"index_missing": "info"}, 0)


def test_expired_entries(broken: BuiltStore) -> None:
    min((broken.root / "commitlog").iterdir()).unlink()
    assert fsck(broken.root).findings == []


def test_files_in_another_order_than_their_names(broken: BuiltStore) -> None:
    # The clock went back: names are wall time.
    first, second = broken.index_file(0), broken.index_file(1)
    first.rename(first.with_name("20231114221330000"))
    assert broken.index_file(0) == second
    assert fsck(broken.root).findings == []


def test_a_file_being_written_is_not_damaged(broken: BuiltStore) -> None:
    # Entry and slot are written, the header is not: it is the last step of a put.
    path = broken.index_file(3)
    count = int.from_bytes(path.read_bytes()[36:40], "big")
    slot = entry(path, count - 1)[0] % SLOTS
    assert int.from_bytes(path.read_bytes()[40 + 4 * slot : 44 + 4 * slot], "big") == count - 1
    patch(path, 36, (count - 1).to_bytes(4, "big"))
    (broken.root / "abort").touch()
    report = fsck(broken.root)
    assert report.exit_code == 0


def test_index_files_that_cannot_be_read(
    broken: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ranges.read_range
    target = broken.index_file(1)

    def read_range(path: Path, pos: int, count: int) -> bytes:
        if path == target:
            raise OSError(5, "Input/output error")
        return real(path, pos, count)

    # The file cannot be read when it comes to its entries: the other files are still compared.
    monkeypatch.setattr(entries_on_disk, "read_range", read_range)
    report = fsck(broken.root)
    assert only(report, "unreadable").path == f"index/{target.name}"
    assert (report.exit_code, report.counts["index_entries"]) == (2, 240 - INDEX_ENTRIES + 1)
    # Not even the header can be read.
    monkeypatch.setattr("rmqcore.offline.index.index_files.read_range", read_range)
    report = fsck(broken.root)
    assert only(report, "unreadable").path == f"index/{target.name}"
    assert report.counts["cq_entries"] == 60


def test_negative_and_colliding_hashes(tmp_path: Path) -> None:
    built = BuiltStore(tmp_path / "store")
    for key in ("Aa BB", "polygenelubricants", "", "a a a"):
        built.put(properties={"KEYS": key})
    assert oracle.index_key_hash("T", "Aa") == oracle.index_key_hash("T", "BB")
    assert fsck(built.write()).findings == []
