"""Filter of a scan: sets of texts, numbers and ranges in the form that the kernels test."""

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, uint8_t, uint32_t
from libc.string cimport memset

from rmqcore._native.kernels cimport rmq_slice, rmq_text_set_build


cdef class _TextSet:
    """A set of texts as the kernels take it, and the memory behind it."""

    def __cinit__(self, texts):
        memset(&self.table, 0, sizeof(self.table))
        if texts is None:
            return
        if isinstance(texts, str):
            raise TypeError(f"expected an iterable of str, got the str {texts!r}")
        self.texts = sorted({text.encode() for text in texts})
        cdef Py_ssize_t count = len(self.texts)
        cdef uint32_t mask = 7
        while mask < 2 * count:
            mask = mask * 2 + 1
        self.items = <rmq_slice *> PyMem_Calloc(count + 1, sizeof(rmq_slice))
        self.slots = <uint32_t *> PyMem_Calloc(mask + 1, sizeof(uint32_t))
        if self.items == NULL or self.slots == NULL:
            raise MemoryError
        for i in range(count):
            self.items[i].p = <const uint8_t *> PyBytes_AS_STRING(self.texts[i])
            self.items[i].len = len(self.texts[i])
        rmq_text_set_build(self.slots, mask, self.items, count)
        self.table.items = self.items
        self.table.slots = self.slots
        self.table.mask = mask
        self.table.active = 1

    def __dealloc__(self):
        PyMem_Free(self.items)
        PyMem_Free(self.slots)


cdef class Filter:
    """Filter of a scan; None accepts everything. See StoreReader.messages for the meaning."""

    def __cinit__(self, *, topics=None, queue_ids=None, tags=None, keys=None, since_ms=None, until_ms=None,
                  start_phy_offset=None, end_phy_offset=None):
        self.topics, self.tags, self.keys = _TextSet(topics), _TextSet(tags), _TextSet(keys)
        self.filter.topics = self.topics.table
        self.filter.tags = self.tags.table
        self.filter.keys = self.keys.table
        self.filter.queue_id_count = -1
        if queue_ids is not None:
            wanted = [queue_ids] if isinstance(queue_ids, int) else sorted(set(queue_ids))
            self.queue_ids = <int32_t *> PyMem_Calloc(len(wanted) + 1, sizeof(int32_t))
            if self.queue_ids == NULL:
                raise MemoryError
            for i, queue_id in enumerate(wanted):
                self.queue_ids[i] = queue_id
            self.filter.queue_ids = self.queue_ids
            self.filter.queue_id_count = len(wanted)
        self.filter.since_ms = INT64_MIN if since_ms is None else since_ms
        self.filter.until_ms = INT64_MAX if until_ms is None else until_ms
        self.filter.start_phy_offset = INT64_MIN if start_phy_offset is None else start_phy_offset
        self.filter.end_phy_offset = INT64_MAX if end_phy_offset is None else end_phy_offset

    def __dealloc__(self):
        PyMem_Free(self.queue_ids)
