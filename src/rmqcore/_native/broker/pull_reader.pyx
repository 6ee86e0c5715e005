"""Pulls from the bytes of a connection: their fields, without the objects of a command.

What is read here, and what is left to Python, is said in broker/pull.h.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t

from rmqcore._native.kernels cimport rmq_slice

cdef extern from "broker/pull.h" nogil:
    ctypedef struct rmq_pull:
        int32_t opaque, queue_id, max_msg_nums, sys_flag
        int64_t queue_offset, commit_offset, suspend_timeout_ms, sub_version
        rmq_slice group, topic, subscription, expression_type
        size_t end
    int rmq_pull_read(const uint8_t *bytes, size_t at, size_t n, rmq_pull *out) noexcept

cdef str TAG = "TAG"


@cython.final
@cython.freelist(8)
cdef class Pull:
    """Fields of a PULL_MESSAGE or LITE_PULL_MESSAGE.

    Parameters
    ----------
    group, topic : str
    queue_id : int
    queue_offset : int
    max_msg_nums : int
    sys_flag : int
    commit_offset : int
    suspend_timeout_ms : int
    sub_version : int
    subscription : str
        Empty where it brings none.
    expression_type : str
        ``TAG`` where it says nothing.

    Attributes
    ----------
    opaque : int
        The requester's number of it; 0 unless `read_pull` gave it.
    end : int
        Where its frame ends, counted as the begin was; 0 unless `read_pull` gave it.
    """

    cdef readonly str group, topic, subscription, expression_type
    cdef readonly int32_t queue_id, max_msg_nums, sys_flag, opaque
    cdef readonly int64_t queue_offset, commit_offset, suspend_timeout_ms, sub_version
    cdef readonly Py_ssize_t end

    def __init__(
        self, str group not None, str topic not None, int32_t queue_id, int64_t queue_offset, int32_t max_msg_nums,
        int32_t sys_flag, int64_t commit_offset, int64_t suspend_timeout_ms, int64_t sub_version, str subscription not None,
        str expression_type not None,
    ):
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.max_msg_nums = max_msg_nums
        self.sys_flag = sys_flag
        self.commit_offset = commit_offset
        self.suspend_timeout_ms = suspend_timeout_ms
        self.sub_version = sub_version
        self.subscription = subscription
        self.expression_type = expression_type


def read_pull(buffer, Py_ssize_t begin, Py_ssize_t end):
    """Read the pull with which ``buffer[begin:end]`` begins.

    Parameters
    ----------
    buffer : buffer
        What a connection brought; it must not change during the call.
    begin, end : int

    Returns
    -------
    Pull or None
        None: what is there is no pull, or not plain, or has not come whole.

    Raises
    ------
    ValueError
        A place outside of the buffer.
    """
    cdef Py_buffer exported
    PyObject_GetBuffer(buffer, &exported, PyBUF_SIMPLE)
    try:
        if not 0 <= begin <= end <= exported.len:
            raise ValueError(f"bytes {begin} to {end} of {exported.len}")
        return read_at(<const uint8_t *> exported.buf, begin, end)
    finally:
        PyBuffer_Release(&exported)


cdef Pull read_at(const uint8_t *bytes_, size_t at, size_t n):
    cdef rmq_pull found
    cdef Pull pull
    if not rmq_pull_read(bytes_, at, n, &found):
        return None
    pull = Pull.__new__(Pull)
    pull.group = text_of(found.group)
    pull.topic = text_of(found.topic)
    pull.subscription = "" if found.subscription.p == NULL else text_of(found.subscription)
    pull.expression_type = TAG if found.expression_type.p == NULL else text_of(found.expression_type)
    pull.queue_id = found.queue_id
    pull.queue_offset = found.queue_offset
    pull.max_msg_nums = found.max_msg_nums
    pull.sys_flag = found.sys_flag
    pull.commit_offset = found.commit_offset
    pull.suspend_timeout_ms = found.suspend_timeout_ms
    pull.sub_version = found.sub_version
    pull.opaque = found.opaque
    pull.end = found.end
    return pull


cdef str text_of(rmq_slice text):
    return PyUnicode_DecodeUTF8(<const char *> text.p, text.len, NULL)
