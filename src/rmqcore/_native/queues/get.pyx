"""One get: entries of a ConsumeQueue, and views of their records in the mapped CommitLog. Nothing is copied."""

cimport cython
from cpython.list cimport PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t

from rmqcore._native.format.codec cimport DelayLevels, MessageView, bytes_at, new_view, unless_lost
from rmqcore._native.format.lost_pages cimport raise_if_lost
from rmqcore._native.kernels cimport *
from rmqcore._native.files.mapped_file cimport MappedFile, MappedFiles
from rmqcore._native.queues.consume_queue cimport ConsumeQueue
from rmqcore._native.queues.get_limits cimport GetLimits, bytes_of_get, clipped, is_enough, limits_of, messages_of_get
from rmqcore._native.queues.tag_filter cimport TagFilter, holds_code
from rmqcore._native.format.sealed cimport seal

from rmqcore._native.queues.tag_filter import LAST_EXT_ADDRESS as _LAST_EXT_ADDRESS
from rmqcore.vocabulary.status import GetMessageStatus

cdef extern from *:
    """
    #include "format/cq.h"

    enum { BLOCK = 256, AHEAD = 8 };  /* entries read at once; records prefetched ahead: with 4 a cold one takes 8% more */
    /* Prefetches the cache lines of an entry's record that a check reads, if the record lies in [begin, end), the file at base:
     * a queue's records lie anywhere in the log. (gcc drops a call of a function that only prefetches, hence always_inline.) */
    static inline __attribute__((always_inline)) void ask_for_record(rmq_cq_entry e, const uint8_t *base, int64_t begin,
                                                                     int64_t end) {
        if (e.phy_offset < begin || e.phy_offset >= end || e.msg_size < 64 || e.msg_size > end - e.phy_offset) return;
        const uint8_t *p = base + (e.phy_offset - begin);
        __builtin_prefetch(p);
        __builtin_prefetch(p + 64);
        __builtin_prefetch(p + 128);
        __builtin_prefetch(p + e.msg_size - 64); /* lengths of topic and properties are behind the body */
    }
    """
    enum:
        BLOCK, AHEAD
    void ask_for_record(rmq_cq_entry e, const uint8_t *base, int64_t begin, int64_t end) noexcept nogil

cdef int64_t LAST_ADDRESS = _LAST_EXT_ADDRESS

# What a get does where a disk has to be waited for: it waits, with the GIL for records; it ends there; it waits without the GIL.
cdef enum Cold:
    COLD_READ, COLD_END, COLD_WAIT

cdef int64_t LOOK_AT = 65536  # bytes of the log that one look at what memory holds is about: it takes one microsecond or two

cdef object FOUND = GetMessageStatus.FOUND
cdef object NO_MATCHED_MESSAGE = GetMessageStatus.NO_MATCHED_MESSAGE
cdef object MESSAGE_WAS_REMOVING = GetMessageStatus.MESSAGE_WAS_REMOVING
cdef object OFFSET_FOUND_NULL = GetMessageStatus.OFFSET_FOUND_NULL


cdef struct Warm:
    int64_t begin, end  # in the log: what memory holds, by the last look at it


cdef struct Records:
    # Where the records of a get lie: the file of the log that holds the last one.
    PyObject *file  # borrowed, the result owns it; with base NULL the log lacks the file
    const uint8_t *base
    int64_t begin, end  # in the log; equal before the first file
    int64_t max_phy_offset  # behind the last record
    Warm warm


cdef enum Verdict:
    WANTED
    OTHER_TAG
    REMOVED  # its file is not there, or it does not lie in it
    DAMAGED  # its file is there
    COLD  # a disk has to be waited for, and this get does not wait


cdef enum: LEAST_ROOM = 32
cdef struct FoundRecord:
    rmq_record rec
    PyObject *owner  # borrowed: the MappedFile of the record


@cython.final
@cython.freelist(16)
cdef class GetResult:
    """Result of a get.

    The messages are views into the mapped CommitLog: a view that is held, or this result, keeps its file mapped. `release` (or
    a ``with`` block) drops the result's own views.

    Attributes
    ----------
    status : GetMessageStatus
    next_begin_offset : int
        Queue offset to go on with.
    min_offset, max_offset : int
        The queue's bounds at the time of the get; the maximum is the offset behind the last entry.
    buffer_total_size : int
        Bytes of all records in `messages`.
    messages : list of MessageView
    suggest_pulling_from_slave : bool
        The messages lie so far back that they have to be read from the disk.
    compacted_log : str
        Empty: an open store reads the CommitLog, also of a compacted topic.
    """

    cdef readonly object status
    cdef readonly int64_t next_begin_offset, min_offset, max_offset, buffer_total_size
    cdef readonly bint suggest_pulling_from_slave
    cdef list views  # None until they are asked for; then they are made from `found`
    cdef FoundRecord *found  # freed with the result, not before: a thread may read it during `release`
    cdef Py_ssize_t count, room
    cdef list owners  # keep the records that were found mapped
    cdef DelayLevels delay_levels

    def __dealloc__(self):
        PyMem_Free(self.found)

    cdef inline int add(self, PyObject *owner, const rmq_record *rec) except -1:
        cdef FoundRecord *grown
        if self.count == self.room:
            grown = <FoundRecord *> PyMem_Realloc(self.found, max(2 * self.room, LEAST_ROOM) * sizeof(FoundRecord))
            if grown == NULL:
                raise MemoryError
            self.found = grown
            self.room = max(2 * self.room, LEAST_ROOM)
        self.found[self.count].rec = rec[0]
        self.found[self.count].owner = owner
        self.count += 1
        return 0

    @property
    def compacted_log(self):
        """An empty text, as of a reader's result that comes from the CommitLog."""
        return ""

    @property
    def messages(self):
        """The messages, made when they are first asked for."""
        cdef list _owners, views
        cdef Py_ssize_t i
        with cython.critical_section(self):
            if self.views is None:
                _owners = self.owners  # another thread may release this result during the allocations below
                views = PyList_New(self.count)
                for i in range(PyList_GET_SIZE(views)):
                    put_in(views, i, new_view(<object> self.found[i].owner, &self.found[i].rec, self.delay_levels))
                if self.views is None:
                    self.views = views
            return self.views

    def bodies(self):
        """The bodies of all messages as stored, a list of new bytes; this takes a third of the time of asking each view."""
        cdef list _owners, views, found
        cdef MessageView view
        cdef Py_ssize_t i
        with cython.critical_section(self):
            views, _owners = self.views, self.owners  # held: see messages
            if views is not None:
                return [unless_lost(view, bytes_at(&view.rec, view.rec.body_pos, view.rec.body_len)) for view in views]
            found = PyList_New(self.count)
            for i in range(PyList_GET_SIZE(found)):
                put_in(found, i, bytes_at(&self.found[i].rec, self.found[i].rec.body_pos, self.found[i].rec.body_len))
            for owner in _owners or ():
                raise_if_lost(owner)
            return found

    def buffers(self):
        """The records as views of the mapped files, which they keep mapped; neighbours in the log are one view."""
        cdef list _owners, found = []
        cdef MappedFile file
        cdef Py_ssize_t i = 0, begin, end
        with cython.critical_section(self):
            _owners = self.owners  # held: see messages
            while i < self.count:
                file = <MappedFile> self.found[i].owner
                begin = end = self.found[i].rec.at - file.base
                while i < self.count and self.found[i].owner == <PyObject *> file and self.found[i].rec.at == file.base + end:
                    end += self.found[i].rec.msg_size
                    i += 1
                found.append(memoryview(file)[begin:end])
            for owner in _owners or ():
                raise_if_lost(owner)
            return found

    def release(self):
        """Release the messages; views that are held elsewhere stay valid."""
        with cython.critical_section(self):
            self.views = []
            self.owners = None
            self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def __len__(self):
        with cython.critical_section(self):
            return self.count if self.views is None else len(self.views)

    def __iter__(self):
        return iter(self.messages)

    def _repr_html_(self):
        from rmqcore.shown.notebook import get_html
        return get_html(self)

    def __repr__(self):
        return (f"<GetResult {self.status} of {len(self)} messages, {self.buffer_total_size} bytes, "
                f"next_begin_offset={self.next_begin_offset}>")


cdef inline void put_in(list items, Py_ssize_t at, object item) noexcept:
    """Put an item into a place that holds nothing yet."""
    Py_INCREF(item)
    PyList_SET_ITEM(items, at, item)


cdef GetResult answer(status, int64_t next_offset, int64_t start, int64_t end):
    cdef GetResult result = GetResult.__new__(GetResult)
    result.status = status
    result.next_begin_offset = next_offset
    result.min_offset = start
    result.max_offset = end
    return result


def get_messages(ConsumeQueue queue, MappedFiles files not None, int64_t max_phy_offset, queue_offset, max_messages,
                 TagFilter tags, max_bytes, config, DelayLevels delay_levels not None):
    """Read messages of a queue from an offset on.

    Parameters
    ----------
    queue : ConsumeQueue or None
        None is answered as an empty queue is.
    files : MappedFiles
        The CommitLog's files.
    max_phy_offset : int
        CommitLog offset behind the last record.
    queue_offset, max_messages : int
    tags : TagFilter or None
    max_bytes : int or None
        Of `bytes_of_get`; the first message is given whatever its size.
    config : MessageStoreConfig or GetLimits
    delay_levels : DelayLevels
        For the tags codes of delayed messages.

    Returns
    -------
    GetResult
        Where no record lies at the place of its entry, the message counts as removed (MESSAGE_WAS_REMOVING).

    Raises
    ------
    OSError
        A file cannot be read.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore#getMessage.
    """
    return get_as(queue, files, max_phy_offset, queue_offset, max_messages, tags, max_bytes, config, delay_levels, COLD_READ, 0)


def get_warm_messages(ConsumeQueue queue, MappedFiles files not None, int64_t max_phy_offset, queue_offset, max_messages,
                      TagFilter tags, max_bytes, config, DelayLevels delay_levels not None, int64_t held_from):
    """Do as `get_messages`, but end before the first record that a disk has to be waited for; None where that is the first one.

    Parameters
    ----------
    held_from : int
        What was appended from this CommitLog offset on, and counts as in memory, is there without a look.
    """
    return get_as(queue, files, max_phy_offset, queue_offset, max_messages, tags, max_bytes, config, delay_levels, COLD_END,
                  held_from)


def read_in_messages(ConsumeQueue queue, MappedFiles files not None, int64_t max_phy_offset, queue_offset, max_messages,
                     TagFilter tags, max_bytes, config, DelayLevels delay_levels not None):
    """Wait, without the GIL, until memory holds what `get_messages` would read."""
    get_as(queue, files, max_phy_offset, queue_offset, max_messages, tags, max_bytes, config, delay_levels, COLD_WAIT, 0)


cdef GetResult get_as(ConsumeQueue queue, MappedFiles files, int64_t max_phy_offset, object queue_offset, object max_messages,
                      TagFilter tags, object max_bytes, object config, DelayLevels delay_levels, Cold cold, int64_t held_from):
    cdef GetLimits limits = limits_of(config)
    cdef int64_t at = clipped(queue_offset), most = messages_of_get(max_messages), most_bytes = bytes_of_get(max_bytes)
    cdef int64_t start = 0, end = 0
    cdef GetResult result
    cdef bint stopped
    if queue is not None:
        start = rmq_cq_min(queue.queue) // RMQ_CQ_STORE_UNIT_SIZE
        end = rmq_cq_end(queue.queue) // RMQ_CQ_STORE_UNIT_SIZE
    if end == 0:
        return answer(GetMessageStatus.NO_MESSAGE_IN_QUEUE, at if limits.keeps_offsets else 0, start, end)
    if at < start:
        return answer(GetMessageStatus.OFFSET_TOO_SMALL, at if limits.keeps_offsets else start, start, end)
    if at == end:
        return answer(GetMessageStatus.OFFSET_OVERFLOW_ONE, at, start, end)
    if at > end:
        return answer(GetMessageStatus.OFFSET_OVERFLOW_BADLY, at if limits.keeps_offsets else end, start, end)
    result = answer(NO_MATCHED_MESSAGE, at, start, end)
    stopped = collect(result, queue, files, max_phy_offset, most, tags, most_bytes, limits, delay_levels, cold, held_from)
    return None if stopped and result.next_begin_offset == at else result


@cython.cdivision(True)
cdef bint collect(GetResult result, ConsumeQueue queue, MappedFiles files, int64_t max_phy_offset, int64_t most,
                  TagFilter tags, int64_t most_bytes, GetLimits limits, DelayLevels delay_levels, Cold cold,
                  int64_t held_from) except -1:
    """True if the get ended before a record that is not in memory."""
    cdef uint8_t block[BLOCK * 20]
    cdef rmq_cq_entry entry
    cdef rmq_record rec
    cdef Records records = [NULL, NULL, 0, 0, max_phy_offset, [0, 0]]
    cdef int verdict = WANTED
    cdef int64_t at = result.next_begin_offset, end = result.max_offset
    cdef int64_t scan_end = at + (max(limits.filter_bytes, most * RMQ_CQ_STORE_UNIT_SIZE) + RMQ_CQ_STORE_UNIT_SIZE - 1) \
        // RMQ_CQ_STORE_UNIT_SIZE
    cdef int64_t total = 0, count = 0, last_phy = 0, files_seen = 0
    cdef int64_t skip_below, stop, found, i
    cdef bint filters = tags is not None and tags.count > 0
    cdef TagFilter wanted = tags if filters else None
    cdef object status = NO_MATCHED_MESSAGE
    # No get gives more messages than this, wherever they lie.
    cdef int64_t most_anyway = max(1, min(most, max(limits.count_in_memory, limits.count_on_disk)))
    result.owners = []
    result.delay_levels = delay_levels
    while total == 0 and at < end and files_seen < limits.files and verdict != COLD:
        files_seen += 1
        skip_below = INT64_MIN
        stop = min(end_of_file(queue, at), end)
        found = first_block(queue, at, min(stop - at, BLOCK if filters else most_anyway), block)
        if found < 0:
            status = OFFSET_FOUND_NULL
            if not limits.keeps_offsets:
                at = end_of_file(queue, at)
            break
        if found == 0:
            break
        stop = min(stop, scan_end)
        i = 0
        while at < stop:
            if i == found:
                if count >= most_anyway:
                    break
                found = queue.read(at, min(stop - at, BLOCK), block)
                if found <= 0:
                    break
                i = 0
            if i + AHEAD < found:
                entry = rmq_cq_load(block + (i + AHEAD) * RMQ_CQ_STORE_UNIT_SIZE)
                if not filters or holds_code(tags, entry.tags_code):
                    ask_for_record(entry, records.base, records.begin, records.end)
            entry = rmq_cq_load(block + i * RMQ_CQ_STORE_UNIT_SIZE)
            if count > 0 and is_enough(limits, count, total, entry.msg_size, most, most_bytes,
                                       entry.phy_offset >= 0 and max_phy_offset - entry.phy_offset <= limits.memory):
                break
            i += 1
            at += 1
            last_phy = entry.phy_offset
            if entry.phy_offset < skip_below:
                continue
            if filters and entry.tags_code > LAST_ADDRESS and not holds_code(tags, entry.tags_code):
                if total == 0:
                    status = NO_MATCHED_MESSAGE
                continue
            if not records.begin <= entry.phy_offset < records.end:
                choose_file(&records, result, files, entry.phy_offset, block, i, found)
            verdict = judge(&records, &entry, &rec, wanted, delay_levels, cold, held_from, limits.memory)
            if verdict == WANTED:
                result.add(records.file, &rec)
                count += 1
                total += entry.msg_size
                status = FOUND
                skip_below = INT64_MIN
            elif verdict == COLD:
                at -= 1
                break
            elif total == 0:
                status = NO_MATCHED_MESSAGE if verdict == OTHER_TAG else MESSAGE_WAS_REMOVING
            if verdict == REMOVED and not rmq_cq_is_filler(entry):  # which names no file: what comes behind it may well be there
                skip_below = next_file(entry.phy_offset, files.file_size)
    for owner in result.owners:
        raise_if_lost(owner)
    result.status = status
    result.next_begin_offset = at
    result.buffer_total_size = total
    result.suggest_pulling_from_slave = last_phy >= 0 and max_phy_offset - last_phy > limits.memory
    return verdict == COLD


@cython.cdivision(True)
cdef inline int64_t end_of_file(ConsumeQueue queue, int64_t at) noexcept:
    """The queue offset behind the file of the queue that holds one."""
    cdef int64_t per_file = queue.file_size // RMQ_CQ_STORE_UNIT_SIZE
    return at - at % per_file + per_file


cdef inline int64_t first_block(ConsumeQueue queue, int64_t at, int64_t wanted, uint8_t *block) except? -1:
    """Read the first entries of a file; their number, -1 where the queue begins behind them by now."""
    if at < rmq_cq_min(queue.queue) // RMQ_CQ_STORE_UNIT_SIZE:
        return -1
    return queue.read_in_order(at, min(wanted, BLOCK), block)


cdef int choose_file(Records *records, GetResult result, MappedFiles files, int64_t phy_offset, const uint8_t *block, int64_t i,
                     int64_t found) except -1:
    """Go to the file of the log that holds an offset, and ask for the records of the next entries there, from `i` on."""
    cdef int64_t ahead
    cdef MappedFile file = mapped(files, phy_offset)
    records.file, records.base, records.begin, records.end = NULL, NULL, 0, 0
    if file is None:
        return 0
    result.owners.append(file)
    records.file = <PyObject *> file
    records.base = file.base
    records.begin = file.file_from_offset
    records.end = records.begin + file.file_size
    for ahead in range(i, min(i + AHEAD, found)):
        ask_for_record(rmq_cq_load(block + ahead * RMQ_CQ_STORE_UNIT_SIZE), records.base, records.begin, records.end)
    return 0


cdef inline int judge(Records *records, const rmq_cq_entry *entry, rmq_record *rec, TagFilter tags, DelayLevels delay_levels,
                      Cold cold, int64_t held_from, int64_t memory) except -1:
    """Find the `Verdict` of an entry, and `rec` where it is wanted; with `tags` None every tag is."""
    cdef const uint8_t *at
    cdef rmq_known_props known
    if (records.base == NULL or entry.msg_size <= 0 or entry.phy_offset > records.end - entry.msg_size
            or entry.phy_offset > records.max_phy_offset - entry.msg_size):
        return REMOVED
    if cold == COLD_WAIT:
        (<MappedFile> records.file).read_in(entry.phy_offset - records.begin, entry.phy_offset - records.begin + entry.msg_size)
    elif cold == COLD_END and (entry.phy_offset < held_from or records.max_phy_offset - entry.phy_offset > memory):
        if not is_warm(records, entry):
            return COLD
    at = records.base + (entry.phy_offset - records.begin)
    if rmq_record_parse(at, entry.msg_size, rec) != entry.msg_size or rmq_rec_phy_offset(rec) != entry.phy_offset:
        return DAMAGED
    if tags is not None and entry.tags_code <= LAST_ADDRESS:  # which is the place of a tag, and none itself
        rmq_props_known(rec.at + rec.props_pos, rec.props_len, rec.props_pos, &known)
        if not holds_code(tags, rmq_tags_code(rec, &known, &delay_levels.levels)):
            return OTHER_TAG
    return WANTED


@cython.cdivision(True)
cdef inline int64_t next_file(int64_t phy_offset, int64_t file_size) noexcept:
    """Where the CommitLog file behind that of an offset begins."""
    if phy_offset < 0:
        return INT64_MIN
    if phy_offset > INT64_MAX - file_size:
        return INT64_MAX
    return phy_offset - phy_offset % file_size + file_size


cdef bint is_warm(Records *records, const rmq_cq_entry *entry) noexcept:
    """Return True if the record of an entry in the file is in memory."""
    cdef Warm *warm = &records.warm
    cdef int64_t pos = entry.phy_offset - records.begin, end = entry.phy_offset + entry.msg_size
    if entry.phy_offset < warm.begin or end > warm.end:
        warm.begin = entry.phy_offset
        warm.end = records.begin + (<MappedFile> records.file).first_cold(
            pos, min(pos + max(<int64_t> entry.msg_size, LOOK_AT), records.end - records.begin))
    return end <= warm.end


cdef MappedFile mapped(MappedFiles files, int64_t phy_offset):
    """The file that holds an offset; None also for one that was deleted before it was ever mapped."""
    try:
        return files.find(phy_offset)
    except FileNotFoundError:
        return None


seal(GetResult, "a get")
