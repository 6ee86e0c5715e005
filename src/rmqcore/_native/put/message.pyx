"""Message: what goes into a store, in the form that the append takes without looking anything up."""

cimport cython
from cpython.buffer cimport PyObject_CheckBuffer
from cpython.object cimport PyTypeObject
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memset

from rmqcore._native.format.ids cimport HOST_V6_SIZE, parse_host

from rmqcore.errors.arguments import wrong_type

cdef extern from *:
    """
    static inline void rmq_set_vectorcall(PyObject *type, void *function) {
        ((PyTypeObject *)type)->tp_vectorcall = (vectorcallfunc)function;
    }
    """
    size_t PyVectorcall_NARGS(size_t nargsf) noexcept
    void rmq_set_vectorcall(object type, void *function) noexcept

cdef enum:
    BY_POSITION = 6
    ALL_ARGS = 13

DEFAULT_HOST = "127.0.0.1:0"


cdef int check_body(body) except -1:
    if body is not None and not PyObject_CheckBuffer(body):
        error = wrong_type("body", "bytes or another buffer", body)
        raise TypeError(f"{error}; a text is put as text.encode()") if isinstance(body, str) else error
    return 0


cdef object no_message(value):
    return wrong_type("message", "a Message", value)


cdef int64_t integer(value, str name) except? -1:
    """Return a whole number, by its `__index__` if it is not an int."""
    if type(value) is not int and not hasattr(value, "__index__"):
        raise wrong_type(name, "int or None" if name == "born_timestamp_ms" else "int", value)
    return value


@cython.freelist(64)
cdef class Message:
    """A message to be stored.

    Parameters
    ----------
    topic : str
    body : bytes-like
        Stored as it is.
    queue_id : int
    tags : str, optional
        Sugar for the TAGS property.
    keys : str or iterable of str
        Sugar for the KEYS property: words joined by spaces. A str is one key.
    properties : mapping of str to str, optional
        They are stored in their order, after TAGS and KEYS. A value None is left out.
    flag, sys_flag, reconsume_times : int
        As on disk; the two IPv6 bits of SYSFLAG follow from the hosts.
    born_timestamp_ms : int, optional
        Milliseconds since the epoch; the store timestamp when None.
    born_host, store_host : str, optional
        ``"ip:port"`` or ``"[v6]:port"``; ``127.0.0.1:0`` when None.
    prepared_transaction_offset : int
        Phy offset of the half message for a commit record.

    Raises
    ------
    ValueError
        A key has a space in it, `tags` or `keys` is given twice with different values, or a host has neither form.
    OverflowError
        A number does not fit a Java long.
    """

    def __init__(self, topic, body, queue_id=0, tags=None, keys=(), properties=None, *, flag=0, sys_flag=0,
                 born_timestamp_ms=None, born_host=None, store_host=None, reconsume_times=0,
                 prepared_transaction_offset=0):
        self.begin(topic, body, queue_id, tags, keys, properties)
        self.set_rest(
            flag, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, prepared_transaction_offset
        )

    cdef int begin(self, topic, body, queue_id, tags, keys, properties) except -1:
        """Set these, and everything else to its default."""
        cdef bint odd_tags
        if type(topic) is not str:
            if not isinstance(topic, str):
                raise wrong_type("topic", "str", topic)
            topic = str.__str__(topic)  # a member of a StrEnum is its text
        if type(body) is not bytes:
            check_body(body)
        self.topic = topic
        self.body = body
        self.queue_id = queue_id if type(queue_id) is int else integer(queue_id, "queue_id")
        keys = joined(keys)
        odd_tags = tags is not None and type(tags) is not str
        if odd_tags and not isinstance(tags, str):
            raise wrong_type("tags", "str or None", tags)
        self.plain = (not odd_tags or not tags) and (keys is None or type(keys) is str)
        if self.plain and (properties is None or not properties):
            self.tags_text = tags or None
            self.keys_text = keys
            self.own_properties = None
        else:
            self.plain = False
            self.own_properties = merged_properties(tags, keys, properties)
        self.flag = self.sys_flag = self.reconsume_times = self.prepared_transaction_offset = 0
        self.born_now = True
        self.born_v6 = self.store_v6 = False
        memcpy(self.born_packed, default_host, HOST_V6_SIZE)
        memcpy(self.store_packed, default_host, HOST_V6_SIZE)
        self.born_host_text = self.store_host_text = DEFAULT_HOST
        return 0

    cdef int set_rest(
        self, flag, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, prepared_transaction_offset
    ) except -1:
        """Set what is given by name alone, on top of the defaults."""
        self.flag = integer(flag, "flag")
        self.sys_flag = integer(sys_flag, "sys_flag")
        if born_timestamp_ms is not None:
            self.born_timestamp = integer(born_timestamp_ms, "born_timestamp_ms")
            self.born_now = False
        if born_host is not None and born_host:
            self.born_host = born_host
        if store_host is not None and store_host:
            self.store_host = store_host
        self.reconsume_times = integer(reconsume_times, "reconsume_times")
        self.prepared_transaction_offset = integer(prepared_transaction_offset, "prepared_transaction_offset")
        return 0

    @property
    def properties(self):
        """All properties, a dict that goes to disk as it is when the message is put."""
        return self.all_properties()

    @properties.setter
    def properties(self, value):
        with cython.critical_section(self):
            self.own_properties = None if value is None else <dict?> value
            self.plain = False

    @properties.deleter
    def properties(self):
        self.properties = None

    cdef dict all_properties(self):
        cdef dict made
        with cython.critical_section(self):
            if self.plain:
                made = {}
                if self.tags_text is not None:
                    made["TAGS"] = self.tags_text
                if self.keys_text is not None:
                    made["KEYS"] = self.keys_text
                if self.plain:  # during an allocation another thread may have made the dict
                    self.own_properties = made
                    self.plain = False
            return self.own_properties

    @property
    def born_timestamp_ms(self):
        """Milliseconds since the epoch; None: the store timestamp."""
        return None if self.born_now else self.born_timestamp

    @born_timestamp_ms.setter
    def born_timestamp_ms(self, value):
        if value is not None:
            self.born_timestamp = integer(value, "born_timestamp_ms")
        self.born_now = value is None

    @property
    def born_host(self):
        """``"ip:port"`` or ``"[v6]:port"``."""
        return self.born_host_text

    @born_host.setter
    def born_host(self, text):
        if not isinstance(text, str):
            raise wrong_type("born_host", "str", text)
        self.born_v6 = parse_host(text, self.born_packed) == HOST_V6_SIZE
        self.born_host_text = text

    @property
    def store_host(self):
        """``"ip:port"`` or ``"[v6]:port"``."""
        return self.store_host_text

    @store_host.setter
    def store_host(self, text):
        if not isinstance(text, str):
            raise wrong_type("store_host", "str", text)
        self.store_v6 = parse_host(text, self.store_packed) == HOST_V6_SIZE
        self.store_host_text = text

    @property
    def tags(self):
        """The TAGS property."""
        return self.properties.get("TAGS")

    @property
    def keys(self):
        """The words of the KEYS property."""
        return tuple([word for word in self.properties.get("KEYS", "").split(" ") if word])

    def _values(self):
        return (
            self.topic, self.body, self.queue_id, self.properties, self.flag, self.sys_flag, self.born_timestamp_ms,
            self.born_host_text, self.store_host_text, self.reconsume_times, self.prepared_transaction_offset,
        )

    def __eq__(self, other):
        if not isinstance(other, Message):
            return NotImplemented
        return self._values() == (<Message> other)._values()

    __hash__ = None  # mutable

    def __reduce__(self):
        return _restore, self._values()

    def _repr_html_(self):
        from rmqcore.shown.notebook import new_message_html
        return new_message_html(self)

    def __repr__(self):
        return (
            f"Message({self.topic!r}, <{len(self.body)} bytes>, queue_id={self.queue_id}, "
            f"properties={self.properties!r})"
        )


def _restore(topic, body, queue_id, properties, flag, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times,
             prepared_transaction_offset):
    return Message(
        topic, body, queue_id, properties=properties, flag=flag, sys_flag=sys_flag, born_timestamp_ms=born_timestamp_ms,
        born_host=born_host, store_host=store_host, reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
    )


# ---- the quick way of a call

# The arguments of __init__; these texts are interned, as the names in a call are.
cdef tuple arg_names = (
    "topic", "body", "queue_id", "tags", "keys", "properties", "flag", "sys_flag", "born_timestamp_ms", "born_host",
    "store_host", "reconsume_times", "prepared_transaction_offset",
)
cdef uint8_t default_host[HOST_V6_SIZE]
parse_host(DEFAULT_HOST, default_host)


cdef object by_init(PyObject *callable, PyObject **args, size_t count, PyObject *names):
    """Call a type: `__new__`, then `__init__`."""
    cdef size_t i
    positional = tuple([<object> args[i] for i in range(count)])
    keywords = {}
    if names != NULL:
        keywords = {name: <object> args[count + i] for i, name in enumerate(<tuple> names)}
    return (<PyTypeObject *> type).tp_call(<object> callable, positional, keywords)


cdef bint sorted_out(PyObject **args, size_t count, PyObject *names, PyObject **given) noexcept:
    """Put the arguments of a call at the places of `arg_names`; false where the call is wrong or odd."""
    cdef size_t i, place, named = 0 if names == NULL else <size_t> PyTuple_GET_SIZE(<tuple> names)
    cdef PyObject *name
    if count > BY_POSITION:
        return False
    for i in range(count):
        given[i] = args[i]
    for i in range(named):
        name = <PyObject *> PyTuple_GET_ITEM(<tuple> names, i)
        for place in range(<size_t> ALL_ARGS):
            if name == <PyObject *> PyTuple_GET_ITEM(arg_names, place):
                break
        else:
            return False
        if given[place] != NULL:
            return False
        given[place] = args[count + i]
    return given[0] != NULL and given[1] != NULL


cdef inline object or_default(PyObject *given, default):
    return <object> given if given != NULL else default


cdef object new_message(PyObject *callable, PyObject **args, size_t nargsf, PyObject *names):
    """``Message(...)``: 72 ns with five arguments where a call through `__init__` took 225, most of it parsing them.

    A call that is wrong goes to `__init__`, which says what is wrong with it. A subclass never comes here: it has no
    `tp_vectorcall`.
    """
    cdef PyObject *given[ALL_ARGS]
    cdef size_t count = PyVectorcall_NARGS(nargsf)
    cdef Message m
    memset(given, 0, sizeof(given))
    if not sorted_out(args, count, names, given):
        return by_init(callable, args, count, names)
    m = Message.__new__(Message)
    m.begin(
        <object> given[0], <object> given[1], or_default(given[2], 0), or_default(given[3], None),
        or_default(given[4], ()), or_default(given[5], None),
    )
    if names != NULL:
        m.set_rest(
            or_default(given[6], 0), or_default(given[7], 0), or_default(given[8], None), or_default(given[9], None),
            or_default(given[10], None), or_default(given[11], 0), or_default(given[12], 0),
        )
    return m


rmq_set_vectorcall(Message, <void *> new_message)


cdef object joined(keys):
    """KEYS of the argument `keys`; None without keys."""
    if type(keys) is str and " " not in <str> keys:
        return keys or None
    if keys is None or (not keys and isinstance(keys, (str, tuple, list, set, frozenset, dict))):
        return None
    if isinstance(keys, str):
        words = (keys,)
    elif isinstance(keys, (bytes, bytearray, memoryview)) or not hasattr(keys, "__iter__"):
        raise wrong_type("keys", "str or an iterable of str", keys)
    else:
        words = tuple(keys)
    for word in words:
        if not isinstance(word, str):
            raise wrong_type("keys", "str or an iterable of str", word)
        if not word or " " in word:
            raise ValueError(f"key {word!r}: a key is a word without spaces, KEYS is split on them")
    return words[0] if len(words) == 1 else " ".join(words)


cdef dict merged_properties(tags, keys, properties):
    cdef dict merged = {}
    if tags:
        merged["TAGS"] = tags
    if keys is not None:
        merged["KEYS"] = keys
    if properties is not None and not hasattr(properties, "items"):
        raise wrong_type("properties", "a mapping of str to str", properties)
    if properties:
        for name, value in properties.items():
            if value is None:
                continue
            if type(name) is not str and not isinstance(name, str):
                raise wrong_type("properties", "names that are str", name)
            if type(value) is not str and not isinstance(value, str):
                raise wrong_type(f"properties[{name!r}]", "str or None", value)
            if merged.get(name, value) != value:
                raise ValueError(f"{name} is given twice: {merged[name]!r} and {value!r} in properties")
            merged[name] = value
    return merged
