from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rmqcore._native.files.mapped_file cimport MappedFile

cdef extern from "index/mapped_index.h" nogil:
    ctypedef struct rmq_index_header:
        int64_t begin_timestamp, end_timestamp, begin_phy_offset, end_phy_offset
        int32_t hash_slot_count, index_count
    ctypedef struct rmq_index_map:
        uint8_t *base
        uint32_t slots
        int32_t capacity, ready, visible
        rmq_index_header header
    ctypedef struct rmq_index_rows:
        const int64_t *phy_offsets
        const int64_t *store_timestamps
        const int32_t *hashes
        const int32_t *offsets
        int64_t rows

cdef enum:
    # Hits of one query that need no memory but the stack's.
    FEW_HITS = 64


cdef struct IndexHits:
    int64_t few[FEW_HITS]
    int64_t *phy_offsets  # ascending: `few`, or from malloc
    size_t count
    int64_t last_update_timestamp_ms, last_update_phy_offset  # of the newest file; 0 without hits


cdef class MappedIndexFile:
    cdef readonly MappedFile file
    cdef rmq_index_map map

    cdef int open(self) except -1


cdef class IndexFiles:
    cdef readonly tuple files
    cdef int64_t most_hits
    cdef rmq_index_map **maps
    cdef Py_ssize_t count

    # A query has two steps: `hash_of` computes the hash of a key (or tag, with the index type "T") and prefetches its slot in
    # the newest file, then `find` looks for the entries of this hash. Between them a caller does its other work. `drop_hits`
    # frees the hits; it is called when `find` fails, too.
    cdef int32_t hash_of(self, str topic, str key, object index_type) except -1
    cdef int find(self, IndexHits *hits, int32_t key_hash, int64_t limit, int64_t begin_ms, int64_t end_ms,
                  bint keep_gil=*) except -1
    cdef int32_t keys_in(self, const rmq_index_rows *rows, int64_t row) except -1


cdef void drop_hits(IndexHits *hits) noexcept
