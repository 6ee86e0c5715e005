# A bytes object that is written while it grows.

from cpython.ref cimport PyObject
from libc.stdint cimport uint8_t

cdef extern from *:
    """
    typedef struct rmq_growing {
        PyObject *bytes; /* NULL after an error */
        Py_ssize_t used;
    } rmq_growing;
    static inline int rmq_growing_begin(rmq_growing *out, Py_ssize_t room) {
        out->used = 0;
        out->bytes = PyBytes_FromStringAndSize(NULL, room);
        return out->bytes == NULL ? -1 : 0;
    }
    /* Where `more` bytes have room; NULL with an error. */
    static inline uint8_t *rmq_growing_room(rmq_growing *out, Py_ssize_t more) {
        const Py_ssize_t room = PyBytes_GET_SIZE(out->bytes);
        if (more > room - out->used) {
            if (more > PY_SSIZE_T_MAX / 2 - out->used) {
                PyErr_NoMemory();
                return NULL;
            }
            const Py_ssize_t twice = room <= PY_SSIZE_T_MAX / 4 ? 2 * room : 0;
            if (_PyBytes_Resize(&out->bytes, out->used + more > twice ? out->used + more : twice) != 0) return NULL;
        }
        return (uint8_t *)PyBytes_AS_STRING(out->bytes) + out->used;
    }
    /* The bytes that were written, a new reference. Where most of the room is used the object keeps it, with fewer bytes to its
     * name: memory that malloc has cut off comes as fresh pages again at the next call, which took half of the time. */
    static inline PyObject *rmq_growing_end(rmq_growing *out) {
        const Py_ssize_t room = PyBytes_GET_SIZE(out->bytes);
        if (room - out->used <= room / 8) {
            Py_SET_SIZE((PyVarObject *)out->bytes, out->used);
            PyBytes_AS_STRING(out->bytes)[out->used] = 0;
        } else if (_PyBytes_Resize(&out->bytes, out->used) != 0) {
            return NULL;
        }
        PyObject *bytes = out->bytes;
        out->bytes = NULL;
        return bytes;
    }
    static inline void rmq_growing_drop(rmq_growing *out) { Py_CLEAR(out->bytes); }
    """
    ctypedef struct rmq_growing:
        Py_ssize_t used
    int rmq_growing_begin(rmq_growing *out, Py_ssize_t room) except -1
    uint8_t *rmq_growing_room(rmq_growing *out, Py_ssize_t more) except NULL
    bytes rmq_growing_end(rmq_growing *out)
    void rmq_growing_drop(rmq_growing *out) noexcept
