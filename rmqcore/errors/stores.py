"""Errors of a store: of opening it, of its contents, and of puts."""

from __future__ import annotations

import errno
from typing import Any, ClassVar, dataclass_transform

from rmqcore.errors.exit_codes import DAMAGED, FAILED


class StoreError(Exception):
    """A store failed or is invalid. The base of all errors of this package except those of bad arguments."""

    code = "STORE"
    hint = ""
    exit_code = FAILED


@dataclass_transform(eq_default=False)
class WithFields(Exception):  # noqa: N818 a base, which no code raises
    """Base of errors whose constructor's arguments are attributes: the names annotated in the class, in their order.

    A value in the class is the default. The arguments are also `args`, by which an error is pickled.
    """

    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.fields = tuple(cls.__annotations__) or cls.fields

    def __init__(self, *values: Any, **named: Any) -> None:
        defaults = {name: getattr(self, name) for name in self.fields if hasattr(self, name)}
        given = defaults | dict(zip(self.fields, values, strict=False)) | named
        if len(values) > len(self.fields) or given.keys() != {*self.fields}:
            raise TypeError(f"{type(self).__name__}: expected {', '.join(self.fields)}")
        vars(self).update(given)
        super().__init__(*(given[name] for name in self.fields))


def is_of_the_system(error: OSError) -> bool:
    """Return True if an OSError has the number of a failed system call; the TimeoutError of a signal handler has none."""
    return error.errno is not None


def is_unreadable(error: OSError) -> bool:
    """Return True if an OSError concerns one file or directory, because of the disk or permissions; others may be readable."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)


def is_no_room(error: OSError) -> bool:
    """Return True if a write failed because the disk or a quota is full, so it can be repeated; a failed sync cannot."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, SyncFailedError)


def is_no_descriptor(error: OSError) -> bool:
    """Return True if the process or the system had no file descriptor left: nothing was opened, created or written."""
    return error.errno in (errno.EMFILE, errno.ENFILE) and not isinstance(error, SyncFailedError)


# ---- opening ----------------------------------------------------------------------------------------


class NotAStoreError(StoreError):
    """The directory has none of the parts of a RocketMQ store."""

    code = "NOT_A_STORE"
    hint = "give the store's root: the directory that holds commitlog/, consumequeue/ and index/"


class StoreFormatError(StoreError):
    """The store's files do not fit together (names, sizes), so it cannot be read."""

    code = "STORE_FORMAT"
    hint = "run `rmqcore fsck` on the directory; it lists the problems of each file"
    exit_code = DAMAGED


class StoreKindError(StoreFormatError):
    """The store is of a kind that rmqcore reads and does not write; nothing was changed.

    Parameters
    ----------
    location : str
        The store's root.
    kind : str
        Name of the kind, such as ``rocksdb_queues`` (docs/store-kinds.md).
    place : str
        Place of the files that show the kind, relative to the root.
    sentence : str
        Description of the kind.
    hint : str
        Next step for the user.
    """

    code = "STORE_KIND"
    hint = "use the commands that only read: they work on this kind of store"
    exit_code = FAILED

    def __init__(self, location: str, kind: str, place: str, sentence: str, hint: str) -> None:
        super().__init__(location, kind, place, sentence, hint)
        self.location = location
        self.kind = kind
        self.place = place
        self.sentence = sentence
        self.hint = hint

    def __str__(self) -> str:
        return (
            f"{self.location}: {self.sentence}: {self.place}; rmqcore does not write such a store"
        )


HOW_TO_FOLLOW = "follow_links=True, --follow-links, in Spark the option followLinks"


class LinkError(StoreFormatError, OSError):
    """A path in a store or an output directory is a link, and following links was not allowed. ``filename`` is its path."""

    code = "LINK"
    hint = (
        "replace the link by the file or directory that it points to; to use a commitlog, "
        f"consumequeue or index on another disk: {HOW_TO_FOLLOW}"
    )

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class LogFileTwiceError(StoreFormatError):
    """Two directories of the CommitLog have a file of the same name. The message names the one to move away."""

    code = "LOG_FILE_TWICE"
    hint = (
        "move that file to a directory outside the store, and keep it until the store is checked; "
        "--commitlog DIR reads a single directory"
    )


class LostPagesError(StoreFormatError, OSError):
    """Pages of an open file cannot be read: another program cut the file, or the disk fails. ``filename`` is its path."""

    code = "LOST_PAGES"
    hint = (
        "close the store and restore the file from a copy; `rmqcore cat` and `rmqcore fsck` read "
        "the remaining messages"
    )

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class RocksdbError(StoreFormatError, OSError):
    """A RocksDB database in a store lacks a file, or RocksDB cannot read one of its files. ``filename`` is its path."""

    code = "ROCKSDB"
    hint = (
        "the log is not affected: `rmqcore rebuild STORE --out DIR` builds files of queues and index from it; a "
        "broker creates a missing database again"
    )

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class RocksdbMissingError(StoreError):
    """The queues or the index of a store are in RocksDB, and the package that reads RocksDB is not installed."""

    code = "ROCKSDB_MISSING"
    hint = "pip install 'rmqcore[rocksdb]'"


class CommitLogMissingError(StoreError):
    """Queues have messages whose CommitLog files are missing: all files, or whole files at the end after a clean exit."""

    code = "COMMITLOG_MISSING"
    hint = (
        "mount the CommitLog's disk, or name its directory (store_path_commit_log, --commitlog). "
        "To open the store without the missing files, as Java always does, set "
        "recover_without_commit_log: queues lose those entries"
    )
    exit_code = DAMAGED


# ---- reading ----------------------------------------------------------------------------------------


class CorruptionError(WithFields, StoreError):
    """Bytes at a known position do not follow the format.

    Parameters
    ----------
    path : str
        The file, or a name for the buffer.
    phy_offset : int
        CommitLog offset in bytes, or the position in the file or buffer if the bytes have no CommitLog offset.
    field : str
        The on-disk field that is wrong.
    expected, found : object
        What the field should hold, and what it holds.
    """

    path: str
    phy_offset: int
    field: str
    expected: object
    found: object

    code = "CORRUPT"
    hint = "run `rmqcore fsck` to list all damage"
    exit_code = DAMAGED

    def __str__(self) -> str:
        return (
            f"{self.path}@{self.phy_offset}: {self.field} is {self.found}, expected {self.expected}"
        )


class CorruptMessageError(CorruptionError):
    """A CommitLog record fails its check."""

    code = "CORRUPT_MESSAGE"


class CorruptConsumeQueueError(CorruptionError):
    """A ConsumeQueue entry or file fails its check."""

    code = "CORRUPT_CONSUME_QUEUE"


class CorruptIndexError(CorruptionError):
    """An IndexFile fails its check."""

    code = "CORRUPT_INDEX"


class SplitError(WithFields, StoreError):
    """Two tasks of one Spark job disagree on the offset where the earlier task ends and the later one starts.

    Parameters
    ----------
    path : str
        The CommitLog file.
    boundary : int
        CommitLog offset at which the file was cut.
    found : int
        CommitLog offset at which the later task starts, according to the bytes before the
        boundary.
    expected : str
        CommitLog offset at which the earlier task ends; this one is correct.
    """

    path: str
    boundary: int
    found: int
    expected: str

    code = "SPLIT"
    hint = (
        "a record is longer than maxRecordSize, or damage lies next to bytes that look like "
        "records: raise maxRecordSize, or read with splitMode=walk"
    )
    exit_code = DAMAGED

    def __str__(self) -> str:
        return (
            f"{self.path}: the split at {self.boundary} starts reading at {self.found}, expected "
            f"{self.expected}: {self.hint}"
        )


class DataLossError(WithFields, StoreError):
    """A part of the log was deleted or replaced before it was read.

    Parameters
    ----------
    broker : str
        Name of the store.
    wanted : int
        CommitLog offset, or offset of `queue`, from which the log was to be read.
    available : int or None
        The first readable offset at or behind `wanted`, or the end of the log if it ends before;
        None if nothing is readable.
    reason : str
        What happened to the missing part.
    queue : str
        ``TopicA/0`` if the offsets are queue offsets, else empty.
    """

    broker: str
    wanted: int
    available: int | None
    reason: str
    queue: str = ""

    code = "DATA_LOSS"
    hint = (
        "files are deleted faster than they are read, or the store was replaced; "
        "failOnDataLoss=false continues with the remaining messages"
    )

    def __str__(self) -> str:
        there = "nothing" if self.available is None else f"offset {self.available}"
        what = f"queue {self.queue}, queue offset" if self.queue else "CommitLog offset"
        return (
            f"store {self.broker}: {what} {self.wanted} cannot be read, the first one available is "
            f"{there} ({self.reason}): {self.hint}"
        )


class DamagedStreamError(CorruptionError):
    """A stream reached damage in a log's newest file, and sound records follow behind it.

    Parameters
    ----------
    broker : str
        Name of the store.
    path, phy_offset, field, expected, found
        As in `CorruptionError`; all records before `phy_offset` are in the stream, or can be.
    next_phy_offset : int
        CommitLog offset of the first sound record, or BLANK, behind the damage.
    """

    code = "DAMAGED_STREAM"
    hint = (
        "onDamage=skip continues behind the damage as a batch read does, onDamage=wait waits in "
        "front of it; table=corrupt and `rmqcore fsck` list all damage"
    )

    def __init__(
        self,
        broker: str,
        path: str,
        phy_offset: int,
        field: str,
        expected: object,
        found: object,
        next_phy_offset: int,
    ) -> None:
        super().__init__(path, phy_offset, field, expected, found)
        self.args = (broker, *self.args, next_phy_offset)  # by which the error is pickled
        self.broker = broker
        self.next_phy_offset = next_phy_offset

    def __str__(self) -> str:
        return (
            f"store {self.broker}: {super().__str__()}; the log continues behind the damage, at "
            f"CommitLog offset {self.next_phy_offset}: {self.hint}"
        )


class CompressionError(StoreError):
    """A compressed body cannot be decompressed."""

    code = "COMPRESSION"
    exit_code = DAMAGED


class CompressionLibraryError(CompressionError):
    """A body needs a compression library that is not installed here; the body was not checked."""

    code = "COMPRESSION_LIBRARY"
    hint = "install lz4 and zstandard: pip install 'rmqcore[compress]', for Spark on every worker"
    exit_code = FAILED


class RemoteStorageError(StoreError):
    """A request to a store's server or cluster failed: it is unreachable, refuses access, or the bucket does not exist.

    A missing file raises `FileNotFoundError` instead.
    """

    code = "REMOTE_STORAGE"
    hint = (
        "check address, credentials and region: in Spark the options storage.*, else "
        "storage_options= or --storage; HDFS needs JAVA_HOME and CLASSPATH (`hadoop classpath "
        "--glob`), for Spark on every worker"
    )


class RemoteChangedError(RemoteStorageError):
    """A file on a server was deleted, cut or replaced after it was listed, so the data read is inconsistent."""

    code = "REMOTE_CHANGED"
    hint = (
        "read again when no process writes to the store; to read a store in use, make a copy "
        "first: `rmqcore backup`"
    )


# ---- writing ----------------------------------------------------------------------------------------


class StoreLockedError(StoreError):
    """The store is already open for writing, in this or another process."""

    code = "STORE_LOCKED"
    hint = (
        "only one process can write to a store; rmqcore.read() and the reading commands need no "
        "lock"
    )


class StoreClosedError(StoreError):
    """The store was closed, or this is a fork of the process that opened it."""

    code = "STORE_CLOSED"
    hint = "open the store again"


class StoreFailedError(StoreError):
    """A write, sync or allocation failed: the store refuses all writes until it is opened again."""

    code = "STORE_FAILED"
    hint = "check the disk, then open the store again: its recovery finds out what is on disk"


class ShortageError(StoreError):
    """The store lacks disk space or file descriptors; base class of the next two. Nothing is lost, and the store tries again."""

    code = "SHORTAGE"
    hint = "provide what the error names; the store then accepts puts again by itself"


class DiskFullError(ShortageError):
    """The disk is full. Nothing is lost: the store tries again until there is space."""

    code = "DISK_FULL"
    hint = (
        "free space on the disk that the error names; the store accepts puts again by itself "
        "after its next cleaning round"
    )


class TooManyFilesError(ShortageError):
    """The store could not get a file descriptor. Nothing is lost: the store tries again until one is free."""

    code = "TOO_MANY_FILES"
    hint = (
        "close files and connections, or raise the limit (ulimit -n); the store accepts puts "
        "again by itself a second later"
    )


class SyncFailedError(StoreError, OSError):
    """A sync failed: it is unknown how much is on disk, and a later sync cannot tell. ``filename`` is the file's path."""

    code = "SYNC_FAILED"
    hint = "check the disk, then repeat the command: the last bytes written may be missing"

    def __str__(self) -> str:
        return f"{self.filename}: sync: {self.strerror}"


class PutFailedError(WithFields, StoreError):
    """A put did not return PUT_OK; raised by `raise_for_status`.

    Parameters
    ----------
    status : str
        Name of the PutMessageStatus.
    stored : bool
        True if the message is in the log nevertheless (FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT).
    reason : str, optional
        The limit, the value found, and the setting.
    """

    status: str
    stored: bool
    reason: str | None = None

    code = "PUT_FAILED"

    def __str__(self) -> str:
        stored = "but the message is stored" if self.stored else "nothing was stored"
        why = "" if self.reason is None else f": {self.reason}"
        return f"put returned {self.status}, {stored}{why}"
