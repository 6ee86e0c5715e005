"""SendKernel: plain sends of one read of a connection, from its bytes into the log and from there to the bytes of the answers.

What is plain is said in broker/send.h. Everything else is the business of `rmqcore.broker`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from rmqcore._native.kernels cimport *
from rmqcore._native.put.appender cimport BRIEF, TAKEN, Appender

cdef extern from "broker/send.h" nogil:
    enum:
        RMQ_SEND_MOST_TOPIC_LEN, RMQ_SEND_MOST_PARTS
        RMQ_SEND_MORE, RMQ_SEND_PYTHON, RMQ_SEND_BROKEN, RMQ_SEND_AGAIN
        RMQ_HOLE_NONE, RMQ_HOLE_MSG_ID, RMQ_HOLE_QUEUE_ID, RMQ_HOLE_QUEUE_OFFSET, RMQ_HOLE_TRANSACTION_ID, RMQ_HOLE_OPAQUE
        RMQ_HOLE_KINDS
        RMQ_ANSWER_KINDS
    ctypedef struct rmq_send_counts:
        int64_t sends, messages, bytes
    ctypedef struct rmq_send_topic:
        uint32_t name_len
        int32_t queue_nums
        rmq_send_counts counts
        uint8_t name[127]
    ctypedef struct rmq_send_topics:
        pass
    rmq_send_topic *rmq_send_topics_find(rmq_send_topics *topics, const uint8_t *name, size_t len) noexcept
    rmq_send_topic *rmq_send_topics_add(rmq_send_topics *topics, const uint8_t *name, size_t len) noexcept
    void rmq_send_topics_remove(rmq_send_topics *topics, rmq_send_topic *topic) noexcept
    rmq_send_topic *rmq_send_topics_next(const rmq_send_topics *topics, const rmq_send_topic *topic) noexcept
    ctypedef struct rmq_send_part:
        rmq_slice text
        int hole
    ctypedef struct rmq_send_answer:
        rmq_send_part parts[16]
        size_t count
    ctypedef struct rmq_send_frame:
        size_t end
    ctypedef struct rmq_send:
        rmq_slice added
        rmq_send_answer answers[3]
        uint8_t store_host[20]
        uint8_t born_host[20]
        int store_host_v6, born_host_v6, waits
        rmq_send_topics topics
        rmq_put *puts
        rmq_send_frame *frames
        size_t count
        int whole
        int64_t total
        uint8_t *out
        size_t out_len, answer_count
        int64_t end_phy_offset
    int rmq_send_init(rmq_send *s) noexcept
    void rmq_send_destroy(rmq_send *s) noexcept
    int rmq_send_take(rmq_send *s, const rmq_log *log, const uint8_t *bytes, size_t at, size_t n) noexcept
    size_t rmq_send_settle(rmq_send *s, size_t at, size_t done) noexcept

choose_crc32()

# What is next in the bytes that were given.
MORE = int(RMQ_SEND_MORE)  # less than a frame is left
PYTHON = int(RMQ_SEND_PYTHON)  # a whole frame that is left to Python
BROKEN = int(RMQ_SEND_BROKEN)  # no frame

# What stands behind a part of an answer.
NOTHING = int(RMQ_HOLE_NONE)
MSG_ID = int(RMQ_HOLE_MSG_ID)
QUEUE_ID = int(RMQ_HOLE_QUEUE_ID)
QUEUE_OFFSET = int(RMQ_HOLE_QUEUE_OFFSET)
TRANSACTION_ID = int(RMQ_HOLE_TRANSACTION_ID)
OPAQUE = int(RMQ_HOLE_OPAQUE)


@cython.final
@cython.freelist(8)
cdef class Fed:
    """Result of the bytes passed to a SendKernel.

    Attributes
    ----------
    taken : int
        Where the frames end that were taken, counted as the begin was: all before it is in the log.
    next : int
        What is there: `MORE`, `PYTHON` or `BROKEN`.
    answers : bytes
        Frames, one for each send that wants an answer: PUT_OK.
    answer_count : int
    end_phy_offset : int
        Where the last record ends; 0 when nothing was stored. Under SYNC_FLUSH the answers hold once the log is on disk so far.
    """

    cdef readonly Py_ssize_t taken, answer_count
    cdef readonly int next
    cdef readonly bytes answers
    cdef readonly int64_t end_phy_offset


@cython.final
cdef class SendKernel:
    """Takes plain sends.

    Parameters
    ----------
    appender : Appender
    store_host : bytes
        Address and 4-byte port (`pack_host`) that records name.
    added : bytes
        Encoded properties that each single message gets.
    answers : sequence
        Headers of the answers to a single send, to a batch, and to a batch with a unique key: of each its parts, a part being
        literal bytes and what follows them (`MSG_ID` ...), each at most once.
    waits : bool
        Somebody waits for the disk: a send that says that nobody does is left to Python.

    Raises
    ------
    ValueError
        A host of another size, or an answer of too many parts.

    Notes
    -----
    Thread safety: one thread at a time; a second one gets a RuntimeError.
    """

    cdef rmq_send s
    cdef Appender appender
    cdef bint made, busy
    cdef list held  # what the pointers of `s` lead to

    def __cinit__(self, Appender appender not None, *, bytes store_host not None, bytes added not None, answers, bint waits):
        if rmq_send_init(&self.s) != 0:
            raise MemoryError
        self.made = True
        self.appender = appender
        self.held = []
        self.s.waits = waits
        self.s.added = self.hold(added)
        self.s.store_host_v6 = copy_host(store_host, self.s.store_host)
        if len(answers) != RMQ_ANSWER_KINDS:
            raise ValueError(f"{len(answers)} kinds of answers, expected {RMQ_ANSWER_KINDS}")
        for kind, parts in enumerate(answers):
            self.set_answer(&self.s.answers[<Py_ssize_t> kind], parts)

    def __dealloc__(self):
        if self.made:
            rmq_send_destroy(&self.s)

    cdef rmq_slice hold(self, bytes text):
        cdef rmq_slice slice
        if PyBytes_GET_SIZE(text) > RMQ_MAX_PROPERTIES_LEN:
            raise ValueError(f"a text of {len(text)} bytes, at most {RMQ_MAX_PROPERTIES_LEN} are taken")
        self.held.append(text)
        slice.p = <const uint8_t *> PyBytes_AS_STRING(text)
        slice.len = <uint32_t> PyBytes_GET_SIZE(text)
        return slice

    cdef int set_answer(self, rmq_send_answer *answer, parts) except -1:
        cdef bytes text
        cdef int hole, seen = 0
        for text, hole in parts:
            if answer.count == RMQ_SEND_MOST_PARTS or not 0 <= hole < RMQ_HOLE_KINDS or hole and seen & 1 << hole:
                raise ValueError(f"an answer of {parts!r}")
            seen |= 1 << hole
            answer.parts[answer.count].text = self.hold(text)
            answer.parts[answer.count].hole = hole
            answer.count += 1
        return 0

    cdef int enter(self) except -1:
        """Keep everybody else out: another thread, and what runs on top of an append."""
        with cython.critical_section(self):
            if self.busy:
                raise RuntimeError("a SendKernel serves one call at a time")
            self.busy = True
        return 0

    # ---- topics

    def set_topic(self, str name not None, int32_t queue_nums):
        """Take sends to a topic from now on, to queues below `queue_nums`.

        Raises
        ------
        ValueError
            No message to it is plain: the name is empty, too long, no name of a directory, or that of a topic of retries.
        """
        cdef bytes utf8 = name.encode()
        cdef const uint8_t *text = <const uint8_t *> PyBytes_AS_STRING(utf8)
        cdef size_t length = PyBytes_GET_SIZE(utf8)
        cdef rmq_send_topic *topic
        if length > RMQ_SEND_MOST_TOPIC_LEN or not rmq_topic_is_legal(text, length) or text[0] == c"%":
            raise ValueError(f"topic {name!r}: no message to it is plain")
        self.enter()
        topic = rmq_send_topics_add(&self.s.topics, text, length)
        if topic != NULL:
            topic.queue_nums = queue_nums
        self.busy = False
        if topic == NULL:
            raise MemoryError

    def forget_topic(self, str name not None):
        """Leave sends to a topic to Python from now on; one that is not known is no error.

        What it has counted is lost: `take_counts` comes before.
        """
        cdef bytes utf8 = name.encode()
        cdef rmq_send_topic *topic
        self.enter()
        topic = rmq_send_topics_find(&self.s.topics, <const uint8_t *> PyBytes_AS_STRING(utf8), PyBytes_GET_SIZE(utf8))
        if topic != NULL:
            rmq_send_topics_remove(&self.s.topics, topic)
        self.busy = False

    def take_counts(self):
        """Return the messages stored since the last call.

        Returns
        -------
        list of tuple
            Topic, sends, messages, bytes of records; only of topics that got something.
        """
        cdef list counts = []
        cdef rmq_send_topic *topic
        self.enter()
        try:
            topic = rmq_send_topics_next(&self.s.topics, NULL)
            while topic != NULL:
                if topic.counts.sends:
                    name = topic.name[:topic.name_len].decode()
                    counts.append((name, topic.counts.sends, topic.counts.messages, topic.counts.bytes))
                    topic.counts.sends = topic.counts.messages = topic.counts.bytes = 0
                topic = rmq_send_topics_next(&self.s.topics, topic)
        finally:
            self.busy = False
        return counts

    # ---- sends

    def feed(self, buffer, Py_ssize_t begin, Py_ssize_t end, bytes born_host not None):
        """Take the plain sends with which ``buffer[begin:end]`` begins, append their messages and write the answers.

        Parameters
        ----------
        buffer : buffer
            What a connection brought; it must not change during the call.
        begin, end : int
        born_host : bytes
            Address and 4-byte port of the peer (`pack_host`).

        Returns
        -------
        Fed

        Raises
        ------
        ValueError
            A place outside of the buffer, or a host of another size.
        MemoryError, StoreError, OSError
            Of what the bytes hold some may be stored, and nobody was told: the connection should end.
        """
        cdef Py_buffer exported
        self.enter()
        try:
            self.s.born_host_v6 = copy_host(born_host, self.s.born_host)
            PyObject_GetBuffer(buffer, &exported, PyBUF_SIMPLE)
            try:
                if not 0 <= begin <= end <= exported.len:
                    raise ValueError(f"bytes {begin} to {end} of {exported.len}")
                return self.take(<const uint8_t *> exported.buf, begin, end)
            finally:
                PyBuffer_Release(&exported)
        finally:
            self.busy = False

    cdef Fed take(self, const uint8_t *bytes_, size_t at, size_t n):
        cdef rmq_send *s = &self.s
        cdef Fed fed = Fed.__new__(Fed)
        cdef int stop = RMQ_SEND_AGAIN
        s.out_len = s.answer_count = 0
        s.end_phy_offset = 0
        while stop == RMQ_SEND_AGAIN:
            stop = rmq_send_take(s, self.appender.log, bytes_, at, n)
            if stop < 0:
                raise MemoryError
            if s.count and not self.append_group(&at):
                stop = RMQ_SEND_PYTHON
        fed.taken = <Py_ssize_t> at
        fed.next = stop
        fed.answers = PyBytes_FromStringAndSize(<const char *> s.out, s.out_len) if s.out_len else b""
        fed.answer_count = s.answer_count
        fed.end_phy_offset = s.end_phy_offset
        return fed

    cdef bint append_group(self, size_t *at) except -1:
        """Append a group; whether all of it is stored. `at` moves behind the frames that are."""
        cdef rmq_send *s = &self.s
        cdef size_t done = 0, i, end = s.frames[0 if s.whole else s.count - 1].end
        if self.appender.puts != TAKEN:  # Python is told why
            return False
        self.appender.append(s.puts, s.count, s.whole, s.total <= BRIEF, &done)
        at[0] = rmq_send_settle(s, at[0], done)
        if at[0] == end:
            return True
        for i in range(done):
            if s.puts[i].status == RMQ_PUT_UNKNOWN_ERROR:
                raise MemoryError("no room for the counter of a queue")
        return False


cdef int copy_host(bytes packed, uint8_t *out) except -1:
    """Copy address and port; whether they are of IPv6."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(packed)
    if size != RMQ_HOST_V4_SIZE and size != RMQ_HOST_V6_SIZE:
        raise ValueError(f"a host of {size} bytes, expected {RMQ_HOST_V4_SIZE} or {RMQ_HOST_V6_SIZE}")
    memcpy(out, PyBytes_AS_STRING(packed), size)
    return size == RMQ_HOST_V6_SIZE
