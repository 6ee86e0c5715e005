"""Copies directories of a store file by file: queues, index, configuration and all other files.

A directory's files are copied from the newest to the oldest. The cleaner deletes the oldest first: if it deletes a file
before the copy, older files of the same directory are left out too, so that no queue gets a hole.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rmqcore.disk.config_files import parse_config
from rmqcore.disk.file_kinds import kind_of
from rmqcore.disk.inside.folder import MOST_DEEP, Folder
from rmqcore.disk.paths import StorePaths, is_index_file_name, parse_file_name
from rmqcore.errors import StoreError
from rmqcore.maintenance.backup.copier import Copier, Source
from rmqcore.maintenance.backup.manifest import Manifest, Mark

QUEUES = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
TRIES, TRY_AGAIN_S = 5, 0.02


@dataclass
class Seen:
    """Files and directories found by a walk over a store.

    Attributes
    ----------
    places : set of str
        Places that the copy shall have.
    gone, skipped, torn, unreadable : list of str
        See `BackupReport`.
    own_index : bool
        True if index files that the copy made for itself are still valid.
    """

    places: set[str] = field(default_factory=set)
    gone: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    own_index: bool = True


@dataclass(frozen=True)
class Directory:
    """A directory with its files, by name."""

    folder: Folder
    place: str
    files: list[str]


def open_part(paths: StorePaths, part: Path) -> Folder | None:
    """Open a directory in the root of a store; return None if it is missing or not a directory."""
    with Folder(paths.root) as root:
        status = root.status(part.name)
        if status is None:
            return None
        if stat.S_ISLNK(status.st_mode) and paths.follows(part):
            return Folder(part)
        return root.folder(part.name) if stat.S_ISDIR(status.st_mode) else None


def directories(
    folder: Folder, place: str, skipped: list[str], depth: int = 0
) -> Iterator[Directory]:
    """Yield a directory and all directories below it; note entries that are neither file nor directory."""
    if depth > MOST_DEEP:
        raise StoreError(f"{folder.path}: more than {MOST_DEEP} nested directories")
    files: list[str] = []
    below: list[str] = []
    for name in folder.names():
        status = folder.status(name)
        if status is None:
            continue
        if stat.S_ISREG(status.st_mode):
            files.append(name)
        elif stat.S_ISDIR(status.st_mode):
            below.append(name)
        else:
            skipped.append(f"{place}/{name}: {kind_of(status.st_mode)}")
    yield Directory(folder, place, files)
    for name in below:
        try:
            inside = folder.folder(name)
        except FileNotFoundError:
            continue
        with inside:
            yield from directories(inside, f"{place}/{name}", skipped, depth + 1)


class TreeCopy:
    """Copies directories of a store into a copy.

    Parameters
    ----------
    copier : Copier
    manifest : Manifest
        Records each file; its marks of unchanged files are believed.
    seen : Seen
    save : callable
        Called at intervals, so that a run after a kill need not start again.
    """

    def __init__(
        self, copier: Copier, manifest: Manifest, seen: Seen, save: Callable[[], None]
    ) -> None:
        self._copier = copier
        self._manifest = manifest
        self._seen = seen
        self._save = save

    def queues(self, folder: Folder, place: str) -> None:
        """Copy queue files; of each queue all but the newest are never written again."""
        for found in directories(folder, place, self._seen.skipped):
            names = [name for name in found.files if parse_file_name(name) is not None]
            self._newest_first(found, names, closed=len(names) - 1)
            self._others(found, set(found.files).difference(names))

    def index(self, folder: Folder, place: str, *, live: bool) -> None:
        """Copy index files; of a store in use all but the newest, which the copy's own open makes.

        If the store has filled another file since, the copy's own is deleted: it has entries of the same messages.
        """
        for found in directories(folder, place, self._seen.skipped):
            names = sorted(filter(is_index_file_name, found.files), key=int)
            closed = names[:-1] if live else names
            places = {f"{found.place}/{name}" for name in closed}
            own_stay = live and places <= self._manifest.files.keys()
            self._newest_first(found, closed, closed=len(names) - 1, linked=True)
            self._seen.own_index &= own_stay
            self._others(found, set(found.files).difference(names))

    def whole_files(self, folder: Folder, place: str) -> None:
        """Copy files of unknown kinds unchanged."""
        for found in directories(folder, place, self._seen.skipped):
            self._others(found, set(found.files))

    def file(self, folder: Folder, place: str, name: str) -> None:
        """Copy one file unchanged."""
        self._others(Directory(folder, place, [name]), {name})

    # ---- files --------------------------------------------------------------------------------------

    def _newest_first(
        self, found: Directory, names: list[str], *, closed: int, linked: bool = False
    ) -> None:
        for number in range(len(names) - 1, -1, -1):
            place = _join(found.place, names[number])
            try:
                opened = found.folder.open_file(names[number], os.O_RDONLY)
            except FileNotFoundError:
                self._seen.gone += [_join(found.place, name) for name in names[: number + 1]]
                return
            source = Source(found.folder.path / names[number], opened, self._seen.unreadable)
            try:
                if number < closed:
                    self._closed(source, place, linked=linked)
                else:
                    self._changing(source, place)
            finally:
                opened.close()
            self._seen.places.add(place)
            self._save()

    def _closed(self, source: Source, place: str, *, linked: bool) -> None:
        mark = self._manifest.files.get(place)
        known = mark is not None and mark.fits(source.status) and mark.copied_to == source.size
        if known or self._copier.same(source, place):
            self._copier.keep(source.size)
        elif not (linked and self._copier.link(source, place)):
            self._copier.copy(source, place)
        self._manifest.files[place] = Mark.of(source.status, source.size)

    def _changing(self, source: Source, place: str) -> None:
        self._manifest.files.pop(place, None)
        if self._copier.same(source, place):
            self._copier.keep(source.size)
        else:
            # Not shared: to share the blocks of a file makes its writer wait.
            self._copier.copy(source, place, source.size)

    def _others(self, found: Directory, names: set[str]) -> None:
        for name in sorted(names):
            place = _join(found.place, name)
            opened = None
            for _ in range(TRIES):
                try:
                    opened = found.folder.open_file(name, os.O_RDONLY)
                except FileNotFoundError:  # a broker replaces the file: the name returns
                    time.sleep(TRY_AGAIN_S)
                    continue
                source = Source(found.folder.path / name, opened, self._seen.unreadable)
                try:
                    self._changing(source, place)
                    whole = not _is_json(name) or _whole_json(source)
                finally:
                    opened.close()
                if whole:
                    break
                time.sleep(TRY_AGAIN_S)
            else:
                (self._seen.gone if opened is None else self._seen.torn).append(place)
            if opened is not None:
                self._seen.places.add(place)


def delete_unwanted(dest: Folder, part: str, wanted: set[str], keep: Callable[[str], bool]) -> int:
    """Delete the unwanted files of a part of the copy; return their number."""
    if not dest.is_folder(part):
        return 0
    deleted = 0
    with dest.folder(part) as folder:
        for found in directories(folder, part, []):
            for name in found.files:
                place = _join(found.place, name)
                if place not in wanted and not keep(place):
                    found.folder.delete(name)
                    deleted += 1
            if deleted:
                found.folder.sync()
    return deleted


def _join(place: str, name: str) -> str:
    return str(PurePosixPath(place) / name) if place else name


def _is_json(name: str) -> bool:
    return name.endswith((".json", ".json.bak"))


def _whole_json(source: Source) -> bool:
    """Return True if a configuration file is whole as a broker writes it; an empty one it has made and not yet written."""
    if source.size > 1 << 24:
        return True  # of this length nobody's word is checked
    data = bytearray(source.size)
    with memoryview(data) as view:
        got = source.read_into(view, 0)
    try:
        parse_config(bytes(data[:got]))
    except ValueError:
        return False
    return True
