"""Texts of records as Python's: Java's reading of bytes, words of KEYS, and properties as a dict."""

from cpython.exc cimport PyErr_Occurred
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_DECREF, PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcmp

from rmqcore._native.kernels cimport *

cdef extern from *:
    """
    /* A str of ASCII bytes, or NULL without an error where they are not all ASCII. They are copied first and looked at in the
     * copy: bytes that another process changes meanwhile cannot make a str that is not what it says. Half the time of
     * PyUnicode_DecodeUTF8. */
    static inline PyObject *rmq_ascii_text(const uint8_t *p, Py_ssize_t length) {
        PyObject *text = PyUnicode_New(length, 127);
        if (text == NULL || length == 0) return text;
        uint8_t *copy = (uint8_t *)PyUnicode_1BYTE_DATA(text);
        memcpy(copy, p, (size_t)length);
        if (rmq_is_ascii(copy, (size_t)length)) return text;
        Py_DECREF(text);
        return NULL;
    }
    /* The same for texts that come again and again, as topics and tags do: one object each, which is found by its first and last
     * bytes, with its hash known after the first use. 10 ns, a new object takes 22. */
    #ifdef Py_GIL_DISABLED
    #define rmq_frequent_text rmq_ascii_text
    #else
    enum { RMQ_FREQUENT = 256, RMQ_FREQUENT_LONGEST = 32 };
    static PyObject *rmq_frequent[RMQ_FREQUENT];
    static inline uint64_t rmq_word(const uint8_t *p) {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    /* Texts of one length, 4 to 32 bytes, by pieces that may overlap: no call. */
    static inline int rmq_same_text(const uint8_t *a, const uint8_t *b, size_t len) {
        uint32_t x[2], y[2];
        if (len > 8) {
            uint64_t differ = (rmq_word(a) ^ rmq_word(b)) | (rmq_word(a + len - 8) ^ rmq_word(b + len - 8));
            if (len > 16) {
                differ |= (rmq_word(a + 8) ^ rmq_word(b + 8)) | (rmq_word(a + len - 16) ^ rmq_word(b + len - 16));
            }
            return differ == 0;
        }
        memcpy(x, a, 4), memcpy(x + 1, a + len - 4, 4);
        memcpy(y, b, 4), memcpy(y + 1, b + len - 4, 4);
        return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
    }
    static inline PyObject *rmq_frequent_text(const uint8_t *p, Py_ssize_t length) {
        if (length < 4 || length > RMQ_FREQUENT_LONGEST) return rmq_ascii_text(p, length);
        uint32_t first, last; /* may overlap */
        memcpy(&first, p, sizeof first);
        memcpy(&last, p + length - sizeof last, sizeof last);
        const uint32_t mixed = (first * UINT32_C(2654435761)) ^ (last * UINT32_C(2246822519)) ^ (uint32_t)length;
        PyObject **place = &rmq_frequent[(mixed * UINT32_C(2654435761)) >> 24];
        if (*place != NULL && PyUnicode_GET_LENGTH(*place) == length &&
            rmq_same_text((const uint8_t *)PyUnicode_1BYTE_DATA(*place), p, (size_t)length)) {
            Py_INCREF(*place);
            return *place;
        }
        PyObject *text = rmq_ascii_text(p, length), *before = *place;
        if (text == NULL) return NULL;
        Py_INCREF(text);
        *place = text;
        Py_XDECREF(before);
        return text;
    }
    #endif
    """
    PyObject *rmq_ascii_text(const uint8_t *p, Py_ssize_t length) noexcept
    PyObject *rmq_frequent_text(const uint8_t *p, Py_ssize_t length) noexcept


cdef str text_of(const uint8_t *p, Py_ssize_t length):
    """Java's reading of the bytes: malformed UTF-8 becomes U+FFFD."""
    return text_or_sanitized(rmq_ascii_text(p, length), p, length)


cdef str frequent_text_of(const uint8_t *p, Py_ssize_t length):
    """The same of a topic or tag."""
    return text_or_sanitized(rmq_frequent_text(p, length), p, length)


cdef inline str text_or_sanitized(PyObject *text, const uint8_t *p, Py_ssize_t length):
    cdef str found
    if text == NULL:
        if PyErr_Occurred() != NULL:
            raise MemoryError
        return sanitized_text(p, length)
    found = <str> text
    Py_DECREF(found)  # the reference of the C call
    return found


cdef str sanitized_text(const uint8_t *p, Py_ssize_t length):
    """Decode bytes that are first made well-formed: Python's own "replace" differs from Java's at encoded surrogates. It is
    used here only for bytes that another process changes meanwhile."""
    cdef uint8_t *copy = <uint8_t *> PyMem_Malloc(3 * length)
    if copy == NULL:
        raise MemoryError
    try:
        return PyUnicode_DecodeUTF8(<const char *> copy, rmq_utf8_sanitize(p, length, copy), "replace")
    finally:
        PyMem_Free(copy)


cdef object text_or_none(const rmq_slice *value):
    return None if value.p == NULL else text_of(value.p, value.len)


cdef tuple words_of(const rmq_slice *keys):
    """The words of a KEYS value; most values are one word."""
    if keys.p == NULL:
        return ()
    if memchr(keys.p, c" ", keys.len) == NULL:
        return (text_of(keys.p, keys.len),)
    return tuple([word for word in text_of(keys.p, keys.len).split(" ") if word])


# The names that RocketMQ's clients and brokers give to nearly every message: one object each, whose hash is known.
cdef str TAGS = "TAGS", KEYS = "KEYS", WAIT = "WAIT", UNIQ_KEY = "UNIQ_KEY", TRACE_ON = "TRACE_ON", CLUSTER = "CLUSTER"
cdef str MSG_REGION = "MSG_REGION"


cdef str name_of(const rmq_slice *name):
    """The name of a property."""
    if name.len == 4:
        if memcmp(name.p, b"TAGS", 4) == 0:
            return TAGS
        if memcmp(name.p, b"KEYS", 4) == 0:
            return KEYS
        if memcmp(name.p, b"WAIT", 4) == 0:
            return WAIT
    elif name.len == 8:
        if memcmp(name.p, b"UNIQ_KEY", 8) == 0:
            return UNIQ_KEY
        if memcmp(name.p, b"TRACE_ON", 8) == 0:
            return TRACE_ON
    elif name.len == 7 and memcmp(name.p, b"CLUSTER", 7) == 0:
        return CLUSTER
    elif name.len == 10 and memcmp(name.p, b"MSG_REGION", 10) == 0:
        return MSG_REGION
    return text_of(name.p, name.len)


cdef dict properties_dict(const uint8_t *props, size_t length, size_t before):
    """Return all properties of an encoded string, before which this many bytes can be read."""
    cdef dict found = {}
    cdef rmq_props_iter it
    cdef rmq_prop prop
    rmq_props_begin(&it, props, length, before)
    while rmq_props_next(&it, &prop):
        name = name_of(&prop.name)
        if name is TAGS:
            found[name] = frequent_text_of(prop.value.p, prop.value.len)
        else:
            found[name] = text_of(prop.value.p, prop.value.len)
    return found
