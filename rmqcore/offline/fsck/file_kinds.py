"""What lies in a store that is neither file nor directory: each a finding, and not looked at any further."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from rmqcore.disk.file_kinds import kind_of
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.read_range import entries_of
from rmqcore.errors import HOW_TO_FOLLOW
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


def list_folder(folder: Path, path: str, findings: Findings) -> list[Listed]:
    """Files and directories of a directory, which findings name `path`, in name order; anything else is a finding."""
    found = []
    for entry in entries_of(folder):
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # deleted since it was listed
            continue
        if _is_ordinary(status.st_mode):
            is_directory = stat.S_ISDIR(status.st_mode)
            found.append(
                Listed(
                    entry.name, status.st_size, is_directory, status.st_dev, status.st_ino, status.st_nlink,
                )
            )  # fmt: skip
        else:
            note_kind(entry.path, f"{path}/{entry.name}", status.st_mode, findings)
    return found


class OtherNames:
    """Notes files that are other names (hard links) of a file that was listed before: they are not read again.

    Attributes
    ----------
    paths : set of str
    """

    def __init__(self, findings: Findings) -> None:
        self.paths: set[str] = set()
        self._findings = findings
        self._first: dict[tuple[int, int], str] = {}

    def look(self, folder: Path, path: str, files: list[Listed]) -> None:
        """Look at the files of a directory, which findings name `path`."""
        for file in files:
            if file.names == 1:
                continue
            own = f"{path}/{file.name}"
            first = self._first.setdefault((file.device, file.inode), own)
            if first != own:
                self.paths.add(str(folder / file.name))
                note_other_name(own, first, self._findings)


def note_other_name(path: str, first: str, findings: Findings) -> None:
    """Note that a file is only another name of one that is read."""
    findings.add(
        "file_kind", ERROR, path, f"another name (a hard link) of {first}, which is read once", field="file",
        expected="one of its own", found=f"another name of {first}",
    )  # fmt: skip


def note_odd_parts(paths: StorePaths, findings: Findings) -> set[Path]:
    """Note each part of a store that is neither file nor directory, nor a link that is followed; give those.

    The CommitLog is not among them: nothing can be checked without it.
    """
    parts = (
        paths.consumequeue, paths.index, paths.consumequeue_ext, paths.batchconsumequeue, paths.checkpoint, paths.abort,
        paths.lock, paths.cut,
    )  # fmt: skip
    may_be_followed = (paths.consumequeue, paths.index)
    odd = set()
    for part in parts:
        try:
            mode = part.lstat().st_mode
        except FileNotFoundError:
            continue
        may_follow = stat.S_ISLNK(mode) and part in may_be_followed
        if not (_is_ordinary(mode) or (may_follow and paths.follows(part))):
            how = f": {HOW_TO_FOLLOW}" if may_follow else ""
            note_kind(part, part.name, mode, findings, how)
            odd.add(part)
    return odd


def _is_ordinary(mode: int) -> bool:
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def note_kind(
    place: str | os.PathLike[str], path: str, mode: int, findings: Findings, how: str = ""
) -> None:
    """Note that neither a file nor a directory lies in a place; `how` says what lets a link be followed."""
    kind = kind_of(mode)
    what = f"{kind}, which was not opened"
    if stat.S_ISLNK(mode):
        try:
            what = f"{kind} to {Path(place).readlink()}, which was not followed{how}"
        except OSError:  # gone, or another file by now
            what = f"{kind}, which was not followed{how}"
    findings.add(
        "file_kind", ERROR, path, what, field="file", expected="a file or directory", found=kind,
    )  # fmt: skip
