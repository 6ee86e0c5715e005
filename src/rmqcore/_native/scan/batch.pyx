"""Rows of a scan as columns, and their export to Arrow: one batch, or a stream of them.

Nothing is copied: the memory that a scan has filled is given away, and returns to the scan's pool when its last holder lets go.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.errno cimport EIO, ENOMEM
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from rmqcore._native.kernels cimport *
from rmqcore._native.format.sealed cimport seal

from rmqcore.errors.near_names import with_the_meant

COLUMNS = {rmq_column_types[i].name.decode(): i for i in range(RMQ_COL_COUNT)}
PUBLIC_COLUMNS = tuple(COLUMNS)[:RMQ_COL_PUBLIC]


cdef void release_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *> PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void release_array_capsule(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *> PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef class ColumnList:
    """Chosen columns in order."""

    def __cinit__(self, names=None):
        if isinstance(names, str) or (names is not None and not hasattr(names, "__iter__")):
            got = f"the str {names!r}" if isinstance(names, str) else type(names).__name__
            raise TypeError(f"columns: expected an iterable of names, got {got}")
        chosen = PUBLIC_COLUMNS if names is None else tuple(names)
        unknown = [name for name in chosen if not isinstance(name, str) or name not in COLUMNS]
        if unknown:
            raise ValueError(f"columns: unknown column {with_the_meant(unknown, COLUMNS)}; known are {', '.join(COLUMNS)}")
        if len(set(chosen)) != len(chosen):
            raise ValueError("columns: a name is given twice")
        self.names = chosen
        self.count = len(chosen)
        for i, name in enumerate(chosen):
            self.ids[i] = COLUMNS[name]
            self.mask |= <uint32_t> 1 << <int> COLUMNS[name]

    def schema_capsule(self):
        """The struct type of these columns as an ``arrow_schema`` capsule."""
        cdef ArrowSchema *schema = <ArrowSchema *> malloc(sizeof(ArrowSchema))
        if schema == NULL:
            raise MemoryError
        schema.release = NULL
        capsule = PyCapsule_New(schema, "arrow_schema", release_schema_capsule)
        if rmq_arrow_schema(self.ids, self.count, schema):
            raise MemoryError
        return capsule


@cython.final
cdef class _ColumnBuffer:
    """The memory of one column, alive as long as anybody looks at it."""

    cdef rmq_shared_batch *shared
    cdef void *data
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 1, flags)

    def __dealloc__(self):
        if self.shared != NULL:
            rmq_shared_drop(self.shared)


@cython.final
cdef class Batch:
    """Rows of a scan as columns, exported to Arrow without a copy.

    Any consumer of the Arrow PyCapsule interface takes it: ``pyarrow.record_batch(batch)``, ``polars.DataFrame(batch)``.
    Buffers are given away, not copied; they return to the scan's pool when the last holder lets go, on any thread.

    Attributes
    ----------
    num_rows : int
    column_names : tuple of str
    """

    def __dealloc__(self):
        if self.shared != NULL:
            rmq_shared_drop(self.shared)

    def __len__(self):
        return rmq_shared_batch_of(self.shared).rows

    @property
    def num_rows(self):
        return rmq_shared_batch_of(self.shared).rows

    @property
    def column_names(self):
        return self.columns.names

    @property
    def nbytes(self):
        """Bytes of the records in this batch."""
        return rmq_shared_batch_of(self.shared).bytes

    def __arrow_c_schema__(self):
        return self.columns.schema_capsule()

    def __arrow_c_array__(self, requested_schema=None):
        # The interface allows to answer in the own schema when another is requested: the consumer casts.
        cdef ArrowArray *array = <ArrowArray *> malloc(sizeof(ArrowArray))
        if array == NULL:
            raise MemoryError
        array.release = NULL
        capsule = PyCapsule_New(array, "arrow_array", release_array_capsule)
        if rmq_arrow_array(self.shared, self.columns.ids, self.columns.count, array):
            raise MemoryError
        return self.columns.schema_capsule(), capsule

    def buffer(self, name, part="values"):
        """A memoryview of the bytes of a number column, or of a list column's ``"offsets"`` (int32, rows + 1 of them)."""
        if name not in self.columns.names:
            raise KeyError(name)
        cdef int column_id = COLUMNS[name]
        cdef const rmq_batch *batch = rmq_shared_batch_of(self.shared)
        cdef const rmq_column *column = &batch.columns[column_id]
        cdef int kind = rmq_column_types[column_id].kind
        cdef _ColumnBuffer found = _ColumnBuffer.__new__(_ColumnBuffer)
        if kind == RMQ_KIND_HASHES and part == "offsets":
            found.data = column.offsets
            found.size = 4 * (batch.rows + 1)
        elif kind == RMQ_KIND_HASHES:
            found.data = column.values.any
            found.size = 4 * column.offsets[batch.rows]
        elif kind in (RMQ_KIND_I32, RMQ_KIND_I64) and part == "values":
            found.data = column.values.any
            found.size = batch.rows * (4 if kind == RMQ_KIND_I32 else 8)
        else:
            raise ValueError(f"column {name!r} has no plain memory to look at")
        found.shared = self.shared
        rmq_shared_hold(self.shared)
        return memoryview(found)

    def __repr__(self):
        return f"<Batch of {self.num_rows} rows, {len(self.columns.names)} columns>"


# ---- Arrow stream -----------------------------------------------------------------------------------


cdef struct stream_state:
    PyObject *batches  # iterator of Batch
    PyObject *columns  # ColumnList
    PyObject *message  # bytes of the last error, or NULL


cdef int stream_get_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    cdef ColumnList columns = <ColumnList> state.columns
    return ENOMEM if rmq_arrow_schema(columns.ids, columns.count, out) else 0


cdef int stream_get_next(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    cdef Batch batch
    cdef PyObject *old = state.message
    state.message = NULL
    Py_XDECREF(old)
    try:
        for item in <object> state.batches:
            batch = item
            if rmq_arrow_array(batch.shared, batch.columns.ids, batch.columns.count, out):
                raise MemoryError("no memory for an Arrow array")
            return 0
        memset(out, 0, sizeof(out[0]))
        return 0
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        Py_INCREF(text)
        state.message = <PyObject *> text
        return EIO


cdef const char *stream_get_last_error(ArrowArrayStream *stream) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    return PyBytes_AS_STRING(<bytes> state.message) if state.message != NULL else NULL


cdef void stream_release(ArrowArrayStream *stream) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    Py_XDECREF(state.batches)
    Py_XDECREF(state.columns)
    Py_XDECREF(state.message)
    free(state)
    stream.release = NULL


cdef void release_stream_capsule(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


def stream_capsule(batches, ColumnList columns not None):
    """An ``arrow_array_stream`` capsule over an iterable of Batch with these columns.

    An exception from the iterable reaches the consumer as a stream error with its text.
    """
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> malloc(sizeof(ArrowArrayStream))
    cdef stream_state *state = <stream_state *> malloc(sizeof(stream_state))
    if stream == NULL or state == NULL:
        free(stream)
        free(state)
        raise MemoryError
    iterator = iter(batches)
    Py_INCREF(iterator)
    Py_INCREF(columns)
    state.batches = <PyObject *> iterator
    state.columns = <PyObject *> columns
    state.message = NULL
    stream.get_schema = stream_get_schema
    stream.get_next = stream_get_next
    stream.get_last_error = stream_get_last_error
    stream.release = stream_release
    stream.private_data = state
    return PyCapsule_New(stream, "arrow_array_stream", release_stream_capsule)


seal(Batch, "a scan")
seal(_ColumnBuffer, "Batch.buffer")


cdef Batch new_batch(rmq_batch *rows, ColumnList columns):
    """A batch that owns `rows`; they are given back to their pool, or freed, also when it cannot be made."""
    cdef Batch batch = Batch.__new__(Batch)
    batch.columns = columns
    batch.shared = rmq_shared_new(rows)
    if batch.shared == NULL:
        raise MemoryError
    return batch
