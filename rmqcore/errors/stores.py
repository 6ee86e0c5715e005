"""Errors of a store: of opening it, of what it holds, and of puts."""

from __future__ import annotations

import errno

from rmqcore.errors.exit_codes import DAMAGED, FAILED


class StoreError(Exception):
    """Something is wrong with a store. The base of all errors of this package but those of bad arguments."""

    code = "STORE"
    hint = ""
    exit_code = FAILED


def is_of_the_system(error: OSError) -> bool:
    """Whether an OSError comes from a system call, which gives its number; the TimeoutError of a signal handler has none."""
    return error.errno is not None


def is_unreadable(error: OSError) -> bool:
    """Whether an OSError is about one file or directory, which a disk or its rights keep back: others may be read."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)


def is_no_room(error: OSError) -> bool:
    """Whether a disk, or a user's part of it, had no room for a write, which may be tried again; a sync may not."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, SyncFailedError)


def is_no_descriptor(error: OSError) -> bool:
    """Whether a process, or its system, had no file descriptor left: nothing was opened, made or written."""
    return error.errno in (errno.EMFILE, errno.ENFILE) and not isinstance(error, SyncFailedError)


# ---- opening ----------------------------------------------------------------------------------------


class NotAStoreError(StoreError):
    """The directory holds nothing that a RocketMQ store consists of."""

    code = "NOT_A_STORE"
    hint = "give the store's root: the directory that holds commitlog/, consumequeue/ and index/"


class StoreFormatError(StoreError):
    """Files are there but do not fit together (names, sizes), so nothing can be read from them."""

    code = "STORE_FORMAT"
    hint = "run `rmqcore fsck` on the directory; it lists each file and what is wrong with it"
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
        Where the files lie that show it, relative to the root.
    sentence : str
        What the kind is.
    hint : str
        What to do.
    """

    code = "STORE_KIND"
    hint = "read it: every reading command works without a change of the store"
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
    """A name in a store or an output folder is a link, which nobody asked to follow. ``filename`` is its path."""

    code = "LINK"
    hint = (
        "remove the link, or put in its place what it leads to; a commitlog, consumequeue or index that is yours and lies on "
        f"another disk: {HOW_TO_FOLLOW}"
    )

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class LogFileTwiceError(StoreFormatError):
    """Two directories of the CommitLog have a file of the same name. The message says which one to move out."""

    code = "LOG_FILE_TWICE"
    hint = (
        "move that file into a directory outside of the store, and keep it until the store is checked; --commitlog DIR reads one "
        "directory alone"
    )


class LostPagesError(StoreFormatError, OSError):
    """An open file has lost pages: another program cut it, or the disk does not give them. ``filename`` is its path."""

    code = "LOST_PAGES"
    hint = "close the store and put the file back from a copy; `rmqcore cat` and `rmqcore fsck` read what is left of it"

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class RocksdbError(StoreFormatError, OSError):
    """A RocksDB database in a store lacks a file, or RocksDB cannot read what a file holds. ``filename`` is its path."""

    code = "ROCKSDB"
    hint = (
        "the log is not concerned: `rmqcore rebuild STORE --out DIR` makes file queues of it; without a database a broker makes "
        "a new one"
    )

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class RocksdbMissingError(StoreError):
    """The queues of a store lie in RocksDB, and the package that reads RocksDB is not installed."""

    code = "ROCKSDB_MISSING"
    hint = "pip install 'rmqcore[rocksdb]'"


class CommitLogMissingError(StoreError):
    """Queues know messages whose CommitLog files are missing: all of them, or whole files at the end after a clean exit."""

    code = "COMMITLOG_MISSING"
    hint = (
        "is a disk of the CommitLog not mounted, or does the log lie elsewhere (store_path_commit_log, --commitlog)? To go on "
        "without what is missing, as Java does unasked, set recover_without_commit_log: queues lose those entries"
    )
    exit_code = DAMAGED


# ---- reading ----------------------------------------------------------------------------------------


class CorruptionError(StoreError):
    """Bytes that do not follow the format, at a known place.

    Parameters
    ----------
    path : str
        The file, or a name for the buffer.
    phy_offset : int
        CommitLog offset in bytes, or the position in the file or buffer where there is no such offset.
    field : str
        The on-disk field that is wrong.
    expected, found : object
        What the field should hold, and what it holds.
    """

    code = "CORRUPT"
    hint = "run `rmqcore fsck` for the whole extent of the damage"
    exit_code = DAMAGED

    def __init__(
        self, path: str, phy_offset: int, field: str, expected: object, found: object
    ) -> None:
        super().__init__(path, phy_offset, field, expected, found)
        self.path = path
        self.phy_offset = phy_offset
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.path}@{self.phy_offset}: {self.field} is {self.found}, expected {self.expected}"
        )


class CorruptMessageError(CorruptionError):
    """A CommitLog record that fails its check."""

    code = "CORRUPT_MESSAGE"


class CorruptConsumeQueueError(CorruptionError):
    """A ConsumeQueue entry or file that fails its check."""

    code = "CORRUPT_CONSUME_QUEUE"


class CorruptIndexError(CorruptionError):
    """An IndexFile that fails its check."""

    code = "CORRUPT_INDEX"


class SplitError(StoreError):
    """Two tasks of one job do not agree on where the records of the earlier task end and those of the later one begin.

    Parameters
    ----------
    path : str
        The CommitLog file.
    boundary : int
        CommitLog offset at which the file was cut.
    found : int
        CommitLog offset at which the later task begins, by the bytes before the boundary.
    expected : str
        CommitLog offset at which the earlier task ends, which is the right one.
    """

    code = "SPLIT"
    hint = (
        "records longer than maxRecordSize, or damage and forged records side by side: raise maxRecordSize, "
        "or read with splitMode=walk"
    )
    exit_code = DAMAGED

    def __init__(self, path: str, boundary: int, found: int, expected: str) -> None:
        super().__init__(path, boundary, found, expected)
        self.path = path
        self.boundary = boundary
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return (
            f"{self.path}: the part from {self.boundary} on begins at {self.found}, expected {self.expected}: "
            f"{self.hint}"
        )


class DataLossError(StoreError):
    """A part of a log that was to be read is not there any more.

    Parameters
    ----------
    broker : str
        Name of the store.
    wanted : int
        CommitLog offset that was to be read, or an offset of `queue`.
    available : int or None
        The first offset at or behind `wanted` that is there, or the end of a log that ends before; None when nothing is there.
    reason : str
        What happened to the part that is missing.
    queue : str
        ``TopicA/0`` when the offsets are queue offsets.
    """

    code = "DATA_LOSS"
    hint = (
        "files are deleted faster than they are read, or the store was replaced; failOnDataLoss=false goes on with "
        "what there is"
    )

    def __init__(
        self, broker: str, wanted: int, available: int | None, reason: str, queue: str = ""
    ) -> None:
        super().__init__(broker, wanted, available, reason, queue)
        self.broker = broker
        self.wanted = wanted
        self.available = available
        self.reason = reason
        self.queue = queue

    def __str__(self) -> str:
        there = "nothing" if self.available is None else f"offset {self.available}"
        what = f"queue {self.queue}, queue offset" if self.queue else "CommitLog offset"
        return (
            f"store {self.broker}: {what} {self.wanted} was wanted, available is {there} "
            f"({self.reason}): {self.hint}"
        )


class DamagedStreamError(CorruptionError):
    """A stream has come to damage in a log's newest file, and sound records lie behind it.

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
        "onDamage=skip goes on behind the damage as a batch read does, onDamage=wait waits before it; table=corrupt and "
        "`rmqcore fsck` show all of it"
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
            f"store {self.broker}: {super().__str__()}; "
            f"the log goes on behind the damage, at CommitLog offset {self.next_phy_offset}: {self.hint}"
        )


class CompressionError(StoreError):
    """A compressed body that cannot be turned into plain bytes."""

    code = "COMPRESSION"
    exit_code = DAMAGED


class CompressionLibraryError(CompressionError):
    """A body is compressed by a library that is not installed here; nothing is known to be wrong with it."""

    code = "COMPRESSION_LIBRARY"
    hint = "the extra `compress` brings lz4 and zstandard: pip install 'rmqcore[compress]', where Spark reads in every worker"
    exit_code = FAILED


class RemoteStorageError(StoreError):
    """A server or cluster that holds a store's files did not give what was asked for: unreachable, refused, or no such bucket.

    A file that is not there is a `FileNotFoundError` instead.
    """

    code = "REMOTE_STORAGE"
    hint = (
        "look at the address, the credentials and the region: in Spark the options storage.*, else storage_options= or "
        "--storage; HDFS needs JAVA_HOME and CLASSPATH (`hadoop classpath --glob`), in Spark in every worker"
    )


class RemoteChangedError(RemoteStorageError):
    """A file on a server was deleted, cut or replaced after it was listed, so that what was read is of two stores."""

    code = "REMOTE_CHANGED"
    hint = "read it again when nobody writes there any more; to read a store that is in use take a copy of it: `rmqcore backup`"


# ---- writing ----------------------------------------------------------------------------------------


class StoreLockedError(StoreError):
    """Another process, or another open store of this one, writes into the directory."""

    code = "STORE_LOCKED"
    hint = "one process writes a store; rmqcore.read() and the reading commands need no lock"


class StoreClosedError(StoreError):
    """The store was closed, or it belongs to the process that this one was forked from."""

    code = "STORE_CLOSED"
    hint = "open the directory again"


class StoreFailedError(StoreError):
    """A write, a sync or an allocation failed: nothing is written any more until the store is opened again."""

    code = "STORE_FAILED"
    hint = "look at the disk, then open the store again: recovery decides what is on it"


class ShortageError(StoreError):
    """A step of a store lacked room or descriptors: the base of the next two. Nothing is lost; the store repeats the step."""

    code = "SHORTAGE"
    hint = "the error names what was missing; puts go on by themselves once it is there"


class DiskFullError(ShortageError):
    """A write found no room on its disk. Nothing is lost: the same step goes on where there is room again."""

    code = "DISK_FULL"
    hint = "free room on the disk that the error names; puts go on by themselves after the next round of cleaning"


class TooManyFilesError(ShortageError):
    """A step of a store got no file descriptor. Nothing is lost: the store repeats the step once descriptors are free."""

    code = "TOO_MANY_FILES"
    hint = "close files and connections, or allow more of them (ulimit -n); puts go on by themselves a second later"


class SyncFailedError(StoreError, OSError):
    """A sync failed: how much is on disk is not known, and no later sync can tell. ``filename`` is its path."""

    code = "SYNC_FAILED"
    hint = "look at the disk, then do it again: what was written last may not be there"

    def __str__(self) -> str:
        return f"{self.filename}: sync: {self.strerror}"


class PutFailedError(StoreError):
    """A put did not end with PUT_OK; raised by `raise_for_status`.

    Parameters
    ----------
    status : str
        Name of the PutMessageStatus.
    stored : bool
        Whether the message is in the log all the same (FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT).
    reason : str, optional
        Which limit it is, what was found, and the setting.
    """

    code = "PUT_FAILED"

    def __init__(self, status: str, stored: bool, reason: str | None = None) -> None:
        super().__init__(status, stored, reason)
        self.status = status
        self.stored = stored
        self.reason = reason

    def __str__(self) -> str:
        stored = "stored all the same" if self.stored else "nothing was stored"
        why = "" if self.reason is None else f": {self.reason}"
        return f"put ended with {self.status}, {stored}{why}"
