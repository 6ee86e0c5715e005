"""Where a recovery's scan ends: against a slow scan made from the oracle, over whole and damaged logs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk import log_window
from rmqcore.engine.recovery import scan as recovery_scan
from rmqcore.engine.recovery.file_scan import PassedOver
from rmqcore.engine.recovery.scan import (
    BAD_RECORD,
    BLANK_LAST,
    NOTHING_MORE,
    RecoveryScan,
    ScannedLog,
)

COLUMNS = ("phy_offset", "msg_size", "store_timestamp_ms")
FILE_SIZE = 1024


def scan_files(
    folder: Path,
    file_size: int,
    first: int = 0,
    *,
    passed_over: Callable[[PassedOver], object] = lambda _: None,
    known_to: int = -1,
    ends_from: int = 0,
    **config: object,
) -> tuple[ScannedLog, list[tuple[int, int]]]:
    """Scan a folder's files; the result, and place and size of every record in its batches."""
    files = [MappedFile(str(path), file_size, int(path.name)) for path in sorted(folder.iterdir())]
    seen: list[tuple[int, int]] = []

    def add(_: object, batch: object, begin: int) -> None:
        for size in memoryview(batch.buffer("msg_size")).cast("i"):  # type: ignore[attr-defined]
            seen.append((begin, size))
            begin += size

    settings = MessageStoreConfig(mapped_file_size_commit_log=file_size, **config)  # type: ignore[arg-type]
    rows = ColumnScan(
        COLUMNS, batch_rows=recovery_scan.MOST_ROWS, batch_bytes=recovery_scan.BATCH_BYTES
    )
    scan = RecoveryScan(
        files,
        file_size,
        settings,
        rows,
        add,
        passed_over=passed_over,
        known_to=known_to,
        ends_from=ends_from,
    )
    return scan.run(first), seen


@dataclass
class Slow:
    """The rules of a recovery's scan, from the format documents."""

    check_crc: bool = True
    check_place: bool = True
    prop_crc: bool = False
    empty_crc: bool = True

    def end(self, files: dict[int, bytes]) -> tuple[int, list[tuple[int, int]]]:
        """Where the log ends, and the records before."""
        records: list[tuple[int, int]] = []
        starts = sorted(files)
        for number, start in enumerate(starts):
            data, pos = files[start], 0
            while True:
                size = self._check(data, start, pos)
                if size > 0:
                    records.append((start + pos, size))
                    pos += size
                elif size == 0 or (behind := self._behind_misplaced(data, start, pos)) is None:
                    break
                else:
                    pos = behind
            if size < 0 or number + 1 == len(starts):
                return start + pos, records
        raise AssertionError

    def _behind_misplaced(self, data: bytes, start: int, pos: int) -> int | None:
        """Behind records of which only the place, or an empty body's BODYCRC, is wrong, if something sound follows them."""
        at, java = pos, Slow(self.check_crc, False, self.prop_crc, empty_crc=False)
        while (size := java._check(data, start, at)) > 0 and self._check(data, start, at) < 0:
            at += size
        if (
            at == pos
            or size < 0
            or (size == 0 and data[at : at + 4] != struct.pack(">i", len(data) - at))
        ):
            return None
        return at

    def _check(self, data: bytes, start: int, pos: int) -> int:
        """The size of a sound record, 0 for a BLANK, -1 for anything else."""
        left = len(data) - pos
        if left < 8:
            return -1
        total, magic = struct.unpack_from(">ii", data, pos)
        if magic == oracle.BLANK:
            return 0 if total <= left else -1
        try:
            record = oracle.decode_record(data, pos)
            assert isinstance(record, oracle.Record) and record.msg_size is not None
            if self.check_place and record.phy_offset != start + pos:
                return -1
            crc = self.check_crc and not self.prop_crc and (self.empty_crc or bool(record.body))
            prop_crc = self.check_crc and self.prop_crc
            return oracle.check_record(data, pos, check_crc=crc, check_prop_crc=prop_crc)
        except oracle.Refused:
            return -1


def built(folder: Path, count: int = 20, *, prop_crc: bool = False) -> dict[int, bytes]:
    store = BuiltStore(folder, log_file_size=FILE_SIZE)
    for number in range(count):
        store.put("T", 0, body=bytes([number]) * (number * 13 % 90), prop_crc=prop_crc)
    log = bytes(store.log).ljust(-(-len(store.log) // FILE_SIZE) * FILE_SIZE, b"\0")
    return {start: log[start : start + FILE_SIZE] for start in range(0, len(log), FILE_SIZE)}


def write(folder: Path, files: dict[int, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for start, data in files.items():
        (folder / f"{start:020}").write_bytes(data)
    return folder


def test_a_whole_log(tmp_path: Path) -> None:
    files = built(tmp_path)
    result, seen = scan_files(write(tmp_path / "log", files), FILE_SIZE)
    assert len(files) >= 3
    assert (result.end_phy_offset, seen) == Slow().end(files)
    assert result.stop.reason == NOTHING_MORE
    assert result.records == len(seen) == 20
    assert result.record_bytes == sum(size for _, size in seen)
    assert result.last_phy_offset == seen[-1][0]
    assert result.last_store_timestamp_ms == 1_700_000_000_000 + 700 * 19


def test_from_a_later_file(tmp_path: Path) -> None:
    files = built(tmp_path)
    folder = write(tmp_path / "log", files)
    result, seen = scan_files(folder, FILE_SIZE, first=1)
    assert result.start_phy_offset == FILE_SIZE
    assert seen == [place for place in Slow().end(files)[1] if place[0] >= FILE_SIZE]


def test_a_blank_ends_the_last_file(tmp_path: Path) -> None:
    files = built(tmp_path)
    del files[max(files)]
    result, _ = scan_files(write(tmp_path / "log", files), FILE_SIZE)
    assert result.stop.reason == BLANK_LAST
    assert result.end_phy_offset == Slow().end(files)[0]


@pytest.mark.parametrize(
    ("size", "ends"), [(0, True), (-5, True), (7, True), (9, True), (FILE_SIZE, False)]
)
def test_a_blank_of_any_size_that_fits_ends_its_file(tmp_path: Path, size: int, ends: bool) -> None:
    """In recovery as in Java; a reader takes it for damage."""
    files = built(tmp_path)
    whole = Slow().end(files)
    at = max(place + length for place, length in whole[1] if place < FILE_SIZE)
    assert files[0][at + 4 : at + 8] == struct.pack(">i", oracle.BLANK)
    files[0] = files[0][:at] + struct.pack(">i", size) + files[0][at + 4 :]
    result, seen = scan_files(write(tmp_path / "log", files), FILE_SIZE)
    assert (result.end_phy_offset, seen) == Slow().end(files)
    assert (len(seen) == 20) == ends
    assert ends or (result.stop.reason, result.end_phy_offset) == (BAD_RECORD, at)


def test_a_missing_middle_file_does_not_end_the_log(tmp_path: Path) -> None:
    files = built(tmp_path, 30)
    del files[FILE_SIZE]
    result, seen = scan_files(write(tmp_path / "log", files), FILE_SIZE)
    assert (result.end_phy_offset, seen) == Slow().end(files)
    assert result.end_phy_offset > 2 * FILE_SIZE


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    files = built(tmp_path)
    place, _ = Slow().end(files)[1][1]
    damaged = bytearray(files[0])
    damaged[place + 90] ^= 1
    files[0] = bytes(damaged)
    result, _ = scan_files(write(tmp_path / "log", files), FILE_SIZE)
    stop = result.stop
    assert (stop.reason, stop.phy_offset, stop.field) == (BAD_RECORD, place, "BODYCRC")
    assert stop.found != stop.expected
    assert "BODYCRC" in str(stop)
    assert stop.path.endswith("0" * 20)


def with_flip(files: dict[int, bytes], at: int, mask: int = 1) -> dict[int, bytes]:
    data = bytearray(files[at - at % FILE_SIZE])
    data[at % FILE_SIZE] ^= mask
    return {**files, at - at % FILE_SIZE: bytes(data)}


def flipped_files(folder: Path) -> tuple[dict[int, bytes], list[tuple[int, int]]]:
    files = built(folder)
    return files, Slow().end(files)[1]


@pytest.mark.parametrize("byte", range(28, 36))
def test_a_flipped_phy_offset_costs_one_record(tmp_path: Path, byte: int) -> None:
    """Java asks for it in no recovery by default; the log was cut there, with all sound messages behind it."""
    files, records = flipped_files(tmp_path)
    place, size = records[7]
    files = with_flip(files, place + byte)
    result, seen = scan_files(write(tmp_path / "log", files), FILE_SIZE)
    assert seen == [one for one in records if one[0] != place]
    assert result.end_phy_offset == sum(records[-1])
    (over,) = result_of_passing_over(tmp_path / "log")
    assert (over.start_phy_offset, over.end_phy_offset) == (place, place + size)
    assert (over.field, over.expected) == ("PHYSICALOFFSET", place)


def result_of_passing_over(folder: Path, **more: int) -> list[PassedOver]:
    found: list[PassedOver] = []
    scan_files(folder, FILE_SIZE, passed_over=found.append, **more)
    return found


def test_a_flipped_body_crc_of_an_empty_body_costs_one_record(tmp_path: Path) -> None:
    files, records = flipped_files(tmp_path)
    place, _ = records[0]
    assert oracle.decode_record(files[0], place).body == b""  # type: ignore[union-attr]
    result, seen = scan_files(write(tmp_path / "log", with_flip(files, place + 8)), FILE_SIZE)
    assert seen == records[1:]
    assert result.end_phy_offset == sum(records[-1])


def test_several_in_a_row_and_at_the_end_of_a_file(tmp_path: Path) -> None:
    files, records = flipped_files(tmp_path)
    first = [one for one in records if one[0] < FILE_SIZE]
    for place, _ in (*first[-3:], records[-3]):
        files = with_flip(files, place + 30)
    result, seen = scan_files(write(tmp_path / "log", files), FILE_SIZE)
    assert seen == [one for one in records if one not in (*first[-3:], records[-3])]
    assert result.end_phy_offset == sum(records[-1])


@pytest.mark.parametrize("known", [True, False])
def test_the_last_record_counts_where_a_queue_knows_it(tmp_path: Path, known: bool) -> None:
    files, records = flipped_files(tmp_path)
    place, size = records[-1]
    folder = write(tmp_path / "log", with_flip(files, place + 35))
    known_to = place + size if known else place
    result, seen = scan_files(folder, FILE_SIZE, known_to=known_to)
    assert seen == records[:-1]
    assert result.end_phy_offset == known_to
    assert (result.stop.reason == NOTHING_MORE) == known


def test_damage_before_the_file_of_javas_start_is_passed_over(tmp_path: Path) -> None:
    """A queue that ends far back lets the scan begin there: what Java does not read must not end the log."""
    files, records = flipped_files(tmp_path)
    place, size = records[2]
    folder = write(tmp_path / "log", with_flip(files, place + 4))
    cut, _ = scan_files(folder, FILE_SIZE)
    assert cut.end_phy_offset == place
    result, seen = scan_files(folder, FILE_SIZE, ends_from=FILE_SIZE)
    assert seen == [one for one in records if one[0] != place]
    assert result.end_phy_offset == sum(records[-1])
    (over,) = result_of_passing_over(folder, ends_from=FILE_SIZE)
    assert (over.start_phy_offset, over.end_phy_offset) == (place, place + size)


def test_an_old_file_without_a_sound_record_behind_the_damage(tmp_path: Path) -> None:
    files, records = flipped_files(tmp_path)
    last_of_first = [one for one in records if one[0] < FILE_SIZE][-1]
    files[0] = files[0][: last_of_first[0]].ljust(FILE_SIZE, b"\0")
    result, seen = scan_files(write(tmp_path / "log", files), FILE_SIZE, ends_from=FILE_SIZE)
    assert seen == [one for one in records if one != last_of_first]
    assert result.end_phy_offset == sum(records[-1])


@given(
    at=st.integers(0, 5 * FILE_SIZE),
    field=st.sampled_from([None, 8, 28, 30, 35]),
    noise=st.binary(min_size=1, max_size=12)
    | st.sampled_from(
        [b"\0" * 8, b"\x7f\xff\xff\xff", b"\xff" * 4, struct.pack(">i", oracle.BLANK)]
    ),
    check_crc=st.booleans(),
    check_place=st.booleans(),
    prop_crc=st.booleans(),
    written_with_crc=st.booleans(),
    window=st.sampled_from([128, 200, 512, 1 << 20]),
)
@examples(2)
def test_damage_ends_the_log_where_the_slow_one_ends_it(
    tmp_path_factory: pytest.TempPathFactory,
    at: int,
    field: int | None,
    noise: bytes,
    check_crc: bool,
    check_place: bool,
    prop_crc: bool,
    written_with_crc: bool,
    window: int,
) -> None:
    folder = tmp_path_factory.getbasetemp() / "scan"
    files = built(folder, prop_crc=written_with_crc)
    number = at // FILE_SIZE % len(files)
    data = bytearray(files[number * FILE_SIZE])
    pos = at % FILE_SIZE
    if field is not None:  # of some record, where Java's recovery does not look
        places = [place for place, _ in Slow().end(files)[1]]
        pos = (
            min(places, key=lambda place: abs(place - number * FILE_SIZE - pos)) % FILE_SIZE + field
        )
        noise = noise[:1]
    data[pos : pos + len(noise)] = noise[: FILE_SIZE - pos]
    files[number * FILE_SIZE] = bytes(data)
    before = log_window.WINDOW
    log_window.WINDOW = window
    try:
        result, seen = scan_files(
            write(folder / "log", files),
            FILE_SIZE,
            check_crc_on_recover=check_crc,
            check_commit_log_offset_on_recover=check_place,
            force_verify_prop_crc=prop_crc,
        )
    finally:
        log_window.WINDOW = before
    assert (result.end_phy_offset, seen) == Slow(check_crc, check_place, prop_crc).end(files)
    assert result.records == len(seen)
    assert result.last_phy_offset == (seen[-1][0] if seen else -1)


def test_the_property_crc_must_be_there_when_it_is_asked_for(tmp_path: Path) -> None:
    with_crc = built(tmp_path / "a", prop_crc=True)
    result, _ = scan_files(write(tmp_path / "log", with_crc), FILE_SIZE, force_verify_prop_crc=True)
    assert result.records == 20
    without = built(tmp_path / "b")
    result, _ = scan_files(write(tmp_path / "log", without), FILE_SIZE, force_verify_prop_crc=True)
    assert (result.records, result.stop.field) == (0, "__CRC32#")


@pytest.mark.parametrize("broken", [False, True])
def test_a_record_larger_than_the_window(tmp_path: Path, broken: bool) -> None:
    """A damaged TOTALSIZE must not ask for memory; a large sound record is read in one piece."""
    size = 16 << 20
    record = oracle.Record(b"T", bytes(5 << 20), b"", store_timestamp_ms=5)
    first = oracle.encode_record(record)
    second = oracle.encode_record(replace(record, body=b"x", phy_offset=len(first)))
    data = bytearray((first + second).ljust(size, b"\0"))
    if broken:
        data[0:4] = struct.pack(">i", len(first) + len(second))
    folder = write(tmp_path / "log", {0: bytes(data)})
    result, seen = scan_files(folder, size)
    if broken:
        assert (result.end_phy_offset, result.stop.field) == (0, "TOTALSIZE")
    else:
        assert seen == [(0, len(first)), (len(first), len(second))]


def test_many_windows_and_batches(tmp_path: Path) -> None:
    """More records than a batch has rows, in a file of several windows."""
    data = bytearray()
    sizes = []
    for number in range(70_000):
        raw = oracle.encode_record(oracle.Record(b"T", b"", b"", phy_offset=len(data)))
        sizes.append((len(data), len(raw)))
        data += raw
        if number == 0:
            assert len(raw) == 92
    size = 8 << 20
    folder = write(tmp_path / "log", {0: bytes(data.ljust(size, b"\0"))})
    result, seen = scan_files(folder, size)
    assert seen == sizes
    assert result.end_phy_offset == len(data)


def test_a_file_that_somebody_cut_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", built(tmp_path))
    path = folder / f"{0:020}"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(Exception, match="file size is 500, expected 1024"):
        scan_files(folder, FILE_SIZE)
