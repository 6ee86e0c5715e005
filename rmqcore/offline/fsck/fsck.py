"""`fsck` checks a whole store: the log, its queues and its index against each other.

Order matters, because another process may be writing: checkpoint and directories are read first, then the log, and
the entries of each part of the log right after that part. Where a queue or index file points beyond the end of the log,
a further, shorter walk looks for the records that were written meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqcore._native.format.codec import DelayLevels
from rmqcore.disk.paths import StorePaths
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.fsck.batch_queues import BatchAudit
from rmqcore.offline.fsck.broker_start import BrokerStart, broker_start
from rmqcore.offline.fsck.compaction import check_compacted_entries, check_compaction_files
from rmqcore.offline.fsck.file_kinds import note_odd_parts
from rmqcore.offline.fsck.file_names import (
    check_checkpoint,
    check_index_files,
    check_log_files,
    is_open,
    load_checkpoint,
    note_dledger,
)
from rmqcore.offline.fsck.findings import INFO, Finding, Findings
from rmqcore.offline.fsck.index.index_database_pass import IndexDatabaseAudit
from rmqcore.offline.fsck.index.index_pass import IndexAudit
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.offline.fsck.queue_names import QueueNames
from rmqcore.offline.fsck.queue_pass import QueueAudit
from rmqcore.offline.fsck.queue_state import Lost
from rmqcore.offline.fsck.rocksdb_names import RocksdbNames
from rmqcore.offline.info import LOG_ONLY, is_log_only
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.store_paths import LogDirectories, store_paths
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.remote.store_url import StorageOptions, StoreUrl, store_place
from rmqcore.offline.rocksdb.database import queue_database
from rmqcore.offline.rocksdb.index_database import index_database
from rmqcore.shown.report import Report

if TYPE_CHECKING:
    from rmqcore.config import MessageStoreConfig

ROUNDS = 4


@dataclass(frozen=True, slots=True)
class FsckReport(Report):
    """Findings of `fsck`.

    Attributes
    ----------
    path : str
    findings : list of Finding
        At most `max_findings` for each kind.
    totals : dict
        Kind to severity to number, of all findings.
    damage : list of DamageRange
        Damaged ranges of the log, by offset; the first 10,000.
    would_be_lost : dict
        ``unreachable``: records that no queue entry leads to, with bytes and queues, and ``in_other_queues`` where these are not
        all; ``broker_start``: what a broker
        start would cut (see `BrokerStart`).
    counts : dict
        How much was checked: ``records``, ``record_bytes``, ``prop_crcs``, ``cq_entries``, ``index_entries``,
        ``damaged_ranges``, ``damaged_bytes``.
    seconds : float
    """

    path: str
    findings: list[Finding]
    totals: dict[str, dict[str, int]]
    damage: list[DamageRange]
    would_be_lost: dict[str, Any]
    counts: dict[str, int]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 without a finding of severity error, else 2."""
        return DAMAGED if any(count.get("error") for count in self.totals.values()) else OK

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {
            "path": self.path,
            "exit_code": self.exit_code,
            "totals": self.totals,
            "counts": self.counts,
            "would_be_lost": self.would_be_lost,
            "findings": [finding.as_dict() for finding in self.findings],
            "damage": [damaged.as_dict() for damaged in self.damage],
            "seconds": self.seconds,
        }


def fsck(
    path: str | os.PathLike[str] | StoreUrl,
    *,
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    check_index: bool = True,
    check_queues: bool = True,
    progress: Progress | None = None,
    max_findings: int = 1000,
    storage_options: StorageOptions | None = None,
) -> FsckReport:
    """Check a store: every record, queue entry and index entry, and the files around them.

    It only reads, takes no lock and maps no file; the store may be in use. Memory does not grow with the store: for more than
    190,000 queues the log is walked over more than once.

    Parameters
    ----------
    path : path-like
        The store's root; may be a URL. From there queues and index come into a temporary directory first.
    config : MessageStoreConfig, optional
        Its ``message_delay_level`` gives the deliver times of delayed messages, and its paths say where the CommitLog is.
    commitlog : str, path-like or sequence of path-like, optional
        Where the CommitLog is; see `StoreReader`.
    follow_links : bool
        As of `StoreReader`. Any other link is a finding, and what it leads to is not looked at; in the place of ``commitlog``
        it ends the check.
    check_index, check_queues : bool
        Also compare the index, in files and in RocksDB, and ConsumeQueues with the log.
    progress : callable, optional
        Called with (bytes done, bytes in all).
    max_findings : int
        How many findings are kept for each kind; all are counted.
    storage_options : mapping of str to any, optional
        As of `rmqcore.read`.

    Raises
    ------
    NotAStoreError, LinkError, FileNotFoundError, NotADirectoryError
        See `StoreReader`.
    RemoteStorageError
        The server behind a URL does not give a file: that is no finding.
    ValueError
        `max_findings` is negative.
    """
    if max_findings < 0:
        raise ValueError(f"max_findings {max_findings} is negative")
    place = store_place(path, storage_options)
    paths = store_paths(place, config, commitlog, follow_links=follow_links, leave_out_links=True)
    with closing(paths):
        check = _Check(str(place), paths, config, max_findings, progress)
        return check.run(queues=check_queues, index=check_index)


class _Check:
    """One run of `fsck`."""

    def __init__(
        self,
        path: str,
        paths: StorePaths,
        config: MessageStoreConfig | None,
        max_findings: int,
        progress: Progress | None,
    ) -> None:
        self._path = path
        self._paths = paths
        self._config = config
        self._findings = Findings(max_findings)
        self._progress = progress
        self._beside = 0
        self._brought = 0
        self._batch_entries = 0
        self._compacted_entries = 0
        self._database_entries = 0

    def run(self, *, queues: bool, index: bool) -> FsckReport:
        began = time.monotonic()
        paths, findings = self._paths, self._findings
        open_before = is_open(paths)
        odd = note_odd_parts(paths, findings)
        queues &= paths.consumequeue not in odd
        index &= paths.index not in odd
        log_only = is_log_only(paths)
        if log_only:
            queues = index = False
            findings.add("log_only", INFO, "commitlog", LOG_ONLY, field="file")
        checkpoint = None if log_only else load_checkpoint(paths, findings)
        levels = None if self._config is None else DelayLevels(self._config.delay_levels_ms)
        log = LogAudit(
            paths,
            findings,
            levels,
            key_hashes=index,
            progress=self._walked if self._progress else None,
        )
        check_log_files(paths, log.files, findings)
        note_dledger(log.files, findings)
        self._bring_in(log, [paths.consumequeue] * queues + [paths.index] * index)
        queue_audit = index_audit = in_rocksdb = None
        names = _checked_names(paths, findings) if queues else None
        if names is not None:
            own_levels = self._config is not None
            queue_audit = QueueAudit(
                paths, log, findings, own_levels=own_levels, live=open_before, names=names
            )
            self._beside += 0 if self._brought else queue_audit.total_bytes
        if index:
            check_index_files(paths, findings)
            in_rocksdb = self._index_in_rocksdb()
            index_audit = IndexAudit(
                paths,
                log,
                findings,
                live=open_before,
                in_rocksdb=in_rocksdb is not None and in_rocksdb.holds_index,
            )
            self._beside += 0 if self._brought else index_audit.total_bytes
        batch_audit = (
            BatchAudit(paths, log, findings)
            if queues and paths.batchconsumequeue not in odd
            else None
        )
        audits = [one for one in (queue_audit, index_audit, batch_audit) if one is not None]
        growing = self._walk(log, audits, live=open_before)
        unclean = open_before or is_open(paths)
        log.settle()
        if queue_audit is not None:
            queue_audit.finish(growing=growing, unclean=unclean)
        if batch_audit is not None:
            batch_audit.finish(unclean=unclean)
            self._batch_entries = batch_audit.checked
        if queues and paths.compaction not in odd:
            check_compaction_files(paths, findings)
            self._compacted_entries = check_compacted_entries(paths, findings)
        if index_audit is not None:
            index_audit.finish(growing=growing)
        if in_rocksdb is not None:
            in_rocksdb.finish(log, unclean=unclean)
            self._database_entries = in_rocksdb.checked
        if checkpoint is not None and log.records and not log.end_unreadable:
            check_checkpoint(checkpoint, log.newest_ms, log.log_end, findings)
        if unclean:
            findings.add(
                "abort",
                INFO,
                "abort",
                "the store is in use, or was not cleanly closed",
                field="file",
                found="present",
            )
        dispatched_end = log.log_end if queue_audit is None else queue_audit.dispatched_end
        start = broker_start(log, checkpoint, dispatched_end, unclean=unclean)
        if self._progress is not None:
            total = sum(file.size for file in log.files) + self._beside + self._brought
            self._progress(total, total)
        return self._report(log, queue_audit, index_audit, start, time.monotonic() - began)

    def _index_in_rocksdb(self) -> IndexDatabaseAudit | None:
        database = index_database(self._paths)
        return None if database is None else IndexDatabaseAudit(database, self._findings)

    @staticmethod
    def _walk(
        log: LogAudit, audits: Sequence[QueueAudit | IndexAudit | BatchAudit], *, live: bool
    ) -> bool:
        """Walk the log, then the records that were written meanwhile; answer whether the log still grows."""
        for _ in range(ROUNDS):
            records = log.records
            for batch in log.batches():
                for audit in audits:
                    audit.add(batch)
            if not live or log.records == records:
                return False
        return True

    def _walked(self, done: int, total: int) -> None:
        assert self._progress is not None
        # Queues and index are read beside the log, so the same share of them is done; what was brought here was before.
        beside = self._beside * done // total if total else 0
        self._progress(self._brought + done + beside, self._brought + total + self._beside)

    def _bring_in(self, log: LogAudit, parts: list[Path]) -> None:
        """Bring queues and index here that lie behind a URL: many files at once, where the check asks for one after the other."""
        of_log = sum(file.size for file in log.files)
        told = self._progress
        self._brought = self._paths.bring_in(
            *parts,
            progress=None if told is None else lambda done, total: told(done, total + of_log),
        )

    def _report(
        self,
        log: LogAudit,
        queues: QueueAudit | None,
        index: IndexAudit | None,
        start: BrokerStart,
        seconds: float,
    ) -> FsckReport:
        lost = Lost() if queues is None else queues.lost
        return FsckReport(
            path=self._path,
            findings=self._findings.items,
            totals={kind: dict(counts) for kind, counts in self._findings.totals.items()},
            damage=log.damage.ranges,
            would_be_lost={"unreachable": lost.as_dict(), "broker_start": start.as_dict()},
            counts={
                "records": log.records,
                "record_bytes": log.record_bytes,
                "prop_crcs": log.prop_crcs,
                "cq_entries": (
                    self._batch_entries
                    + self._compacted_entries
                    + (0 if queues is None else queues.checked)
                ),
                "index_entries": self._database_entries + (0 if index is None else index.checked),
                "damaged_ranges": log.damage.count,
                "damaged_bytes": log.damage.bytes,
            },
            seconds=seconds,
        )


def _checked_names(paths: StorePaths, findings: Findings) -> QueueNames | RocksdbNames | None:
    """Check the names of queue files, or open the database of the queues; None where it cannot be read, which is a finding."""
    database = queue_database(paths)
    if database is None:
        names = QueueNames(paths, findings)
        names.check()
        return names
    in_database = RocksdbNames(paths, database, findings)
    return in_database if in_database.check() else None
