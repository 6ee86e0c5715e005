"""What may be found after a power cut, from records made by hand: nothing that a sync put there is missing, all else may be."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rmqcore.testing.disks.disk_images import Disk, Event, Luck
from rmqcore.testing.verdict import PromiseBrokenError

ROOT, SUB, FILE, OTHER = 1, 2, 3, 4
OLD, NEW = b"old." * 1024, b"new." * 1024


class Tape:
    """A record as the shim makes it."""

    def __init__(self) -> None:
        self.disk = Disk(ROOT)
        self.syncs = 0

    def event(self, kind: str, inode: int, place: int = 0, data: bytes = b"") -> None:
        self.disk.apply(Event(kind, inode, place, data))

    def make(self, folder: int, name: str, inode: int, *, is_folder: bool = False) -> None:
        self.event("C", folder, inode, b"%d %s" % (is_folder, name.encode()))

    def sync(self, kind: str, inode: int, data: bytes = b"", *, ends: bool = True) -> int:
        self.syncs += 1
        self.event(kind, inode, self.syncs, data)
        if ends:
            self.event("E", 0, self.syncs)
        return self.syncs

    def sync_names(self, folder: int, *names: str) -> None:
        self.sync("D", folder, b"".join(b"9 0 %s\0" % name.encode() for name in names))


@pytest.fixture
def tape() -> Tape:
    """A file of 8 KiB `old` in a folder, all of it on disk."""
    tape = Tape()
    tape.make(ROOT, "sub", SUB, is_folder=True)
    tape.make(SUB, "file", FILE)
    tape.event("W", FILE, 0, OLD * 2)
    tape.sync("F", FILE)
    tape.sync_names(SUB, "file")
    tape.sync_names(ROOT, "sub")
    return tape


def found(tape: Tape, root: Path, luck: Luck) -> dict[str, bytes]:
    tape.disk.write(root, luck)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def images(
    tape: Tape, base: Path, count: int = 60, *, journal: bool = False
) -> list[dict[str, bytes]]:
    end = tape.disk.at if journal else 0
    return [
        found(tape, base / f"image{n}", Luck((0.1, 0.5, 0.9)[n % 3], str(n), end))
        for n in range(count)
    ]


def test_what_was_synced_is_there(tape: Tape, tmp_path: Path) -> None:
    for number, image in enumerate(images(tape, tmp_path)):
        assert image == {"sub/file": OLD * 2}, number


def test_nothing_younger_and_everything_younger(tape: Tape, tmp_path: Path) -> None:
    tape.event("W", FILE, 100, NEW)
    tape.make(SUB, "other", OTHER)
    tape.event("T", OTHER, 5)
    assert found(tape, tmp_path / "0", Luck(0, "")) == {"sub/file": OLD * 2}
    whole = (OLD * 2)[:100] + NEW + (OLD * 2)[4196:]
    assert found(tape, tmp_path / "1", Luck(1, "")) == {"sub/file": whole, "sub/other": bytes(5)}


def test_each_page_and_each_name_for_itself(tape: Tape, tmp_path: Path) -> None:
    tape.event("W", FILE, 0, NEW * 2)
    tape.make(SUB, "other", OTHER)
    seen = images(tape, tmp_path)
    pages = {(image["sub/file"][:4096], image["sub/file"][4096:]) for image in seen}
    assert {(OLD, OLD), (OLD, NEW), (NEW, OLD), (NEW, NEW)} <= pages
    assert {"sub/other" in image for image in seen} == {True, False}


def test_a_page_may_be_torn_between_two_sectors(tape: Tape, tmp_path: Path) -> None:
    tape.event("W", FILE, 0, NEW)
    torn = [image["sub/file"][:4096] for image in images(tape, tmp_path, 200)]
    mixed = [page for page in torn if page not in (OLD, NEW)]
    assert mixed
    for page in mixed:
        sectors = [page[at : at + 512] for at in range(0, 4096, 512)]
        assert set(sectors) == {OLD[:512], NEW[:512]}


def test_a_page_may_be_in_a_state_between(tape: Tape, tmp_path: Path) -> None:
    """The system wrote it back after the first change and not after the second."""
    tape.event("W", FILE, 0, b"A")
    tape.event("W", FILE, 1, b"B")
    first = {image["sub/file"][:2] for image in images(tape, tmp_path)}
    assert first == {b"ol", b"Al", b"AB"}


def test_a_sync_that_has_not_ended_promises_nothing(tape: Tape, tmp_path: Path) -> None:
    tape.event("W", FILE, 0, NEW)
    tape.sync("F", FILE, ends=False)
    assert {image["sub/file"][:4096] for image in images(tape, tmp_path)} >= {OLD, NEW}


def test_what_changes_while_a_sync_runs_is_not_in_it(tape: Tape, tmp_path: Path) -> None:
    tape.event("W", FILE, 0, b"A")
    number = tape.sync("F", FILE, ends=False)
    tape.event("W", FILE, 0, b"B")
    tape.event("E", 0, number)
    assert {image["sub/file"][:1] for image in images(tape, tmp_path)} == {b"A", b"B"}


def test_msync_is_of_its_range_and_of_no_length(tape: Tape, tmp_path: Path) -> None:
    tape.event("W", FILE, 0, b"A")
    tape.event("W", FILE, 4096, b"B")
    tape.event("W", FILE, 8192, b"C")  # behind the length that is on disk
    tape.sync("M", FILE, struct.pack("=2q", 0, 4096))
    tape.event("W", FILE, 1, b"D")
    tape.sync("M", FILE, struct.pack("=2q", 8192, 4096))
    seen = [image["sub/file"] for image in images(tape, tmp_path)]
    assert {data[:1] for data in seen} == {b"A"}
    assert {data[1:2] for data in seen} == {b"l", b"D"}
    assert {data[4096:4097] for data in seen} == {b"o", b"B"}
    assert {data[8192:] for data in seen} == {b"", b"\0", b"C"}


def test_a_rename_is_lost_or_done(tape: Tape, tmp_path: Path) -> None:
    tape.event("R", SUB, ROOT, b"file\0moved")
    seen = {tuple(image) for image in images(tape, tmp_path)}
    assert seen == {("sub/file",), ("moved",)}


def test_an_inode_that_comes_again_is_another_file(tape: Tape, tmp_path: Path) -> None:
    tape.event("U", SUB, 0, b"0 file")
    tape.make(SUB, "next", FILE)
    tape.event("W", FILE, 0, b"B")
    tape.sync("F", FILE)
    seen = {tuple(sorted(image.items())) for image in images(tape, tmp_path)}
    old, new = ("sub/file", OLD * 2), ("sub/next", b"B")
    assert seen == {(), (old,), (new,), (old, new)}


def test_a_journal_keeps_names_in_their_order(tape: Tape, tmp_path: Path) -> None:
    for number in range(4):
        tape.make(SUB, str(number), 10 + number)
    harsh = {tuple(sorted(image)) for image in images(tape, tmp_path, 200)}
    assert ("sub/3", "sub/file") in harsh
    prefixes = set()
    for end in range(tape.disk.synced, tape.disk.at + 1):
        image = found(tape, tmp_path / f"j{end}", Luck(0.5, "", end))
        prefixes.add(tuple(sorted(set(image) - {"sub/file"})))
    names = tuple(f"sub/{number}" for number in range(4))
    assert prefixes == {names[:count] for count in range(5)}


def test_a_journal_has_lengths_beside_their_names(tape: Tape, tmp_path: Path) -> None:
    tape.make(SUB, "other", OTHER)
    tape.event("T", OTHER, 100)
    lengths = {len(image["sub/other"]) for image in images(tape, tmp_path, 30, journal=True)}
    assert lengths == {100}


def test_a_record_that_lacks_a_name_is_no_record(tape: Tape) -> None:
    with pytest.raises(PromiseBrokenError, match="lacks a call"):
        tape.sync_names(SUB, "file", "unseen")
