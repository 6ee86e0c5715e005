"""`backup`: a consistent copy of a store, which may be in use; a further run copies only new data."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from rmqcore.disk.durable import make_directory
from rmqcore.disk.inside.apart import check_apart
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.locks.directory_lock import DirectoryLock
from rmqcore.disk.locks.store_locks import StoreLocks
from rmqcore.disk.paths import StorePaths, absolute_path
from rmqcore.disk.read_range import read_range
from rmqcore.disk.store_kinds import find_kinds, in_rocksdb
from rmqcore.errors import OtherStoreError, StoreFormatError, TargetNotEmptyError
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.maintenance.backup.copier import STAGING
from rmqcore.maintenance.backup.manifest import DAMAGED as DAMAGED_COPY
from rmqcore.maintenance.backup.manifest import WHOLE, Manifest, load_manifest
from rmqcore.maintenance.backup.report import CLEAN, CRASHED, BackupReport
from rmqcore.maintenance.backup.room import explain_full_disk
from rmqcore.maintenance.backup.settle import settle
from rmqcore.maintenance.backup.store_copy import OWN, Copied, Options, StoreCopy
from rmqcore.offline.found_config import found_config
from rmqcore.offline.fsck import FsckReport, fsck
from rmqcore.offline.fsck.findings import ERROR
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, list_log_files
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.missing_log import missing_log
from rmqcore.offline.reader import LogDirectories, store_paths

if TYPE_CHECKING:
    from rmqcore.config import MessageStoreConfig

IN_ROCKSDB = "the store keeps its queues in RocksDB"
MOST_COMPARED, MOST_BYTES = 100, 1 << 24
"""Most damaged ranges to compare with the store's, and bytes to compare of each."""


def backup(
    path: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    hard_links: bool = True,
    keep_deleted: bool = False,
    check: bool = True,
    limit_bytes_per_second: int | None = None,
    progress: Progress | None = None,
) -> BackupReport:
    """Make or renew a consistent copy of a store, which may be in use.

    The store is only read, and no lock of it is taken. The copy is a store of its own: it has every record before a
    watermark, with queues and index, and is cleanly closed. docs/backup.md says how, and how to restore it.

    Parameters
    ----------
    path : path-like
        The store's root.
    dest : path-like
        A new or empty directory, or that of an earlier backup of this store.
    config : MessageStoreConfig, optional
        Its ``message_delay_level`` determines the deliver times of delayed messages, and its paths name the CommitLog.
        The whole log is copied into ``dest/commitlog``.
    commitlog : str, path-like or sequence of path-like, optional
    follow_links : bool
        As of `StoreReader`.
    hard_links : bool
        Give files that never change again a second name, where the file system is the same and cannot share blocks.
    keep_deleted : bool
        Keep what the store's cleaner deletes: the copy's log begins where that of the first backup did.
    check : bool
        Run fsck over the copy.
    limit_bytes_per_second : int, optional
        Most bytes to read from the store per second.
    progress : callable, optional
        Called with (bytes done, bytes in all) of each part of the work.

    Returns
    -------
    BackupReport

    Raises
    ------
    NotAStoreError, LinkError, FileNotFoundError, NotADirectoryError
        As `StoreReader`.
    ValueError
        `dest` lies in the store or the store in `dest`, or a limit below 1.
    TargetNotEmptyError
        `dest` is not empty and not a backup.
    OtherStoreError
        The backup is that of another store, or of this one before its log was cut back. The copy stays as it is.
    StoreLockedError
        Another backup into `dest` is under way, or a broker uses it.
    StoreFormatError
        The files of the store, or of the backup, do not fit together.
    OSError
        ENOSPC: the disk of `dest` has no room; before anything was copied, as far as that can be known.
    """
    if limit_bytes_per_second is not None and limit_bytes_per_second < 1:
        raise ValueError(f"limit_bytes_per_second is {limit_bytes_per_second}, expected at least 1")
    paths = store_paths(absolute_path(path, "path"), config, commitlog, follow_links=follow_links)
    _refuse_dledger(paths)
    target = absolute_path(dest, "dest")
    check_apart(paths, target)
    options = Options(hard_links, keep_deleted, check, limit_bytes_per_second, progress)
    with explain_full_disk(target):
        make_directory(target)
        with Folder(target) as folder:
            return _run(paths, folder, config, options)


def _refuse_dledger(paths: StorePaths) -> None:
    """Refuse a DLedger log: an open of the copy would read the heads of its records as the end of the log."""
    for kind in find_kinds(paths):
        if kind.name == "dledger":
            error = StoreFormatError(
                f"{paths.location}: {kind.sentence}: {kind.place}; backup does not support this "
                "kind of log"
            )
            error.hint = (
                "stop the broker and copy the whole directory, or make an ordinary store first: "
                "rmqcore salvage STORE OUT"
            )
            raise error


def _run(
    paths: StorePaths, dest: Folder, config: MessageStoreConfig | None, options: Options
) -> BackupReport:
    """Copy, settle and check; as the last step mark the manifest as whole."""
    began = time.monotonic()
    manifest = load_manifest(dest)
    if manifest is None:
        if set(dest.names()) - set(OWN):
            raise TargetNotEmptyError(f"{dest.path} is not empty and is not a backup")
        manifest = Manifest()
    settings = found_config(paths, config)
    own = StorePaths(dest.path)
    with ExitStack() as stack:
        if manifest.watermark_phy_offset < 0:
            manifest.save(dest)  # so that a run that is refused below may be repeated
        dest.make(STAGING, exist_ok=True)
        lock = stack.enter_context(DirectoryLock(dest.path / STAGING, "another backup is running"))
        with StoreLocks(own), _nothing_left_of_a_refused_run(dest):
            copy = StoreCopy(paths, dest, manifest, options)
            copied = copy.run()
        # Asked before the copy is opened, which removes the entries of messages that the log lacks.
        missing = missing_log(own, copied.watermark.phy_offset)
        reason = "" if copied.clean else _settle(own, settings, options.progress)
        found = _checked(paths, own, config, options) if options.check else None
        report = _report(paths, own, copy, copied, reason, missing, found, time.monotonic() - began)
        manifest.state = WHOLE if found is None or found["in_source"] else DAMAGED_COPY
        manifest.watermark_phy_offset = report.watermark_phy_offset
        manifest.watermark_store_timestamp_ms = report.watermark_store_timestamp_ms
        manifest.min_phy_offset = report.min_phy_offset
        manifest.store_state = report.state
        manifest.fsck_exit_code = None if found is None else found["exit_code"]
        manifest.save(dest)
        lock.release()
        dest.remove(STAGING)
    return report


@contextmanager
def _nothing_left_of_a_refused_run(dest: Folder) -> Iterator[None]:
    """Remove the working folder if the store is refused: the copy is as it was before the run."""
    try:
        yield
    except OtherStoreError:
        dest.remove(STAGING)
        raise


def _settle(own: StorePaths, settings: MessageStoreConfig, progress: Progress | None) -> str:
    if in_rocksdb(own) is not None:
        return IN_ROCKSDB
    return settle(own.root, settings, progress)


def _checked(
    paths: StorePaths, own: StorePaths, config: MessageStoreConfig | None, options: Options
) -> dict[str, Any]:
    levels = None
    if config is not None:
        levels = config.changed(store_path_commit_log=None, read_only_commit_log_store_paths=None)
    found = fsck(own.root, config=levels, progress=options.progress)
    return {
        "exit_code": found.exit_code,
        "records": found.counts["records"],
        "totals": found.totals,
        "in_source": found.exit_code == OK or _in_source(paths, own, found, config),
    }


def _in_source(
    paths: StorePaths, own: StorePaths, found: FsckReport, config: MessageStoreConfig | None
) -> bool:
    """Return True if the store has all errors that fsck found in the copy: the same damage, the same counts."""
    damage = [(one.start_phy_offset, one.end_phy_offset) for one in found.damage[:MOST_COMPARED]]
    if not all(_same_bytes(paths, own, *place) for place in damage):
        return False
    of_store = fsck(
        paths.root, config=config, commitlog=paths.commitlogs, follow_links=paths.follow_links
    )
    return all(
        counts.get(ERROR, 0) <= of_store.totals.get(kind, {}).get(ERROR, 0)
        for kind, counts in found.totals.items()
    )


def _same_bytes(paths: StorePaths, own: StorePaths, start: int, end: int) -> bool:
    """Return True if store and copy have the same bytes in a range that lies in one file."""
    found = [_bytes_at(list_log_files(side), start, end) for side in (paths, own)]
    return found[0] == found[1]


def _bytes_at(files: list[LogFile], start: int, end: int) -> bytes:
    for file in files:
        if file.file_from_offset <= start < file.end_offset:
            count = min(end - start, MOST_BYTES)
            return read_range(str(file.path), start - file.file_from_offset, count)
    return b""


def _report(
    paths: StorePaths,
    own: StorePaths,
    copy: StoreCopy,
    copied: Copied,
    reason: str,
    missing: list[DamageRange],
    found: dict[str, Any] | None,
    seconds: float,
) -> BackupReport:
    seen, ways = copy.seen, copy.copier
    damaged = bool(found and found["exit_code"]) or bool(seen.unreadable)
    return BackupReport(
        path=str(paths.root),
        dest=str(own.root),
        watermark_phy_offset=copied.watermark.phy_offset,
        watermark_store_timestamp_ms=copied.watermark.store_timestamp_ms,
        min_phy_offset=copied.min_phy_offset,
        linked=ways.linked,
        cloned=ways.cloned,
        copied=ways.copied,
        unchanged=ways.unchanged,
        deleted=copied.deleted,
        deleted_meanwhile=seen.gone,
        torn=seen.torn,
        skipped=seen.skipped,
        unreadable=seen.unreadable,
        missing=missing,
        state=CRASHED if reason else CLEAN,
        state_reason=reason,
        fsck=found,
        seconds=seconds,
        exit_code=DAMAGED if damaged or reason not in ("", IN_ROCKSDB) else OK,
    )
