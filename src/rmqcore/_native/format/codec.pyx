"""The record codec: checks, decoding, and the lazy MessageView.

Buffers come in through the buffer protocol; every length is checked in record.c before it is used here.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.string cimport memcmp

from cpython.ref cimport PyObject

from rmqcore._native.format.texts cimport frequent_text_of, properties_dict, text_or_none, words_of
from rmqcore._native.kernels cimport *
from rmqcore._native.format.sealed cimport seal

import os

from rmqcore._native.format.view_text import line_of, values_of
from rmqcore.errors import CorruptMessageError
from rmqcore.errors.arguments import wrong_type

cdef extern from *:
    void PyObject_GC_UnTrack(PyObject *tracked) noexcept
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1


# ---- CRC kernel -------------------------------------------------------------------------------------


def select_crc32(name: str = "") -> str:
    """Choose the CRC-32 kernel by name, or the best one for this CPU, and return its name."""
    cdef bytes encoded = name.encode()
    cdef int code = rmq_crc32_select(encoded)
    if code == RMQ_CRC_OK:
        return rmq_crc32_name().decode()
    reasons = {
        RMQ_CRC_NO_SUCH_KERNEL: "unknown kernel; known are vpclmul, pclmul, armv8, slicing",
        RMQ_CRC_NOT_BUILT: "it is not built for this processor family",
        RMQ_CRC_NO_CPU: "this CPU lacks its instructions",
    }
    raise ValueError(f"RMQCORE_CRC32={name!r}: {reasons[code]}")


select_crc32(os.environ.get("RMQCORE_CRC32", ""))


# ---- errors -----------------------------------------------------------------------------------------


FIELDS = {
    RMQ_R_BLANK: "MAGIC", RMQ_E_SHORT: "TOTALSIZE", RMQ_E_ZERO: "MAGIC", RMQ_E_MAGIC: "MAGIC",
    RMQ_E_TOTALSIZE: "TOTALSIZE", RMQ_E_BODYLENGTH: "BODYLENGTH", RMQ_E_TOPICLENGTH: "TOPICLENGTH",
    RMQ_E_PROPERTIESLENGTH: "PROPERTIESLENGTH", RMQ_E_LENGTHS: "TOTALSIZE", RMQ_E_PHYSICALOFFSET: "PHYSICALOFFSET",
    RMQ_E_BODYCRC: "BODYCRC", RMQ_E_PROPCRC: "__CRC32#", RMQ_E_PAST_FILE: "TOTALSIZE", RMQ_E_SHORT_FILE: "TOTALSIZE",
    RMQ_E_BLANKSIZE: "TOTALSIZE", RMQ_E_DLEDGER_MAGIC: "DLedger magic", RMQ_E_DLEDGER_SIZE: "DLedger size",
    RMQ_E_DLEDGER_PAST: "DLedger size", RMQ_E_DLEDGER_POS: "DLedger pos", RMQ_E_DLEDGER_BODY: "DLedger bodyLen",
    RMQ_E_DLEDGER_END: "DLedger size",
}


def describe(code: int, found: int, expected: int) -> tuple[str, object, object]:
    """Field, expected and found of a failed check, in words where a number alone would not say it."""
    field = FIELDS[code]
    if code == RMQ_R_BLANK:
        return field, "a message", "BLANK"
    if code == RMQ_E_SHORT and expected == 8:
        return field, "the 8 bytes of a header at least", f"cut off after {found} bytes"
    if code == RMQ_E_SHORT:
        return field, f"at most the {found} bytes left", expected
    if code == RMQ_E_ZERO:
        return field, "0xDAA320A7 or 0xDAA320AB", "0 (nothing was written here)"
    if code == RMQ_E_MAGIC:
        return field, "0xDAA320A7 or 0xDAA320AB", f"{found & 0xFFFFFFFF:#010X}".replace("X", "x")
    if code == RMQ_E_TOTALSIZE:
        return field, f"at least {expected}", found
    if code == RMQ_E_PAST_FILE:
        return field, f"at most the {expected} bytes left in the file", found
    if code == RMQ_E_SHORT_FILE:
        return field, f"a record or BLANK of at least {expected} bytes", f"{found} bytes left in the file"
    if code == RMQ_E_BLANKSIZE:
        return field, f"the {expected} bytes left in the file (BLANK)", found
    if code == RMQ_E_DLEDGER_MAGIC:
        return field, "1, 2 or -1", found
    if code == RMQ_E_DLEDGER_PAST:
        return field, f"at most the {expected} bytes left in the file", found
    if code == RMQ_E_DLEDGER_END:
        return field, f"the {expected} bytes left in the file", found
    if code == RMQ_E_DLEDGER_BODY:
        return field, f"the TOTALSIZE {expected}", found
    if code in (RMQ_E_BODYLENGTH, RMQ_E_TOPICLENGTH, RMQ_E_PROPERTIESLENGTH):
        return field, f"0 to {expected}", found
    if code == RMQ_E_PROPCRC and found < 0:
        return field, "an appended property CRC", "none"
    return field, expected, found


cdef object corrupt_message(str path, long long phy_offset, int code, const rmq_record *rec):
    field, expected, found = describe(code, rec.found, rec.expected)
    return CorruptMessageError(path, phy_offset, field, expected, found)


# ---- delay levels -----------------------------------------------------------------------------------


cdef class DelayLevels:
    """Delays of the levels 1, 2, ... in milliseconds, in the form the kernels take."""

    def __cinit__(self, delays_ms):
        self.delays_ms = tuple(delays_ms)
        cdef Py_ssize_t count = len(self.delays_ms)
        cdef int64_t *table = <int64_t *> PyMem_Malloc((count + 1) * sizeof(int64_t))
        if table == NULL:
            raise MemoryError
        self.levels.delay_ms = table
        self.levels.count = <int32_t> count
        for i in range(count):
            table[i] = self.delays_ms[i]

    def __dealloc__(self):
        PyMem_Free(<void *> self.levels.delay_ms)


# Of messageDelayLevel's default, "1s 5s 10s 30s 1m ... 2h" (rmqcore.config parses other ones).
DEFAULT_DELAY_LEVELS = DelayLevels([
    1000 * seconds
    for seconds in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
])
cdef DelayLevels default_levels = DEFAULT_DELAY_LEVELS


# ---- MessageView ------------------------------------------------------------------------------------


cdef MessageView new_view(object owner, const rmq_record *rec, DelayLevels levels):
    cdef MessageView view = MessageView.__new__(MessageView)
    view.owner = owner
    view.rec = rec[0]
    view.delay_levels = levels if levels is not None else default_levels
    if type(owner) is bytes:  # no cycle can lead through it: the collector need not look at a list of thousands
        PyObject_GC_UnTrack(<PyObject *> view)
    return view


@cython.final
@cython.freelist(64)
cdef class MessageView:
    """One stored message, read lazily from the record's bytes.

    Values are decoded when asked for; the view keeps the buffer they come from alive, so a ``bytearray`` cannot be
    resized and an ``mmap`` cannot be closed meanwhile (``BufferError``). Lengths were checked once, when the view was made:
    a buffer that changes afterwards can give other values, never a read outside it. Made by `rmqcore.codec.decode` and the
    readers, not by calling the class.

    Units: ``*_ms`` are milliseconds since the epoch, ``phy_offset`` CommitLog bytes, ``queue_offset`` messages,
    ``msg_size`` bytes of the whole record.

    Views are equal, and hash alike, when their records are, byte for byte: the same message at the same place of the log,
    whatever buffer or store it was read from. A pickle or a copy (`copy.copy`, `copy.deepcopy`) owns the record's bytes: it
    keeps no file mapped and no buffer alive, and stays as it is when those change.

    Thread safety: reading from several threads is safe.

    Source: RocketMQ 5.5.0 MessageDecoder#decode, CommitLog#checkMessageAndReturnSize.
    """

    @property
    def phy_offset(self):
        """PHYSICALOFFSET: where the record says that it lies in the CommitLog."""
        return rmq_rec_phy_offset(&self.rec)

    @property
    def msg_size(self):
        """TOTALSIZE: bytes of the whole record."""
        return self.rec.msg_size

    @property
    def magic(self):
        """MAGIC, signed: -626843481 (V1) or -626843477 (V2)."""
        return self.rec.magic

    @property
    def body_crc(self):
        """BODYCRC as stored: CRC-32 of the body & 0x7FFFFFFF."""
        return rmq_rec_body_crc(&self.rec)

    @property
    def queue_id(self):
        """QUEUEID."""
        return rmq_rec_queue_id(&self.rec)

    @property
    def flag(self):
        """FLAG: the user's own number."""
        return rmq_rec_flag(&self.rec)

    @property
    def queue_offset(self):
        """QUEUEOFFSET: index in (topic, queue_id); 0 for prepared and rollback records."""
        return rmq_rec_queue_offset(&self.rec)

    @property
    def sys_flag(self):
        """SYSFLAG, see `rmqcore.vocabulary.sysflag`."""
        return self.rec.sys_flag

    @property
    def born_timestamp_ms(self):
        """BORNTIMESTAMP: the client's clock."""
        return rmq_rec_born_timestamp(&self.rec)

    @property
    def born_host(self):
        """BORNHOST as ``"ip:port"`` or ``"[v6]:port"``."""
        cdef char out[RMQ_HOST_TEXT_ROOM]
        cdef size_t n = rmq_host_text(self.rec.at + RMQ_REC_BORNHOST, self.rec.sys_flag & RMQ_SYS_BORNHOST_V6, out)
        return out[:n].decode("ascii")

    @property
    def store_timestamp_ms(self):
        """STORETIMESTAMP: the broker's clock at the append."""
        return rmq_rec_store_timestamp(&self.rec)

    @property
    def store_host(self):
        """STOREHOST as ``"ip:port"`` or ``"[v6]:port"``."""
        cdef char out[RMQ_HOST_TEXT_ROOM]
        cdef size_t n = rmq_host_text(
            self.rec.at + self.rec.store_host_pos, self.rec.sys_flag & RMQ_SYS_STOREHOST_V6, out
        )
        return out[:n].decode("ascii")

    @property
    def reconsume_times(self):
        """RECONSUMETIMES."""
        return rmq_rec_reconsume_times(&self.rec)

    @property
    def prepared_transaction_offset(self):
        """PREPAREDTRANSACTIONOFFSET: phy_offset of the half message of a commit record, else 0."""
        return rmq_rec_prepared_transaction_offset(&self.rec)

    @property
    def body(self):
        """The body's bytes as stored (a compressed body stays compressed), a new object each time."""
        return unless_lost(self, bytes_at(&self.rec, self.rec.body_pos, self.rec.body_len))

    @property
    def body_size(self):
        """BODYLENGTH: bytes of the body as stored."""
        return self.rec.body_len

    def body_start(self, int64_t most):
        """The first `most` bytes of the body as stored, fewer where it ends before; nothing else is copied."""
        return unless_lost(self, bytes_at(&self.rec, self.rec.body_pos, min(max(most, 0), self.rec.body_len)))

    @property
    def topic(self):
        """The topic."""
        return unless_lost(self, frequent_text_of(self.rec.at + self.rec.topic_pos, self.rec.topic_len))

    @property
    def properties(self):
        """All properties as a new dict in stored order; of a repeated name the last value counts.

        `rmqcore.codec.properties` of the view reads single ones without the others.
        """
        return unless_lost(
            self, properties_dict(self.rec.at + self.rec.props_pos, self.rec.props_len, self.rec.props_pos)
        )

    @property
    def tags(self):
        """The TAGS property; None when the record has no tags."""
        cdef rmq_known_props known
        self.find_known(&known)
        if known.tags.p == NULL:
            return unless_lost(self, None)
        return unless_lost(self, frequent_text_of(known.tags.p, known.tags.len))

    @property
    def keys(self):
        """The words of the KEYS property, a tuple."""
        cdef rmq_known_props known
        self.find_known(&known)
        return unless_lost(self, words_of(&known.keys))

    @property
    def uniq_key(self):
        """The UNIQ_KEY property (the client's message id); None when the record has no such property."""
        cdef rmq_known_props known
        self.find_known(&known)
        return unless_lost(self, text_or_none(&known.uniq_key))

    @property
    def msg_id(self):
        """The offset message id: store host and phy_offset in upper-case hex, 32 digits (IPv4) or 56."""
        cdef char out[RMQ_MSG_ID_V6_LEN]
        cdef size_t n = rmq_msg_id(&self.rec, out)
        return out[:n].decode("ascii")

    @property
    def tags_code(self):
        """Tags code of the ConsumeQueue entry: the hash of TAGS, on SCHEDULE_TOPIC_XXXX the delivery time in ms."""
        cdef rmq_known_props known
        self.find_known(&known)
        return rmq_tags_code(&self.rec, &known, &self.delay_levels.levels)

    @property
    def raw(self):
        """The whole record's bytes."""
        return unless_lost(self, bytes_at(&self.rec, 0, self.rec.msg_size))

    def decompress(self, max_size=None):
        """The plain body, at most `max_size` bytes.

        Raises
        ------
        CompressionError
            The bytes are not what SYSFLAG says, the plain body is larger than `max_size`, or the extra
            ``rmqcore[compress]`` that LZ4 and ZSTD need is not installed.
        """
        from rmqcore.codec.compression import DEFAULT_MAX_SIZE, decompress_body

        return decompress_body(self.body, self.rec.sys_flag, DEFAULT_MAX_SIZE if max_size is None else max_size)

    def crc_ok(self):
        """Return True if the body has the stored CRC."""
        cdef rmq_record rec = self.rec
        return rmq_record_check_body_crc(&rec) == 0

    def prop_crc_ok(self):
        """Return True if the appended ``__CRC32#`` of the whole record matches; None if the record has none."""
        cdef rmq_record rec = self.rec
        if not rmq_record_has_prop_crc(&rec):
            return None
        return rmq_record_check_prop_crc(&rec) == 0

    def as_dict(self):
        """All values by their names, a new dict: what `rmqcore cat` prints of a message.

        JSON takes all of them but `body`, which is bytes; `keys` is a list, `properties` a dict. `raw` is not among them.
        """
        return values_of(self)

    def __eq__(self, other):
        cdef MessageView view
        if not isinstance(other, MessageView):
            return NotImplemented
        view = <MessageView> other
        same = self.rec.msg_size == view.rec.msg_size and memcmp(self.rec.at, view.rec.at, self.rec.msg_size) == 0
        return unless_lost(view, unless_lost(self, same))

    def __hash__(self):
        # Place, time and the body's CRC tell records apart; all bytes of it would be read for nothing.
        return unless_lost(self, hash((
            rmq_rec_phy_offset(&self.rec),
            self.rec.msg_size,
            rmq_rec_store_timestamp(&self.rec),
            rmq_rec_body_crc(&self.rec),
        )))

    def __reduce__(self):
        levels = self.delay_levels
        return restored_view, (self.raw, None if levels is DEFAULT_DELAY_LEVELS else levels.delays_ms)

    def _repr_html_(self):
        from rmqcore.shown.notebook import message_html
        return message_html(self)

    def __repr__(self):
        return line_of(self)

    cdef void find_known(self, rmq_known_props *known) noexcept:
        """Find the properties that are asked for most, without the others: a dict of all costs ten times as much."""
        rmq_props_known(self.rec.at + self.rec.props_pos, self.rec.props_len, self.rec.props_pos, known)


def restored_view(raw, delays_ms):
    """The view of a pickle: it owns the bytes."""
    return decode_with_levels(raw, 0, None if delays_ms is None else DelayLevels(delays_ms))


def topic_bytes(MessageView view not None):
    """TOPIC as it lies in the record, well-formed or not."""
    return unless_lost(view, bytes_at(&view.rec, view.rec.topic_pos, view.rec.topic_len))


def property_bytes(MessageView view not None):
    """PROPERTIES as they lie in the record."""
    return unless_lost(view, bytes_at(&view.rec, view.rec.props_pos, view.rec.props_len))


# ---- views of buffers -------------------------------------------------------------------------------


cdef Py_ssize_t position_or_none(object pos, Py_ssize_t length) except -2:
    """A position in a buffer of `length` bytes, its end included; -1 for any other number."""
    cdef int overflow = 0
    cdef long long at
    if type(pos) is not int and not hasattr(pos, "__index__"):
        raise wrong_type("pos", "int", pos)
    at = PyLong_AsLongLongAndOverflow(pos, &overflow)
    return -1 if overflow or not 0 <= at <= length else at


cdef Py_ssize_t position(object pos, Py_ssize_t length) except -1:
    cdef Py_ssize_t at = position_or_none(pos, length)
    if at < 0:
        raise ValueError(f"pos {pos} is outside the buffer of {length} bytes")
    return at


cdef MessageView view_at(object owner, const uint8_t *buf, Py_ssize_t length, object pos, DelayLevels levels):
    cdef Py_ssize_t start = position(pos, length)
    cdef rmq_record rec
    cdef int32_t code = rmq_record_parse(buf + start, length - start, &rec)
    if code <= 0:
        raise corrupt_message("<buffer>", start, code, &rec)
    return new_view(owner, &rec, levels)


def decode_with_levels(buf, pos, DelayLevels levels):
    """`decode`, with other delay levels than Java's default ones (None) for the tags codes of delayed messages."""
    return decoded(buf, pos, levels)


cdef MessageView decoded(object buf, object pos, DelayLevels levels):
    cdef Py_buffer exported
    if type(buf) is bytes:
        return view_at(buf, <const uint8_t *> PyBytes_AS_STRING(buf), PyBytes_GET_SIZE(buf), pos, levels)
    owner = PyMemoryView_FromObject(buf)
    PyObject_GetBuffer(owner, &exported, PyBUF_SIMPLE)
    try:
        # `owner` alone keeps the memory: a memoryview holds its own export.
        return view_at(owner, <const uint8_t *> exported.buf, exported.len, pos, levels)
    finally:
        PyBuffer_Release(&exported)


seal(MessageView, "rmqcore.codec.decode and the readers")
