"""One query by key: what the index files find, and views of the records in the mapped CommitLog. Nothing is copied."""

cimport cython
from libc.stdint cimport int32_t, int64_t

from rmqcore._native.format.codec cimport DelayLevels, MessageView
from rmqcore._native.put.appender cimport Appender
from rmqcore._native.files.log_views cimport view_of
from rmqcore._native.files.mapped_file cimport MappedFiles
from rmqcore._native.index.mapped_index cimport IndexFiles, IndexHits, drop_hits
from rmqcore._native.format.sealed cimport seal


@cython.final
@cython.freelist(16)
cdef class QueryResult:
    """The answer of a query, a sequence of its messages; that of a reader has the same attributes.

    Attributes
    ----------
    messages : list of MessageView
        By phy offset. As in Java, messages of another key with the same hash can be among them, and a record that has the key
        twice comes twice.
    index_last_update_timestamp_ms, index_last_update_phy_offset : int
        The end of the newest index file; both 0 when the index has no entry, as in Java.
    """

    cdef readonly list messages
    cdef readonly int64_t index_last_update_timestamp_ms
    cdef readonly int64_t index_last_update_phy_offset

    def __len__(self):
        return len(self.messages)

    def __iter__(self):
        return iter(self.messages)

    def __getitem__(self, at):
        return self.messages[at]

    def __eq__(self, other):
        if isinstance(other, (list, QueryResult)):
            return self.messages == list(other)
        return NotImplemented

    __hash__ = None  # it has a list

    def _repr_html_(self):
        from rmqcore.shown.notebook import query_html
        return query_html(self)

    def __repr__(self):
        return f"<QueryResult of {len(self.messages)} messages>"


def query_messages(IndexFiles index not None, MappedFiles files not None, Appender appender not None,
                   DelayLevels levels not None, str topic not None, str key not None, int64_t limit, int64_t begin_ms,
                   int64_t end_ms, index_type):
    """Find the newest messages with a key, in physical order; an entry whose record is not there is left out.

    Parameters
    ----------
    index : IndexFiles
    files : MappedFiles
        The CommitLog's files.
    appender : Appender
        Knows where the CommitLog ends.
    levels : DelayLevels
    topic, key : str
    limit, begin_ms, end_ms : int
    index_type : str or None
        As for `IndexFiles.query`.

    Returns
    -------
    QueryResult
    """
    cdef IndexHits hits
    cdef int32_t key_hash = index.hash_of(topic, key, index_type)
    cdef QueryResult result = QueryResult.__new__(QueryResult)
    cdef MessageView view
    cdef int64_t end_offset
    cdef size_t i
    result.messages = []
    try:
        index.find(&hits, key_hash, limit, begin_ms, end_ms)
        # Asked after the search: every record that the index has by now lies below it.
        end_offset = appender.end_offset()
        result.index_last_update_timestamp_ms = hits.last_update_timestamp_ms
        result.index_last_update_phy_offset = hits.last_update_phy_offset
        for i in range(hits.count):
            view = view_of(files, hits.phy_offsets[i], end_offset, levels)
            if view is not None:
                result.messages.append(view)
    finally:
        drop_hits(&hits)
    return result


seal(QueryResult, "a query")
