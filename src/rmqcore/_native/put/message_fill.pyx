"""From a Message to an rmq_put: what the append needs, with the properties encoded."""

from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from rmqcore._native.kernels cimport rmq_copy_text, rmq_props_separators, rmq_put, rmq_record_encoded_size
from rmqcore._native.put.message cimport Message

cdef extern from *:
    """
    /* UTF-8 of a str. Nearly every text is ASCII and lies in the object itself; the call costs 5 ns. */
    static inline const char *rmq_utf8_of(PyObject *text, Py_ssize_t *length) {
        if (PyUnicode_Check(text) && PyUnicode_IS_COMPACT_ASCII(text)) {
            *length = PyUnicode_GET_LENGTH(text);
            return (const char *)PyUnicode_1BYTE_DATA(text);
        }
        if (!PyUnicode_Check(text)) {
            PyErr_Format(PyExc_TypeError, "topic, or name or value of a property: expected str, got %.100s",
                         Py_TYPE(text)->tp_name);
            return NULL;
        }
        return PyUnicode_AsUTF8AndSize(text, length);
    }
    """
    const char *rmq_utf8_of(object text, Py_ssize_t *length) except NULL


cdef int raise_for_separator(dict properties, bint drop_crc) except -1:
    """Raise for a property whose text holds a separator; a value may hold 0x01. A subclass of str may deny it."""
    holds = str.__contains__
    for name, value in properties.items():
        if value is None or (drop_crc and name == "__CRC32#"):
            continue
        if (holds(name, "\x01") or holds(name, "\x02") or holds(value, "\x02")):
            raise ValueError(f"property {name!r}={value!r} holds a separator (0x01 or 0x02)")
    return 0


cdef Py_ssize_t write_properties(dict properties, bint drop_crc, uint8_t *out, Py_ssize_t room, int *seen) except -1:
    cdef PyObject *key
    cdef PyObject *item
    cdef Py_ssize_t pos = 0, used = 0, name_len, value_len, pairs = 0, left = PyDict_Size(properties)
    cdef const char *name
    cdef const char *value
    cdef int suspect = 0
    while left > 0 and PyDict_Next(properties, &pos, &key, &item):
        left -= 1  # saves the call that would only find no further pair
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
    # Each pair brings one 0x01 and one 0x02; a further one is in a text. (Properties without room are refused anyhow.)
    if suspect and used <= room and rmq_props_separators(out, used) != (pairs << 32 | pairs):
        raise_for_separator(properties, drop_crc)
    return used


cdef Py_ssize_t write_plain(Message m, uint8_t *out, Py_ssize_t room) except -2:
    """Encode TAGS and KEYS of a message that has no other property; -1 leaves the message to write_properties."""
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


cdef Py_ssize_t fill(
    Message m, topic, rmq_put *put, bint drop_crc, uint8_t *props, Py_ssize_t room, int *seen
) except -1:
    cdef Py_ssize_t length
    cdef const char *utf8
    if topic is None:
        raise TypeError("topic: expected str, got NoneType")
    if not m.plain and m.own_properties is None:
        raise TypeError("properties: expected dict, got NoneType")
    utf8 = rmq_utf8_of(topic, &length)
    put.msg.topic = <const uint8_t *> utf8
    put.msg.topic_len = length
    length = write_plain(m, props, room) if m.plain else -1
    if length < 0:
        length = write_properties(m.all_properties(), drop_crc, props, room, seen)
    put.msg.props = props
    put.msg.props_len = length
    put.given_queue_id = m.queue_id
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


def encoded_size(Message message not None, bint append_prop_crc=False):
    """Bytes of the record that a message makes; 0 when its topic or properties have no room in one."""
    cdef rmq_put put
    cdef uint8_t props[PROPS_ROOM]
    cdef int seen = 0
    fill(message, message.topic, &put, append_prop_crc, props, PROPS_ROOM, &seen)
    put.msg.body_len = len(message.body) if message.body is not None else 0
    put.msg.append_prop_crc = append_prop_crc
    return max(rmq_record_encoded_size(&put.msg), 0)
