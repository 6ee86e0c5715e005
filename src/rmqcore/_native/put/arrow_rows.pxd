from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rmqcore._native.kernels cimport rmq_log, rmq_put

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


cdef class ArrowSchemaOwner:
    cdef ArrowSchema it


cdef class ArrowArrayOwner:
    cdef ArrowArray it


cdef class ArrowStreamOwner:
    cdef ArrowArrayStream it
    cdef str call

    cdef ArrowSchemaOwner schema(self)
    cdef ArrowArrayOwner next(self)
    cdef int check(self, int code) except -1


cdef class ArrowScratch:
    cdef rmq_import *state
    cdef rmq_put *puts
    cdef uint8_t *arena


cdef class ArrowRows:
    cdef str call
    cdef ArrowScratch scratch
    cdef ArrowStreamOwner stream
    cdef ArrowArrayOwner array
    cdef rmq_import_batch batch
    cdef bint begun  # `batch` is the one under way
    cdef int64_t ready  # items that have their defaults
    cdef int64_t before  # rows of the batches before
    cdef rmq_put *puts

    # Goes to the next batch; False at the end.
    cdef bint next_batch(self) except -1
    # Makes items of the rows of the batch from `at` on, in `puts`, and gives their number, at least 1. `told` ends the error of a
    # fault.
    cdef int64_t fill(self, const rmq_log *log, int64_t at, str told) except -1
    # Lets go of the memory, which another call takes up.
    cdef void end(self)


cdef ArrowRows rows_of(str call, object data, bint append_prop_crc)
# The column of a row that makes no message; None where the row as a whole breaks a limit.
cdef str refused_column(const rmq_import_fault *fault)
# What is wrong there; `limit` says which limit a whole row breaks.
cdef str refused_reason(const rmq_import_fault *fault, str limit)
# Both with the row's number, for people.
cdef str describe_refusal(int64_t row, str column, str reason)
