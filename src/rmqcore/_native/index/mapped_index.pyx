"""Mapped IndexFiles: keys of a scan's batches go in, queries by key come out.

Policy (names of files, when a file is made, how much of it is allocated) is in rmqcore/engine/index/index_service.py.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from rmqcore._native.scan.batch cimport Batch
from rmqcore._native.kernels cimport (
    RMQ_COL_KEY_HASHES, RMQ_COL_PHY_OFFSET, RMQ_COL_STORE_TIMESTAMP_MS, rmq_batch, rmq_index_key_hash, rmq_jhash,
    rmq_shared_batch_of,
)
from rmqcore._native.format.lost_pages cimport all_lost, raise_if_lost
from rmqcore._native.files.mapped_file cimport MappedFile

from rmqcore._native.index.index_reader import IndexHeader

cdef extern from "index/mapped_index.h" nogil:
    enum:
        RMQ_IDX_HEADER_SIZE, RMQ_IDX_SLOT_SIZE, RMQ_IDX_ENTRY_SIZE
    void rmq_index_map_init(rmq_index_map *map, uint32_t slots, int32_t capacity, const rmq_index_header *header) noexcept
    ctypedef struct rmq_index_place:
        int64_t row
        int32_t key
    enum:
        RMQ_PUT_DONE, RMQ_PUT_FULL, RMQ_PUT_ROOM
    int rmq_index_put(rmq_index_map *map, const rmq_index_rows *rows, rmq_index_place *at) noexcept
    void rmq_index_allow(rmq_index_map *map, int32_t ready) noexcept
    void rmq_index_put_header(const rmq_index_map *map) noexcept
    int32_t rmq_index_tail(const rmq_index_map *map, int64_t phy_offset, int32_t *out, int32_t room) noexcept
    ctypedef struct rmq_index_walk:
        int64_t steps
    ctypedef struct rmq_index_search:
        rmq_index_map **maps
        size_t left
        int64_t begin_ms, end_ms
        int32_t key_hash
        int walking
        size_t most
        int64_t *out
        size_t room, hits
        rmq_index_walk walk
    enum:
        RMQ_SEARCH_END, RMQ_SEARCH_MAP, RMQ_SEARCH_ROOM, RMQ_SEARCH_STEPS
    int rmq_index_search_run(rmq_index_search *search, int64_t steps) noexcept
    void rmq_index_ask(const rmq_index_map *map, int32_t key_hash) noexcept
    void rmq_index_sort(int64_t *offsets, size_t count) noexcept

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef extern from *:
    """
    /* The text of a str that is ASCII, as nearly all are; NULL for any other. */
    static inline const char *rmq_ascii_of(PyObject *text, Py_ssize_t *size) {
        if (!PyUnicode_IS_COMPACT_ASCII(text)) return NULL;
        *size = PyUnicode_GET_LENGTH(text);
        return (const char *)PyUnicode_1BYTE_DATA(text);
    }
    """
    const char *rmq_ascii_of(str text, Py_ssize_t *size) noexcept

cdef extern from "files/mapping.h" nogil:
    void rmq_read_at_random(uint8_t *base, size_t size) noexcept

PUT_DONE = int(RMQ_PUT_DONE)
PUT_FULL = int(RMQ_PUT_FULL)
PUT_ROOM = int(RMQ_PUT_ROOM)

cdef enum:
    # Entries that a query looks at before it lets go of the GIL: less than letting go costs.
    STEPS_WITH_GIL = 64


@cython.final
cdef class MappedIndexFile:
    """One IndexFile: its mapping and its header, which the writer keeps here and copies to the file after each batch.

    Parameters
    ----------
    file : MappedFile
        Exactly as long as `slot_count` and `capacity` say.
    slot_count, capacity : int
        maxHashSlotNum and maxIndexNum; entry 0 is never used.
    header : IndexHeader
        What the file's header says.

    Notes
    -----
    Thread safety: one thread puts; any thread searches and reads the properties.
    """

    def __cinit__(self, MappedFile file not None, uint32_t slot_count, int32_t capacity, header):
        cdef rmq_index_header fields
        cdef int64_t size = RMQ_IDX_HEADER_SIZE
        size += RMQ_IDX_SLOT_SIZE * <int64_t> slot_count + RMQ_IDX_ENTRY_SIZE * <int64_t> capacity
        if slot_count < 1 or capacity < 2 or size != file.file_size:
            raise ValueError(
                f"{file.path}: {slot_count} slots and {capacity} entries do not fit a file of {file.file_size} bytes"
            )
        fields.begin_timestamp = header[0]
        fields.end_timestamp = header[1]
        fields.begin_phy_offset = header[2]
        fields.end_phy_offset = header[3]
        fields.hash_slot_count = header[4]
        fields.index_count = header[5]
        self.file = file
        rmq_index_map_init(&self.map, slot_count, capacity, &fields)

    cdef int open(self) except -1:
        """Map the file; searches of a file that is only read touch single pages, so nothing around them is read."""
        if self.map.base == NULL:
            self.file.map()
            if not self.file.writable:
                rmq_read_at_random(self.file.base, self.file.file_size)
            self.map.base = self.file.base
        return 0

    @property
    def header(self):
        """The header as it is now."""
        cdef rmq_index_header *h = &self.map.header
        return IndexHeader(
            h.begin_timestamp, h.end_timestamp, h.begin_phy_offset, h.end_phy_offset, h.hash_slot_count, h.index_count
        )

    @property
    def index_count(self):
        """The next free entry."""
        return self.map.header.index_count

    @property
    def capacity(self):
        """Entries that the file has room for, the unused entry 0 included."""
        return self.map.capacity

    @property
    def slot_count(self):
        """Slots of the file."""
        return self.map.slots

    @property
    def ready(self):
        """Entries below this number may be stored to."""
        return self.map.ready

    @property
    def full(self):
        """True if there is no free entry."""
        return self.map.header.index_count >= self.map.capacity

    @property
    def end_phy_offset(self):
        """Phy offset of the newest message in the file."""
        return self.map.header.end_phy_offset

    def allow(self, int32_t ready):
        """Allow stores to entries below `ready`: they, header and slots have their blocks on disk."""
        if not self.file.writable or not 0 <= ready <= self.map.capacity:
            raise ValueError(f"{self.file.path}: {ready} entries of {self.map.capacity}, writable {self.file.writable}")
        self.open()
        rmq_index_allow(&self.map, ready)

    def write_header(self):
        """Write the header to the file; its first page has its block on disk."""
        if not self.file.writable:
            raise ValueError(f"{self.file.path} is mapped for reading")
        self.open()
        rmq_index_put_header(&self.map)
        raise_if_lost(self.file)

    def put(self, Batch batch not None, int64_t row, int32_t key):
        """Put the keys of a batch from key `key` of row `row` on: ``(row, key, code)`` where to go on and why (``PUT_*``).

        The batch has the columns phy_offset, store_timestamp_ms and key_hashes.
        """
        cdef rmq_index_rows rows = rows_of(batch)
        cdef rmq_index_place at
        cdef int code
        if not 0 <= row <= rows.rows or key < 0 or (key > 0 and (row == rows.rows or key > keys_of(&rows, row))):
            raise ValueError(f"row {row}, key {key} of a batch of {rows.rows} rows")
        if not self.file.writable:
            raise ValueError(f"{self.file.path} is mapped for reading")
        self.open()
        at.row = row
        at.key = key
        with nogil:
            code = rmq_index_put(&self.map, &rows, &at)
        raise_if_lost(self.file)
        return at.row, at.key, code

    def __repr__(self):
        return f"<MappedIndexFile {self.file.path!r} with {self.map.header.index_count - 1} entries>"


cdef rmq_index_rows rows_of(Batch batch) except *:
    cdef rmq_index_rows rows
    cdef uint32_t needed = (
        <uint32_t> 1 << RMQ_COL_PHY_OFFSET | <uint32_t> 1 << RMQ_COL_STORE_TIMESTAMP_MS | <uint32_t> 1 << RMQ_COL_KEY_HASHES
    )
    cdef const rmq_batch *columns = rmq_shared_batch_of(batch.shared)
    memset(&rows, 0, sizeof(rows))
    if batch.columns.mask & needed != needed:
        raise ValueError("an index is made of the columns phy_offset, store_timestamp_ms and key_hashes")
    rows.phy_offsets = columns.columns[<int> RMQ_COL_PHY_OFFSET].values.i64
    rows.store_timestamps = columns.columns[<int> RMQ_COL_STORE_TIMESTAMP_MS].values.i64
    rows.hashes = columns.columns[<int> RMQ_COL_KEY_HASHES].values.i32
    rows.offsets = columns.columns[<int> RMQ_COL_KEY_HASHES].offsets
    rows.rows = columns.rows
    return rows


cdef inline int32_t keys_of(const rmq_index_rows *rows, int64_t row) noexcept nogil:
    return rows.offsets[row + 1] - rows.offsets[row]


cdef int64_t first_row(const rmq_index_rows *rows, int64_t from_phy_offset) noexcept nogil:
    """The first row with at least this phy offset; the number of rows when no row has."""
    cdef int64_t low = 0, high = rows.rows, middle
    while low < high:
        middle = (low + high) // 2
        if rows.phy_offsets[middle] < from_phy_offset:
            low = middle + 1
        else:
            high = middle
    return low


@cython.final
cdef class IndexAnswer:
    """Result of a lookup of a key in the index files.

    Attributes
    ----------
    phy_offsets : list of int
        Ascending; hash collisions are among them, and an offset can be there twice.
    last_update_timestamp_ms, last_update_phy_offset : int
        The end of the newest file; both 0 when nothing was found, as in Java.
    """

    cdef readonly list phy_offsets
    cdef readonly object last_update_timestamp_ms
    cdef readonly object last_update_phy_offset

    def __init__(self, list phy_offsets not None, last_update_timestamp_ms, last_update_phy_offset):
        self.phy_offsets = phy_offsets
        self.last_update_timestamp_ms = last_update_timestamp_ms
        self.last_update_phy_offset = last_update_phy_offset

    def __repr__(self):
        return (
            f"IndexAnswer(phy_offsets={self.phy_offsets}, last_update_timestamp_ms={self.last_update_timestamp_ms}, "
            f"last_update_phy_offset={self.last_update_phy_offset})"
        )


cdef uint32_t hash_on(uint32_t seed, str text) except? 0:
    """Go on with Java's hash; a half surrogate, which no stored key can hold, counts as `?` (codec.java_hash)."""
    cdef Py_ssize_t size
    cdef const char *utf8 = rmq_ascii_of(text, &size)
    if utf8 != NULL:
        return rmq_jhash(seed, <const uint8_t *> utf8, size)
    try:
        utf8 = PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
        utf8 = PyUnicode_AsUTF8AndSize(text, &size)
    return rmq_jhash(seed, <const uint8_t *> utf8, size)


cdef int32_t query_hash(str topic, str key, bint tagged) except? 0:
    cdef uint32_t seed = rmq_jhash(hash_on(0, topic), <const uint8_t *> b"#", 1)
    if tagged:
        seed = rmq_jhash(seed, <const uint8_t *> b"T#", 2)
    return rmq_index_key_hash(hash_on(seed, key))


cdef void drop_hits(IndexHits *hits) noexcept:
    if hits.phy_offsets != hits.few:
        free(hits.phy_offsets)
    hits.phy_offsets = hits.few


@cython.final
cdef class IndexFiles:
    """The index files of a store, oldest first; never changes, so that a query needs no lock.

    Parameters
    ----------
    files : iterable of MappedIndexFile
    most_hits : int
        No query finds more (maxMsgsNumBatch).
    """

    def __cinit__(self, files=(), int64_t most_hits=INT64_MAX):
        cdef MappedIndexFile file
        self.most_hits = most_hits
        self.files = tuple(files)
        self.count = len(self.files)
        self.maps = <rmq_index_map **> PyMem_Malloc((self.count + 1) * sizeof(rmq_index_map *))
        if self.maps == NULL:
            raise MemoryError
        for i, file in enumerate(self.files):
            self.maps[i] = &file.map

    def __dealloc__(self):
        PyMem_Free(self.maps)

    def __len__(self):
        return self.count

    def query(self, str topic not None, str key not None, int64_t limit, int64_t begin_ms=0, int64_t end_ms=INT64_MAX,
              index_type=None, *, bint keep_gil=True):
        """Find at most `limit` entries of a key, or with the index type "T" of a tag, from the newest file and entry on.

        Without `keep_gil` other threads go on while the search waits for the disk.

        Source: RocketMQ 5.5.0 IndexService#queryOffset.
        """
        cdef IndexHits hits
        cdef int32_t key_hash = self.hash_of(topic, key, index_type)
        try:
            self.find(&hits, key_hash, limit, begin_ms, end_ms, keep_gil)
            return IndexAnswer(
                [hits.phy_offsets[i] for i in range(<Py_ssize_t> hits.count)],
                hits.last_update_timestamp_ms, hits.last_update_phy_offset,
            )
        finally:
            drop_hits(&hits)

    cdef int32_t hash_of(self, str topic, str key, object index_type) except -1:
        cdef int32_t key_hash
        if self.count == 0:
            return 0
        key_hash = query_hash(topic, key, index_type is not None and index_type == "T")
        rmq_index_ask(self.maps[self.count - 1], key_hash)
        return key_hash

    cdef int find(self, IndexHits *hits, int32_t key_hash, int64_t limit, int64_t begin_ms, int64_t end_ms,
                  bint keep_gil=True) except -1:
        cdef rmq_index_search search
        cdef MappedIndexFile file
        cdef int64_t *grown
        cdef rmq_index_map *newest
        cdef int code
        hits.phy_offsets = hits.few
        hits.count = 0
        hits.last_update_timestamp_ms = hits.last_update_phy_offset = 0
        if self.count == 0 or limit <= 0 or self.most_hits <= 0:
            return 0
        search.maps = self.maps
        search.left = self.count
        search.begin_ms = begin_ms
        search.end_ms = end_ms
        search.key_hash = key_hash
        search.walking = 0
        search.most = min(limit, self.most_hits)
        search.out = hits.few
        search.room = FEW_HITS
        search.hits = 0
        newest = self.maps[self.count - 1]
        code = rmq_index_search_run(&search, STEPS_WITH_GIL if keep_gil else 0)
        while code != RMQ_SEARCH_END:
            if code == RMQ_SEARCH_MAP:
                (<MappedIndexFile> self.files[search.left - 1]).open()
            elif code == RMQ_SEARCH_ROOM:
                grown = <int64_t *> realloc(NULL if hits.phy_offsets == hits.few else hits.phy_offsets,
                                            8 * search.room * sizeof(int64_t))
                if grown == NULL:
                    raise MemoryError
                if hits.phy_offsets == hits.few:
                    memcpy(grown, hits.few, search.hits * sizeof(int64_t))
                hits.phy_offsets = grown
                search.out = grown
                search.room *= 8
            with nogil:
                code = rmq_index_search_run(&search, INT64_MAX)
        if all_lost[0] != 0:
            for file in self.files:
                raise_if_lost(file.file)
        if search.hits == 0:
            return 0
        rmq_index_sort(search.out, search.hits)
        hits.count = search.hits
        hits.last_update_timestamp_ms = newest.header.end_timestamp
        hits.last_update_phy_offset = newest.header.end_phy_offset
        return 0

    def first_place(self, Batch batch not None, int64_t from_phy_offset):
        """Where putting a batch begins: ``(row, key)``; the row behind the last one when no row is left to put.

        Some keys of the newest indexed message may be missing, if its writer stopped in the middle of it.
        """
        cdef rmq_index_rows rows = rows_of(batch)
        cdef int64_t end = self.maps[self.count - 1].header.end_phy_offset if self.count else 0
        cdef int64_t row = first_row(&rows, max(end, from_phy_offset))
        cdef int32_t keys
        if self.count == 0 or row == rows.rows or rows.phy_offsets[row] != end:
            return row, 0
        keys = self.keys_in(&rows, row)
        if 0 < keys == keys_of(&rows, row):
            return row + 1, 0
        return row, keys

    cdef int32_t keys_in(self, const rmq_index_rows *rows, int64_t row) except -1:
        """How many keys of the newest message are in the index.

        Keys are put in their order, so the answer is the length of the longest beginning of them that the newest entries end
        with.
        """
        cdef MappedIndexFile file
        cdef int32_t here, known = 0, count, keys = keys_of(rows, row)
        cdef int32_t *tail = <int32_t *> malloc((keys + 1) * sizeof(int32_t))
        if tail == NULL:
            raise MemoryError
        try:
            for file in reversed(self.files):
                file.open()
                here = rmq_index_tail(&file.map, rows.phy_offsets[row], tail + known, keys - known)
                raise_if_lost(file.file)
                known += here
                if known == keys or here < file.map.header.index_count - 1:
                    break
            count = known
            while count > 0 and not ends_with(tail, rows, row, count):
                count -= 1
            return count
        finally:
            free(tail)


cdef bint ends_with(const int32_t *tail, const rmq_index_rows *rows, int64_t row, int32_t count) noexcept nogil:
    """Return True if the newest `count` entries, newest first in `tail`, are the first `count` keys of the row."""
    cdef int32_t i
    for i in range(count):
        if tail[i] != rows.hashes[rows.offsets[row] + count - 1 - i]:
            return False
    return True
