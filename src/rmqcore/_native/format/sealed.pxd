"""Types whose objects the extensions alone make: ``T()`` and ``T.__new__(T)`` are a TypeError.

Without it ``T.__new__(T)`` gives an object whose pointers lead nowhere, and the first look at it ends the interpreter.
"""

cdef extern from *:
    """
    static PyObject *rmq_refuse_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
        (void)args;
        (void)keywords;
        PyObject *made_by = PyObject_GetAttrString((PyObject *)type, "_made_by");
        if (made_by != NULL) PyErr_Format(PyExc_TypeError, "%s is made by %U", type->tp_name, made_by);
        Py_XDECREF(made_by);
        return NULL;
    }
    /* `T.__new__(T)` in the module of T calls the function that Cython made, not tp_new; other modules call a factory there. */
    static int rmq_seal(PyTypeObject *type, PyObject *made_by) {
        if (PyDict_SetItemString(type->tp_dict, "_made_by", made_by) < 0) return -1;
        type->tp_new = rmq_refuse_new;
        type->tp_vectorcall = NULL; /* Cython's calls its tp_new */
        PyType_Modified(type);
        return 0;
    }
    """
    int seal "rmq_seal"(type sealed, str made_by) except -1
