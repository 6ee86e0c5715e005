"""PutResult: what a put answers."""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from rmqcore._native.kernels cimport *
from rmqcore._native.format.sealed cimport seal

import numpy as np

from rmqcore.errors import PutFailedError
from rmqcore.vocabulary.status import PutMessageStatus, meaning

# The status of each code RMQ_PUT_* of append.h.
STATUSES = (
    PutMessageStatus.PUT_OK,
    PutMessageStatus.UNKNOWN_ERROR,
    PutMessageStatus.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
    PutMessageStatus.UNKNOWN_ERROR,
    PutMessageStatus.CREATE_MAPPED_FILE_FAILED,
    PutMessageStatus.SERVICE_NOT_AVAILABLE,
    PutMessageStatus.MESSAGE_ILLEGAL,
)
cdef object PUT_OK = PutMessageStatus.PUT_OK


@cython.final
@cython.freelist(64)
cdef class PutResult:
    """Result of a put.

    Attributes
    ----------
    status : PutMessageStatus
    phy_offset : int
        CommitLog offset of the (first) record; -1 when nothing was stored.
    msg_size : int
        Bytes of the record, or of all records of a batch.
    queue_offset : int
        Index in (topic, queue_id) of the (first) message; -1 when nothing was stored, 0 for prepared and rollback types.
    count : int
        Messages stored.
    store_timestamp_ms : int
        Milliseconds since the epoch.
    """

    @property
    def reason(self):
        """Why the status is not PUT_OK, in words: the limit, what was found, the setting. None when it is PUT_OK."""
        if self.status is PUT_OK:
            return None
        if self.count == 0 and self.rest is not None:
            return self.rest[0]
        return meaning(self.status)

    @property
    def msg_id(self):
        """The offset message id, upper-case hex; those of a batch joined by commas. None when nothing was stored."""
        if self.count == 0:
            return None
        offsets = (self.phy_offset,) if self.rest is None else self.rest
        return ",".join([self._id(offset) for offset in offsets])

    cdef str _id(self, int64_t phy_offset):
        cdef char text[RMQ_MSG_ID_V6_LEN]
        cdef size_t n = rmq_msg_id_text(self.store_host, self.store_host_size == RMQ_HOST_V6_SIZE, phy_offset, text)
        return text[:n].decode("ascii")

    @property
    def stored(self):
        """True if the message is in the log, confirmed on disk or not (Java's isOk)."""
        return self.count > 0

    def with_status(self, status):
        """A copy with another status: whether the message reached the disk is known only after the append."""
        cdef PutResult other = PutResult.__new__(PutResult)
        other.status = status
        other.phy_offset = self.phy_offset
        other.msg_size = self.msg_size
        other.queue_offset = self.queue_offset
        other.store_timestamp_ms = self.store_timestamp_ms
        other.count = self.count
        other.rest = self.rest
        other.store_host_size = self.store_host_size
        memcpy(other.store_host, self.store_host, RMQ_HOST_V6_SIZE)
        return other

    def raise_for_status(self):
        """Raise PutFailedError unless the status is PUT_OK; it says `reason`."""
        if self.status is not PUT_OK:
            raise PutFailedError(self.status.name, self.count > 0, self.reason)

    def _repr_html_(self):
        from rmqcore.shown.notebook import put_html
        return put_html(self)

    def __repr__(self):
        if self.count == 0:
            return f"PutResult(status={self.status.name}, reason={self.reason!r})"
        return (
            f"PutResult(status={self.status.name}, phy_offset={self.phy_offset}, msg_size={self.msg_size}, "
            f"queue_offset={self.queue_offset}, count={self.count}, store_timestamp_ms={self.store_timestamp_ms})"
        )


cdef PutResult stored_result(const rmq_put *put, int64_t msg_size, Py_ssize_t count, tuple offsets):
    cdef PutResult result = PutResult.__new__(PutResult)
    result.status = PUT_OK
    result.phy_offset = put.msg.phy_offset
    result.queue_offset = put.msg.queue_offset
    result.store_timestamp_ms = put.msg.store_timestamp
    result.msg_size = msg_size
    result.count = count
    result.rest = offsets
    result.store_host_size = RMQ_HOST_V6_SIZE if put.msg.store_host_v6 else RMQ_HOST_V4_SIZE
    memcpy(result.store_host, put.msg.store_host, RMQ_HOST_V6_SIZE)
    return result


cpdef PutResult refused_result(status, str reason=None):
    """A PutResult of a message that was not stored; without a `reason` it says what the status means."""
    cdef PutResult result = PutResult.__new__(PutResult)
    result.status = status
    result.phy_offset = result.queue_offset = -1
    result.msg_size = result.store_timestamp_ms = 0
    result.count = 0
    result.store_host_size = 0
    result.rest = None if reason is None else (reason,)
    return result


cdef str ipv6_fields(const rmq_put *put):
    if put.msg.born_host_v6 and put.msg.store_host_v6:
        return "born_host and store_host are IPv6 addresses"
    return f"{'born_host' if put.msg.born_host_v6 else 'store_host'} is an IPv6 address"


cdef str put_reason(const rmq_log *log, const rmq_put *put):
    cdef int64_t found = 0, most = 0
    cdef int limit
    if put.status == RMQ_PUT_BATCH_TOPIC:
        topic = (<bytes> put.msg.topic[:put.msg.topic_len]).decode("utf-8", "replace")
        return (
            f"topic {topic!r} has batch queues (batchconsumequeue/, queue.type=BatchCQ) or is compacted (compaction/, "
            "cleanup.policy=COMPACTION); rmqcore does not write to it"
        )
    if put.status != RMQ_PUT_MESSAGE_ILLEGAL and put.status != RMQ_PUT_PROPERTIES_SIZE_EXCEEDED:
        return None
    limit = rmq_put_limit(log, put, &found, &most)
    if limit == RMQ_LIMIT_TOPIC_LENGTH:
        return f"topic of {found:,} bytes, a topic has 1 to {most:,}"
    if limit == RMQ_LIMIT_TOPIC_NAME:
        topic = (<bytes> put.msg.topic[:put.msg.topic_len]).decode("utf-8", "replace")
        return f"topic {topic!r} cannot name a directory: expected no '/', no NUL, and neither '.' nor '..'"
    if limit == RMQ_LIMIT_QUEUE_ID:
        return f"queue_id is {found}, expected 0 to {most}"
    if limit == RMQ_LIMIT_INNER_BATCH:
        return "sys_flag has the bit of a batch in one record (INNER_BATCH_FLAG), which only batch queues take"
    if limit == RMQ_LIMIT_PROPERTIES:
        return f"properties of {found:,} bytes, a record has room for {most:,}"
    if limit == RMQ_LIMIT_BODY:
        return f"body of {found:,} bytes, maxMessageSize is {most:,} (max_message_size)"
    if limit == RMQ_LIMIT_RECORD:
        return (
            f"record of {found:,} bytes, maxMessageSize is {rmq_log_max_message_size(log):,} (max_message_size), "
            f"which allows records of {most:,}"
        )
    if limit == RMQ_LIMIT_FILE:
        return (
            f"record of {found:,} bytes, the largest that fits into a CommitLog file has {most:,}: "
            f"mappedFileSizeCommitLog is {most + RMQ_BLANK_MIN_SIZE:,} (mapped_file_size_commit_log)"
        )
    if limit == RMQ_LIMIT_V2:
        return (
            f"topic of {found:,} bytes, the version of RocketMQ that for_version names reads topics of at most {most:,}: "
            "it would cut its log at this record"
        )
    if limit == RMQ_LIMIT_IPV6:
        return (
            f"{ipv6_fields(put)}, the version of RocketMQ that for_version names reads IPv4 hosts only: "
            "it would cut its log at this record"
        )
    return "property INNER_NUM is that of a batch in one record, which only batch queues take"


cdef PutResult refused_put(const rmq_log *log, const rmq_put *put):
    return refused_code(put.status, put_reason(log, put))


cdef PutResult refused_code(int32_t code, str reason=None):
    return refused_result(STATUSES[code], reason)


cdef tuple unstored_rows(Py_ssize_t count, int32_t code):
    """Return status codes, phy offsets, queue offsets and store timestamps of `count` messages that are not stored."""
    return (
        np.full(count, code, np.int8), np.full(count, -1, np.int64), np.full(count, -1, np.int64), np.zeros(count, np.int64),
    )


seal(PutResult, "a put")
