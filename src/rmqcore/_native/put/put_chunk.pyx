"""PutChunk: messages prepared for the append, up to 512 at a time, before the lock is taken."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from rmqcore._native.kernels cimport (
    RMQ_HOST_V4_SIZE, RMQ_HOST_V6_SIZE, RMQ_PUT_MESSAGE_ILLEGAL, RMQ_SYS_TRANSACTION_MASK, rmq_log,
    rmq_log_max_message_size, rmq_put,
)
from rmqcore._native.put.look_ahead cimport PyList_GET_SIZE, look_ahead, rmq_unchecked_prefix
from rmqcore._native.put.message cimport Message, check_body
from rmqcore._native.put.message_fill cimport HAS_DELAY, PROPS_ROOM, check, fill, write_properties
from rmqcore._native.put.put_result cimport PutResult, no_body, put_reason, refused_code
from rmqcore._native.format.sealed cimport seal


@cython.final
cdef class PutChunk:
    """Prepared messages and everything their pointers lead to."""

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
        self.fault = None

    cdef bint has_room(self) noexcept:
        return self.count < self.capacity and self.props_room - self.props_used >= PROPS_ROOM

    cdef int add(self, Message m) except -1:
        """Prepare one more message; after an error the chunk is as it was."""
        cdef rmq_put *put = &self.puts[self.count]
        # Held: asking a body for its bytes may run code that changes the message.
        cdef object topic = m.topic
        cdef object body = m.body
        cdef Py_buffer *buffer
        cdef int seen = 0
        cdef Py_ssize_t used = fill(
            m, topic, put, self.append_prop_crc, self.props + self.props_used, PROPS_ROOM, &seen
        )
        if type(body) is bytes:
            put.msg.body = <const uint8_t *> PyBytes_AS_STRING(body)
            put.msg.body_len = PyBytes_GET_SIZE(body)
        elif body is not None:
            check_body(body)
            buffer = &self.buffers[self.buffer_count]
            PyObject_GetBuffer(body, buffer, PyBUF_SIMPLE)
            self.buffer_count += 1
            put.msg.body = <const uint8_t *> buffer.buf
            put.msg.body_len = buffer.len
        else:
            put.msg.body = NULL
            put.msg.body_len = 0
        check(self.log, put, seen)
        if body is None:
            put.status = RMQ_PUT_MESSAGE_ILLEGAL
        Py_INCREF(topic)
        Py_INCREF(body)
        self.held[2 * self.count] = <PyObject *> topic
        self.held[2 * self.count + 1] = <PyObject *> body
        self.props_used += used
        self.seen |= seen
        self.total += put.msg_size
        self.count += 1
        return 0

    cdef str reason(self, Py_ssize_t at):
        """Why the message of this place, whose status is one of a refusal, is refused; None where only the status says it."""
        if <object> self.held[2 * at] is None:
            return self.fault
        if <object> self.held[2 * at + 1] is None:
            return no_body()
        return put_reason(self.log, &self.puts[at])

    cdef PutResult refused(self, Py_ssize_t at):
        """Return the result for the message at a place, or for the batch that it refuses."""
        reason = self.reason(at)
        if reason is not None and self.count > 1:
            reason = f"message {at}: {reason}"
        return refused_code(self.puts[at].status, reason)

    cdef str broken_rule(self, int64_t image):
        """Why the messages cannot be a batch, which is `image` bytes as a client sends it; None when they can."""
        cdef int64_t most = rmq_log_max_message_size(self.log)
        if self.seen & HAS_DELAY:
            return "a message of the batch has the property DELAY, which a batch cannot have"
        if self.puts[0].msg.sys_flag & RMQ_SYS_TRANSACTION_MASK:
            return "sys_flag has a transaction type, which a batch cannot have"
        if image > most:
            return f"batch of {image:,} bytes as a client sends it, maxMessageSize is {most:,} (max_message_size)"
        return None

    cdef int add_refused(self, error) except -1:
        """Keep the place of a message that cannot be encoded, with its status."""
        cdef rmq_put *put = &self.puts[self.count]
        put.status = RMQ_PUT_MESSAGE_ILLEGAL
        put.msg_size = 0
        if self.fault is None:
            self.fault = str(error)
        Py_INCREF(None)
        Py_INCREF(None)
        self.held[2 * self.count] = <PyObject *> None
        self.held[2 * self.count + 1] = <PyObject *> None
        self.count += 1
        return 0

    cdef Py_ssize_t add_from(self, list messages, Py_ssize_t at, Py_ssize_t count) except -1:
        """Prepare messages[at], ... below `count` while they fit; return the place of the first one left."""
        cdef PyObject *items = <PyObject *> messages
        while True:
            try:
                # The `try` is around the loop: an error is rare, and to be ready for one costs as much as a small message.
                while at < count and at < PyList_GET_SIZE(items) and self.has_room():
                    look_ahead(items, at)
                    self.add(<Message?> messages[at])
                    at += 1
                return at
            except (BufferError, OverflowError, TypeError, ValueError) as error:
                self.add_refused(error)
                at += 1


cdef PutChunk new_chunk(const rmq_log *log, bint append_prop_crc, Py_ssize_t capacity, Py_ssize_t props_room):
    cdef PutChunk chunk = PutChunk.__new__(PutChunk)
    chunk.log = log
    chunk.append_prop_crc = append_prop_crc
    chunk.capacity = capacity
    chunk.props_room = props_room
    chunk.puts = <rmq_put *> PyMem_Malloc(capacity * sizeof(rmq_put))
    chunk.props = <uint8_t *> PyMem_Malloc(props_room)
    chunk.held = <PyObject **> PyMem_Malloc(2 * capacity * sizeof(PyObject *))
    chunk.buffers = <Py_buffer *> PyMem_Malloc(capacity * sizeof(Py_buffer))
    if chunk.puts == NULL or chunk.props == NULL or chunk.held == NULL or chunk.buffers == NULL:
        raise MemoryError
    return chunk


cdef PutChunk batch_chunk(const rmq_log *log, bint append_prop_crc, list messages):
    cdef Py_ssize_t props = PROPS_ROOM  # has_room() asks for so much beside what is used
    cdef int seen = 0
    for message in messages:
        props += min(write_properties((<Message?> message).all_properties(), False, NULL, 0, &seen), PROPS_ROOM)
    return new_chunk(log, append_prop_crc, len(messages), props)


cdef int check_types(list messages) except -1:
    cdef Py_ssize_t place
    for place in range(rmq_unchecked_prefix(<PyObject *> messages, <PyObject *> Message)):
        one_of("put_many", messages, place)
    return 0


cdef Message one_of(str call, list messages, Py_ssize_t place):
    message = messages[place]
    if not isinstance(message, Message):
        raise TypeError(f"{call}: message {place} is a {type(message).__name__}, expected a Message")
    return <Message> message


cdef int check_batch(list messages) except -1:
    """Raise unless all messages share the fields that Java's MessageExtBatch has once."""
    cdef Py_ssize_t place
    cdef Message first, message
    if len(messages) == 0:
        raise ValueError("put_batch: no message")
    first = one_of("put_batch", messages, 0)
    for place in range(1, len(messages)):
        message = one_of("put_batch", messages, place)
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
    """The name and both values of the first field that the messages of a batch share and in which these two differ."""
    for name in ("topic", "queue_id", "sys_flag", "born_timestamp_ms", "born_host", "store_host", "reconsume_times",
                 "prepared_transaction_offset"):
        if getattr(first, name) != getattr(other, name):
            return f"{name} ({getattr(other, name)!r}, not {getattr(first, name)!r})"
    raise AssertionError("they differ in nothing that is shared")


seal(PutChunk, "a put")
