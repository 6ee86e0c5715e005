"""The order in which the parts of a store are copied, so that no part of the copy is ahead of its log.

First the checkpoint is read, then the consumer offsets, then the index, the queues, and last the log up to its end at
that moment, the watermark. So queues and index of the copy name only messages in its log, and its checkpoint is never
ahead of its queues.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rmqcore._native.format.layout import CHECKPOINT_USED_SIZE
from rmqcore.disk.abort import AbortFile
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.disk.file_kinds import kind_of
from rmqcore.disk.index.header import read_header
from rmqcore.disk.inside.clones import shares_blocks
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths, is_index_file_name, parse_file_name
from rmqcore.disk.read_range import read_range
from rmqcore.disk.swap import OLD, PARTS, TRASH
from rmqcore.errors import OtherStoreError
from rmqcore.maintenance.backup import log as log_part
from rmqcore.maintenance.backup.copier import STAGING, WORKING, Copier
from rmqcore.maintenance.backup.log import LogCheck, LogCopy, Watermark, find_watermark
from rmqcore.maintenance.backup.manifest import NAME, UNFINISHED, WHOLE, Manifest
from rmqcore.maintenance.backup.room import check_room
from rmqcore.maintenance.backup.tree import QUEUES, Seen, TreeCopy, delete_unwanted, open_part
from rmqcore.offline.log.log_files import LogFile, list_log_files
from rmqcore.offline.log.walk import Progress

OWN = (NAME, f".{NAME}.tmp", STAGING)
LEFT_OUT = {
    *OWN,
    "lock",
    "abort",
    "checkpoint",
    ".checkpoint.tmp",
    "cut",
    "rebuilt",
    "commitlog",
    "index",
    *QUEUES,
}
SWAPPED = tuple(part + mark for part in PARTS for mark in (OLD, TRASH))
SAVED_EVERY_S = 2.0


@dataclass(frozen=True)
class Options:
    """Options of `backup`; see there."""

    hard_links: bool = True
    keep_deleted: bool = False
    check: bool = True
    limit_bytes_per_second: int | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class Copied:
    """Result of copying.

    Attributes
    ----------
    watermark : Watermark
    clean : bool
        The store was cleanly closed all the while: the copy is that store, byte by byte.
    deleted : int
        Files of the copy that the store does not have any more.
    min_phy_offset : int
    """

    watermark: Watermark
    clean: bool
    deleted: int
    min_phy_offset: int


class StoreCopy:
    """Copies the files of a store into a copy.

    Parameters
    ----------
    paths : StorePaths
    dest : Folder
        Locked by the caller.
    manifest : Manifest
        Of the copy as it is; changed as files come in.
    options : Options

    Attributes
    ----------
    copier : Copier
    seen : Seen
    """

    def __init__(
        self, paths: StorePaths, dest: Folder, manifest: Manifest, options: Options
    ) -> None:
        self._paths = paths
        self._dest = dest
        self._manifest = manifest
        self._options = options
        self.seen = Seen()
        self._saved_at = 0.0
        self._done_bytes = 0
        self._before = _clean_exit(paths)
        self._checkpoint = read_range(paths.checkpoint, 0, 1 << 16)
        files = list_log_files(paths)
        self._total_bytes = sum(file.size for file in files)
        clones = bool(files) and shares_blocks(files[0].path, dest, WORKING)
        links = options.hard_links and not clones and dest.device == paths.root.stat().st_dev
        self._link_below = never_read_again(files, self._checkpoint) if links else 0
        if not clones:
            check_room(paths, files, dest, manifest, self._link_below)
        self.copier = Copier(
            dest,
            links=links,
            clones=clones,
            limit_bytes_per_second=options.limit_bytes_per_second,
            progress=self._tell if options.progress else None,
        )

    def run(self) -> Copied:
        """Copy everything; the copy is as after a crash then, or as clean as the store."""
        paths, dest, manifest = self._paths, self._dest, self._manifest
        self._forget_changed()
        opened = _opened(paths)
        files = list_log_files(paths)
        LogCheck(self.copier, manifest).run(paths, files)
        if self._options.keep_deleted and files:
            _check_no_hole(dest, manifest, files[0].file_from_offset)
        self.seen.own_index = manifest.state == WHOLE
        # From here on the copy is as after a crash, and marked so.
        AbortFile(dest.path / "abort").create()
        manifest.state = UNFINISHED
        manifest.source = str(paths.root)
        manifest.root_inode = paths.root.stat().st_ino
        manifest.save(dest)
        self._copy_parts(TreeCopy(self.copier, manifest, self.seen, self._save))
        watermark = self._copy_log()
        while opened != _opened(paths):
            # Its recovery may have cut bytes that are already copied.
            opened = _opened(paths)
            LogCheck(self.copier, manifest).run(paths, list_log_files(paths))
            watermark = self._copy_log()
        self.copier.sync()
        if self._checkpoint:
            self.seen.places.add("checkpoint")
        deleted = self._delete()
        clean = self._before is not None and self._before == _clean_exit(paths)
        if self._checkpoint:
            dest.write("checkpoint", self._checkpoint if clean else self._vouching(watermark))
        if clean:
            AbortFile(dest.path / "abort").remove()
        return Copied(watermark, clean, deleted, log_part.log_begin(dest))

    def _copy_log(self) -> Watermark:
        manifest, files = self._manifest, list_log_files(self._paths)
        known = None
        if manifest.watermark_phy_offset >= 0:
            known = Watermark(manifest.watermark_phy_offset, manifest.watermark_store_timestamp_ms)
        watermark = find_watermark(files, known) if files else Watermark(0, None)
        self._total_bytes = self._done_bytes + sum(file.size for file in files)
        LogCopy(self.copier, manifest, self.seen, self._save).run(
            files, watermark.phy_offset, self._link_below
        )
        return watermark

    def _forget_changed(self) -> None:
        """Forget files of the copy that are not as they were left: they are copied again."""
        for place, mark in list(self._manifest.files.items()):
            status = self._dest.status(place)
            if status is None or status.st_size != mark.size:
                del self._manifest.files[place]

    def _copy_parts(self, tree: TreeCopy) -> None:
        paths = self._paths
        with Folder(paths.root) as root:
            for name in root.names():
                if name in LEFT_OUT or name.startswith(SWAPPED) or _holds_log(paths, name):
                    continue
                status = root.status(name)
                if status is None:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    with root.folder(name) as folder:
                        tree.whole_files(folder, name)
                elif stat.S_ISREG(status.st_mode):
                    tree.file(root, "", name)
                else:
                    self.seen.skipped.append(f"{name}: {kind_of(status.st_mode)}")
        for part in (paths.index, *(paths.root / name for name in QUEUES)):
            opened = open_part(paths, part)
            if opened is None:
                continue
            with opened:
                if part == paths.index:
                    tree.index(opened, part.name, live=self._before is None)
                else:
                    tree.queues(opened, part.name)

    def _delete(self) -> int:
        """Delete files that the store no longer has, oldest first."""
        seen, manifest = self.seen, self._manifest
        kept = _Kept(self._dest, manifest, seen, keep_deleted=self._options.keep_deleted)
        deleted = 0
        for name in self._dest.names():
            if name in OWN or name in ("lock", "abort", "cut"):
                continue
            if self._dest.is_folder(name):
                deleted += delete_unwanted(self._dest, name, seen.places, kept)
            elif name not in seen.places:
                self._dest.delete(name)
                deleted += 1
        for place in list(manifest.files):
            if place not in seen.places and not kept(place):
                del manifest.files[place]
        return deleted

    def _vouching(self, watermark: Watermark) -> bytes:
        """Return the checkpoint that names the index files on disk: full files that it lacks would be made again."""
        if len(self._checkpoint) < CHECKPOINT_USED_SIZE or watermark.store_timestamp_ms is None:
            return self._checkpoint
        known = StoreCheckpoint.decode(self._checkpoint)
        times = [known.index_msg_timestamp_ms]
        if self._dest.is_folder("index"):
            with self._dest.folder("index") as folder:
                paths = [folder.path / name for name in folder.names() if is_index_file_name(name)]
            ends = [read_header(path).end_timestamp_ms for path in paths]
            times += [end for end in ends if end <= watermark.store_timestamp_ms]
        return replace(known, index_msg_timestamp_ms=max(times)).encode()

    def _save(self) -> None:
        """Save the manifest at intervals, so that a run after a kill need not start again."""
        if time.monotonic() - self._saved_at > SAVED_EVERY_S:
            self.copier.sync()
            self._manifest.save(self._dest)
            self._saved_at = time.monotonic()

    def _tell(self, count: int) -> None:
        self._done_bytes += count
        if self._options.progress is not None:
            self._options.progress(self._done_bytes, max(self._done_bytes, self._total_bytes))


class _Kept:
    """Files of a copy that stay although the store does not have them.

    Index files that the copy made for itself, as long as they are right. With `keep_deleted` log and queue files that
    are older than what the store has: of a log only as long as it gets no hole.
    """

    def __init__(self, dest: Folder, manifest: Manifest, seen: Seen, *, keep_deleted: bool) -> None:
        self._manifest = manifest
        self._seen = seen
        self._keep_deleted = keep_deleted
        self._first: dict[str, int] = {}
        for place in seen.places if keep_deleted else ():
            folder, _, name = place.rpartition("/")
            start = parse_file_name(name)
            if start is not None:
                self._first[folder] = min(start, self._first.get(folder, start))
        if keep_deleted:
            _check_no_hole(dest, manifest, self._first.get(log_part.PART, 0))

    def __call__(self, place: str) -> bool:
        folder, _, name = place.rpartition("/")
        if folder == "index":
            made_here = place not in self._manifest.files
            return made_here and (self._seen.own_index or self._keep_deleted)
        start = parse_file_name(name)
        return self._keep_deleted and start is not None and start < self._first.get(folder, -1)


def _check_no_hole(dest: Folder, manifest: Manifest, begin: int) -> None:
    """Check that a log that starts at an offset leaves no gap behind the end of a copy that keeps its files."""
    if 0 <= manifest.watermark_phy_offset < begin:
        raise OtherStoreError(
            f"the store's log starts at {begin}, behind the end of the backup {dest.path} at "
            f"{manifest.watermark_phy_offset}: with the kept files it would have a gap; omit "
            "--keep (keep_deleted), or choose another destination"
        )


def _clean_exit(paths: StorePaths) -> tuple[int, int, bytes] | None:
    """Return values that change at the next open; None while the store is open, and after an unclean exit."""
    if os.path.lexists(paths.abort):
        return None
    try:
        status = paths.checkpoint.lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, read_range(paths.checkpoint, 0, 4096)


def _opened(paths: StorePaths) -> tuple[int, int] | None:
    """Return the identity of the abort file, which each open makes again; None if the store was closed cleanly."""
    try:
        status = paths.abort.lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _holds_log(paths: StorePaths, name: str) -> bool:
    """Return True if a directory in the root is or contains a directory of the CommitLog."""
    path = Path(os.path.realpath(paths.root / name))
    logs = [Path(os.path.realpath(directory)) for directory in paths.commitlogs]
    return any(log == path or path in log.parents for log in logs)


def never_read_again(files: Sequence[LogFile], checkpoint: bytes) -> int:
    """Return the CommitLog offset before which no recovery of the store reads or cuts its log.

    A recovery starts with a file whose first message the queues are known to have on disk. All files before it stay
    unchanged until they are deleted. Stores before 5.4 do not record it.
    """
    known = 0
    if len(checkpoint) >= CHECKPOINT_USED_SIZE:
        known = StoreCheckpoint.decode(checkpoint).logics_physical_offset
    return max(
        (file.file_from_offset for file in files[:-1] if file.file_from_offset <= known), default=0
    )
