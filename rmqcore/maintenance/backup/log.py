"""The CommitLog of a copy: up to a watermark, behind which it has zeros."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.inside.files import open_file
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths, file_name
from rmqcore.errors import OtherStoreError
from rmqcore.maintenance.backup.copier import Copier, Source
from rmqcore.maintenance.backup.manifest import Manifest, Mark
from rmqcore.maintenance.backup.tree import Seen
from rmqcore.offline.log.damage import DamageList
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.queues.log_end import cut_before

PART = "commitlog"


@dataclass(frozen=True)
class Watermark:
    """End of the copy's log, and store time of the last record before it; None if no new record was met."""

    phy_offset: int
    store_timestamp_ms: int | None


def find_watermark(files: list[LogFile], known: Watermark | None) -> Watermark:
    """Return the end of the last whole record.

    A BLANK behind it does not count, nor does a record that fails its CRC, as a crash leaves it: a recovery ends the
    log before these too.

    Parameters
    ----------
    files : list of LogFile
        All of the log, at least one.
    known : Watermark or None
        End of a record at the last backup.
    """
    shape = LogShape.of(files)
    start, end, time_ms = shape.tail_from, shape.tail_from, None
    if known is not None and known.phy_offset >= start:
        start, end, time_ms = known.phy_offset, known.phy_offset, known.store_timestamp_ms
    sink = ColumnScan(("phy_offset", "msg_size", "store_timestamp_ms"), batch_rows=65536)
    tail = [file for file in files if file.file_from_offset == shape.tail_from]
    walk: LogWalk[Batch] = LogWalk(
        tail,
        sink,
        DamageList(most=0),
        verify_crc=True,
        start=start,
        aligned_start=True,
        shape=shape,
    )
    for rows in walk.run():
        if not isinstance(rows, Blank) and rows.num_rows:
            sizes = np.frombuffer(rows.buffer("msg_size"), np.int32)
            end = int(np.frombuffer(rows.buffer("phy_offset"), np.int64)[-1]) + int(sizes[-1])
            time_ms = int(np.frombuffer(rows.buffer("store_timestamp_ms"), np.int64)[-1])
    return Watermark(end, time_ms)


class LogCheck:
    """Compares the log of a store with the log in a copy, before the first change of the copy.

    A store that was cut back, or another one, would overwrite messages that perhaps only the copy has. A recovery of
    RocketMQ leaves the bytes behind the end where it cuts the log, so every byte that the copy has is compared, but for
    files that are copied whole and unchanged since.

    Parameters
    ----------
    copier : Copier
    manifest : Manifest
        If no run into the copy was ever whole, marks of files that differ are removed: those files are copied anew.
    """

    def __init__(self, copier: Copier, manifest: Manifest) -> None:
        self._copier = copier
        self._manifest = manifest

    def run(self, paths: StorePaths, files: Sequence[LogFile]) -> None:
        """Check that the log of the store starts where the copy does, or later, and continues where the copy ends.

        Raises
        ------
        OtherStoreError
            The log does not.
        """
        known = self._manifest.watermark_phy_offset
        if known >= 0:
            self._check_start(paths, files, known)
        first = files[0].file_from_offset if files else 0
        by_place = {place_of(file): file for file in files}
        for place, mark in list(self._manifest.files.items()):
            folder, _, name = place.partition("/")
            if folder != PART or int(name) < first or not mark.copied_to:
                continue
            why = self._difference(paths, by_place.get(place), place, mark)
            if why is None:
                continue
            if known >= 0:
                raise OtherStoreError(f"{why}: the store was cut or replaced since the last backup")
            del self._manifest.files[place]
        if known >= 0:
            end = cut_before(paths, files, known)
            if end is not None:
                raise OtherStoreError(
                    f"the queues of {paths.root} end with a message before CommitLog offset {end}, "
                    f"and the records behind it are older; the backup has the log up to {known}: "
                    "the store was cut since the last backup"
                )

    def _check_start(self, paths: StorePaths, files: Sequence[LogFile], known: int) -> None:
        if not files:
            raise OtherStoreError(
                f"{paths.root} has no CommitLog file, but the backup has the log up to {known}"
            )
        first, same_root = files[0].file_from_offset, paths.root.stat().st_ino
        if first > known and same_root != self._manifest.root_inode:
            raise OtherStoreError(
                f"the log of {paths.root} starts at {first}, behind the end of the backup's log at "
                f"{known}, and the backup was made from another directory"
            )

    def _difference(
        self, paths: StorePaths, file: LogFile | None, place: str, mark: Mark
    ) -> str | None:
        """Return why the store lacks the copy's bytes of a file; None if it has them, or is deleting the file."""
        if file is None:
            return (
                f"{paths.root} has no file {place}, but the backup has {mark.copied_to} bytes of it"
            )
        try:
            opened = open_file(Path(file.path), os.O_RDONLY)
        except FileNotFoundError:
            return None
        source = Source(Path(file.path), opened, [])
        try:
            if mark.fits(source.status) and mark.copied_to == source.size:
                return None
            at = self._copier.differs(source, place, 0, mark.copied_to)
        finally:
            opened.close()
        return (
            None
            if at is None
            else f"{source.path} and {place} of the backup differ behind byte {at}"
        )


def place_of(file: LogFile) -> str:
    """Return the place of a log file in a copy."""
    return f"{PART}/{file_name(file.file_from_offset)}"


class LogCopy:
    """Copies CommitLog files into a copy, the newest first; arguments as of `TreeCopy`.

    The cleaner deletes the oldest files first. If it deletes a file before the copy, all older files are left out too:
    the log starts later, without a hole.
    """

    def __init__(
        self, copier: Copier, manifest: Manifest, seen: Seen, save: Callable[[], None]
    ) -> None:
        self._copier = copier
        self._manifest = manifest
        self._seen = seen
        self._save = save

    def run(self, files: Sequence[LogFile], end_phy_offset: int, link_below: int) -> None:
        """Copy all files up to the watermark; those that end at `link_below` or before never change again."""
        wanted = [file for file in files if file.file_from_offset < end_phy_offset]
        for number in range(len(wanted) - 1, -1, -1):
            file = wanted[number]
            try:
                opened = open_file(Path(file.path), os.O_RDONLY)
            except FileNotFoundError:
                self._seen.gone += [one.name for one in wanted[: number + 1]]
                return
            source = Source(Path(file.path), opened, self._seen.unreadable)
            place = place_of(file)
            try:
                end = min(source.size, end_phy_offset - file.file_from_offset)
                self._file(source, place, end, may_link=file.end_offset <= link_below)
            finally:
                opened.close()
            self._seen.places.add(place)
            self._save()

    def _file(self, source: Source, place: str, end: int, *, may_link: bool) -> None:
        mark, copier = self._manifest.files.get(place), self._copier
        if mark is None:
            if not (may_link and copier.link(source, place)):
                copier.copy(source, place, None if end == source.size else end)
        elif mark.copied_to < end:
            copier.grow(source, place, mark.copied_to, end)
        else:
            copier.keep(end)
        self._manifest.files[place] = Mark.of(source.status, end)


def log_begin(dest: Folder) -> int:
    """Return the CommitLog offset at which the log of a copy starts; -1 without a log."""
    if not dest.is_folder(PART):
        return -1
    with dest.folder(PART) as folder:
        names = folder.names()
    return int(names[0]) if names else -1
