"""Messages as bytes, for `rmqcore.codec`: records, by the kernel with which a put writes them, properties, bodies of batches."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, int64_t, uint8_t
from libc.string cimport memset

from rmqcore._native.format.codec cimport position
from rmqcore._native.kernels cimport *
from rmqcore._native.put.growing cimport (
    rmq_growing, rmq_growing_begin, rmq_growing_drop, rmq_growing_end, rmq_growing_room,
)
from rmqcore._native.put.look_ahead cimport look_ahead
from rmqcore._native.put.message cimport Message, check_body, integer, no_message
from rmqcore._native.put.message_fill cimport PROPS_ROOM, fill, narrow, write_properties

from rmqcore.errors.arguments import check_iterable, wrong_type

choose_crc32()

cdef extern from *:
    """
    static inline void rmq_no_buffer(Py_buffer *buffer) { buffer->obj = NULL; } /* PyBuffer_Release does nothing then */
    """
    void rmq_no_buffer(Py_buffer *buffer) noexcept

cdef enum:
    LARGE = 128 * 1024  # bytes of a record that is written without the GIL, as an append of so many is
    FIRST_ROOM = 4096
    MOST_AHEAD = 64 << 20  # bytes of room that are taken before there is something to write there
    LOOK = 1 << 16  # messages between two looks for Ctrl-C


# ---- one record -------------------------------------------------------------------------------------


cdef object no_room(const rmq_message *msg, int64_t code):
    cdef int64_t most
    cdef rmq_message rest
    if code == RMQ_E_TOPICLENGTH:
        name, found, most = "topic", msg.topic_len, RMQ_MAX_TOPIC_LEN_V2
    elif code == RMQ_E_PROPERTIESLENGTH:
        name, found = "properties", msg.props_len
        most = RMQ_MAX_PROPERTIES_LEN - (RMQ_PROP_CRC_SIZE if msg.append_prop_crc else 0)
    else:
        rest = msg[0]
        rest.body_len = 0
        name, found, most = "body", msg.body_len, INT32_MAX - rmq_record_encoded_size(&rest)
    return ValueError(f"{name} of {found} bytes has no room in the record, at most {most} bytes go there")


cdef int64_t record_of(Message m, topic, body, rmq_put *put, bint append_prop_crc, uint8_t *props, Py_buffer *held) except -1:
    """Fill in all of a record but its place and time; give its size.

    `topic` and `body` are the message's, which the caller holds, for another thread may change the message. A body that is not
    bytes is held by `held`, which the caller releases; after an error it holds nothing.
    """
    cdef int seen = 0
    cdef int64_t size
    rmq_no_buffer(held)
    fill(m, topic, put, append_prop_crc, props, PROPS_ROOM, &seen)
    put.msg.queue_id = narrow(put.given_queue_id, "queue_id")
    put.msg.append_prop_crc = append_prop_crc
    if type(body) is bytes:
        put.msg.body = <const uint8_t *> PyBytes_AS_STRING(body)
        put.msg.body_len = PyBytes_GET_SIZE(body)
    else:
        if body is None:
            raise wrong_type("body", "bytes or another buffer", body)
        check_body(body)
        PyObject_GetBuffer(body, held, PyBUF_SIMPLE)
        put.msg.body = <const uint8_t *> held.buf
        put.msg.body_len = held.len
    size = rmq_record_encoded_size(&put.msg)
    if size < 0:
        error = no_room(&put.msg, size)
        PyBuffer_Release(held)
        raise error
    return size


cdef inline void write(rmq_put *put, int64_t size, uint8_t *out) noexcept:
    if size > LARGE:
        with nogil:
            rmq_record_write(&put.msg, size, out)
    else:
        rmq_record_write(&put.msg, size, out)


def encode(message, *, phy_offset, queue_offset, store_timestamp_ms, bint append_prop_crc=False):
    """Encode one CommitLog record, big-endian.

    V2 (2-byte topic length) is chosen when the topic has more than 127 UTF-8 bytes. Java counts UTF-16 units and then writes
    a V1 length that no reader can decode (docs/compat.md).

    Parameters
    ----------
    message : Message
    phy_offset : int
        CommitLog bytes before the record.
    queue_offset : int
        Index in the message's (topic, queue_id).
    store_timestamp_ms : int
        Milliseconds since the epoch.
    append_prop_crc : bool
        Append the ``__CRC32#`` property over the whole record (enabledAppendPropCRC).

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        A property name or value contains a separator (0x01, 0x02), a text is not valid Unicode, or the topic, properties or body
        are too long for their length fields.
    OverflowError
        A number does not fit its field.
    TypeError
        An argument of another type; it is named.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageExtEncoder#encode, CommitLog.DefaultAppendMessageCallback#doAppend.
    """
    cdef rmq_put put
    cdef uint8_t props[PROPS_ROOM]
    cdef Py_buffer held
    cdef int64_t size, phy = integer(phy_offset, "phy_offset"), queue = integer(queue_offset, "queue_offset")
    cdef int64_t timestamp = integer(store_timestamp_ms, "store_timestamp_ms")
    cdef bytes out
    if not isinstance(message, Message):
        raise no_message(message)
    topic, body = (<Message> message).topic, (<Message> message).body
    size = record_of(<Message> message, topic, body, &put, append_prop_crc, props, &held)
    try:
        place(&put, phy, queue, timestamp)
        out = PyBytes_FromStringAndSize(NULL, size)
        write(&put, size, <uint8_t *> PyBytes_AS_STRING(out))
        return out
    finally:
        PyBuffer_Release(&held)


cdef int hold_writable(buffer, Py_buffer *target) except -1:
    if not PyObject_CheckBuffer(buffer):
        raise wrong_type("buffer", "a writable buffer", buffer)
    try:
        PyObject_GetBuffer(buffer, target, PyBUF_WRITABLE)
    except (BufferError, ValueError) as error:  # a ValueError is NumPy's
        raise BufferError(f"buffer: {error}") from None
    return 0


def encode_into(buffer, pos, message, *, phy_offset, queue_offset, store_timestamp_ms, bint append_prop_crc=False):
    """Encode one CommitLog record into a buffer of the caller.

    Parameters
    ----------
    buffer : writable buffer
    pos : int
        Bytes before the record in `buffer`.
    message, phy_offset, queue_offset, store_timestamp_ms, append_prop_crc
        As for `encode`.

    Returns
    -------
    int
        Bytes of the record.

    Raises
    ------
    ValueError
        As for `encode`; `pos` lies outside `buffer`, or the record has no room behind it. Nothing is written then.
    BufferError
        `buffer` is read-only, or not contiguous.
    OverflowError, TypeError
        As for `encode`.

    Notes
    -----
    Thread safety: any thread; nothing else may use these bytes of `buffer` during the call. Source: as `encode`.
    """
    cdef rmq_put put
    cdef uint8_t props[PROPS_ROOM]
    cdef Py_buffer held, target
    cdef Py_ssize_t start
    cdef int64_t size, phy = integer(phy_offset, "phy_offset"), queue = integer(queue_offset, "queue_offset")
    cdef int64_t timestamp = integer(store_timestamp_ms, "store_timestamp_ms")
    cdef uint8_t *out
    if not isinstance(message, Message):
        raise no_message(message)
    topic, body = (<Message> message).topic, (<Message> message).body
    hold_writable(buffer, &target)
    try:
        start = position(pos, target.len)
        size = record_of(<Message> message, topic, body, &put, append_prop_crc, props, &held)
        try:
            if size > target.len - start:
                raise ValueError(f"record of {size} bytes has no room at pos {start} of a buffer of {target.len} bytes")
            place(&put, phy, queue, timestamp)
            out = <uint8_t *> target.buf + start
            if put.msg.body < out + size and out < put.msg.body + put.msg.body_len:
                # The body lies where the record goes.
                body = PyBytes_FromStringAndSize(<const char *> put.msg.body, put.msg.body_len)
                put.msg.body = <const uint8_t *> PyBytes_AS_STRING(body)
            write(&put, size, out)
            return size
        finally:
            PyBuffer_Release(&held)
    finally:
        PyBuffer_Release(&target)


# ---- many records -----------------------------------------------------------------------------------


cdef int64_t offset_after(int64_t first, int64_t number, str name) except? -1:
    if first > 0 and number > INT64_MAX - first:
        raise OverflowError(f"{name} {first} + {number} does not fit a Java long")
    return first + number


cdef int place_next(
    rmq_put *put, Places *places, rmq_queue_offsets *queues, rmq_queue_recent *recent, int64_t used
) except -1:
    cdef int64_t queue_offset = 0
    cdef int64_t *counter
    if rmq_has_queue_entry(put.msg.sys_flag):
        counter = rmq_queue_offsets_again(queues, recent, put.msg.topic, put.msg.topic_len, put.msg.queue_id)
        if counter == NULL:
            raise MemoryError
        queue_offset = offset_after(places.queue_offset, counter[0], "queue_offset")
        counter[0] += 1
    place(put, offset_after(places.phy_offset, used, "phy_offset"), queue_offset, places.store_timestamp_ms)
    return 0


cdef object error_at(str what, Py_ssize_t place, error):
    """The error of one of many, with its place before it."""
    for kind in (OverflowError, TypeError, BufferError):
        if isinstance(error, kind):
            return kind(f"{what} {place}: {error}")
    return ValueError(f"{what} {place}: {error}")


cdef list listed(messages):
    """Return a call's messages as a list that no other thread can change."""
    check_iterable("messages", "Message", messages)
    return list(messages)


def encode_many(messages, *, phy_offset, store_timestamp_ms, queue_offset=0, bint append_prop_crc=False):
    """Encode CommitLog records that lie one after the other, as a store that takes these messages writes them.

    Parameters
    ----------
    messages : iterable of Message, or Arrow data
        Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` has the columns of `MessageStore.put_arrow`.
    phy_offset : int
        CommitLog bytes before the first record.
    store_timestamp_ms : int
        Milliseconds since the epoch, of all of them.
    queue_offset : int
        Of the first message of each (topic, queue_id); those after it count up. A prepared or rolled back message of a
        transaction has 0 and does not count.
    append_prop_crc : bool
        As for `encode`.

    Returns
    -------
    bytes
        Without a BLANK: where files end is the caller's business.

    Raises
    ------
    ValueError, OverflowError, TypeError
        As for `encode`; the text begins with the message's place, ``message 3: `` or ``row 3``. A number of an Arrow column that
        does not fit its field is a ValueError.
    OSError
        An Arrow stream says that it failed.

    Notes
    -----
    Thread safety: any thread. Source: as `encode`.
    """
    cdef Places places
    cdef rmq_queue_offsets *queues
    places.phy_offset = integer(phy_offset, "phy_offset")
    places.queue_offset = integer(queue_offset, "queue_offset")
    places.store_timestamp_ms = integer(store_timestamp_ms, "store_timestamp_ms")
    if hasattr(messages, "__arrow_c_stream__") or hasattr(messages, "__arrow_c_array__"):
        from rmqcore._native.put.encode_arrow import encode_arrow
        return encode_arrow(
            messages, places.phy_offset, places.queue_offset, places.store_timestamp_ms, append_prop_crc
        )
    given = listed(messages)
    queues = rmq_queue_offsets_new()
    if queues == NULL:
        raise MemoryError
    try:
        return encoded_list(given, &places, append_prop_crc, queues)
    finally:
        rmq_queue_offsets_free(queues)


cdef bytes encoded_list(list messages, Places *places, bint append_prop_crc, rmq_queue_offsets *queues):
    cdef rmq_put put
    cdef uint8_t props[PROPS_ROOM]
    cdef Py_buffer held
    cdef rmq_queue_recent recent
    cdef rmq_growing out
    cdef int64_t size
    cdef Py_ssize_t i = 0, count = len(messages)
    cdef object _recent_topic = None
    memset(&recent, 0, sizeof(recent))
    rmq_growing_begin(&out, FIRST_ROOM)
    try:
        try:
            # The `try` is around the loop: to be ready for an error costs as much as a small message.
            while i < count:
                look_ahead(<PyObject *> messages, i)
                message = messages[i]
                if not isinstance(message, Message):
                    raise no_message(message)
                topic, body = (<Message> message).topic, (<Message> message).body
                size = record_of(<Message> message, topic, body, &put, append_prop_crc, props, &held)
                try:
                    place_next(&put, places, queues, &recent, out.used)
                    if recent.topic == put.msg.topic:
                        _recent_topic = topic  # `recent` points into it
                    if i == 1:  # the others are about as long as the first two
                        rmq_growing_room(&out, min((out.used + size) * count // 32 * 17, MOST_AHEAD))
                    write(&put, size, rmq_growing_room(&out, size))
                finally:
                    PyBuffer_Release(&held)
                out.used += size
                i += 1
                if i % LOOK == 0:
                    PyErr_CheckSignals()
        except (BufferError, OverflowError, TypeError, ValueError) as error:
            raise error_at("message", i, error) from None
        return rmq_growing_end(&out)
    finally:
        rmq_growing_drop(&out)


# ---- properties and batches -------------------------------------------------------------------------


def encode_properties(properties):
    """Encode properties in their order: name 0x01 value 0x02 each; a value None is left out.

    An empty value is written, and vanishes when read, as in Java.

    Parameters
    ----------
    properties : mapping of str to str or None

    Returns
    -------
    bytes
        Of any length; a record has room for 32,767.

    Raises
    ------
    ValueError
        A name contains 0x01 or 0x02 or a value 0x02, and would read back as something else; or a text is not valid Unicode.
    TypeError
        `properties` is not a mapping, or a name or value is not a str.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#messageProperties2String.
    """
    cdef uint8_t few[1024]
    cdef uint8_t *much
    cdef dict pairs
    cdef int seen = 0
    cdef Py_ssize_t size, room
    if type(properties) is dict:
        pairs = <dict> properties
    elif hasattr(properties, "items"):
        pairs = dict(properties.items())
    else:
        raise wrong_type("properties", "a mapping of str to str", properties)
    size = write_properties(pairs, False, few, sizeof(few), &seen)
    if size <= <Py_ssize_t> sizeof(few):
        return PyBytes_FromStringAndSize(<const char *> few, size)
    pairs = pairs.copy()  # from here on no other thread can make it longer
    room = write_properties(pairs, False, few, 0, &seen)
    much = <uint8_t *> PyMem_Malloc(room)
    if much == NULL:
        raise MemoryError
    try:
        size = write_properties(pairs, False, much, room, &seen)
        return PyBytes_FromStringAndSize(<const char *> much, size)
    finally:
        PyMem_Free(much)


def encode_batch(messages):
    """Encode messages as the body of a producer's batch: FLAG, body and properties of each, one after the other.

    Parameters
    ----------
    messages : iterable of Message
        What they share, topic, queue and hosts, is in the request or record around the body.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError, OverflowError, TypeError
        As for `encode`; the text begins with the message's place, ``message 3: ``.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#encodeMessages.
    """
    cdef rmq_put put
    cdef uint8_t props[PROPS_ROOM]
    cdef Py_buffer held
    cdef rmq_batch_message message
    cdef rmq_growing out
    cdef int64_t size
    cdef Py_ssize_t i = 0
    given = listed(messages)
    rmq_growing_begin(&out, FIRST_ROOM)
    try:
        try:
            for one in given:
                if not isinstance(one, Message):
                    raise no_message(one)
                topic, body = (<Message> one).topic, (<Message> one).body
                record_of(<Message> one, topic, body, &put, False, props, &held)
                try:
                    message.flag = put.msg.flag
                    message.body = put.msg.body
                    message.body_len = put.msg.body_len
                    message.props = put.msg.props
                    message.props_len = put.msg.props_len
                    size = rmq_message_batch_size(&message)
                    rmq_message_batch_write(&message, rmq_growing_room(&out, size))
                finally:
                    PyBuffer_Release(&held)
                out.used += size
                i += 1
                if i % LOOK == 0:
                    PyErr_CheckSignals()
        except (BufferError, OverflowError, TypeError, ValueError) as error:
            raise error_at("message", i, error) from None
        return rmq_growing_end(&out)
    finally:
        rmq_growing_drop(&out)
