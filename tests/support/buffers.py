"""Objects with bytes in them, whole, with gaps, and with code that runs while the bytes are asked for."""

from __future__ import annotations

import array
import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np


def mapped(data: bytes) -> mmap.mmap:
    area = mmap.mmap(-1, max(len(data), 1))
    area[: len(data)] = data
    return area


KINDS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "memoryview of bytearray": lambda data: memoryview(bytearray(data)),
    "memoryview with an offset": lambda data: memoryview(b"xyz" + data)[3:],
    "memoryview of signed bytes": lambda data: memoryview(data).cast("b"),
    "two-dimensional memoryview": lambda data: memoryview(data).cast("B", (1, len(data))),
    "mmap": mapped,
    "array": lambda data: array.array("B", data),
    "numpy": lambda data: np.frombuffer(data, dtype=np.uint8),
    "writable numpy": lambda data: np.frombuffer(bytearray(data), dtype=np.uint8),
    "unaligned numpy": lambda data: np.frombuffer(b"x" + data, dtype=np.uint8, offset=1),
    "numpy strings": lambda data: np.frombuffer(data, dtype=f"V{len(data)}"),
}
"""Contiguous buffers of given bytes, which must not be empty for all of them."""

WRITABLE: dict[str, Callable[[bytes], Any]] = {
    "bytearray": bytearray,
    "memoryview of bytearray": lambda data: memoryview(bytearray(data)),
    "memoryview with an offset": lambda data: memoryview(bytearray(b"xyz" + data))[3:],
    "memoryview of signed bytes": lambda data: memoryview(bytearray(data)).cast("b"),
    "two-dimensional memoryview": lambda data: memoryview(bytearray(data)).cast(
        "B", (1, len(data))
    ),
    "mmap": mapped,
    "array": lambda data: array.array("B", data),
    "writable numpy": lambda data: np.frombuffer(bytearray(data), dtype=np.uint8),
    "unaligned numpy": lambda data: np.frombuffer(bytearray(b"x" + data), dtype=np.uint8, offset=1),
    "ctypes": lambda data: (ctypes.c_char * len(data)).from_buffer_copy(data),
}

STRIDED: dict[str, Any] = {
    "memoryview": memoryview(bytearray(400))[::2],
    "reversed memoryview": memoryview(bytearray(400))[::-1],
    "numpy": np.zeros(400, np.uint8)[::2],
    "numpy columns": np.zeros((20, 20), np.uint8)[:, :5],
}


# ---- a buffer that runs code ------------------------------------------------------------------------


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


_BASETYPE = 1 << 10
_GETBUFFER = 1  # Py_bf_getbuffer
_GetBuffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)


def _get_buffer(buffer: Any, view: int, flags: int) -> int:
    buffer.hook()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = (ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    return int(get(buffer.data, view, flags))


# Python knows `__buffer__` from 3.12 on; the slot of the type is older. These three must outlive the type.
_call = _GetBuffer(_get_buffer)
_slots = (_Slot * 2)(_Slot(_GETBUFFER, ctypes.cast(_call, ctypes.c_void_p)), _Slot(0, None))
_spec = _Spec(b"buffers.HookedBase", object.__basicsize__, 0, _BASETYPE, _slots)


def _made_type() -> type:
    make = ctypes.pythonapi.PyType_FromSpec
    make.argtypes, make.restype = (ctypes.POINTER(_Spec),), ctypes.py_object
    made = make(ctypes.byref(_spec))
    assert isinstance(made, type)
    return made


_Base: Any = _made_type()


class HookedBuffer(_Base):  # type: ignore[misc] # a type made at run time
    """Bytes whose `hook` runs each time that they are asked for; it must not raise."""

    def __init__(self, data: bytes | bytearray, hook: Callable[[], object] = lambda: None) -> None:
        self.data = data
        self.hook = hook

    def __len__(self) -> int:
        return len(self.data)
