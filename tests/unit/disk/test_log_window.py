"""The window that recovery, readers and Spark move over a CommitLog file, and how it says where a scan stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.oracle import records as oracle

from rmqcore._native.scan import places, scan
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.log_window import WINDOW, LogWindow, WholeFile
from rmqcore.errors import StoreFormatError

BASE = 1 << 20


def record(body: bytes, phy_offset: int) -> bytes:
    return oracle.encode_record(oracle.Record(b"T", body, b"", phy_offset=phy_offset))


def log(*bodies: bytes) -> bytes:
    data = b""
    for body in bodies:
        data += record(body, BASE + len(data))
    return data


def window_over(data: bytes, *, size: int | None = None, room: int = 256) -> LogWindow:
    """A window whose source answers fewer bytes where `data` ends."""

    def read_into(buf: memoryview, pos: int) -> int:
        got = data[pos : pos + len(buf)]
        buf[: len(got)] = got
        return len(got)

    return LogWindow(read_into, BASE, len(data) if size is None else size, room=room)


def drive(window: LogWindow) -> tuple[Place, int]:
    """Feed a scan until it stops for what lies there; answers that place and the rows."""
    rows = ColumnScan(["phy_offset"], batch_bytes=64 << 20)
    place = Place(0, scan.END)
    while place.code == scan.END:
        place = window.feed(rows.feed, place.pos)
    return place, rows.pending_rows


@pytest.mark.parametrize("room", [8, 100, 256, 1 << 20])
def test_records_that_windows_cut_are_brought_in(room: int) -> None:
    data = log(b"a" * 10, b"b" * 3000, b"", b"c" * 90) + bytes(40)
    place, rows = drive(window_over(data, room=room))
    assert (place.pos, place.code, rows) == (len(data) - 40, places.ZERO, 4)


def test_the_caller_knows_what_was_taken_before_more_is_read() -> None:
    data = log(b"a" * 50, b"b" * 500)
    window = window_over(data)
    rows = ColumnScan(["phy_offset"])
    first = window.feed(rows.feed, 0)
    assert (first.pos, first.code, rows.pending_rows) == (len(log(b"a" * 50)), scan.END, 1)
    assert window.length == 256  # nothing was read for the second record yet


def test_a_file_that_was_cut_ends_where_its_bytes_end() -> None:
    data = log(b"a", b"b" * 600)
    window = window_over(data[:-100], size=len(data))
    place, rows = drive(window)
    assert (place.pos, place.code, rows) == (len(log(b"a")), places.PAST_FILE, 1)
    assert window.end == len(data) - 100
    assert window.step(len(data) - 104).code == places.SHORT_FILE


def test_a_large_size_that_its_other_lengths_deny_asks_for_no_memory() -> None:
    data = bytearray(log(b"a" * 100) + bytes(3 * WINDOW))
    data[:4] = (2 * WINDOW).to_bytes(4, "big")
    window = window_over(bytes(data))
    place, _ = drive(window)
    assert place.pos == 0
    assert place.describe() == ("TOTALSIZE", len(log(b"a" * 100)), 2 * WINDOW)
    assert len(window.buf) == 256


def test_a_large_record_is_brought_in_whole() -> None:
    data = log(b"x" * (WINDOW + 5), b"y")
    place, rows = drive(window_over(data))
    assert (place.pos, place.code, rows) == (len(data), places.SHORT_FILE, 2)


@pytest.mark.parametrize(
    ("size", "code"),
    [
        (64, places.BLANK),
        (63, places.BLANKSIZE),
        (1 << 30, places.BLANKSIZE),
        (7, None),
        (-1, None),
    ],
)
def test_a_blank_is_one_whatever_its_size_says(size: int, code: int | None) -> None:
    header = (size & 0xFFFFFFFF).to_bytes(4, "big") + 0xCBD43194.to_bytes(4, "big")
    place, _ = drive(window_over(log(b"a") + header + bytes(56)))
    assert place.is_blank
    assert code is None or place.code == code


def test_what_is_no_blank() -> None:
    small = bytearray(log(b"a"))
    small[:4] = (20).to_bytes(4, "big")  # refused by TOTALSIZE, as a BLANK below 8 bytes is
    for data in (bytes(64), b"\xff" * 64, bytes(small), log(b"a")[:-1]):
        assert not drive(window_over(data))[0].is_blank


def test_a_whole_file_is_not_shorter_than_it_should_be(tmp_path: Path) -> None:
    data = log(b"a", b"b")
    path = tmp_path / "00000000000001048576"
    path.write_bytes(data)
    with WholeFile(path, len(data)) as source:
        assert drive(source.window(BASE))[1] == 2
    with (
        WholeFile(path, len(data) + 10) as source,
        pytest.raises(StoreFormatError, match=f"{path}: file size is {len(data)}, expected"),
    ):
        drive(source.window(BASE))


def test_a_place_says_what_it_is() -> None:
    place = Place(5, places.BODYCRC, size=100, found=1, expected=2)
    assert (place.moved(7).pos, place.moved(7).size) == (12, 100)
    assert place.describe() == ("BODYCRC", 2, 1)
    assert repr(place) == f"<Place 5: code {places.BODYCRC}, size 100, found 1, expected 2>"


def test_small_reads_of_a_whole_file_end_where_it_ends(tmp_path: Path) -> None:
    """A page across the end of a file whose size is no multiple of one was an error: the file is shorter than it should be."""
    data = b"\xff" * 100 + record(b"a" * 500, BASE + 100) + bytes(20)
    path = tmp_path / "00000000000001048576"
    path.write_bytes(data)
    with WholeFile(path, len(data)) as source:
        window = source.window(BASE, room=64)
        assert window.next_proven(0, after_zeros=False) == (100, 100)
        end = len(data.rstrip(b"\0"))
        assert window.next_proven(100, after_zeros=False) == (None, end)
