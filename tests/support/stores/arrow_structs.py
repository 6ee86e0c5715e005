"""The structs of the Arrow C data interface, made by hand: right ones, wrong ones, and a count of who released what."""

from __future__ import annotations

import ctypes as c
from collections import Counter
from collections.abc import Callable
from typing import Any


class Schema(c.Structure):
    pass


class Array(c.Structure):
    pass


class Stream(c.Structure):
    pass


SchemaPointer, ArrayPointer, StreamPointer = c.POINTER(Schema), c.POINTER(Array), c.POINTER(Stream)
SchemaRelease, ArrayRelease = c.CFUNCTYPE(None, SchemaPointer), c.CFUNCTYPE(None, ArrayPointer)
StreamRelease = c.CFUNCTYPE(None, StreamPointer)
GetSchema = c.CFUNCTYPE(c.c_int, StreamPointer, SchemaPointer)
GetNext = c.CFUNCTYPE(c.c_int, StreamPointer, ArrayPointer)
GetLastError = c.CFUNCTYPE(c.c_char_p, StreamPointer)
Schema._fields_ = [
    ("format", c.c_char_p),
    ("name", c.c_char_p),
    ("metadata", c.c_char_p),
    ("flags", c.c_int64),
    ("n_children", c.c_int64),
    ("children", c.POINTER(SchemaPointer)),
    ("dictionary", SchemaPointer),
    ("release", SchemaRelease),
    ("private_data", c.c_void_p),
]
Array._fields_ = [
    ("length", c.c_int64),
    ("null_count", c.c_int64),
    ("offset", c.c_int64),
    ("n_buffers", c.c_int64),
    ("n_children", c.c_int64),
    ("buffers", c.POINTER(c.c_void_p)),
    ("children", c.POINTER(ArrayPointer)),
    ("dictionary", ArrayPointer),
    ("release", ArrayRelease),
    ("private_data", c.c_void_p),
]
Stream._fields_ = [
    ("get_schema", GetSchema),
    ("get_next", GetNext),
    ("get_last_error", GetLastError),
    ("release", StreamRelease),
    ("private_data", c.c_void_p),
]

_capsule_new = c.pythonapi.PyCapsule_New
_capsule_new.restype = c.py_object
_capsule_new.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]


class Producer:
    """A table of given arrays; `released` counts the calls of each kind of callback.

    Everything that is handed out stays alive in `keep`, so a second release or a late read is seen and does not crash.
    """

    def __init__(self) -> None:
        self.released: Counter[str] = Counter()
        self.keep: list[Any] = []
        self._release: dict[str, Any] = {
            "schema": SchemaRelease(self._released("schema")),
            "array": ArrayRelease(self._released("array")),
            "stream": StreamRelease(self._released("stream")),
        }

    def _released(self, kind: str) -> Callable[[Any], None]:
        def release(pointer: Any) -> None:
            self.released[kind] += 1
            at = c.addressof(pointer.contents) + type(pointer.contents).release.offset
            c.c_void_p.from_address(at).value = None

        return release

    def held(self, thing: Any) -> Any:
        self.keep.append(thing)
        return thing

    def schema(
        self,
        format: bytes | None,
        name: bytes | None = b"",
        children: Any = (),
        dictionary: Schema | None = None,
    ) -> Schema:
        made = self.held(Schema(format=format, name=name, n_children=len(children)))
        if children:
            made.children = self.held((SchemaPointer * len(children))(*map(c.pointer, children)))
        if dictionary is not None:
            made.dictionary = c.pointer(dictionary)
        made.release = self._release["schema"]
        return made  # type: ignore[no-any-return]

    def array(
        self,
        length: int,
        buffers: list[bytes | None],
        children: Any = (),
        dictionary: Array | None = None,
        null_count: int = 0,
        offset: int = 0,
    ) -> Array:
        pointers = [
            None
            if buffer is None
            else c.addressof(self.held(c.create_string_buffer(buffer, len(buffer) or 1)))
            for buffer in buffers
        ]
        made = self.held(Array(length=length, null_count=null_count, offset=offset))
        made.n_buffers = len(buffers)
        made.buffers = self.held((c.c_void_p * max(len(buffers), 1))(*pointers))
        made.n_children = len(children)
        if children:
            made.children = self.held((ArrayPointer * len(children))(*map(c.pointer, children)))
        if dictionary is not None:
            made.dictionary = c.pointer(dictionary)
        made.release = self._release["array"]
        return made  # type: ignore[no-any-return]

    def as_array(self, schema: Schema, array: Array) -> object:
        """An object with __arrow_c_array__."""
        parts = (
            _capsule_new(c.addressof(schema), b"arrow_schema", None),
            _capsule_new(c.addressof(array), b"arrow_array", None),
        )
        return type("AsArray", (), {"__arrow_c_array__": lambda _, requested_schema=None: parts})()

    def as_stream(self, schema: Schema, arrays: list[Array], error: int = 0) -> object:
        """An object with __arrow_c_stream__: the arrays one after the other, then the end or an error."""
        waiting = list(arrays)

        def get_schema(_: Any, out: Any) -> int:
            c.memmove(out, c.byref(schema), c.sizeof(Schema))
            return 0

        def get_next(_: Any, out: Any) -> int:
            c.memset(out, 0, c.sizeof(Array))
            if waiting:
                c.memmove(out, c.byref(waiting.pop(0)), c.sizeof(Array))
                return 0
            return error

        made = self.held(
            Stream(
                get_schema=self.held(GetSchema(get_schema)),
                get_next=self.held(GetNext(get_next)),
                get_last_error=self.held(GetLastError(lambda _: None)),
            )
        )
        made.release = self._release["stream"]
        capsule = _capsule_new(c.addressof(made), b"arrow_array_stream", None)
        return type(
            "AsStream", (), {"__arrow_c_stream__": lambda _, requested_schema=None: capsule}
        )()
