"""Rows of Arrow columns as messages, without a Python object for any of them.

The data comes in by the PyCapsule protocol. Each of the producer's structs is moved into an object here, which releases it when
it ends: exactly once, on every way out.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport strlen

from rmqcore._native.kernels cimport rmq_log, rmq_put
from rmqcore._native.format.sealed cimport seal

from rmqcore.errors.near_names import with_the_meant

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
cdef class ArrowSchemaOwner:
    def __cinit__(self):
        self.it.release = NULL

    def __dealloc__(self):
        if self.it.release != NULL:
            self.it.release(&self.it)


@cython.final
cdef class ArrowArrayOwner:
    def __cinit__(self):
        self.it.release = NULL

    def __dealloc__(self):
        if self.it.release != NULL:
            self.it.release(&self.it)


@cython.final
cdef class ArrowStreamOwner:
    def __cinit__(self):
        self.it.release = NULL

    def __dealloc__(self):
        if self.it.release != NULL:
            self.it.release(&self.it)

    cdef ArrowSchemaOwner schema(self):
        cdef ArrowSchemaOwner schema = ArrowSchemaOwner.__new__(ArrowSchemaOwner)
        cdef int code
        with nogil:  # a producer may wait for a thread that wants the GIL
            code = self.it.get_schema(&self.it, &schema.it)
        self.check(code)
        return schema

    cdef ArrowArrayOwner next(self):
        """The next batch; None at the end."""
        cdef ArrowArrayOwner array = ArrowArrayOwner.__new__(ArrowArrayOwner)
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
            raise OSError(code, f"{self.call}: the stream failed: {reason}")
        return 0


cdef ArrowSchemaOwner take_schema(object capsule):
    cdef ArrowSchema *given = <ArrowSchema *> PyCapsule_GetPointer(capsule, "arrow_schema")
    cdef ArrowSchemaOwner schema = ArrowSchemaOwner.__new__(ArrowSchemaOwner)
    schema.it = given[0]
    given.release = NULL
    return schema


cdef ArrowArrayOwner take_array(object capsule):
    cdef ArrowArray *given = <ArrowArray *> PyCapsule_GetPointer(capsule, "arrow_array")
    cdef ArrowArrayOwner array = ArrowArrayOwner.__new__(ArrowArrayOwner)
    array.it = given[0]
    given.release = NULL
    return array


cdef ArrowStreamOwner take_stream(object capsule, str call):
    cdef ArrowArrayStream *given = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    cdef ArrowStreamOwner stream = ArrowStreamOwner.__new__(ArrowStreamOwner)
    stream.it = given[0]
    stream.call = call
    given.release = NULL
    if stream.it.release == NULL:
        raise ValueError(f"{call}: the stream was used before")
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


cdef int bind_schema(rmq_import *state, const ArrowSchema *schema, str call) except -1:
    """Note where each column is, and its type."""
    cdef int64_t i
    cdef int32_t column
    cdef str name
    if schema.release == NULL or schema.format == NULL:
        raise ValueError(f"{call}: the schema was used before")
    if strlen(schema.format) != 2 or schema.format[0] != b"+" or schema.format[1] != b"s":
        raise TypeError(f"{call}: got one column of type {type_name(schema)}, expected a table with columns {known()}")
    state.children = schema.n_children
    unknown = []
    if schema.n_children > 0 and schema.children == NULL:
        raise ValueError(f"{call}: the schema has no children where it says so: the producer is broken")
    for i in range(schema.n_children):
        if schema.children[i] == NULL:
            raise ValueError(f"{call}: the schema has no children where it says so: the producer is broken")
        name = schema.children[i].name.decode("utf-8", "replace") if schema.children[i].name != NULL else ""
        if name not in COLUMNS:
            unknown.append(name)
            continue
        column = NAMES.index(name)
        if state.child[column] >= 0:
            raise ValueError(f"{call}: column {name!r} is there twice")
        state.child[column] = i
        if rmq_import_type_of(schema.children[i], column, &state.types[column]) < 0:
            raise TypeError(f"{call}: column {name!r} is {type_name(schema.children[i])}, expected {COLUMNS[name]}")
    if unknown:
        raise ValueError(f"{call}: unknown columns {with_the_meant(unknown, NAMES)}; a message has {known()}")
    for column in (RMQ_IMP_TOPIC, RMQ_IMP_BODY):
        if state.child[column] < 0:
            raise ValueError(f"{call}: no column {NAMES[column]!r}; topic and body are needed")
    return 0


cdef str known():
    return ", ".join(NAMES)


# ---- what was wrong ---------------------------------------------------------------------------------


cdef str describe_fault(const rmq_import_fault *fault, int64_t row, str call):
    where = f"column {NAMES[fault.column]!r}" if fault.column >= 0 else "the batch"
    if fault.code == RMQ_IMP_E_SHAPE:
        what = fault.what.decode()
        return f"{call}: {where}: {what} is {fault.found}, which does not fit {fault.expected}: the producer is broken"
    if fault.code == RMQ_IMP_E_INDEX:
        return f"{call}: {where}, row {row}: an index outside its dictionary: the producer is broken"
    if fault.row < 0:
        return f"{call}: {where}: offset {fault.found} behind offset {fault.expected}: the producer is broken"
    return f"{call}: {where}, row {row}: an offset that leaves the data: the producer is broken"


cdef str refused_column(const rmq_import_fault *fault):
    return None if fault.column < 0 else NAMES[fault.column]


cdef str refused_reason(const rmq_import_fault *fault, str limit):
    sample = (<bytes> fault.sample[:fault.sample_len]).decode("utf-8", "replace")
    return {
        RMQ_IMP_R_NULL: "null",
        RMQ_IMP_R_RANGE: f"{fault.found} has no room in its field",
        RMQ_IMP_R_UTF8: f"{sample!r} is not UTF-8",
        RMQ_IMP_R_SEPARATOR: f"{sample!r} holds a separator (0x01 or 0x02)",
        RMQ_IMP_R_KEY: f"key {sample!r}: a key is a word without spaces",
        RMQ_IMP_R_TWICE: f"property {sample!r} is given twice",
        RMQ_IMP_R_HOST: f"host {sample!r}: expected 'ip:port' or '[v6]:port'",
        RMQ_IMP_R_LIMIT: f"a message of topic {sample!r} that {limit}",
    }[fault.code]


cdef str describe_refusal(int64_t row, str column, str reason):
    return f"row {row}: {reason}" if column is None else f"row {row}, column {column!r}: {reason}"


# ---- rows -------------------------------------------------------------------------------------------


@cython.final
cdef class ArrowScratch:
    """The memory of one call, kept for the next call: half a megabyte of fresh pages costs as much as some hundred rows."""

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


@cython.final
cdef class ArrowRows:
    """The rows of one call."""

    cdef bint next_batch(self) except -1:
        cdef rmq_import_fault fault
        if self.begun:
            self.before += self.batch.rows
            if self.scratch.state.refusal.code != 0:
                self.scratch.state.refusal.row = -1  # no row of a later batch comes before it
            self.array = None  # released before the producer makes the next one
        if self.stream is not None:
            self.array = self.stream.next()
        if self.array is None:
            return False
        self.begun = True
        if rmq_import_bind(self.scratch.state, &self.array.it, &self.batch, &fault) < 0:
            raise ValueError(describe_fault(&fault, self.before, self.call))
        if self.ready < min(self.batch.rows, RMQ_IMP_CHUNK):
            rmq_import_defaults(self.puts + self.ready, min(self.batch.rows, RMQ_IMP_CHUNK) - self.ready)
            self.ready = min(self.batch.rows, RMQ_IMP_CHUNK)
        return True

    cdef int64_t fill(self, const rmq_log *log, int64_t at, str told) except -1:
        cdef rmq_import_fault fault
        cdef int64_t made
        PyErr_CheckSignals()
        with nogil:
            made = rmq_import_rows(
                self.scratch.state, log, &self.batch, at, min(self.batch.rows - at, RMQ_IMP_CHUNK), self.puts,
                self.scratch.arena, &fault,
            )
        if made == 0:
            raise ValueError(describe_fault(&fault, self.before + at, self.call) + told)
        return made

    cdef void end(self):
        if len(spares) < 2:
            spares.append(self.scratch)
        self.scratch = None


cdef ArrowRows rows_of(str call, object data, bint append_prop_crc):
    """The rows of anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, whose columns are those of a message."""
    cdef ArrowRows rows = ArrowRows.__new__(ArrowRows)
    cdef ArrowSchemaOwner schema
    rows.call = call
    if hasattr(data, "__arrow_c_stream__"):
        rows.stream = take_stream(data.__arrow_c_stream__(), call)
        schema = rows.stream.schema()
    elif hasattr(data, "__arrow_c_array__"):
        given = data.__arrow_c_array__()
        schema = take_schema(given[0])
        rows.array = take_array(given[1])
    else:
        raise TypeError(f"{call}: {type(data).__name__} has neither __arrow_c_stream__ nor __arrow_c_array__")
    try:
        rows.scratch = spares.pop()
    except IndexError:
        rows.scratch = ArrowScratch()
    rows.puts = rows.scratch.puts
    rows.before = rows.ready = 0
    rmq_import_init(rows.scratch.state)
    rows.scratch.state.append_prop_crc = append_prop_crc
    bind_schema(rows.scratch.state, &schema.it, call)
    return rows


seal(ArrowSchemaOwner, "put_arrow")
seal(ArrowArrayOwner, "put_arrow")
seal(ArrowStreamOwner, "put_arrow")
seal(ArrowRows, "put_arrow")
