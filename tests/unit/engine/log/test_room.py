"""Pages made ahead of an appender: zeros, which must never meet a message."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Never

import pytest

from rmqcore import Message, codec
from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.put.appender import Appender
from rmqcore._native.put.room import fill, room_end
from rmqcore.errors import LostPagesError

FILE_SIZE = 8 << 20
PIECE = 256 << 10


def new_file(path: Path, file_from_offset: int = 0, content: bytes = b"") -> MappedFile:
    """Make a file with its blocks."""
    path.write_bytes(content)
    os.truncate(path, FILE_SIZE)
    file = MappedFile(str(path), FILE_SIZE, file_from_offset, writable=True)
    file.allocate(0, FILE_SIZE)
    return file


def new_appender() -> Appender:
    return Appender(
        file_size=FILE_SIZE,
        max_message_size=4 << 20,
        append_prop_crc=False,
        make_room=lambda _: False,
    )


def refuse() -> Never:
    raise RuntimeError("refused")


def test_zeros_never_meet_a_message(disk_path: Path) -> None:
    """Three threads make room, each for all of the file, while a fourth puts into what is there."""
    file = new_file(disk_path / "file", content=os.urandom(FILE_SIZE))
    appender = new_appender()
    appender.set_file(file, 0, 0)
    message = Message("Topic", bytes(range(256)) * 4, 1, "TagA", "key")

    def work(urgent: bool) -> None:
        for end in range(4096, FILE_SIZE + 1, 4096):
            fill(appender, file, end, urgent=urgent)

    fillers = [threading.Thread(target=work, args=[urgent]) for urgent in (True, False, False)]
    for thread in fillers:
        thread.start()
    stored = 0
    while any(thread.is_alive() for thread in fillers) or appender.put(message).stored:
        stored += appender.put(message).stored
    scanned = codec.scan(memoryview(file)[: appender.max_phy_offset], verify_crc=True)
    assert scanned.stop_reason == "end"
    assert scanned.num_rows >= stored > 1000
    assert not any(memoryview(file)[appender.max_phy_offset :])
    assert room_end(appender, file) == FILE_SIZE


def test_room_grows_to_the_byte_and_what_lay_there_is_gone(disk_path: Path) -> None:
    content = os.urandom(FILE_SIZE)
    file = new_file(disk_path / "file", content=content)
    appender = new_appender()
    appender.set_file(file, 5000, 5000)
    fill(appender, file, 5001, urgent=False)
    fill(appender, file, 4000, urgent=False)
    assert room_end(appender, file) == 5001
    fill(appender, file, PIECE + 17, urgent=True)
    assert room_end(appender, file) == PIECE + 17
    found = bytes(memoryview(file))
    assert found[:5000] == content[:5000]
    assert not any(found[5000 : PIECE + 17])
    assert found[PIECE + 17 :] == content[PIECE + 17 :]
    assert (disk_path / "file").read_bytes() == found


def test_only_the_current_and_the_next_file_are_filled(disk_path: Path) -> None:
    content = b"x" * FILE_SIZE
    files = [new_file(disk_path / str(number), number * FILE_SIZE, content) for number in range(3)]
    appender = new_appender()
    for file in files:
        fill(appender, file, file.file_from_offset + PIECE, urgent=False)
        assert room_end(appender, file) is None
    appender.set_file(files[0], 0, 0)
    appender.set_next_file(files[1], FILE_SIZE)
    fill(appender, files[1], FILE_SIZE + PIECE, urgent=False)
    assert (room_end(appender, files[0]), room_end(appender, files[1])) == (0, FILE_SIZE + PIECE)
    assert not any(memoryview(files[1])[:PIECE])
    fill(appender, files[2], 2 * FILE_SIZE + PIECE, urgent=False)
    assert bytes(memoryview(files[2])) == content
    fill(appender, files[0], FILE_SIZE, urgent=False)
    while appender.max_phy_offset < FILE_SIZE:
        assert appender.put(Message("T", bytes(100_000), 0)).stored
    fill(appender, files[0], FILE_SIZE, urgent=False)  # the log has left it
    assert room_end(appender, files[0]) is None
    assert codec.scan(memoryview(files[0]), verify_crc=True).stop_reason == "blank"
    with pytest.raises(ValueError, match="room up to"):
        fill(appender, files[1], 2 * FILE_SIZE + 1, urgent=False)


def test_a_stopped_appender_gets_no_room(disk_path: Path) -> None:
    """The next store that opens the directory appends to this file: zeros of the one before would destroy what it puts."""
    file = new_file(disk_path / "file", content=b"x" * FILE_SIZE)
    appender = new_appender()
    appender.set_file(file, 0, 0)
    filler = threading.Thread(target=lambda: fill(appender, file, FILE_SIZE, urgent=False))
    filler.start()
    appender.stop(refuse)
    found = bytes(memoryview(file))
    filler.join()
    fill(appender, file, FILE_SIZE, urgent=True)
    assert bytes(memoryview(file)) == found
    file.seal()
    fill(appender, file, FILE_SIZE, urgent=True)


def test_a_file_that_was_cut_is_not_made_longer(disk_path: Path) -> None:
    """Zeros behind the new end would give the file its size back, and the hole would look like part of the log."""
    file = new_file(disk_path / "file")
    appender = new_appender()
    appender.set_file(file, 0, 0)
    fill(appender, file, PIECE, urgent=False)
    os.truncate(disk_path / "file", 100)
    with pytest.raises(LostPagesError, match="size is 100"):
        fill(appender, file, 2 * PIECE, urgent=False)
    assert (disk_path / "file").stat().st_size == 100
    assert room_end(appender, file) == PIECE


def test_a_forked_child_fills_nothing(disk_path: Path) -> None:
    file = new_file(disk_path / "file", content=b"x" * FILE_SIZE)
    appender = new_appender()
    appender.set_file(file, 0, 0)
    appender.forbid(refuse)
    with pytest.raises(RuntimeError, match="refused"):
        fill(appender, file, PIECE, urgent=True)
    with pytest.raises(RuntimeError, match="refused"):
        room_end(appender, file)
    assert bytes(memoryview(file)) == b"x" * FILE_SIZE


def resident(path: Path) -> int:
    """Give the bytes of the mappings of a file that are in the page table."""
    found, here = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and len(words) >= 5:
            here = words[-1] == str(path)
        elif here and words[0] == "Rss:":
            found += int(words[1]) << 10
    return found


def test_a_flush_takes_what_it_wrote_out_of_the_page_table(disk_path: Path) -> None:
    """A write-back took each mapped page out alone and interrupted the writer's processor for it: 3.2 CPU seconds for 3 GiB."""
    file = new_file(disk_path / "file")
    appender = new_appender()
    appender.set_file(file, 0, 0)
    fill(appender, file, FILE_SIZE, urgent=False)
    assert appender.put(Message("T", bytes(3 << 20), 0)).stored
    content = bytes(memoryview(file))
    before = resident(disk_path / "file")
    file.flush(0, appender.max_phy_offset, written_once=True)
    after = resident(disk_path / "file")
    kind = subprocess.run(["stat", "-f", "-c", "%T", disk_path], capture_output=True, check=True)
    in_memory = kind.stdout.strip() == b"tmpfs"
    assert before >= FILE_SIZE
    assert after == before if in_memory else after < before - (2 << 20)
    assert bytes(memoryview(file)) == content
    file.flush(0, FILE_SIZE)
    assert appender.put(Message("T", bytes(1 << 20), 0)).stored
