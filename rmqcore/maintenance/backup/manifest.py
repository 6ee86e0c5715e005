"""``backup.json``: the contents of a copy, their source files, and whether the copy is whole."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreFormatError

NAME = "backup.json"
WHOLE, UNFINISHED, DAMAGED = "whole", "unfinished", "damaged"
FORMAT = 1


class Mark(NamedTuple):
    """A file of the store when it was copied; the same inode, size and mtime later identify the same file."""

    inode: int
    size: int
    mtime_ns: int
    copied_to: int
    """Bytes of it that the copy has; behind them are zeros."""

    @classmethod
    def of(cls, status: os.stat_result, copied_to: int) -> Mark:
        """The mark of a file."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, copied_to)

    def fits(self, status: os.stat_result) -> bool:
        """Return True if this is the copied file, unchanged since."""
        return self[:3] == Mark.of(status, 0)[:3]


@dataclass
class Manifest:
    """The contents of the file.

    Attributes
    ----------
    state : str
        `WHOLE`; `UNFINISHED` while a run is under way and after one that did not come to its end; `DAMAGED` after a run
        whose fsck found errors in the copy that the store does not have.
    source : str
        The store's root.
    root_inode : int
        Of the store's root.
    watermark_phy_offset : int
        Of the last whole run; -1 before the first.
    watermark_store_timestamp_ms : int or None
    min_phy_offset : int
    store_state, fsck_exit_code : str, int or None
        As the last whole run's report has them.
    files : dict
        Place in the copy to the store's file when it was copied.
    """

    state: str = UNFINISHED
    source: str = ""
    root_inode: int = 0
    watermark_phy_offset: int = -1
    watermark_store_timestamp_ms: int | None = None
    min_phy_offset: int = 0
    store_state: str = ""
    fsck_exit_code: int | None = None
    files: dict[str, Mark] = field(default_factory=dict)

    def save(self, dest: Folder) -> None:
        """Write the manifest; it is on disk when this returns, and a crash before that leaves the old one."""
        fields = {"format": FORMAT, **asdict(replace(self, files={}))}
        # Names that are no UTF-8 have halves of surrogate pairs in them, which JSON has escapes for.
        body = json.dumps({**fields, "files": self.files}, indent=None)
        dest.write(NAME, f'{{"crc32": {zlib.crc32(body.encode())}, "backup": {body}}}\n'.encode())


def load_manifest(dest: Folder) -> Manifest | None:
    """Read the manifest of a copy; return None if it is missing.

    Raises
    ------
    StoreFormatError
        The manifest is incomplete or damaged.
    """
    if dest.status(NAME) is None:
        return None
    try:
        outer = json.loads(dest.read(NAME))
        found = outer["backup"]
        sound = zlib.crc32(json.dumps(found).encode()) == outer["crc32"]
        if sound and found["format"] == FORMAT:
            return _manifest(found)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass  # as one with another CRC
    raise StoreFormatError(
        f"{dest.path / NAME}: not a backup manifest that this release can read: choose another "
        "destination"
    )


def _manifest(found: dict[str, Any]) -> Manifest:
    fields = {name: found[name] for name in Manifest.__dataclass_fields__ if name != "files"}
    marks = {str(place): Mark(*map(int, mark)) for place, mark in found["files"].items()}
    return Manifest(**fields, files=marks)
