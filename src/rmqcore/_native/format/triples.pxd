# Tuples of a class that `namedtuple` has made of three fields: a call of such a class costs 100 ns, this 15.

cdef extern from *:
    """
    static inline PyObject *rmq_new_triple(PyObject *type) {
        PyObject *triple = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 3);
    #if PY_VERSION_HEX >= 0x030E0000
        if (triple != NULL) ((PyTupleObject *)triple)->ob_hash = -1; /* not known yet; 0 would be taken for it */
    #endif
        return triple;
    }
    static inline void rmq_set_item(PyObject *triple, Py_ssize_t at, PyObject *item) {
        Py_INCREF(item);
        PyTuple_SET_ITEM(triple, at, item);
    }
    """
    # Its items are still NULL: each is set before anything else sees it.
    object rmq_new_triple(object type)
    void rmq_set_item(object triple, Py_ssize_t at, object item)
