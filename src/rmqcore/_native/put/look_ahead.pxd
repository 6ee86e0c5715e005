# Looking ahead in a list of messages that are put or encoded one after the other.

from cpython.ref cimport PyObject

from rmqcore._native.put.message cimport Message

cdef enum:
    AHEAD = 4  # messages between two steps of looking ahead

cdef extern from *:
    """
    /* What a put will read of a message is prefetched in steps, since each part says where the next one is: the object, its
     * properties, their texts. Messages that were just made lie all over the heap, and waiting for them costs more than storing
     * them. The references are borrowed, so nothing may be looked into that another thread can take away meanwhile. */
    #ifdef Py_GIL_DISABLED
    enum { CAN_LOOK_AHEAD = 0 };
    #else
    enum { CAN_LOOK_AHEAD = 1 };
    #endif
    static inline void rmq_prefetch_message(PyObject *item) {
        __builtin_prefetch(item);
        __builtin_prefetch((char *)item + 64);
        __builtin_prefetch((char *)item + 128);
    }
    static inline void rmq_prefetch_text(PyObject *item) { /* or a dict */
        __builtin_prefetch(item);
        __builtin_prefetch((char *)item + 48);
    }
    static inline void rmq_prefetch_keys(PyObject *properties) {
        if (!PyDict_CheckExact(properties)) return;
        char *keys = (char *)((PyDictObject *)properties)->ma_keys;
        __builtin_prefetch(keys);
        __builtin_prefetch(keys + 64);
    }
    static inline int rmq_has_type(PyObject *item, PyObject *type) { return (PyObject *)Py_TYPE(item) == type; }
    /* How many items at the start of a list are not yet known to be of exactly this type. The check runs from the end on: the
     * messages made last are still in the cache, and the first ones are again when the caller goes on with them. */
    static inline Py_ssize_t rmq_unchecked_prefix(PyObject *list, PyObject *type) {
        Py_ssize_t left = PyList_GET_SIZE(list);
        while (CAN_LOOK_AHEAD && left > 0 && rmq_has_type(PyList_GET_ITEM(list, left - 1), type)) left--;
        return left;
    }
    """
    bint CAN_LOOK_AHEAD
    bint rmq_has_type(PyObject *item, PyObject *type) noexcept
    Py_ssize_t rmq_unchecked_prefix(PyObject *items, PyObject *type) noexcept
    void rmq_prefetch_message(PyObject *item) noexcept
    void rmq_prefetch_text(PyObject *item) noexcept
    void rmq_prefetch_keys(PyObject *properties) noexcept
    PyObject *PyList_GET_ITEM(PyObject *items, Py_ssize_t at) noexcept
    Py_ssize_t PyList_GET_SIZE(PyObject *items) noexcept


cdef inline void look_ahead(PyObject *items, Py_ssize_t at) noexcept:
    """Prefetch what messages of the list behind `at` will be read of."""
    cdef PyObject *item
    if CAN_LOOK_AHEAD and at + 3 * AHEAD < PyList_GET_SIZE(items):
        rmq_prefetch_message(PyList_GET_ITEM(items, at + 3 * AHEAD))
        item = PyList_GET_ITEM(items, at + 2 * AHEAD)
        if rmq_has_type(item, <PyObject *> Message):
            rmq_prefetch_text(<PyObject *> (<Message> item).keys_text)
            rmq_prefetch_text(<PyObject *> (<Message> item).own_properties)
        item = PyList_GET_ITEM(items, at + AHEAD)
        if rmq_has_type(item, <PyObject *> Message):
            rmq_prefetch_keys(<PyObject *> (<Message> item).own_properties)
