"""Properties strings: as a dict, and as a mapping that reads what it is asked for."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint8_t
from libc.string cimport memcmp

from rmqcore._native.format.codec cimport MessageView
from rmqcore._native.format.texts cimport properties_dict, text_of
from rmqcore._native.format.lost_pages cimport raise_if_lost
from rmqcore._native.format.sealed cimport seal
from rmqcore._native.kernels cimport *

from collections.abc import Mapping

cdef extern from *:
    """
    /* What Mapping.register does for a class of Python: `match` asks the flag. */
    static inline void rmq_match_as_mapping(PyObject *type) { ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_MAPPING; }
    """
    void rmq_match_as_mapping(object type) noexcept


def decode_properties(buf):
    """Decode a properties string; of a repeated name the last value counts, empty names and values vanish.

    Malformed UTF-8 becomes U+FFFD, as in Java.

    Parameters
    ----------
    buf : buffer
        name 0x01 value 0x02, repeated; the last 0x02 may be missing.

    Returns
    -------
    dict of str to str
        In stored order.

    Raises
    ------
    TypeError
        `buf` is not a buffer.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#string2messageProperties.
    """
    cdef Py_buffer exported
    if type(buf) is bytes:
        return properties_dict(<const uint8_t *> PyBytes_AS_STRING(buf), PyBytes_GET_SIZE(buf), 0)
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        return properties_dict(<const uint8_t *> exported.buf, exported.len, 0)
    finally:
        PyBuffer_Release(&exported)


cdef class Properties:
    """Properties as a read-only mapping over their encoded string: nothing is decoded but what is asked for.

    Made by `rmqcore.codec.properties`. Names and values are those that `rmqcore.codec.decode_properties` returns, in its order.
    The mapping holds the buffer that it reads.

    Notes
    -----
    ``properties[name]`` walks over the string, which costs less than a dict of all; to read most of them, make a dict of it.

    Thread safety: reading from several threads is safe.
    """

    cdef object owner  # keeps `props` readable
    cdef const uint8_t *props
    cdef size_t length, before

    cdef str find(self, name):
        """The value of a name; None if the property is missing."""
        cdef Py_ssize_t size
        cdef const char *utf8
        cdef rmq_props_iter it
        cdef rmq_prop prop
        cdef rmq_slice value
        if not isinstance(name, str):
            return None
        if "\ufffd" in <str> name:  # malformed bytes may read as this name
            return self.as_dict().get(name)
        try:
            utf8 = PyUnicode_AsUTF8AndSize(name, &size)
        except UnicodeEncodeError:  # half of a surrogate pair, which no stored name holds
            return None
        value.p = NULL
        value.len = 0
        rmq_props_begin(&it, self.props, self.length, self.before)
        while rmq_props_next(&it, &prop):
            if <Py_ssize_t> prop.name.len == size and memcmp(prop.name.p, utf8, size) == 0:
                value = prop.value
        found = None if value.p == NULL else text_of(value.p, value.len)
        raise_if_lost(self.owner)  # behind the copy
        return found

    cdef dict as_dict(self):
        cdef dict found = properties_dict(self.props, self.length, self.before)
        raise_if_lost(self.owner)
        return found

    def __getitem__(self, name):
        value = self.find(name)
        if value is None:
            raise KeyError(name)
        return value

    def get(self, name, default=None, /):
        """Return the value of a name, or `default`."""
        value = self.find(name)
        return default if value is None else value

    def __contains__(self, name):
        return self.find(name) is not None

    def __iter__(self):
        return iter(self.as_dict())

    def __reversed__(self):
        return reversed(self.as_dict())

    def __len__(self):
        return len(self.as_dict())

    def keys(self):
        """Return the names, as `dict.keys` does."""
        return self.as_dict().keys()

    def values(self):
        """Return the values, as `dict.values` does."""
        return self.as_dict().values()

    def items(self):
        """Return the pairs, as `dict.items` does."""
        return self.as_dict().items()

    def __eq__(self, other):
        if isinstance(other, Properties):
            return self.as_dict() == (<Properties> other).as_dict()
        if isinstance(other, Mapping):
            return self.as_dict() == dict(other)
        return NotImplemented

    __hash__ = None  # as every mapping's

    def __reduce__(self):
        copy = bytes(self.props[:self.length])
        raise_if_lost(self.owner)
        return properties, (copy,)

    def __repr__(self):
        return f"Properties({self.as_dict()!r})"


def properties(buf):
    """Return a read-only mapping over a properties string, or over the properties of a message, without decoding them.

    Parameters
    ----------
    buf : buffer or MessageView
        A buffer must stay unchanged while the mapping is used, or the mapping's values change with it.

    Returns
    -------
    Properties
        A `collections.abc.Mapping`, equal to ``decode_properties(buf)``.

    Raises
    ------
    TypeError
        `buf` is neither a buffer nor a MessageView.

    Examples
    --------
    >>> properties(b"TAGS\x01TagA\x02KEYS\x01k1\x02")["KEYS"]
    'k1'

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#string2messageProperties.
    """
    cdef Properties found = Properties.__new__(Properties)
    cdef Py_buffer exported
    cdef MessageView view
    if isinstance(buf, MessageView):
        view = <MessageView> buf
        found.owner = view.owner
        found.props = view.rec.at + view.rec.props_pos
        found.length, found.before = view.rec.props_len, view.rec.props_pos
        return found
    # `owner` alone keeps the memory: bytes never move, and a memoryview holds its own export.
    found.owner = buf if type(buf) is bytes else PyMemoryView_FromObject(buf)
    PyObject_GetBuffer(found.owner, &exported, PyBUF_SIMPLE)
    found.props = <const uint8_t *> exported.buf
    found.length, found.before = exported.len, 0
    PyBuffer_Release(&exported)
    return found


Mapping.register(Properties)
rmq_match_as_mapping(Properties)
seal(Properties, "rmqcore.codec.properties")
