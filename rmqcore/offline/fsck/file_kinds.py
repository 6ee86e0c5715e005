"""Reports entries of a store that are neither file nor directory; they are not read."""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from rmqcore.disk.file_kinds import kind_of
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.read_range import entries_of
from rmqcore.errors import HOW_TO_FOLLOW, is_unreadable
from rmqcore.offline.fsck.findings import ERROR, Findings


@dataclass(frozen=True, slots=True)
class Listed:
    """A file or directory, as it was when its directory was listed; `names` is how many names its file has."""

    name: str
    size: int
    is_directory: bool
    device: int
    inode: int
    names: int


MOST_FIRST_NAMES = 50_000
"""Files with several names in a store of which one is read; of those behind them none is."""


def list_folder(
    folder: Path | str, path: str, findings: Findings, unlisted: set[str] | None = None
) -> Iterator[Listed]:
    """Files and directories of a directory, which findings name `path`, in name order; anything else is a finding.

    So is a directory that cannot be listed; its path is put into `unlisted` too.
    """

    def unreadable(_: str, error: OSError) -> None:
        note_unreadable(path, error, findings)
        if unlisted is not None:
            unlisted.add(path)

    for entry in entries_of(folder, unreadable):
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # deleted since it was listed
            continue
        except OSError as error:  # the directory may be listed, and not be entered
            if not is_unreadable(error):
                raise
            unreadable(entry.path, error)
            return
        if _is_ordinary(status.st_mode):
            is_directory = stat.S_ISDIR(status.st_mode)
            yield Listed(
                entry.name,
                status.st_size,
                is_directory,
                status.st_dev,
                status.st_ino,
                status.st_nlink,
            )
        else:
            note_kind(entry.path, f"{path}/{entry.name}", status.st_mode, findings)


class OtherNames:
    """Finds files that are other names (hard links) of a file that was listed before: they are not read again.

    A backup by hard links gives each file of a store a second name elsewhere. So files with several names are first counted
    (`count`), which takes 8 bytes each; those that have two in what was counted are looked at (`look`) when it is listed again.

    Asked with ``in``, whether the file of a path, which was looked at, is another name.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._counted = array("Q")
        self._twice = np.empty(0, np.uint64)
        self._first: dict[tuple[int, int], tuple[str, str]] = {}

    def count(self, file: Listed) -> None:
        """Count a file."""
        if file.names > 1:
            self._counted.append(_key(file.device, file.inode))

    def any_twice(self) -> bool:
        """Return True if files with two names were counted, and end the counting."""
        keys, counts = np.unique(np.array(self._counted, np.uint64), return_counts=True)
        self._counted = array("Q")
        self._twice = keys[counts > 1]
        return len(self._twice) > 0

    def _is_twice(self, device: int, inode: int) -> bool:
        key = np.uint64(_key(device, inode))
        at = int(np.searchsorted(self._twice, key))
        return at < len(self._twice) and bool(self._twice[at] == key)

    def look(self, folder: str, path: str, file: Listed) -> None:
        """Look at a file of a directory, which findings name `path`."""
        if file.names == 1 or not self._is_twice(file.device, file.inode):
            return
        key, own = (file.device, file.inode), f"{path}/{file.name}"
        if key not in self._first and len(self._first) >= MOST_FIRST_NAMES:
            note_other_name(own, "a file", self._findings)
            return
        first = self._first.setdefault(key, (f"{folder}/{file.name}", own))[1]
        if first != own:
            note_other_name(own, first, self._findings)

    def __contains__(self, path: object) -> bool:
        if not len(self._twice) or not isinstance(path, str):
            return False
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        if status.st_nlink == 1 or not self._is_twice(status.st_dev, status.st_ino):
            return False
        first = self._first.get((status.st_dev, status.st_ino))
        return first is None or first[0] != path


def _key(device: int, inode: int) -> int:
    """A number for a file: that of two devices may be the same, and then a file is looked at for nothing."""
    return (inode ^ device << 40) & 0xFFFFFFFFFFFFFFFF


def note_other_name(path: str, first: str, findings: Findings) -> None:
    """Note that a file is only another name of one that is read."""
    findings.add(
        "file_kind",
        ERROR,
        path,
        f"another name (a hard link) of {first}, read once",
        field="file",
        expected="a separate file",
        found=f"another name of {first}",
    )


def note_unreadable(path: str, error: OSError, findings: Findings, what: str = "") -> None:
    """Note that a file or directory, or `what` of it, cannot be read."""
    text = error.strerror or str(error)
    findings.add(
        "unreadable",
        ERROR,
        path,
        f"{what}{text}",
        field="bytes",
        expected="readable",
        found=text,
    )


def note_odd_parts(paths: StorePaths, findings: Findings) -> set[Path]:
    """Note each part of a store that is neither file nor directory, nor a link that is followed; give those.

    A directory that cannot be listed is among them, and one in the place of the abort or lock file. The CommitLog is not among
    them: nothing can be checked without it.
    """
    parts = (
        paths.consumequeue,
        paths.index,
        paths.consumequeue_ext,
        paths.batchconsumequeue,
        paths.compaction,
        paths.checkpoint,
        paths.abort,
        paths.lock,
        paths.cut,
    )
    may_be_followed = (paths.consumequeue, paths.index)
    odd = set()
    for part in parts:
        try:
            mode = part.lstat().st_mode
        except FileNotFoundError:
            continue
        may_follow = stat.S_ISLNK(mode) and part in may_be_followed
        if stat.S_ISDIR(mode) and part in (paths.abort, paths.lock):
            note_kind(part, part.name, mode, findings, expected="a file")
            odd.add(part)
        elif not (_is_ordinary(mode) or (may_follow and paths.follows(part))):
            how = f": {HOW_TO_FOLLOW}" if may_follow else ""
            note_kind(part, part.name, mode, findings, how)
            odd.add(part)
        elif stat.S_ISDIR(mode) and (error := _listing_error(part)) is not None:
            note_unreadable(part.name, error, findings)
            odd.add(part)
    return odd


def _listing_error(folder: Path) -> OSError | None:
    """What keeps a directory from being listed or entered."""
    try:
        with os.scandir(folder) as found:
            for entry in islice(found, 1):
                entry.stat(follow_symlinks=False)
    except OSError as error:
        return error if is_unreadable(error) else None
    return None


def _is_ordinary(mode: int) -> bool:
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def note_kind(
    place: str | os.PathLike[str],
    path: str,
    mode: int,
    findings: Findings,
    how: str = "",
    expected: str = "a file or directory",
) -> None:
    """Note that something else lies in a place than what is expected there; `how` says what lets a link be followed."""
    kind = kind_of(mode)
    what = f"{kind}, not opened"
    if stat.S_ISLNK(mode):
        try:
            what = f"{kind} to {Path(place).readlink()}, not followed{how}"
        except OSError:  # gone, or another file by now
            what = f"{kind}, not followed{how}"
    findings.add(
        "file_kind",
        ERROR,
        path,
        what,
        field="file",
        expected=expected,
        found=kind,
    )
