"""Disk images as a power cut may leave them, made from the record of a run (shim/record.c).

The disk holds all that a finished sync covers: a file's bytes and length, the names of a folder. Later changes may be
on disk or not: each page of 4 KiB in any of its states since the sync, the 512-byte sectors of a page from two of them.

Names and lengths follow one of two models. *Journal*, as in ext4, XFS and Btrfs: they reach the disk in the order of
the changes, and a sync includes all earlier ones. *Harsh*, as POSIX allows: each name and each length reaches the disk
or not, in any order.
"""

from __future__ import annotations

import os
import random
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rmqcore.testing.verdict import hold
from rmqcore.vocabulary.units import PAGE

HEAD = struct.Struct("=4q")
RANGE = struct.Struct("=2q")
SECTOR = 512
Listing = dict[str, "File | FolderImage"]


@dataclass(frozen=True)
class Event:
    """One change of the files, one sync, or a note; shim/record.c lists the kinds."""

    kind: str
    inode: int
    place: int
    data: bytes


@dataclass(frozen=True)
class Change:
    """A change of a file's bytes or length, by event number `at`."""

    at: int
    place: int
    data: bytes | None  # None: the file has the length `place` from now on

    def apply(self, content: bytearray) -> None:
        """Apply an event."""
        if self.data is not None:
            content.extend(bytes(max(0, self.place + len(self.data) - len(content))))
            content[self.place : self.place + len(self.data)] = self.data
        elif self.place < len(content):
            del content[self.place :]
        else:
            content.extend(bytes(self.place - len(content)))


@dataclass(eq=False)
class File:
    """A file: its bytes on disk, and the changes since."""

    durable: bytearray = field(default_factory=bytearray)
    changes: list[Change] = field(default_factory=list)

    def settle(self, until: int, first: int = 0, end: int | None = None) -> None:
        """Bring the changes before event `until` to disk: all of them, or those of the bytes in a range."""
        if end is None:
            for change in self.changes:
                if change.at < until:
                    change.apply(self.durable)
            self.changes = [change for change in self.changes if change.at >= until]
            return
        end = min(end, len(self.durable))
        left = []
        for change in self.changes:
            part = clip(change, first, end) if change.at < until else None
            if part is None:
                left.append(change)
                continue
            part.apply(self.durable)
            around = clip(change, 0, first), clip(change, end, sys.maxsize)
            left += [piece for piece in around if piece is not None]
        self.changes = left

    def survivor(self, luck: Luck) -> bytes:
        """Return the file in a state that a power cut may leave."""
        if luck.share == 0 or not self.changes:
            return bytes(self.durable)
        content = bytearray(self.durable)
        lengths = [len(content)]
        journaled = len(content)
        for change in self.changes:
            change.apply(content)
            lengths.append(len(content))
            if change.data is None and change.at <= luck.journal_end:
                journaled = len(content)
        if luck.share == 1:
            return bytes(content)
        length = luck.random.choice(lengths) if luck.hit() else journaled
        if luck.journal_end and length < journaled:
            length = journaled
        found = bytearray(self.durable[:length].ljust(length, b"\0"))
        for page in {
            page
            for change in self.changes
            if change.data
            for page in range(
                change.place // PAGE, (change.place + len(change.data) - 1) // PAGE + 1
            )
        }:
            self._mix(found, page * PAGE, luck)
        return bytes(found)

    def _mix(self, found: bytearray, first: int, luck: Luck) -> None:
        """Set a page to one of its states since the last sync, or its sectors to two of them."""
        states = [bytearray(self.durable[first : first + PAGE].ljust(PAGE, b"\0"))]
        for change in self.changes:
            part = clip(change, first, first + PAGE)
            if part is not None:
                states.append(bytearray(states[-1]))
                replace(part, place=part.place - first).apply(states[-1])
            elif (
                change.data is None and change.place < first + PAGE
            ):  # shortened: zeros if the file grows again
                kept = max(0, change.place - first)
                states.append(states[-1][:kept].ljust(PAGE, b"\0"))
        one, other = luck.state(states), luck.state(states)
        torn = luck.torn()
        for at in range(0, max(0, min(PAGE, len(found) - first)), SECTOR):
            source = other if torn and luck.random.random() < 0.5 else one
            end = min(at + SECTOR, len(found) - first)
            found[first + at : first + end] = source[at:end]


def clip(change: Change, first: int, end: int) -> Change | None:
    """Return the part of a change of bytes in a range."""
    if change.data is None:
        return None
    begin, stop = max(change.place, first), min(change.place + len(change.data), end)
    if begin >= stop:
        return None
    return Change(change.at, begin, change.data[begin - change.place : stop - change.place])


@dataclass(frozen=True)
class Renaming:
    """A name that was created or removed; both halves of a rename have the same `at`, and reach the disk together."""

    at: int
    name: str
    target: File | FolderImage | None


@dataclass(eq=False)
class FolderImage:
    """A folder: the names on disk, and the changes since."""

    durable: Listing = field(default_factory=dict)
    changes: list[Renaming] = field(default_factory=list)

    def settle(self, until: int) -> None:
        """Bring the changes before event `until` to disk."""
        self.durable = _renamed(self.durable, [c for c in self.changes if c.at < until])
        self.changes = [change for change in self.changes if change.at >= until]

    @property
    def live(self) -> Listing:
        """The names as the running system sees them."""
        return _renamed(self.durable, self.changes)

    def write(self, target: Path, luck: Luck) -> None:
        """Write the folder in a state that a power cut may leave."""
        target.mkdir(exist_ok=True)
        kept = [change for change in self.changes if luck.name(change.at)]
        for name, found in _renamed(self.durable, kept).items():
            if isinstance(found, FolderImage):
                found.write(target / name, luck)
            else:
                (target / name).write_bytes(found.survivor(luck))


def _renamed(names: Listing, changes: list[Renaming]) -> Listing:
    names = dict(names)
    for change in changes:
        if change.target is None:
            names.pop(change.name, None)
        else:
            names[change.name] = change.target
    return names


class Luck:
    """Random choices of the changes on disk among those that no sync covers.

    Parameters
    ----------
    share : float
        Part of the changes on disk: 0 none, 1 all, as after the end of a process.
    seed : str
        Equal seeds make equal choices.
    journal_end : int
        The event up to which names and lengths are on disk, in the journal model; 0: the harsh model.
    """

    def __init__(self, share: float, seed: str, journal_end: int = 0) -> None:
        self.share = share
        self.random = random.Random(seed)
        self.journal_end = journal_end
        self._names: dict[int, bool] = {}

    def hit(self) -> bool:
        """Return True if the next change is on disk."""
        return self.share == 1 or self.random.random() < self.share

    def torn(self) -> bool:
        """Return True if the power failed in the middle of writing a page."""
        return 0 < self.share < 1 and self.random.random() < 0.3

    def name(self, at: int) -> bool:
        """Return True if the change of a name is on disk."""
        if self.journal_end and 0 < self.share < 1:
            return at <= self.journal_end
        if at not in self._names:
            self._names[at] = self.hit()
        return self._names[at]

    def state(self, states: list[bytearray]) -> bytearray:
        """Choose the state of a page on disk."""
        return self.random.choice(states) if self.hit() else states[0]


class Disk:
    """A disk to which the events of a record are applied.

    Parameters
    ----------
    root : int
        Inode of the watched folder.

    Attributes
    ----------
    root : FolderImage
    at : int
        Number of events so far.
    synced : int
        The event that started the last finished sync.
    """

    def __init__(self, root: int) -> None:
        self.root = FolderImage()
        self.at = 0
        self.synced = 0
        self._inodes: dict[int, File | FolderImage] = {root: self.root}
        self._syncs: dict[int, list[tuple[Event, int]]] = {}

    @classmethod
    def of(cls, path: Path) -> Disk:
        """Return a disk with the contents of a directory."""
        disk = cls(path.stat().st_ino)
        disk._scan(path, disk.root)
        return disk

    def _scan(self, path: Path, folder: FolderImage) -> None:
        for entry in path.iterdir():
            found: File | FolderImage
            if entry.is_dir():
                found = FolderImage()
                self._scan(entry, found)
            else:
                found = File(bytearray(entry.read_bytes()))
            folder.durable[entry.name] = self._inodes[entry.stat().st_ino] = found

    def _file(self, inode: int) -> File:
        found = self._inodes.setdefault(inode, File())
        assert isinstance(found, File)
        return found

    def _folder(self, inode: int) -> FolderImage:
        found = self._inodes[inode]
        assert isinstance(found, FolderImage)
        return found

    def apply(self, event: Event) -> None:
        """Apply an event."""
        self.at += 1
        if event.kind in "WT":
            data = event.data if event.kind == "W" else None
            self._file(event.inode).changes.append(Change(self.at, event.place, data))
        elif event.kind in "CUR":
            self._rename(event)
        elif event.kind in "FDM":
            self._syncs.setdefault(event.place, []).append((event, self.at))
            if event.kind == "D":
                names = set(self._folder(event.inode).live)
                seen = {os.fsdecode(name) for name in listed(event.data)}
                hold(names == seen, "the record lacks a call that changed names:", names ^ seen)
        elif event.kind == "E":
            for begun, until in self._syncs.pop(event.place, ()):
                self._settle(begun, until)
                self.synced = max(self.synced, until)

    def _rename(self, event: Event) -> None:
        folder = self._folder(event.inode)
        if event.kind == "R":
            old, new = (os.fsdecode(name) for name in event.data.split(b"\0"))
            moved = folder.live[old]
            folder.changes.append(Renaming(self.at, old, None))
            self._folder(event.place).changes.append(Renaming(self.at, new, moved))
            return
        kind, _, name = event.data.partition(b" ")
        made: File | FolderImage | None = None
        if event.kind == "C":
            made = FolderImage() if kind == b"1" else File()
            self._inodes[event.place] = made
        folder.changes.append(Renaming(self.at, os.fsdecode(name), made))

    def _settle(self, begun: Event, until: int) -> None:
        found = self._inodes.get(begun.inode)
        if isinstance(found, FolderImage) or (found is not None and begun.kind == "F"):
            found.settle(until)
        elif found is not None:
            first, length = RANGE.unpack(begun.data)
            found.settle(until, first, first + length)

    def journal_end(self, rng: random.Random) -> int:
        """Choose the event up to which a journal is on disk: at least the last finished sync."""
        return max(1, rng.randrange(self.synced, self.at + 1))

    def write(self, target: Path, luck: Luck) -> None:
        """Write the directory tree in a state that a power cut at this moment may leave."""
        self.root.write(target, luck)


def listed(data: bytes) -> Iterator[bytes]:
    """Yield the names of a folder from the shim's event."""
    for line in data.split(b"\0"):
        if line:
            yield line.split(b" ", 2)[2]


def read_events(path: Path) -> list[Event]:
    """Read the events of a record."""
    data, at, events = path.read_bytes(), 0, []
    while at + HEAD.size <= len(data):
        kind, inode, place, length = HEAD.unpack_from(data, at)
        at += HEAD.size
        if at + length > len(data):
            break
        events.append(Event(chr(kind), inode, place, data[at : at + length]))
        at += length
    return events
