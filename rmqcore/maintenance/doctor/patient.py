"""A store as the checks see it: each fact is gathered once, when the first check asks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.abort import AbortFile
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.disk.consumer_offsets import ConsumerOffsets, read_consumer_offsets
from rmqcore.disk.locks.lock import lock_holder
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import rocksdb_place
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.recovery.start_file import choose_start
from rmqcore.errors import RocksdbError, RocksdbMissingError, StoreError
from rmqcore.maintenance.doctor.kinds import KINDS
from rmqcore.maintenance.doctor.report import Diagnosis, Evidence
from rmqcore.maintenance.retention.log_facts import LogFacts, read_log
from rmqcore.offline.found_config import found_config
from rmqcore.offline.fsck.file_names import load_checkpoint
from rmqcore.offline.fsck.findings import Finding, Findings
from rmqcore.offline.info import is_log_only, log_end
from rmqcore.offline.log.log_files import LogFile, list_log_files
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import each_queue, queue_names
from rmqcore.vocabulary.clock import wall_clock_ms
from rmqcore.vocabulary.rocketmq_versions import readable_records

WITH_CONFIG = ("rmqcore recover ", "rmqcore rebuild ", "rmqcore retention ", "rmqcore salvage ")
"""Commands that accept a broker.conf."""
MOST_EVIDENCE = 20
WHOLE_LOG = 64 << 20
"""A log of at most this many bytes is read whole."""
MOST_QUEUES = 10_000
"""Most queues to check; fsck checks all."""


class Patient:
    """The facts of a store, and diagnoses of it.

    Parameters
    ----------
    paths : StorePaths
        Links are left out.
    config : MessageStoreConfig or None
        Settings of the broker.conf; None without one.
    now_ms : int, optional
    progress : callable, optional
    options : str
        Of the command line, which a command for this store needs.
    settings : str
        The option that names the broker.conf.
    for_version : str, optional
        A release that has to read the store; None: that of `config`.

    Raises
    ------
    ValueError
        `for_version` is not a release.
    """

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig | None,
        now_ms: int | None = None,
        progress: Progress | None = None,
        options: str = "",
        settings: str = "",
        for_version: str | None = None,
    ) -> None:
        self.paths = paths
        self.config = config
        self.settings = config or MessageStoreConfig()
        self.for_version = for_version or self.settings.for_version
        readable_records(self.for_version)  # refuses what is not a release
        self.now_ms = wall_clock_ms() if now_ms is None else now_ms
        self.progress = progress
        self.moved: dict[
            str, int
        ] = {}  # files whose first record says that it lies elsewhere, by name: where
        self._options = options
        self._settings = settings

    def diagnosis(
        self,
        name: str,
        evidence: Iterable[Evidence],
        *,
        severity: str | None = None,
        command: str | None = None,
        **words: object,
    ) -> Diagnosis:
        """Make a diagnosis; `words` are what its command names, `command` another one than its kind's."""
        kind = KINDS[name]
        seen = list(evidence)
        root = os.fspath(self.paths.root)
        places = {
            "store": root,
            "store_salvaged": f"{root}.salvaged",
            "store_rebuilt": f"{root}.rebuilt",
            "store_index": f"{root}.index",
            "store_converted": f"{root}.converted",
            "commitlog": self.paths.commitlog,
            "cut": self.paths.cut,
            **words,
        }
        quoted = {key: shlex.quote(str(word)) for key, word in places.items()}
        command = kind.command.format(**quoted) if command is None else command
        if command.startswith("rmqcore "):
            command += self._options
        if command.startswith(WITH_CONFIG):
            command += self._settings
        return Diagnosis(
            name,
            severity or kind.severity,
            kind.cause,
            tuple(seen[:MOST_EVIDENCE]),
            len(seen),
            kind.next_step,
            command,
            kind.pains,
        )

    def unreadable(self, path: str | os.PathLike[str], error: OSError) -> Diagnosis:
        """Make the diagnosis of a file or directory that cannot be read."""
        evidence = Evidence(self.shown(path), error.strerror or str(error))
        return self.diagnosis("unreadable", [evidence], unreadable=path)

    def shown(self, path: str | os.PathLike[str]) -> str:
        """Return a path for evidence: relative to the store if it lies in it."""
        place = Path(path)
        root = self.paths.root
        return os.fspath(place.relative_to(root) if place.is_relative_to(root) else place)

    # ---- facts --------------------------------------------------------------------------------------

    @cached_property
    def holder(self) -> int | None:
        """Return the process that has the store open; 0 if the system does not name it."""
        try:
            return lock_holder(self.paths.lock)
        except StoreError:  # not a regular file: reported with other wrong kinds of files
            return None

    @cached_property
    def unclean(self) -> bool:
        """True if the abort file is there."""
        return AbortFile(self.paths.abort).exists

    @cached_property
    def is_log_only(self) -> bool:
        """True if the store has messages, and only a CommitLog."""
        return is_log_only(self.paths) and self.has_messages

    @cached_property
    def files(self) -> list[LogFile]:
        """Files of the log."""
        return list_log_files(self.paths)

    @cached_property
    def log(self) -> LogFacts:
        """Times of the files, and end of the log; values that must not be ahead of the log are read before it."""
        _ = self.checkpoint_findings, self.offsets
        return read_log(self.files, self.progress)

    @cached_property
    def read_from(self) -> int:
        """CommitLog offset of the file from which records are read, the first file of a start; 0: all files."""
        files = self.log.files
        if self.log.end_phy_offset - self.log.begins_at <= WHOLE_LOG or not files:
            return 0
        try:
            start = self.start
        except (StoreError, OSError):  # reported with the names and sizes of files
            start = None
        return files[-1].file.file_from_offset if start is None else start[0]

    @cached_property
    def start(self) -> tuple[int, str, str] | None:
        """The first file that a start reads: its offset, its path, and the reason; None without files.

        Raises
        ------
        StoreError
            A start refuses the files.
        """
        settings = found_config(self.paths, self.settings)
        log = CommitLog(self.paths, settings, on_failure=lambda _: None)
        log.load()
        try:
            files = log.files.files
            if not files:
                return None
            checkpoint = self.checkpoint_findings[0] or StoreCheckpoint()
            known = -1 if self.unclean else self.log.end_phy_offset
            start = choose_start(
                files, log.file_size, checkpoint, known, settings, clean_exit=not self.unclean
            )
            begin = files[start.number]
            return begin.file_from_offset, begin.path, start.reason
        finally:
            log.release()

    def bytes_read(self) -> tuple[int, int]:
        """How many bytes the log has, and how many of them were read record by record."""
        try:
            begin, end = self.log.begins_at, self.log.end_phy_offset
            return end - begin, end - max(begin, self.read_from)
        except (StoreError, OSError):  # a diagnosis reports it
            return 0, 0

    def log_end(self) -> int:
        """CommitLog offset behind the last record; of a store in use, the current one."""
        if self.holder is None:
            return self.log.end_phy_offset
        return log_end(list_log_files(self.paths))

    @cached_property
    def log_min(self) -> int:
        """CommitLog offset of the first byte."""
        return self.files[0].file_from_offset if self.files else 0

    @cached_property
    def has_messages(self) -> bool:
        """True if the log has any record."""
        return any(facts.first is not None for facts in self.log.files)

    @property
    def queues(self) -> list[QueueFiles]:
        """The first of the queues."""
        return self._queues[0]

    @property
    def all_queues_listed(self) -> bool:
        """True if all directories of queues are readable; the check of names reports the others."""
        return not self._queues[1]

    @cached_property
    def _queues(self) -> tuple[list[QueueFiles], list[str]]:
        unlisted: list[str] = []
        queues = each_queue(self.paths, unreadable=lambda path, error: unlisted.append(path))
        try:
            return list(islice(queues, MOST_QUEUES)), unlisted
        except RocksdbMissingError as error:
            return [], [str(error)]

    @cached_property
    def database(self) -> Path | None:
        """Where the queues are in RocksDB; None where they are files."""
        return rocksdb_place(self.paths)

    @cached_property
    def database_error(self) -> RocksdbError | RocksdbMissingError | None:
        """Why the queues in RocksDB cannot be read."""
        try:
            next(queue_names(self.paths), None)
        except (RocksdbError, RocksdbMissingError) as error:
            return error
        return None

    @cached_property
    def checkpoint_findings(self) -> tuple[StoreCheckpoint | None, list[Finding]]:
        """The checkpoint, and what fsck finds about the file."""
        findings = Findings(MOST_EVIDENCE)
        return load_checkpoint(self.paths, findings), findings.items

    @cached_property
    def offsets(self) -> ConsumerOffsets:
        """Of consumer groups."""
        return read_consumer_offsets(self.paths)


def evidence_of(finding: Finding) -> Evidence:
    """A finding of fsck as evidence."""
    return Evidence(finding.path, finding.message, None, finding.phy_offset)
