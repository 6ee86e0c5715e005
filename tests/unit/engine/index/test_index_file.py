"""One index file: its name, how it is made, and its space on disk, which can end."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores.index_batches import (
    START_MS,
    Clock,
    Opened,
    expected_contents,
    index_contents,
    lay_out,
    make_record,
)

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.format.layout import index_file_size
from rmqcore._native.index.index_reader import IndexHeader
from rmqcore._native.index.mapped_index import MappedIndexFile
from rmqcore.disk.paths import is_index_file_name
from rmqcore.engine.index.index_file import (
    LEAST_BLOCKS,
    MOST_BLOCKS,
    PAGES_STEP,
    IndexFile,
    next_name,
)
from rmqcore.errors import StoreFormatError

EMPTY = IndexHeader(0, 0, 0, 0, 0, 0)


# ---- names ------------------------------------------------------------------------------------------


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_a_name_is_the_time_to_the_millisecond() -> None:
    assert next_name(START_MS + 7, None) == "20231114221320007"
    assert next_name(START_MS + 7, "20231114221320006") == "20231114221320007"


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("newest", "name"),
    [
        ("20231114221320007", "20231114221320008"),  # the same millisecond
        ("20231114221320999", "20231114221321000"),
        ("20991231235959999", "20991231235960000"),  # the clock was set back: a number, if no time
        ("9", "90000000000000000"),
        ("3000000000000000000", "3000000000000000001"),
        ("0", "20231114221320007"),
    ],
)
def test_a_name_lies_behind_all_others(newest: str, name: str) -> None:
    assert next_name(START_MS + 7, newest) == name


@pytest.mark.parametrize(
    "newest", ["9223372036854775807", "99999999999999999", "999999999999999999"]
)
def test_behind_the_last_number_there_is_no_name(newest: str) -> None:
    with pytest.raises(StoreFormatError, match=newest):
        next_name(START_MS, newest)


@given(st.from_regex("[0-9]{1,19}", fullmatch=True), st.integers(0, 4_000_000_000_000))
def test_names_rise_and_are_numbers(newest: str, now_ms: int) -> None:
    if not is_index_file_name(newest):
        return
    try:
        name = next_name(now_ms, newest)
    except StoreFormatError:
        assert newest.startswith(("9" * 17, "9223372036854775807"))
        return
    assert name > newest
    assert is_index_file_name(name)


def test_files_made_while_the_clock_stands_or_goes_back_are_in_order(tmp_path: Path) -> None:
    clock = Clock()
    opened = Opened(tmp_path, clock=clock)
    records = lay_out(make_record(keys=f"k{number}") for number in range(30))
    for number in range(0, 30, 3):
        opened.put(records[number : number + 3])
        clock.now_ms -= 3_600_000 * (number % 2)
    names = [file.name for file in opened.service.files]
    assert len(names) == 8
    assert names == sorted(set(names))
    assert opened.contents() == expected_contents(records)


# ---- making a file ----------------------------------------------------------------------------------


def test_a_new_file_begins_with_the_end_of_the_full_one(tmp_path: Path) -> None:
    before = IndexHeader(1, 2, 3, 4, 5, 6)
    file = IndexFile.create(tmp_path / "1", 3, 9, before)
    assert file.native.header == IndexHeader(2, 2, 4, 4, 0, 1)
    assert (tmp_path / "1").read_bytes()[:40] == b"".join(
        value.to_bytes(size, "big")
        for value, size in [(2, 8), (2, 8), (4, 8), (4, 8), (0, 4), (1, 4)]
    )
    negative = IndexFile.create(tmp_path / "2", 3, 9, IndexHeader(1, -2, 3, -4, 5, 6))
    assert negative.native.header == IndexHeader(0, 0, 0, 0, 0, 1)


def test_an_existing_file_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(b"x")
    with pytest.raises(FileExistsError):
        IndexFile.create(tmp_path / "1", 3, 9, None)
    assert (tmp_path / "1").read_bytes() == b"x"


def test_no_file_is_left_of_one_that_cannot_be_made(tmp_path: Path) -> None:
    """A limit of the process on the length of files stands for every refusal between open and the first page."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OSError, match="large"):
            IndexFile.create(tmp_path / "1", 5_000_000, 20_000_000, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("slots", "capacity"), [(3, 8), (4, 9), (0, 9), (3, 1)])
def test_a_geometry_that_is_not_the_files_is_refused(
    tmp_path: Path, slots: int, capacity: int
) -> None:
    path = tmp_path / "1"
    size = index_file_size(3, 9)
    path.write_bytes(bytes(size))
    with pytest.raises(ValueError, match=f"do not fit a file of {size} bytes"):
        MappedIndexFile(MappedFile(str(path), size), slots, capacity, EMPTY)


def test_a_file_that_is_mapped_for_reading_takes_no_store(tmp_path: Path) -> None:
    path = tmp_path / "1"
    path.write_bytes(bytes(index_file_size(3, 9)))
    file = IndexFile(path, 3, 9, EMPTY)
    with pytest.raises(ValueError, match="mapped for reading"):
        file.native.write_header()
    with pytest.raises(ValueError, match="writable False"):
        file.native.allow(3)
    writable = IndexFile(path, 3, 9, EMPTY, writable=True)
    for ready in (-1, 10):
        with pytest.raises(ValueError, match="of 9"):
            writable.native.allow(ready)


# ---- space ------------------------------------------------------------------------------------------


def allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


class Watched:
    """Stands in for a mapped file: notes what is allocated and populated."""

    def __init__(self, file: IndexFile) -> None:
        self.file = file._mapped
        self.blocks: list[tuple[int, int]] = []
        self.pages: list[tuple[int, int]] = []
        file._mapped = self  # type: ignore[assignment]

    def allocate(self, begin: int, end: int) -> None:
        self.blocks.append((begin, end))
        self.file.allocate(begin, end)

    def populate(self, begin: int, end: int) -> None:
        self.pages.append((begin, end))
        self.file.populate(begin, end)

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)


def test_space_grows_with_what_is_in_use(tmp_path: Path) -> None:
    """16 MiB of pages in one step took a quarter of a second where the machine's memory was cold."""
    path = tmp_path / "1"
    file = IndexFile.create(path, 100, 10_000_000, None)
    watched = Watched(file)
    assert allocated(path) < LEAST_BLOCKS
    assert not file.wants_room()
    while file.native.ready < file.native.capacity:
        file.make_room()
        assert allocated(path) >= index_file_size(100, file.native.ready)
    begins, ends = zip(*watched.blocks, strict=True)
    assert begins == (0, *ends[:-1]) and ends[-1] == file.file_size
    assert ends[0] == LEAST_BLOCKS + index_file_size(100, 1)  # entry 0 comes with the first entry
    assert max(end - begin for begin, end in watched.blocks) == MOST_BLOCKS
    assert len(watched.blocks) < 12
    slots, *pages = watched.pages
    assert slots == (0, index_file_size(100, 0))
    assert all(0 < end - begin <= PAGES_STEP + 2 * 20 for begin, end in pages)
    assert all(end % PAGES_STEP == 0 or end in ends for _, end in pages)
    assert pages[-1][1] == file.file_size
    assert not file.wants_room()
    file.make_room()  # there is nothing left to do
    assert watched.pages[-1] == pages[-1]


def test_a_few_messages_make_few_pages(tmp_path: Path) -> None:
    """The first key of a store wrote 20 MB of slots to disk, nearly all of them empty."""
    few, many = (IndexFile.create(tmp_path / name, 5_000_000, 100_000, None) for name in "12")
    watched = Watched(few), Watched(many)
    few.make_room(10)
    many.make_room(10_000)
    pages = [sum(end - begin for begin, end in one.pages) for one in watched]
    assert pages[0] <= PAGES_STEP and pages[1] >= 20_000_000
    assert few.native.ready == many.native.ready
    for one in watched:
        assert one.blocks == [(0, LEAST_BLOCKS + index_file_size(5_000_000, 1))]


def test_a_put_waits_for_no_pages_of_the_thread_that_works_ahead(tmp_path: Path) -> None:
    """Dispatch waited for a lock while the thread populated up to 16 MiB of which it needed the first 20 bytes."""
    opened = Opened(tmp_path, 100, 400_000)
    records = lay_out(make_record(keys=" ".join(f"w{n}" for n in range(900))) for _ in range(250))
    opened.put(records[:50])
    (file,) = opened.service.files
    watched, held, go_on = Watched(file), threading.Event(), threading.Event()
    populate = watched.populate

    def slow(begin: int, end: int) -> None:
        held.set()
        assert go_on.wait(60)
        populate(begin, end)

    watched.populate = slow  # type: ignore[method-assign]
    ahead = threading.Thread(target=file.make_room)
    ahead.start()
    try:
        assert held.wait(60)
        watched.populate = populate  # type: ignore[method-assign]
        opened.put(records)
        ready = file.native.ready
    finally:
        go_on.set()
        ahead.join()
    assert file.native.ready == ready, "room that is there was taken away"
    assert opened.contents() == expected_contents(records, 100, 400_000)


def test_room_can_be_made_ahead(tmp_path: Path) -> None:
    """The service that allocates goes ahead of the writer once a file is in use, and not before."""
    opened = Opened(tmp_path, 100, 400_000)
    assert not opened.service.allocate_ahead()
    records = lay_out(make_record(keys=" ".join(f"w{n}" for n in range(900))) for _ in range(50))
    opened.put(records[:1])
    assert not opened.service.allocate_ahead()
    native = opened.service.files[0].native
    ready = native.ready
    rung: list[int] = []
    opened.service.on_low_space(lambda: rung.append(native.index_count))
    opened.put(records[1:20])
    assert rung == []
    opened.put(records[20:48])
    assert native.ready == ready and len(rung) == 1
    assert opened.service.allocate_ahead()
    assert native.ready > ready
    assert not opened.service.allocate_ahead()
    opened.put(records[48:])
    assert len(rung) == 1, "once"


class FullDisk:
    """Stands in for a mapped file: the disk has room for so many allocations."""

    def __init__(self, file: MappedFile, room: int) -> None:
        self.file, self.room = file, room

    def allocate(self, begin: int, end: int) -> None:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.file.path)
        self.room -= 1
        self.file.allocate(begin, end)

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)


@pytest.mark.parametrize("room", [0, 1])
def test_a_full_disk_is_an_error_of_the_put_and_nothing_is_lost(tmp_path: Path, room: int) -> None:
    records = lay_out(make_record(keys=" ".join(f"w{n}" for n in range(900))) for _ in range(100))
    opened = Opened(tmp_path, 100, 400_000).put(lay_out([make_record()]))
    (file,) = opened.service.files
    disk = FullDisk(file._mapped, room)
    file._mapped = disk  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space left"):
        opened.put(records)
    if room:
        assert opened.find("T", "w3", 1) != []
    disk.room = 99
    opened.put(records)
    assert opened.contents() == expected_contents(records, 100, 400_000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Callable[[str], None]]]:
    """A file system of 2 MiB, and how to change its size."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("needs the right to mount a file system")

    mount("size=2m")
    yield place, lambda size: mount(f"remount,size={size}")
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_really_full(small_disk: tuple[Path, Callable[[str], None]]) -> None:
    """Java's process dies of SIGBUS here."""
    place, resize = small_disk
    records = lay_out(make_record(keys=" ".join(f"w{n}" for n in range(900))) for _ in range(150))
    opened = Opened(place, 1000, 400_000)
    with pytest.raises(OSError, match="No space left"):
        opened.put(records)
    put = opened.service.files[0].native.index_count - 1
    assert 0 < put < 150 * 900
    assert opened.find("T", "w3") != []
    resize("32m")
    opened.put(records)
    assert opened.contents() == expected_contents(records, 1000, 400_000)


def test_a_disk_without_room_for_a_file(small_disk: tuple[Path, Callable[[str], None]]) -> None:
    place, resize = small_disk
    resize("64k")
    (place / "index").mkdir()
    (place / "ballast").write_bytes(bytes(1 << 16))
    records = lay_out([make_record(keys="k")])
    opened = Opened(place)
    with pytest.raises(OSError, match="No space left"):
        opened.put(records)
    assert index_contents(place) == []
    resize("2m")
    assert opened.put(records).contents() == expected_contents(records)


# ---- syncs ------------------------------------------------------------------------------------------


def test_the_checkpoint_hears_of_a_file_after_its_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = IndexFile.flush
    seen: list[object] = []

    def watched(file: IndexFile) -> None:
        flush(file)
        seen.append(file.name)

    monkeypatch.setattr(IndexFile, "flush", watched)
    records = lay_out(
        make_record(keys=f"k{number}", store_timestamp_ms=START_MS + number) for number in range(14)
    )
    opened = Opened(tmp_path)
    opened.service._on_full = seen.append
    opened.put(records)
    names = [file.name for file in opened.service.files]
    # At most one full file waits to be synced: a roll does not wait for the newest file.
    assert seen == [names[0], START_MS + 3, names[1], START_MS + 7]
    opened.service.flush_full()
    assert seen[4:] == [names[2], START_MS + 11]
    opened.service.flush()
    assert seen[6:] == [names[3]]


def test_a_sync_that_failed_once_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports a failed write once; the next sync succeeds although the pages are lost."""
    records = lay_out(make_record(keys=f"k{number}") for number in range(6))
    opened = Opened(tmp_path).put(records)

    def failing(file: IndexFile) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(file.path))

    with monkeypatch.context() as context:
        context.setattr(IndexFile, "flush", failing)
        with pytest.raises(OSError, match="Input/output"):
            opened.service.flush()
    for step in (opened.service.flush_full, opened.service.flush, opened.service.close):
        with pytest.raises(OSError, match="Input/output"):
            step()
    assert opened.full_ms == [0]
    assert opened.find("T", "k0") == []  # closed all the same
