"""What a power cut may leave: disk images made from a recording of all that was synced (tests/faults/shim.c).

The model is the harshest that POSIX allows: a byte is on disk when a sync of its range or file returned, a file's size when the
file was synced, a name when its directory was. Everything later may or may not be there, page by page.
"""

from __future__ import annotations

import json
import os
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fault_shim import Shim

HEAD = struct.Struct("=4q")
PAGE = 4096
Listing = dict[str, tuple[int, bool]]
"""Name to inode, and whether that is a directory."""


@dataclass(frozen=True)
class Event:
    """One thing that became durable, or a note."""

    kind: str
    inode: int
    place: int
    data: bytes


@dataclass
class Disk:
    """Files by inode, directories by inode; `root` is the store's directory."""

    root: int
    files: dict[int, bytearray] = field(default_factory=dict)
    folders: dict[int, Listing] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Let what an event says be on disk."""
        if event.kind == "F":
            self.files[event.inode] = bytearray(event.data)
        elif event.kind == "M":
            # Only as much as the file is long, which is known to be on disk when the file itself was synced.
            content = self.files.get(event.inode, bytearray())
            kept = event.data[: max(0, len(content) - event.place)]
            content[event.place : event.place + len(kept)] = kept
        elif event.kind == "D":
            self.folders[event.inode] = parse_listing(event.data)

    def write(self, target: Path, folder: int | None = None) -> None:
        """Make the directory tree as it is found after the cut."""
        target.mkdir(exist_ok=True)
        for name, (inode, is_folder) in self.folders.get(
            self.root if folder is None else folder, {}
        ).items():
            if is_folder:
                self.write(target / name, inode)
            else:
                (target / name).write_bytes(self.files.get(inode, b""))

    def copy(self) -> Disk:
        """An independent copy."""
        return Disk(self.root, {k: bytearray(v) for k, v in self.files.items()}, dict(self.folders))

    def mixed(self, live: Disk, rng: random.Random) -> Disk:
        """The same with some of what was not synced: any page of the files as they were, any listing of the directories."""
        mixed = self.copy()
        share = rng.choice((0.1, 0.5, 0.9))
        for inode, listing in live.folders.items():
            if rng.random() < share:
                mixed.folders[inode] = listing
        for inode, content in live.files.items():
            durable = mixed.files.setdefault(inode, bytearray())
            if len(durable) < len(content) and (inode not in self.files or rng.random() < share):
                durable.extend(bytes(len(content) - len(durable)))
            for at in range(0, min(len(durable), len(content)), PAGE):
                if rng.random() < share:
                    end = min(at + PAGE, len(durable), len(content))
                    durable[at:end] = content[at:end]
        return mixed


def parse_listing(data: bytes) -> Listing:
    """Read what the shim recorded of a directory."""
    listing: Listing = {}
    for line in data.split(b"\0"):
        if line:
            inode, is_folder, name = line.split(b" ", 2)
            listing[os.fsdecode(name)] = int(inode), is_folder == b"1"
    return listing


def read_events(path: Path) -> list[Event]:
    """Read a recording."""
    data, at, events = path.read_bytes(), 0, []
    while at + HEAD.size <= len(data):
        kind, inode, place, length = HEAD.unpack_from(data, at)
        at += HEAD.size
        if at + length > len(data):
            break
        events.append(Event(chr(kind), inode, place, data[at : at + length]))
        at += length
    return events


def note_live(shim: Shim, root: Path) -> None:
    """Record all files as they are now, synced or not. Nothing else may change the directory meanwhile."""
    tree: dict[str, Any] = {"folders": {}, "files": {}}
    for folder, folders, files in os.walk(root):
        inode = os.stat(folder).st_ino
        tree["folders"][inode] = {
            name: (os.stat(os.path.join(folder, name)).st_ino, name in folders)
            for name in folders + files
        }
        for name in files:
            path = os.path.join(folder, name)
            tree["files"][os.stat(path).st_ino] = Path(path).read_bytes().hex()
    shim.note("L", json.dumps(tree).encode())


def parse_live(root: int, data: bytes) -> Disk:
    """Read such a record."""
    tree = json.loads(data)
    return Disk(
        root,
        {int(inode): bytearray.fromhex(content) for inode, content in tree["files"].items()},
        {
            int(inode): {name: (entry[0], entry[1]) for name, entry in listing.items()}
            for inode, listing in tree["folders"].items()
        },
    )
