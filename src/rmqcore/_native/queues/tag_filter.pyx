"""Tag expressions of a consumer, compared by the hashes that queue entries hold."""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t

from rmqcore._native.format.ids import java_hash

# A tags code at or below this is the address of a ConsumeQueueExt record.
LAST_EXT_ADDRESS = -2147483649


@cython.final
cdef class TagFilter:
    """A tag expression: ``*``, one tag, or several with ``||`` between them. It compares hashes, as a broker does.

    Parameters
    ----------
    expression : str, optional
        None, an empty text and ``*`` match every message.

    Attributes
    ----------
    codes : frozenset of int, or None
        Hashes of the tags; None matches everything.

    Raises
    ------
    ValueError
        The expression has no tag.

    Notes
    -----
    Source: RocketMQ 5.5.0 FilterAPI#buildSubscriptionData, ExpressionMessageFilter#isMatchedByConsumeQueue.
    """

    def __cinit__(self, str expression=None):
        if expression is None or expression == "" or expression == "*":
            return
        tags = [tag.strip() for tag in expression.split("||")]
        self.codes = frozenset([java_hash(tag) for tag in tags if tag])
        if not self.codes:
            raise ValueError(f"tags {expression!r}: no tag in it")
        self.hashes = <int32_t *> PyMem_Malloc(len(self.codes) * sizeof(int32_t))
        if self.hashes == NULL:
            raise MemoryError
        for code in self.codes:
            self.hashes[self.count] = code
            self.count += 1

    def __dealloc__(self):
        PyMem_Free(self.hashes)

    def matches(self, int64_t tags_code):
        """Compare the low 32 bits of a tags code."""
        return self.codes is None or holds_code(self, tags_code)
