"""Where a store lies: in a local directory, or on another filesystem."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from rmqcore.disk.inside.links import is_folder
from rmqcore.disk.paths import MAX_OFFSET, StorePaths, parse_file_name, parse_queue_id
from rmqcore.disk.store_kinds import (
    ROCKSDB_FOLDER,
    holds_database,
    kept_by_names,
    kept_elsewhere,
    rocksdb_place,
)
from rmqcore.errors import StoreError
from rmqcore.offline.elsewhere import ElsewhereWarning
from rmqcore.offline.info import log_end
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape, list_log_files, mark_dledger
from rmqcore.offline.log.remote_file import RemoteLogFile
from rmqcore.offline.log.store_paths import (
    add_dledger_log,
    check_one_dledger_log,
    remote_dledger_logs,
)
from rmqcore.offline.missing_log import emptied_files, emptied_ranges, missing_log
from rmqcore.offline.queues.queues import QueueFiles, queue_names, queue_of
from rmqcore.offline.remote.filesystem import RemoteFilesystem, split_uri
from rmqcore.offline.remote.filesystem_options import Options
from rmqcore.spark.storage.remote_copy import copy_of
from rmqcore.spark.storage.store_pin import StorePin

QUEUE_PARTS = ("consumequeue", ROCKSDB_FOLDER)
"""The places of queues: files, or a database."""


@dataclass(frozen=True)
class StoreLocation:
    """The place of one store; small, and sent to tasks by pickle.

    Attributes
    ----------
    broker : str
        Name of the store: given as ``name=path``, else made from its path by `find_stores`.
    root : str
        Absolute path, or URI.
    storage : tuple of (str, str)
        Options for the filesystem; not in the repr, since some are secrets.
    log : str
        The CommitLog's directory, under `root`.
    follow_links : bool
        ``commitlog``, ``consumequeue`` and ``index`` in a local root may be links.
    pin : StorePin, optional
        Where the log began and ended when a read was planned: bytes behind that end are not read.
    is_named : bool
        The user gave the name.
    former_name : str
        The name by an older rule, which a checkpoint of a stream may have for the store.
    """

    broker: str
    root: str
    storage: Options = field(default=(), repr=False)
    log: str = "commitlog"
    follow_links: bool = False
    pin: StorePin | None = field(default=None, repr=False)
    is_named: bool = field(default=False, compare=False, repr=False)
    former_name: str = field(default="", compare=False, repr=False)

    @property
    def is_local(self) -> bool:
        """True if the files can be opened as they are."""
        return "://" not in self.root

    @property
    def paths(self) -> StorePaths:
        """Return the paths of a store on a local disk.

        Raises
        ------
        StoreError
            The store lies elsewhere; see `local_copy`.
        """
        if not self.is_local:
            raise StoreError(f"{self.root} is not on a local disk")
        # A log that the user named may be a link, as the root may.
        log = None if self.log == "commitlog" else os.path.join(self.root, self.log)
        paths = StorePaths(self.root, commitlog=log, follow_links=self.follow_links)
        if log is None:
            add_dledger_log(paths)
        return paths

    def log_files(self) -> list[LogFile]:
        """Return the CommitLog files, sorted by offset; with a pin those of that moment."""
        listed = list_log_files(self.paths) if self.is_local else self._remote_log_files()
        return listed if self.pin is None else self.pin.files(listed)

    def _remote_log_files(self) -> list[LogFile]:
        filesystem, root = self._remote()
        listed = list_remote_log_files(filesystem, f"{root}/{self.log}")
        if self.log != "commitlog":
            return mark_dledger(listed)
        logs = remote_dledger_logs(filesystem, root, self.names())
        check_one_dledger_log(self.root, logs)
        for log in logs:
            listed += mark_dledger(list_remote_log_files(filesystem, log))
        return sorted(listed, key=lambda file: file.file_from_offset)

    def log_shape(self, files: list[LogFile]) -> LogShape:
        """Return the shape of the log, from the result of `log_files`."""
        return LogShape.of(files) if self.pin is None else self.pin.shape

    def log_end(self) -> int:
        """Return the CommitLog offset behind the last sound record; without a pin this reads the newest file."""
        return log_end(self.log_files()) if self.pin is None else self.pin.log_end

    def missing_log(self, start: int | None, stop: int | None) -> list[DamageRange]:
        """Return what is missing at both ends of the log, between `start` and `stop`, by `rmqcore.offline.missing_log`.

        For a store on another filesystem this reads the names of its log files and the checkpoint.
        """
        with self.local_copy("checkpoint") as paths:
            # All files, also with a pin: files appended since are not missing.
            files = replace(self, pin=None).log_files
            end = None if self.pin is None else self.pin.walked_end
            missing = missing_log(paths, end, start, stop, list_files=files)
        return [*self.emptied_files(start, stop), *missing]

    def emptied_files(self, start: int | None = None, stop: int | None = None) -> list[DamageRange]:
        """Return the empty files before the first file of the log, by `rmqcore.offline.missing_log.emptied_files`."""
        if self.is_local:
            return emptied_files(self.paths, start, stop)
        files = replace(self, pin=None).log_files()
        return emptied_ranges(files, self._emptied_remote_files(), start, stop)

    def _emptied_remote_files(self) -> Iterator[tuple[int, str]]:
        filesystem, root = self._remote()
        with suppress(FileNotFoundError):
            for entry in filesystem.entries(f"{root}/{self.log}"):
                place = parse_file_name(entry.name)
                if place is not None and not entry.is_dir and entry.size == 0:
                    yield place, entry.name

    def warn_of_elsewhere(self, topics: Iterable[str] | None) -> None:
        """Warn of requested topics that may have messages in places that rmqcore does not read, before the query runs."""
        asked = topics or ()
        local = kept_elsewhere(self.paths, asked) if self.is_local else None
        found = kept_by_names(self.names, asked) if local is None else local
        for topic, where in found.items():
            warnings.warn(
                f"store {self.broker}: topic {topic!r}: {where}", ElsewhereWarning, stacklevel=3
            )

    def names(self, part: str = "") -> dict[str, bool]:
        """Return the names in a directory under the root (``consumequeue/TopicA``), and whether each is a directory.

        An empty dict if the directory does not exist.

        Raises
        ------
        LinkError
            On a local disk one of them is a link.
        """
        try:
            if self.is_local:
                with os.scandir(os.path.join(self.root, part)) as found:
                    return dict(sorted((entry.name, is_folder(entry)) for entry in found))
            filesystem, root = self._remote()
            listed = filesystem.entries(f"{root}/{part}".rstrip("/"))
            return {entry.name: entry.is_dir for entry in listed}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    @contextmanager
    def local_copy(self, *parts: str) -> Iterator[StorePaths]:
        """Yield local paths under which files and directories of the store lie.

        For a store on a local disk these are its own paths. Parts of other stores are copied into a temporary
        directory, which is removed at the end and holds only the parts. Not meant for the CommitLog: `log_files` reads
        that by ranges.

        Parameters
        ----------
        *parts : str
            Paths under the root: ``consumequeue/TopicA/0``, ``index``, ``checkpoint``. A part that does not exist is left out.
        """
        if self.is_local:
            yield self.paths
            return
        filesystem, root = self._remote()
        with copy_of(filesystem, root, parts) as copied:
            yield StorePaths(copied)

    @contextmanager
    def local_queues(self, *places: tuple[str, int]) -> Iterator[Iterator[QueueFiles]]:
        """Yield some queues, each valid until the next one is requested; an unknown queue has no files.

        From other filesystems the files of each queue are copied as by `local_copy`, and a database of queues as a
        whole.
        """
        if self.is_local or self.has_database():
            with self.local_copy(*QUEUE_PARTS) as paths:
                yield (queue_of(paths, *place) for place in places)
        else:
            yield self._copied_queues(places)

    def _copied_queues(self, places: tuple[tuple[str, int], ...]) -> Iterator[QueueFiles]:
        for topic, queue_id in places:
            with self.local_copy(f"consumequeue/{topic}/{queue_id}") as paths:
                yield queue_of(paths, topic, queue_id)

    def has_database(self) -> bool:
        """Return True if the queues are in RocksDB (`rmqcore.disk.store_kinds`)."""
        if self.is_local:
            return rocksdb_place(self.paths) is not None
        names = self.names("consumequeue")
        return holds_database(names) or (
            not any(names.values()) and holds_database(self.names(ROCKSDB_FOLDER))
        )

    def queue_names(
        self, takes_topic: Callable[[str], bool] = lambda topic: True
    ) -> Iterator[tuple[str, int]]:
        """Yield topic and queue id of every queue of topics that `takes_topic` accepts."""
        if self.is_local or self.has_database():
            with self.local_copy(*QUEUE_PARTS) as paths:
                yield from (place for place in queue_names(paths) if takes_topic(place[0]))
            return
        for topic, is_topic in self.names("consumequeue").items():
            if is_topic and takes_topic(topic):
                for name, is_queue in self.names(f"consumequeue/{topic}").items():
                    if is_queue and (queue_id := parse_queue_id(name)) is not None:
                        yield topic, queue_id

    def topics(self) -> list[str]:
        """Return the names of topics with queues, sorted."""
        if self.has_database():
            return sorted({topic for topic, _ in self.queue_names()})
        parts = ("consumequeue", "batchconsumequeue")
        return sorted(
            {name for part in parts for name, is_dir in self.names(part).items() if is_dir}
        )

    def _remote(self) -> tuple[RemoteFilesystem, str]:
        return split_uri(self.root, self.storage)


def list_remote_log_files(filesystem: RemoteFilesystem, directory: str) -> list[LogFile]:
    """Return the result of `list_log_files` for a directory on another filesystem."""
    try:
        entries = filesystem.entries(directory)
    except FileNotFoundError:
        return []
    found: list[LogFile] = []
    for entry in entries:
        file_from_offset = parse_file_name(entry.name)
        if file_from_offset is None or entry.is_dir:
            continue
        if 0 < entry.size <= MAX_OFFSET - file_from_offset:
            path = PurePosixPath(directory, entry.name)
            found.append(RemoteLogFile(path, file_from_offset, entry.size, filesystem=filesystem))
    return found
