"""put_arrow: rows of Arrow columns into the append, without a Python object for any of them.

The data comes in by the PyCapsule protocol. Each of the producer's structs is moved into an object here, which releases it when
it ends: exactly once, on every way out.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport strlen

from rmqcore._native.put.appender cimport Appender
from rmqcore._native.kernels cimport (
    RMQ_A_STOPPED, RMQ_PUT_CREATE_MAPPED_FILE_FAILED, RMQ_PUT_OK, RMQ_PUT_SERVICE_NOT_AVAILABLE, rmq_log, rmq_put,
)
from rmqcore._native.format.sealed cimport seal
from rmqcore._native.put.put_result cimport put_reason, unstored_rows

import numpy as np

from rmqcore.errors.near_names import with_the_meant

cdef extern from "format/arrow_abi.h" nogil:
    struct ArrowSchema:
        const char *format
        const char *name
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept nogil
    struct ArrowArray:
        void (*release)(ArrowArray *) noexcept nogil
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept nogil
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
        void (*release)(ArrowArrayStream *) noexcept nogil

cdef extern from "put/arrow_import.h" nogil:
    enum:
        RMQ_IMP_TOPIC, RMQ_IMP_BODY, RMQ_IMP_COLUMNS, RMQ_IMP_CHUNK, RMQ_IMP_ARENA_SIZE
        RMQ_IMP_E_SHAPE, RMQ_IMP_E_OFFSETS, RMQ_IMP_E_INDEX
        RMQ_IMP_R_NULL, RMQ_IMP_R_RANGE, RMQ_IMP_R_UTF8, RMQ_IMP_R_SEPARATOR, RMQ_IMP_R_KEY, RMQ_IMP_R_TWICE, RMQ_IMP_R_HOST
        RMQ_IMP_R_LIMIT
    ctypedef struct rmq_import_fault:
        int32_t code, column
        int64_t row, found, expected
        const char *what
        uint32_t sample_len
        uint8_t sample[64]
    ctypedef struct rmq_import_type:
        pass
    ctypedef struct rmq_import_batch:
        int64_t rows
    ctypedef struct rmq_import:
        rmq_import_type types[13]
        int64_t child[13]
        int64_t children
        int append_prop_crc
        rmq_import_fault refusal
    int32_t rmq_import_type_of(const ArrowSchema *schema, int32_t column, rmq_import_type *out) noexcept
    int32_t rmq_import_bind(
        rmq_import *state, const ArrowArray *array, rmq_import_batch *out, rmq_import_fault *fault
    ) noexcept
    void rmq_import_init(rmq_import *state) noexcept
    void rmq_import_defaults(rmq_put *puts, int64_t count) noexcept
    int64_t rmq_import_rows(
        rmq_import *state, const rmq_log *log, const rmq_import_batch *batch, int64_t begin, int64_t count, rmq_put *puts,
        uint8_t *arena, rmq_import_fault *fault
    ) noexcept

# In the order of arrow_import.h, with the type that each may have.
COLUMNS = {
    "topic": "string",
    "body": "binary",
    "queue_id": "integer",
    "tags": "string",
    "keys": "list<string>",
    "properties": "map<string, string>",
    "flag": "integer",
    "sys_flag": "integer",
    "born_timestamp_ms": "integer or timestamp",
    "born_host": "string",
    "store_host": "string",
    "reconsume_times": "integer",
    "prepared_transaction_offset": "integer",
}
cdef tuple NAMES = tuple(COLUMNS)
assert len(NAMES) == RMQ_IMP_COLUMNS

FORMATS = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "e": "float16", "f": "float32", "g": "float64", "u": "string", "U": "large_string",
    "vu": "string_view", "z": "binary", "Z": "large_binary", "vz": "binary_view", "tdD": "date32", "tdm": "date64",
}


# ---- the producer's structs -------------------------------------------------------------------------


@cython.final
cdef class _Schema:
    cdef ArrowSchema it

    def __cinit__(self):
        self.it.release = NULL

    def __dealloc__(self):
        if self.it.release != NULL:
            self.it.release(&self.it)


@cython.final
cdef class _Array:
    cdef ArrowArray it

    def __cinit__(self):
        self.it.release = NULL

    def __dealloc__(self):
        if self.it.release != NULL:
            self.it.release(&self.it)


@cython.final
cdef class _Stream:
    cdef ArrowArrayStream it

    def __cinit__(self):
        self.it.release = NULL

    def __dealloc__(self):
        if self.it.release != NULL:
            self.it.release(&self.it)

    cdef _Schema schema(self):
        cdef _Schema schema = _Schema.__new__(_Schema)
        cdef int code
        with nogil:  # a producer may wait for a thread that wants the GIL
            code = self.it.get_schema(&self.it, &schema.it)
        self.check(code)
        return schema

    cdef _Array next(self):
        """The next batch; None at the end."""
        cdef _Array array = _Array.__new__(_Array)
        cdef int code
        with nogil:
            code = self.it.get_next(&self.it, &array.it)
        self.check(code)
        return array if array.it.release != NULL else None

    cdef int check(self, int code) except -1:
        cdef const char *text
        if code:
            text = self.it.get_last_error(&self.it)
            reason = text.decode("utf-8", "replace") if text != NULL else "no reason given"
            raise OSError(code, f"put_arrow: the stream failed: {reason}")
        return 0


cdef _Schema take_schema(object capsule):
    cdef ArrowSchema *given = <ArrowSchema *> PyCapsule_GetPointer(capsule, "arrow_schema")
    cdef _Schema schema = _Schema.__new__(_Schema)
    schema.it = given[0]
    given.release = NULL
    return schema


cdef _Array take_array(object capsule):
    cdef ArrowArray *given = <ArrowArray *> PyCapsule_GetPointer(capsule, "arrow_array")
    cdef _Array array = _Array.__new__(_Array)
    array.it = given[0]
    given.release = NULL
    return array


cdef _Stream take_stream(object capsule):
    cdef ArrowArrayStream *given = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    cdef _Stream stream = _Stream.__new__(_Stream)
    stream.it = given[0]
    given.release = NULL
    if stream.it.release == NULL:
        raise ValueError("put_arrow: the stream was used before")
    return stream


# ---- schema -----------------------------------------------------------------------------------------


cdef enum:
    SHOWN_DEPTH = 4
    SHOWN_CHILDREN = 8


cdef str type_name(const ArrowSchema *schema, int depth=0):
    """A type as pyarrow writes it, for messages; of a deep or wide one, or one that holds itself, the beginning."""
    cdef int64_t i
    if schema == NULL or schema.format == NULL:
        return "nothing"
    if depth == SHOWN_DEPTH:
        return "..."
    cdef str format = schema.format.decode("utf-8", "replace")
    if schema.dictionary != NULL:
        return f"dictionary<{type_name(schema.dictionary, depth + 1)}>"
    if format in FORMATS:
        return FORMATS[format]
    if format.startswith("ts"):
        return f"timestamp[{format[2:3]}]"
    children = []
    if schema.children != NULL:
        children = [type_name(schema.children[i], depth + 1) for i in range(min(schema.n_children, SHOWN_CHILDREN))]
        if schema.n_children > SHOWN_CHILDREN:
            children.append("...")
    if format == "+m":
        return f"map<{', '.join(children)}>"
    if format in ("+l", "+L", "+vl", "+vL") or format.startswith("+w:"):
        return f"list<{', '.join(children)}>"
    if format == "+s":
        return f"struct<{', '.join(children)}>"
    return f"Arrow type {format!r}"


cdef int bind_schema(rmq_import *state, const ArrowSchema *schema) except -1:
    """Note where each column is, and its type."""
    cdef int64_t i
    cdef int32_t column
    cdef str name
    if schema.release == NULL or schema.format == NULL:
        raise ValueError("put_arrow: the schema was used before")
    if strlen(schema.format) != 2 or schema.format[0] != b"+" or schema.format[1] != b"s":
        raise TypeError(f"put_arrow: got one column of type {type_name(schema)}, expected a table with columns {known()}")
    state.children = schema.n_children
    unknown = []
    if schema.n_children > 0 and schema.children == NULL:
        raise ValueError("put_arrow: the schema has no children where it says so: the producer is broken")
    for i in range(schema.n_children):
        if schema.children[i] == NULL:
            raise ValueError("put_arrow: the schema has no children where it says so: the producer is broken")
        name = schema.children[i].name.decode("utf-8", "replace") if schema.children[i].name != NULL else ""
        if name not in COLUMNS:
            unknown.append(name)
            continue
        column = NAMES.index(name)
        if state.child[column] >= 0:
            raise ValueError(f"put_arrow: column {name!r} is there twice")
        state.child[column] = i
        if rmq_import_type_of(schema.children[i], column, &state.types[column]) < 0:
            raise TypeError(f"put_arrow: column {name!r} is {type_name(schema.children[i])}, expected {COLUMNS[name]}")
    if unknown:
        raise ValueError(f"put_arrow: unknown columns {with_the_meant(unknown, NAMES)}; a message has {known()}")
    for column in (RMQ_IMP_TOPIC, RMQ_IMP_BODY):
        if state.child[column] < 0:
            raise ValueError(f"put_arrow: no column {NAMES[column]!r}; topic and body are needed")
    return 0


cdef str known():
    return ", ".join(NAMES)


# ---- what was wrong ---------------------------------------------------------------------------------


cdef str describe_fault(const rmq_import_fault *fault, int64_t row):
    where = f"column {NAMES[fault.column]!r}" if fault.column >= 0 else "the batch"
    if fault.code == RMQ_IMP_E_SHAPE:
        what = fault.what.decode()
        return f"put_arrow: {where}: {what} is {fault.found}, which does not fit {fault.expected}: the producer is broken"
    if fault.code == RMQ_IMP_E_INDEX:
        return f"put_arrow: {where}, row {row}: an index outside its dictionary: the producer is broken"
    if fault.row < 0:
        return f"put_arrow: {where}: offset {fault.found} behind offset {fault.expected}: the producer is broken"
    return f"put_arrow: {where}, row {row}: an offset that leaves the data: the producer is broken"


cdef str describe_refusal(const rmq_import_fault *fault, int64_t row, str limit):
    sample = (<bytes> fault.sample[:fault.sample_len]).decode("utf-8", "replace")
    reason = {
        RMQ_IMP_R_NULL: "null",
        RMQ_IMP_R_RANGE: f"{fault.found} has no room in its field",
        RMQ_IMP_R_UTF8: f"{sample!r} is no UTF-8",
        RMQ_IMP_R_SEPARATOR: f"{sample!r} holds a separator (0x01 or 0x02)",
        RMQ_IMP_R_KEY: f"key {sample!r}: a key is a word without spaces",
        RMQ_IMP_R_TWICE: f"property {sample!r} is given twice",
        RMQ_IMP_R_HOST: f"host {sample!r}: expected 'ip:port' or '[v6]:port'",
        RMQ_IMP_R_LIMIT: f"a message of topic {sample!r} that the store does not take: {limit}",
    }[fault.code]
    return f"row {row}: {reason}" if fault.column < 0 else f"row {row}, column {NAMES[fault.column]!r}: {reason}"


# ---- rows -------------------------------------------------------------------------------------------


@cython.final
cdef class _Scratch:
    """The memory of one call, kept for the next call: half a megabyte of fresh pages costs as much as some hundred rows."""

    cdef rmq_import *state
    cdef rmq_put *puts
    cdef uint8_t *arena

    def __cinit__(self):
        self.state = <rmq_import *> PyMem_Malloc(sizeof(rmq_import))
        self.puts = <rmq_put *> PyMem_Malloc(RMQ_IMP_CHUNK * sizeof(rmq_put))
        self.arena = <uint8_t *> PyMem_Malloc(RMQ_IMP_ARENA_SIZE)
        if self.state == NULL or self.puts == NULL or self.arena == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.state)
        PyMem_Free(self.puts)
        PyMem_Free(self.arena)


cdef list spares = []  # pop and append are atomic, with and without a GIL


cdef class _Run:
    """One call of put_arrow."""

    cdef Appender appender
    cdef _Scratch scratch
    cdef int64_t rows  # of the batches before
    cdef int64_t ready  # items that have their defaults
    cdef list parts
    cdef str refusal

    cdef bint put(self, _Array array) except -1:
        """Append a batch; False when the store takes no more."""
        cdef rmq_import *state = self.scratch.state
        cdef rmq_put *puts = self.scratch.puts
        cdef uint8_t *arena = self.scratch.arena
        cdef rmq_log *log = self.appender.log
        cdef rmq_import_batch batch
        cdef rmq_import_fault fault
        cdef int64_t at = 0, n = 0, i
        cdef size_t settled = 0
        cdef int code = 0
        if rmq_import_bind(state, &array.it, &batch, &fault) < 0:
            raise ValueError(describe_fault(&fault, self.rows))
        if self.ready < min(batch.rows, RMQ_IMP_CHUNK):
            rmq_import_defaults(puts + self.ready, min(batch.rows, RMQ_IMP_CHUNK) - self.ready)
            self.ready = min(batch.rows, RMQ_IMP_CHUNK)
        codes, phy_offsets, queue_offsets, timestamps = unstored_rows(batch.rows, RMQ_PUT_CREATE_MAPPED_FILE_FAILED)
        self.parts.append((codes, phy_offsets, queue_offsets, timestamps))
        cdef int8_t[::1] code_of = codes
        cdef int64_t[::1] phy_offset_of = phy_offsets
        cdef int64_t[::1] queue_offset_of = queue_offsets
        cdef int64_t[::1] timestamp_of = timestamps
        while at < batch.rows and <int64_t> settled == n:
            PyErr_CheckSignals()
            with nogil:
                n = rmq_import_rows(state, log, &batch, at, min(batch.rows - at, RMQ_IMP_CHUNK), puts, arena, &fault)
            if n == 0:
                raise ValueError(f"{describe_fault(&fault, self.rows + at)}; the rows before it are stored")
            settled = 0
            code = self.appender.append(puts, n, False, False, &settled)
            if code == RMQ_A_STOPPED and self.rows + at == 0 and settled == 0:
                self.appender.refuse()  # nothing is stored, so nothing has to be told but this
            for i in range(<int64_t> settled):
                code_of[at + i] = <int8_t> puts[i].status
                if puts[i].status == RMQ_PUT_OK:
                    phy_offset_of[at + i] = puts[i].msg.phy_offset
                    queue_offset_of[at + i] = puts[i].msg.queue_offset
                    timestamp_of[at + i] = puts[i].msg.store_timestamp
            i = state.refusal.row - at
            if state.refusal.code != 0 and self.refusal is None and 0 <= i < n:
                self.refusal = describe_refusal(
                    &state.refusal, self.rows + state.refusal.row, put_reason(log, &puts[i])
                )
            at += settled
        if at < batch.rows and code == RMQ_A_STOPPED:
            codes[at:] = RMQ_PUT_SERVICE_NOT_AVAILABLE
        if state.refusal.code != 0:
            state.refusal.row = -1  # no row of a later batch comes before it
        self.rows += batch.rows
        return <int64_t> settled == n


def put_arrow(Appender appender not None, data):
    """Append the rows of anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, in order.

    Returns
    -------
    tuple
        Arrays of int8 status codes, int64 phy offsets and queue offsets (-1: not stored), and int64 store timestamps, as of
        `Appender.put_many`; and what was wrong with the first row that makes no message, None when all rows do. When the store
        can take no more, batches of the stream that were not asked for have no rows here.

    Raises
    ------
    TypeError
        `data` is no Arrow data, or a column has a type that it cannot have.
    ValueError
        An unknown, missing or repeated column; a producer that breaks the rules of the interface.
    OSError
        The stream says that it failed. Rows of the batches before are stored.
    """
    cdef _Stream stream = None
    cdef _Schema schema
    cdef _Array array = None
    cdef _Run run = _Run.__new__(_Run)
    if appender.refused is not None:
        appender.refusal().raise_for_status()
    if hasattr(data, "__arrow_c_stream__"):
        stream = take_stream(data.__arrow_c_stream__())
        schema = stream.schema()
    elif hasattr(data, "__arrow_c_array__"):
        given = data.__arrow_c_array__()
        schema = take_schema(given[0])
        array = take_array(given[1])
    else:
        raise TypeError(f"put_arrow: {type(data).__name__} has neither __arrow_c_stream__ nor __arrow_c_array__")
    run.appender = appender
    run.parts = []
    run.refusal = None
    run.rows = 0
    try:
        run.scratch = spares.pop()
    except IndexError:
        run.scratch = _Scratch()
    run.ready = 0
    rmq_import_init(run.scratch.state)
    run.scratch.state.append_prop_crc = appender.append_prop_crc
    bind_schema(run.scratch.state, &schema.it)
    if stream is None:
        run.put(array)
    else:
        array = stream.next()
        while array is not None and run.put(array):
            array = None  # released before the producer makes the next one
            array = stream.next()
    if len(spares) < 2:
        spares.append(run.scratch)
    if len(run.parts) == 1:
        return *run.parts[0], run.refusal
    empty = unstored_rows(0, 0)
    return *[np.concatenate(column) for column in zip(empty, *run.parts)], run.refusal


seal(_Schema, "put_arrow")
seal(_Array, "put_arrow")
seal(_Stream, "put_arrow")
seal(_Run, "put_arrow")
