"""The append: messages from Python into the mapped CommitLog, under one C lock.

Two rules, each enough against a deadlock, and both are held: nobody waits for the C lock with the GIL, nobody takes the GIL
with the C lock held by a waiter. A single put keeps the GIL (letting it go costs 45 ns, more than the append) unless the lock is
taken; batches and columns let it go, and so do many messages that are more than a few.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport INT32_MAX, INT32_MIN, int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from .codec cimport DelayLevels, MessageView, new_view
from .kernels cimport *
from .mapped_file cimport MappedFile, MappedFiles
from .message cimport Message

import numpy as np

from rmqcore._native.codec import select_crc32
from rmqcore.errors import PutFailedError
from rmqcore.status import PutMessageStatus

import os

cdef extern from "text.h" nogil:
    void rmq_hex_upper(const uint8_t *bytes, size_t len, char *out) noexcept

cdef extern from "be.h" nogil:
    void rmq_store_i64(uint8_t *p, int64_t value) noexcept

cdef int _crc_code = rmq_crc32_select(os.environ.get("RMQCORE_CRC32", "").encode())
if _crc_code != RMQ_CRC_OK:
    select_crc32(os.environ.get("RMQCORE_CRC32", ""))

cdef enum:
    PROPS_ROOM = 32768  # more than any record may have
    CHUNK = 512  # messages prepared before the lock is taken
    CHUNK_PROPS = 1 << 20
    # Bytes of records that are appended with the GIL, as a single put is: some ten microseconds, less than it costs when another
    # thread takes it.
    BRIEF = 128 * 1024
    AHEAD = 4  # messages between one thing that is asked for ahead and the next

    # What write_properties noticed.
    HAS_DELAY = 2
    HAS_INNER_NUM = 4

cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF

# By the codes of append.h.
STATUSES = (
    PutMessageStatus.PUT_OK,
    PutMessageStatus.UNKNOWN_ERROR,
    PutMessageStatus.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
    PutMessageStatus.UNKNOWN_ERROR,
    PutMessageStatus.CREATE_MAPPED_FILE_FAILED,
)
cdef object PUT_OK = PutMessageStatus.PUT_OK


# ---- results ----------------------------------------------------------------------------------------


@cython.final
@cython.freelist(64)
cdef class PutResult:
    """What became of a put.

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

    def __init__(self):
        raise TypeError("PutResult is made by a put")

    @property
    def msg_id(self):
        """The offset message id, upper-case hex; those of a batch joined by commas. None when nothing was stored."""
        if self.count == 0:
            return None
        offsets = (self.phy_offset,) if self.offsets is None else self.offsets
        return ",".join([self._id(offset) for offset in offsets])

    cdef str _id(self, int64_t phy_offset):
        cdef uint8_t packed[28]
        cdef char text[56]
        memcpy(packed, self.store_host, self.store_host_size)
        rmq_store_i64(packed + self.store_host_size, phy_offset)
        rmq_hex_upper(packed, self.store_host_size + 8, text)
        return text[: 2 * (self.store_host_size + 8)].decode("ascii")

    @property
    def stored(self):
        """Whether the message is in the log, known to be on disk or not (Java's isOk)."""
        return self.count > 0

    def with_status(self, status):
        """The same with another status: what is known about the disk comes after the append."""
        cdef PutResult other = PutResult.__new__(PutResult)
        other.status = status
        other.phy_offset, other.msg_size, other.queue_offset = self.phy_offset, self.msg_size, self.queue_offset
        other.store_timestamp_ms, other.count, other.offsets = self.store_timestamp_ms, self.count, self.offsets
        other.store_host_size = self.store_host_size
        memcpy(other.store_host, self.store_host, 20)
        return other

    def raise_for_status(self):
        """Raise PutFailedError unless the status is PUT_OK."""
        if self.status is not PUT_OK:
            raise PutFailedError(self.status.name, self.count > 0)

    def __repr__(self):
        return (
            f"PutResult(status={self.status.name}, phy_offset={self.phy_offset}, msg_size={self.msg_size}, "
            f"queue_offset={self.queue_offset}, count={self.count}, store_timestamp_ms={self.store_timestamp_ms})"
        )


cdef PutResult new_result(const rmq_put *put, object status, int64_t msg_size, Py_ssize_t count, tuple offsets):
    cdef PutResult result = PutResult.__new__(PutResult)
    result.status = status
    result.phy_offset = put.msg.phy_offset
    result.queue_offset = put.msg.queue_offset
    result.store_timestamp_ms = put.msg.store_timestamp
    result.msg_size = msg_size
    result.count = count
    result.offsets = offsets
    result.store_host_size = RMQ_HOST_V6_SIZE if put.msg.store_host_v6 else RMQ_HOST_V4_SIZE
    memcpy(result.store_host, put.msg.store_host, 20)
    return result


def refused_result(status):
    """A PutResult of a message that was not stored."""
    cdef PutResult result = PutResult.__new__(PutResult)
    result.status = status
    result.phy_offset = result.queue_offset = -1
    result.msg_size = result.store_timestamp_ms = 0
    result.count = 0
    result.store_host_size = 0
    return result


# ---- from a Message to an rmq_put -------------------------------------------------------------------


cdef extern from *:
    """
    /* UTF-8 of a str. Nearly all are ASCII, whose text lies in the object itself; the call costs 5 ns. */
    static inline const char *rmq_utf8_of(PyObject *text, Py_ssize_t *length) {
        if (PyUnicode_Check(text) && PyUnicode_IS_COMPACT_ASCII(text)) {
            *length = PyUnicode_GET_LENGTH(text);
            return (const char *)PyUnicode_1BYTE_DATA(text);
        }
        return PyUnicode_AsUTF8AndSize(text, length);
    }

    /* What a put will read of a message, asked for ahead, one after the other as each says where the next one is: the object,
     * its properties, their texts. Messages that were just made lie all over the heap, and waiting for them costs more than
     * storing them. Borrowed references, so nothing may be looked into that another thread can take away meanwhile. */
    #ifdef Py_GIL_DISABLED
    enum { CAN_LOOK_AHEAD = 0 };
    #else
    enum { CAN_LOOK_AHEAD = 1 };
    #endif
    static inline void rmq_ask_for(PyObject *item) {
        __builtin_prefetch(item);
        __builtin_prefetch((char *)item + 64);
        __builtin_prefetch((char *)item + 128);
    }
    static inline int rmq_is_just(PyObject *item, PyObject *type) { return (PyObject *)Py_TYPE(item) == type; }
    /* How many items of a list are left to be looked at when all behind them are of just this type. From the end on: what was
     * made last is still near, and the first ones are again when the caller goes on with them. */
    static inline Py_ssize_t rmq_not_just(PyObject *list, PyObject *type) {
        Py_ssize_t left = PyList_GET_SIZE(list);
        while (CAN_LOOK_AHEAD && left > 0 && rmq_is_just(PyList_GET_ITEM(list, left - 1), type)) left--;
        return left;
    }
    static inline void rmq_ask_for_text(PyObject *item) { /* or for a dict */
        __builtin_prefetch(item);
        __builtin_prefetch((char *)item + 48);
    }
    static inline void rmq_ask_for_record(const uint8_t *p) {
        __builtin_prefetch(p);
        __builtin_prefetch(p + 64);
        __builtin_prefetch(p + 128);
        __builtin_prefetch(p + 192);
    }
    static inline void rmq_ask_for_keys(PyObject *properties) {
        if (!PyDict_CheckExact(properties)) return;
        char *keys = (char *)((PyDictObject *)properties)->ma_keys;
        __builtin_prefetch(keys);
        __builtin_prefetch(keys + 64);
    }
    """
    const char *rmq_utf8_of(object text, Py_ssize_t *length) except NULL
    bint CAN_LOOK_AHEAD
    bint rmq_is_just(PyObject *item, PyObject *type) noexcept
    Py_ssize_t rmq_not_just(PyObject *items, PyObject *type) noexcept
    void rmq_ask_for(PyObject *item) noexcept
    void rmq_ask_for_text(PyObject *item) noexcept
    void rmq_ask_for_keys(PyObject *properties) noexcept
    PyObject *PyList_GET_ITEM(PyObject *items, Py_ssize_t at) noexcept
    Py_ssize_t PyList_GET_SIZE(PyObject *items) noexcept
    void rmq_ask_for_record(const uint8_t *p) noexcept


cdef int raise_for_separator(dict properties) except -1:
    """Say which property it was, if one was; 0x01 is allowed in a value."""
    for name, value in properties.items():
        if value is not None and ("\x01" in name or "\x02" in name or "\x02" in value):
            raise ValueError(f"property {name!r}={value!r} holds a separator (0x01 or 0x02)")
    return 0


cdef Py_ssize_t write_properties(dict properties, bint drop_crc, uint8_t *out, Py_ssize_t room, int *seen) except -1:
    """Encode as far as there is room, and answer the bytes of all of them."""
    cdef PyObject *key
    cdef PyObject *item
    cdef Py_ssize_t pos = 0, used = 0, name_len, value_len, pairs = 0, left = PyDict_Size(properties)
    cdef const char *name
    cdef const char *value
    cdef int suspect = 0
    while left > 0 and PyDict_Next(properties, &pos, &key, &item):
        left -= 1  # to save the last call
        if <object> item is None:
            continue
        name = rmq_utf8_of(<object> key, &name_len)
        value = rmq_utf8_of(<object> item, &value_len)
        if name_len < 5:
            pass  # TAGS, KEYS, WAIT
        elif name_len == 5 and memcmp(name, b"DELAY", 5) == 0:
            seen[0] |= HAS_DELAY
        elif name_len == 8 and drop_crc and memcmp(name, b"__CRC32#", 8) == 0:
            continue
        elif name_len == 9 and memcmp(name, b"INNER_NUM", 9) == 0:
            seen[0] |= HAS_INNER_NUM
        if used + name_len + value_len + 2 <= room:
            suspect |= rmq_copy_text(out + used, <const uint8_t *> name, name_len)
            out[used + name_len] = 1
            suspect |= rmq_copy_text(out + used + name_len + 1, <const uint8_t *> value, value_len)
            out[used + name_len + value_len + 1] = 2
        used += name_len + value_len + 2
        pairs += 1
    # One of each separator a pair, or somebody's text has one. (What has no room is refused whatever is in it.)
    if suspect and used <= room and rmq_props_separators(out, used) != (pairs << 32 | pairs):
        raise_for_separator(properties)
    return used


cdef Py_ssize_t write_plain(Message m, uint8_t *out, Py_ssize_t room) except -2:
    """The same of TAGS and KEYS alone; -1 where there is anything that write_properties has to look at."""
    cdef Py_ssize_t tags_len = 0, keys_len = 0, used = 0
    cdef const char *tags = NULL
    cdef const char *keys = NULL
    cdef int suspect = 0
    if m.tags_text is not None:
        tags = rmq_utf8_of(m.tags_text, &tags_len)
    if m.keys_text is not None:
        keys = rmq_utf8_of(m.keys_text, &keys_len)
    if tags_len > room or keys_len > room or tags_len + keys_len + 12 > room:
        return -1
    if tags != NULL:
        memcpy(out, b"TAGS\x01", 5)
        suspect |= rmq_copy_text(out + 5, <const uint8_t *> tags, tags_len)
        out[5 + tags_len] = 2
        used = tags_len + 6
    if keys != NULL:
        memcpy(out + used, b"KEYS\x01", 5)
        suspect |= rmq_copy_text(out + used + 5, <const uint8_t *> keys, keys_len)
        out[used + 5 + keys_len] = 2
        used += keys_len + 6
    return -1 if suspect else used


cdef int32_t narrow(int64_t value, str name) except? -1:
    if not INT32_MIN <= value <= INT32_MAX:
        raise OverflowError(f"{name} {value} has no room in 32 bits")
    return <int32_t> value


cdef Py_ssize_t fill(Message m, rmq_put *put, bint drop_crc, uint8_t *props, Py_ssize_t room, int *seen) except -1:
    """All but the body. Pointers into m.topic stay good as long as that str lives. Answers the bytes used of props."""
    cdef Py_ssize_t length
    cdef const char *topic
    if m.topic is None:
        raise TypeError("topic is None, expected a str")
    if not m.plain and m.own_properties is None:
        raise TypeError("properties is None, expected a dict")
    topic = rmq_utf8_of(m.topic, &length)
    put.msg.topic = <const uint8_t *> topic
    put.msg.topic_len = length
    length = write_plain(m, props, room) if m.plain else -1
    if length < 0:
        length = write_properties(m.all_properties(), drop_crc, props, room, seen)
    put.msg.props = props
    put.msg.props_len = length
    put.msg.queue_id = -1 if m.queue_id > INT32_MAX or m.queue_id < 0 else <int32_t> m.queue_id
    put.msg.flag = narrow(m.flag, "flag")
    put.msg.sys_flag = narrow(m.sys_flag, "sys_flag")
    put.msg.reconsume_times = narrow(m.reconsume_times, "reconsume_times")
    put.msg.prepared_transaction_offset = m.prepared_transaction_offset
    put.msg.born_timestamp = m.born_timestamp
    put.born_now = m.born_now
    put.msg.born_host_v6 = m.born_v6
    put.msg.store_host_v6 = m.store_v6
    memcpy(put.msg.born_host, m.born_packed, 20)
    memcpy(put.msg.store_host, m.store_packed, 20)
    return length if length <= room else 0


cdef int check(const rmq_log *log, rmq_put *put, int seen) except -1:
    rmq_put_check(log, put)
    if put.status == RMQ_PUT_WAITING and seen & HAS_INNER_NUM:
        put.status = RMQ_PUT_MESSAGE_ILLEGAL
    return 0


def encoded_size(Message message not None, bint append_prop_crc=False):
    """Bytes of the record that a message makes; 0 when its topic or properties have no room in one."""
    cdef rmq_put put
    cdef uint8_t props[PROPS_ROOM]
    cdef int seen = 0
    cdef object _topic = message.topic  # held: the text that put.msg points into
    fill(message, &put, append_prop_crc, props, PROPS_ROOM, &seen)
    put.msg.body_len = len(message.body) if message.body is not None else 0
    put.msg.append_prop_crc = append_prop_crc
    return max(rmq_record_encoded_size(&put.msg), 0)


# ---- the appender -----------------------------------------------------------------------------------


@cython.final
cdef class _Chunk:
    """Prepared messages and everything their pointers lead to."""

    def __cinit__(self, Py_ssize_t capacity, Py_ssize_t props_room):
        self.capacity = capacity
        self.props_room = props_room
        self.puts = <rmq_put *> PyMem_Malloc(capacity * sizeof(rmq_put))
        self.props = <uint8_t *> PyMem_Malloc(props_room)
        self.held = <PyObject **> PyMem_Malloc(2 * capacity * sizeof(PyObject *))
        self.buffers = <Py_buffer *> PyMem_Malloc(capacity * sizeof(Py_buffer))
        if self.puts == NULL or self.props == NULL or self.held == NULL or self.buffers == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.puts != NULL and self.props != NULL and self.held != NULL and self.buffers != NULL:
            self.clear()
        PyMem_Free(self.puts)
        PyMem_Free(self.props)
        PyMem_Free(self.held)
        PyMem_Free(self.buffers)

    cdef void clear(self) noexcept:
        cdef Py_ssize_t i
        for i in range(self.buffer_count):
            PyBuffer_Release(&self.buffers[i])
        for i in range(2 * self.count):
            Py_DECREF(<object> self.held[i])
        self.count = self.buffer_count = self.props_used = 0
        self.total = 0
        self.seen = 0

    cdef bint has_room(self) noexcept:
        return self.count < self.capacity and self.props_room - self.props_used >= PROPS_ROOM

    cdef int add(self, Appender appender, Message m) except -1:
        """Prepare one more; on an error nothing is added."""
        cdef rmq_put *put = &self.puts[self.count]
        cdef object body = m.body
        cdef Py_buffer *buffer
        cdef int seen = 0
        cdef Py_ssize_t used = fill(m, put, appender.append_prop_crc, self.props + self.props_used, PROPS_ROOM, &seen)
        if type(body) is bytes:
            put.msg.body = <const uint8_t *> PyBytes_AS_STRING(body)
            put.msg.body_len = PyBytes_GET_SIZE(body)
        elif body is not None:
            buffer = &self.buffers[self.buffer_count]
            PyObject_GetBuffer(body, buffer, PyBUF_SIMPLE)
            self.buffer_count += 1
            put.msg.body = <const uint8_t *> buffer.buf
            put.msg.body_len = buffer.len
        else:
            put.msg.body = NULL
            put.msg.body_len = 0
        check(appender.log, put, seen)
        if body is None:
            put.status = RMQ_PUT_MESSAGE_ILLEGAL
        Py_INCREF(m.topic)
        Py_INCREF(body)
        self.held[2 * self.count] = <PyObject *> m.topic
        self.held[2 * self.count + 1] = <PyObject *> body
        self.props_used += used
        self.seen |= seen
        self.total += put.msg_size
        self.count += 1
        return 0

    cdef int add_refused(self) except -1:
        """A message that cannot be encoded keeps its place, with its status."""
        cdef rmq_put *put = &self.puts[self.count]
        put.status = RMQ_PUT_MESSAGE_ILLEGAL
        put.msg_size = 0
        Py_INCREF(None)
        Py_INCREF(None)
        self.held[2 * self.count] = <PyObject *> None
        self.held[2 * self.count + 1] = <PyObject *> None
        self.count += 1
        return 0


@cython.final
cdef class Appender:
    """The writing end of a CommitLog.

    Parameters
    ----------
    file_size, max_message_size : int
        Bytes.
    append_prop_crc : bool
        enabledAppendPropCRC.
    make_room : callable
        ``make_room(msg_size) -> bool``: creates the next file or allocates more of one. False: it cannot, and the messages that
        wait get CREATE_MAPPED_FILE_FAILED.
    clock : callable, optional
        Answers milliseconds; called once a put inside the lock. The system's clock without one.

    Notes
    -----
    Thread safety: all methods may be called at once.

    Source: RocketMQ 5.5.0 CommitLog#asyncPutMessage, CommitLog.DefaultAppendMessageCallback#doAppend.
    """

    def __cinit__(self, *, int64_t file_size, int64_t max_message_size, bint append_prop_crc, make_room, clock=None):
        cdef rmq_log_limits limits
        limits.file_size = file_size
        limits.max_message_size = max_message_size
        limits.append_prop_crc = append_prop_crc
        self.log = rmq_log_new(&limits)
        if self.log == NULL:
            raise MemoryError
        self.append_prop_crc = append_prop_crc
        self.make_room = make_room
        self.clock = clock
        self.alarm = self.append_alarm = self.space_alarm = NEVER

    def __dealloc__(self):
        rmq_log_free(self.log)

    # ---- state

    cdef int lock(self) except -1:
        if not rmq_log_try_lock(self.log):
            with nogil:
                rmq_log_lock(self.log)
        return 0

    @property
    def max_phy_offset(self):
        """End of the last record; all below it is whole."""
        return rmq_log_wrote(self.log)

    cdef int64_t end_offset(self) noexcept:
        return rmq_log_wrote(self.log)

    @property
    def file_from_offset(self):
        """Start of the file that is appended to."""
        return rmq_log_file_from_offset(self.log)

    @property
    def allocated_offset(self):
        """The current file has blocks up to here."""
        return rmq_log_allocated(self.log)

    @property
    def has_next_file(self):
        """Whether a next file waits."""
        return rmq_log_has_next(self.log) != 0

    def state(self):
        """End of the log and store timestamp of its last message, as of one moment."""
        cdef int64_t wrote, timestamp
        self.lock()
        rmq_log_state(self.log, &wrote, &timestamp)
        rmq_log_unlock(self.log)
        return wrote, timestamp

    def set_file(self, MappedFile file not None, int64_t wrote, int64_t allocated):
        """Append to `file` from the log offset `wrote` on; its blocks reach up to `allocated`."""
        if not file.writable or not file.file_from_offset <= wrote <= allocated <= file.file_from_offset + file.file_size:
            raise ValueError(f"{file!r}: wrote {wrote}, allocated {allocated}")
        file.map()
        self.lock()
        rmq_log_set_file(self.log, file.base, file.file_from_offset, wrote, allocated)
        rmq_log_unlock(self.log)
        self.file = file

    def set_next_file(self, MappedFile file not None, int64_t allocated):
        """The file to roll to; its blocks reach up to the log offset `allocated`."""
        if not file.writable or not file.file_from_offset <= allocated <= file.file_from_offset + file.file_size:
            raise ValueError(f"{file!r}: allocated {allocated}")
        file.map()
        self.lock()
        if self.next_file is not None:
            # An append has rolled to it, or may at any moment: both stay mapped.
            self.file = self.next_file if not rmq_log_has_next(self.log) else self.file
        self.next_file = file
        rmq_log_set_next(self.log, file.base, file.file_from_offset, allocated)
        rmq_log_unlock(self.log)

    def set_allocated(self, int64_t allocated):
        """The current or the next file has blocks up to the log offset `allocated`."""
        self.lock()
        rmq_log_set_allocated(self.log, allocated)
        rmq_log_unlock(self.log)

    def stop(self, refuse):
        """Append nothing any more: when this returns the log does not grow, and every put calls `refuse()`, which raises."""
        self.refused = refuse
        self.lock()
        rmq_log_stop(self.log)
        rmq_log_unlock(self.log)

    def forbid(self, refuse):
        """In a forked child: as `stop`, but the lock may be held by a thread that does not exist here."""
        self.refused = refuse

    def next_queue_offset(self, str topic not None, int32_t queue_id):
        """The queue offset that the next message of a queue gets."""
        cdef bytes name = topic.encode()
        cdef int64_t *counter
        cdef int64_t value = 0
        self.lock()
        counter = rmq_log_queue_offset(self.log, name, len(name), queue_id)
        if counter != NULL:
            value = counter[0]
        rmq_log_unlock(self.log)
        if counter == NULL:
            raise MemoryError
        return value

    def set_next_queue_offset(self, str topic not None, int32_t queue_id, int64_t value):
        """Set it, after recovery."""
        cdef bytes name = topic.encode()
        cdef int64_t *counter
        self.lock()
        counter = rmq_log_queue_offset(self.log, name, len(name), queue_id)
        if counter != NULL:
            counter[0] = value
        rmq_log_unlock(self.log)
        if counter == NULL:
            raise MemoryError

    def arm_append(self, hook):
        """Call `hook()` once, after the next append."""
        self.on_append = hook
        self.append_alarm = rmq_log_wrote(self.log) + 1
        self.alarm = min(self.append_alarm, self.space_alarm)

    def arm_low_space(self, hook, int64_t phy_offset):
        """Call `hook()` once, after an append that ends at `phy_offset` or behind it."""
        self.on_low_space = hook
        self.space_alarm = phy_offset
        self.alarm = min(self.append_alarm, self.space_alarm)

    cdef int ring(self) except -1:
        cdef int64_t wrote = rmq_log_wrote(self.log)
        append_hook = space_hook = None
        if wrote >= self.append_alarm:
            self.append_alarm = NEVER
            append_hook = self.on_append
        if wrote >= self.space_alarm:
            self.space_alarm = NEVER
            space_hook = self.on_low_space
        self.alarm = min(self.append_alarm, self.space_alarm)
        if append_hook is not None:
            append_hook()
        if space_hook is not None:
            space_hook()
        return 0

    # ---- appending

    cdef int refuse(self) except -1:
        self.refused()
        raise AssertionError("a refusal raises")

    cdef int64_t read_clock(self) except? -1:
        """Called with the lock held, so an error must let it go."""
        try:
            return self.clock()
        except BaseException:
            rmq_log_unlock(self.log)
            raise

    cdef int append_one(self, rmq_put *put) except -1:
        """Append a prepared message that waits; afterwards its status is final."""
        cdef size_t done = 0
        cdef int code
        cdef int64_t now = RMQ_NO_CLOCK
        while True:
            if self.clock is not None:
                self.lock()
                if now == RMQ_NO_CLOCK:  # once a put, also when it comes again with more room
                    now = self.read_clock()
                code = rmq_log_append(self.log, put, 1, now, &done)
                rmq_log_unlock(self.log)
            elif rmq_log_try_lock(self.log):
                # Nothing of Python runs in here: no allocation, no exception.
                code = rmq_log_append(self.log, put, 1, now, &done)
                rmq_log_unlock(self.log)
            else:
                with nogil:
                    rmq_log_lock(self.log)
                    code = rmq_log_append(self.log, put, 1, now, &done)
                    rmq_log_unlock(self.log)
            if code == RMQ_A_DONE:
                break
            if code == RMQ_A_STOPPED:
                self.refuse()
            if not self.make_room(put.msg_size):
                put.status = RMQ_PUT_CREATE_MAPPED_FILE_FAILED
                return 0
        if rmq_log_wrote(self.log) >= self.alarm:
            self.ring()
        return 0

    def put(self, Message message not None):
        """Append one message; see MessageStore.put."""
        cdef rmq_put put
        cdef uint8_t props[PROPS_ROOM]
        cdef Py_buffer buffer
        cdef object _topic = message.topic, body = message.body  # held: another thread may change the message
        cdef int seen = 0
        if self.refused is not None:
            self.refuse()
        if body is None:
            return refused_result(PutMessageStatus.MESSAGE_ILLEGAL)
        fill(message, &put, self.append_prop_crc, props, PROPS_ROOM, &seen)
        if type(body) is bytes:
            put.msg.body = <const uint8_t *> PyBytes_AS_STRING(body)
            put.msg.body_len = PyBytes_GET_SIZE(body)
            check(self.log, &put, seen)
            if put.status == RMQ_PUT_WAITING:
                self.append_one(&put)
        else:
            PyObject_GetBuffer(body, &buffer, PyBUF_SIMPLE)
            try:
                put.msg.body = <const uint8_t *> buffer.buf
                put.msg.body_len = buffer.len
                check(self.log, &put, seen)
                if put.status == RMQ_PUT_WAITING:
                    self.append_one(&put)
            finally:
                PyBuffer_Release(&buffer)
        if put.status == RMQ_PUT_OK:
            return new_result(&put, PUT_OK, put.msg_size, 1, None)
        return refused_result(STATUSES[put.status])

    def put_batch(self, list messages not None):
        """Append messages of one topic and queue, all or nothing; see MessageStore.put_batch."""
        cdef Py_ssize_t count = len(messages), i
        cdef _Chunk chunk
        if self.refused is not None:
            self.refuse()
        check_batch(messages)
        chunk = self.take_chunk() if count <= CHUNK else _Chunk(count, PROPS_ROOM + sum_properties(messages))
        for i in range(count):
            if not chunk.has_room():  # only in a shared one, with very long properties
                chunk = _Chunk(count, PROPS_ROOM + sum_properties(messages))
                for message in messages[:i]:
                    chunk.add(self, <Message> message)
            chunk.add(self, <Message> messages[i])
        try:
            return self.put_chunk(chunk, count)
        finally:
            self.give_chunk(chunk)

    cdef PutResult put_chunk(self, _Chunk chunk, Py_ssize_t count):
        """Append a prepared batch."""
        cdef int64_t total = 0, image = 0, now = RMQ_NO_CLOCK
        cdef int code
        cdef Py_ssize_t i
        cdef rmq_put *puts = chunk.puts
        for i in range(count):
            if puts[i].status != RMQ_PUT_WAITING:
                return refused_result(STATUSES[puts[i].status])
            # 20 + body + 2 + properties: the image that a client sends, which maxMessageSize bounds as a body.
            image += 22 + puts[i].msg.body_len + puts[i].msg.props_len
            total += puts[i].msg_size
        if chunk.seen & HAS_DELAY or puts[0].msg.sys_flag & 0xC or image > rmq_log_max_message_size(self.log):
            return refused_result(PutMessageStatus.MESSAGE_ILLEGAL)
        while True:
            if self.clock is not None:
                self.lock()
                if now == RMQ_NO_CLOCK:  # once a put, also when it comes again with more room
                    now = self.read_clock()
                code = rmq_log_append_batch(self.log, puts, count, now)
                rmq_log_unlock(self.log)
            else:
                with nogil:
                    rmq_log_lock(self.log)
                    code = rmq_log_append_batch(self.log, puts, count, now)
                    rmq_log_unlock(self.log)
            if code == RMQ_A_DONE:
                break
            if code == RMQ_A_STOPPED:
                self.refuse()
            if not self.make_room(total):
                return refused_result(PutMessageStatus.CREATE_MAPPED_FILE_FAILED)
        if rmq_log_wrote(self.log) >= self.alarm:
            self.ring()
        if puts[0].status != RMQ_PUT_OK:
            return refused_result(STATUSES[puts[0].status])
        offsets = tuple([puts[i].msg.phy_offset for i in range(count)])
        return new_result(puts, PUT_OK, total, count, offsets)

    def put_many(self, list messages not None):
        """Append any messages in order.

        Returns
        -------
        tuple
            Arrays of int8 status codes (indexes of `STATUSES`), int64 phy offsets and queue offsets (-1: not stored), int64 store
            timestamps; and where the last record ends, 0 when nothing was stored.
        """
        cdef Py_ssize_t count = len(messages), at = 0, i, place = 0
        cdef size_t settled
        cdef int64_t end_offset = 0
        if self.refused is not None:
            self.refuse()
        codes = np.full(count, RMQ_PUT_CREATE_MAPPED_FILE_FAILED, np.int8)
        phy_offsets, queue_offsets = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        timestamps = np.zeros(count, np.int64)
        cdef int8_t[::1] code_of = codes
        cdef int64_t[::1] phy_offset_of = phy_offsets
        cdef int64_t[::1] queue_offset_of = queue_offsets
        cdef int64_t[::1] timestamp_of = timestamps
        for place in range(rmq_not_just(<PyObject *> messages, <PyObject *> Message)):
            message = messages[place]
            if not isinstance(message, Message):
                raise TypeError(f"put_many: message {place} is a {type(message).__name__}, expected a Message")
        cdef _Chunk chunk = self.take_chunk()
        while at < count:
            place = at
            at = self.fill_chunk(chunk, messages, at, count)
            settled = self.append_prepared(chunk.puts, chunk.count, chunk.total <= BRIEF)
            for i in range(<Py_ssize_t> settled):
                code_of[place + i] = <int8_t> chunk.puts[i].status
                if chunk.puts[i].status == RMQ_PUT_OK:
                    phy_offset_of[place + i] = chunk.puts[i].msg.phy_offset
                    queue_offset_of[place + i] = chunk.puts[i].msg.queue_offset
                    timestamp_of[place + i] = chunk.puts[i].msg.store_timestamp
                    end_offset = chunk.puts[i].msg.phy_offset + chunk.puts[i].msg_size
            if settled < <size_t> chunk.count or at >= len(messages):
                break
            chunk.clear()
        self.give_chunk(chunk)
        return codes, phy_offsets, queue_offsets, timestamps, end_offset

    cdef _Chunk take_chunk(self):
        """The memory of an earlier call, or new: a MiB from the system costs more than a small call."""
        cdef _Chunk chunk = self.spare
        self.spare = None
        return chunk if chunk is not None else _Chunk(CHUNK, CHUNK_PROPS)

    cdef int give_chunk(self, _Chunk chunk) except -1:
        chunk.clear()
        if chunk.capacity == CHUNK:
            self.spare = chunk
        return 0

    cdef Py_ssize_t fill_chunk(self, _Chunk chunk, list messages, Py_ssize_t at, Py_ssize_t count) except -1:
        """Prepare messages from `at` on while there is room; answers how far it came."""
        cdef PyObject *items = <PyObject *> messages
        cdef PyObject *item
        while True:
            try:
                # Around the loop: an error is rare, and to be ready for one costs as much as a small message.
                while at < count and at < PyList_GET_SIZE(items) and chunk.has_room():
                    if CAN_LOOK_AHEAD and at + 3 * AHEAD < PyList_GET_SIZE(items):
                        rmq_ask_for(PyList_GET_ITEM(items, at + 3 * AHEAD))
                        item = PyList_GET_ITEM(items, at + 2 * AHEAD)
                        if rmq_is_just(item, <PyObject *> Message):
                            rmq_ask_for_text(<PyObject *> (<Message> item).keys_text)
                            rmq_ask_for_text(<PyObject *> (<Message> item).own_properties)
                        item = PyList_GET_ITEM(items, at + AHEAD)
                        if rmq_is_just(item, <PyObject *> Message):
                            rmq_ask_for_keys(<PyObject *> (<Message> item).own_properties)
                    chunk.add(self, <Message?> messages[at])
                    at += 1
                return at
            except (BufferError, OverflowError, TypeError, ValueError):
                chunk.add_refused()
                at += 1

    cdef size_t append_prepared(self, rmq_put *puts, size_t n, bint briefly) except? 0:
        cdef size_t done = 0
        cdef int code
        cdef int64_t now = RMQ_NO_CLOCK
        while True:
            if self.clock is not None:
                self.lock()
                if now == RMQ_NO_CLOCK:  # once a put, also when it comes again with more room
                    now = self.read_clock()
                code = rmq_log_append(self.log, puts, n, now, &done)
                rmq_log_unlock(self.log)
            elif briefly and rmq_log_try_lock(self.log):
                code = rmq_log_append(self.log, puts, n, now, &done)
                rmq_log_unlock(self.log)
            else:
                with nogil:
                    rmq_log_lock(self.log)
                    code = rmq_log_append(self.log, puts, n, now, &done)
                    rmq_log_unlock(self.log)
            if code == RMQ_A_DONE:
                break
            if code == RMQ_A_STOPPED or not self.make_room(puts[done].msg_size):
                break
        if rmq_log_wrote(self.log) >= self.alarm:
            self.ring()
        return done


cdef int check_batch(list messages) except -1:
    """All share what Java's MessageExtBatch has once."""
    cdef Py_ssize_t place
    cdef Message first, message
    if len(messages) == 0:
        raise ValueError("put_batch: no message")
    first = <Message?> messages[0]
    for place in range(1, len(messages)):
        message = <Message?> messages[place]
        if (
            message.queue_id != first.queue_id or message.sys_flag != first.sys_flag
            or message.reconsume_times != first.reconsume_times or message.born_now != first.born_now
            or (not message.born_now and message.born_timestamp != first.born_timestamp)
            or message.prepared_transaction_offset != first.prepared_transaction_offset
            or message.born_v6 != first.born_v6 or message.store_v6 != first.store_v6
            or memcmp(message.born_packed, first.born_packed, RMQ_HOST_V6_SIZE if first.born_v6 else RMQ_HOST_V4_SIZE)
            or memcmp(message.store_packed, first.store_packed, RMQ_HOST_V6_SIZE if first.store_v6 else RMQ_HOST_V4_SIZE)
            or (message.topic is not first.topic and message.topic != first.topic)
        ):
            what = differing(first, message)
            raise ValueError(f"put_batch: message {place} differs from message 0 in {what}, which a batch shares")
    return 0


def differing(Message first not None, Message other not None):
    """The name and both values of the first field that a batch shares and these two do not."""
    for name in ("topic", "queue_id", "sys_flag", "born_timestamp_ms", "born_host", "store_host", "reconsume_times",
                 "prepared_transaction_offset"):
        if getattr(first, name) != getattr(other, name):
            return f"{name} ({getattr(other, name)!r}, not {getattr(first, name)!r})"
    raise AssertionError("they differ in nothing that is shared")


cdef Py_ssize_t sum_properties(list messages) except -1:
    """An upper bound of the bytes of all properties, at most what a record can hold for each message."""
    cdef Py_ssize_t total = 0, one
    cdef int seen = 0
    for message in messages:
        one = write_properties((<Message?> message).all_properties(), False, NULL, 0, &seen)
        total += min(one, PROPS_ROOM)
    return total


# ---- reading back -----------------------------------------------------------------------------------


cdef MessageView view_of(MappedFiles files, int64_t phy_offset, int64_t end_offset, DelayLevels levels):
    cdef MappedFile file = files.find(phy_offset) if phy_offset < end_offset else None
    cdef rmq_record rec
    cdef int64_t pos, left
    if file is None:
        return None
    pos = phy_offset - file.file_from_offset
    left = min(file.file_size - pos, end_offset - phy_offset)
    # A record found by its key is in no cache, and each length in it says where the next one is: all its lines at once.
    rmq_ask_for_record(file.base + pos)
    if rmq_record_parse(file.base + pos, left, &rec) <= 0 or rmq_rec_phy_offset(&rec) != phy_offset:
        return None
    return new_view(file, &rec, levels)


def view_at(MappedFiles files not None, int64_t phy_offset, int64_t end_offset, DelayLevels levels not None):
    """The message whose record starts at `phy_offset` and ends at or before `end_offset`; None: there is none."""
    return view_of(files, phy_offset, end_offset, levels)


def store_time(MappedFiles files not None, int64_t phy_offset, int64_t end_offset):
    """The store timestamp of that message without a view; -1: there is none."""
    cdef MappedFile file = files.find(phy_offset) if phy_offset < end_offset else None
    cdef rmq_record rec
    cdef int64_t pos, left
    if file is None:
        return -1
    pos = phy_offset - file.file_from_offset
    left = min(file.file_size - pos, end_offset - phy_offset)
    if rmq_record_parse(file.base + pos, left, &rec) <= 0 or rmq_rec_phy_offset(&rec) != phy_offset:
        return -1
    return rmq_rec_store_timestamp(&rec)
