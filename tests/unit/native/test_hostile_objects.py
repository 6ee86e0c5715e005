"""Objects that misbehave while they are handed to C: bodies that change the message, half-made objects, endless schemas.

A body whose ``__buffer__`` gave the message another topic (Python 3.12 and later) left a pointer into the text of the old topic;
``MessageView.__new__(MessageView)`` ended the interpreter at the first look at it; the name of an Arrow type that holds itself
went on until the stack was full.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rmqcore
import rmqcore._native
from rmqcore import Message
from rmqcore._native.put.put_result import PutResult
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.queues.get import GetResult
from rmqcore._native.scan.batch import Batch
from rmqcore.codec.message import MessageView
from rmqcore.vocabulary.status import PutMessageStatus

MADE_BY_THE_STORE = (MessageView, PutResult, GetResult, ConsumeQueue, Batch)


def native_types() -> Iterator[type]:
    for module in pkgutil.walk_packages(rmqcore._native.__path__, "rmqcore._native."):
        if ".threads" in module.name:
            continue  # whole once they are made; to call them waits
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and value.__module__ == module.name:
                yield value


@pytest.mark.parametrize("kind", MADE_BY_THE_STORE, ids=lambda kind: kind.__name__)
def test_no_object_without_its_contents(kind: Any) -> None:
    for make in (kind, lambda: kind.__new__(kind), lambda: object.__new__(kind)):
        with pytest.raises(TypeError):
            make()
    with pytest.raises(TypeError, match="is made by"):
        kind()


LOOKS = """
import gc, importlib, sys

values = ((), (0,), (b"",), (b"x" * 100, 100, 0, 0, 100), ("a",), (None,), (0, 0, 0))


def look_at(kind):
    try:
        made = kind.__new__(kind)
    except TypeError:
        return
    for look in (repr, hash, len, iter, bytes, memoryview, bool):
        try:
            look(made)
        except Exception:
            continue
    for name in dir(made):
        try:
            value = getattr(made, name)
        except Exception:
            continue
        if callable(value) and name not in ("__class__", "__init_subclass__", "__subclasshook__"):
            for given in values:
                try:
                    value(*given)
                except Exception:
                    continue


for place in sys.argv[1:]:
    print(place, flush=True)
    module, _, name = place.rpartition(" ")
    look_at(getattr(importlib.import_module(module), name))
    gc.collect()
"""


def end_of(places: list[str]) -> tuple[int, str]:
    """Look at half-made objects in a child: how many it began with, and what ended it before its end."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", LOOKS, *places],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").count(b"\n"), "it does not end"
    ended = "" if done.returncode == 0 else f"it ended with {done.returncode}: {done.stderr}"
    return done.stdout.count("\n"), ended


@pytest.mark.slow
def test_no_half_made_object_ends_the_interpreter() -> None:
    """In a child: each attribute and method of what `__new__` gives alone, where it gives anything.

    One child looks at all types, for most of its time is its start; behind a type that ends it, another one goes on.
    """
    left = sorted(f"{kind.__module__} {kind.__qualname__}" for kind in set(native_types()))
    assert len(left) > 40
    ends = {}
    while left:
        begun, ended = end_of(left)
        assert begun, ended
        if ended:
            ends[left[begun - 1]] = ended
        left = left[begun:]
    assert not ends, "\n".join(f"{place}: {ended}" for place, ended in ends.items())


def test_a_message_without_its_fields_is_refused(tmp_path: Path) -> None:
    half = Message.__new__(Message)
    illegal = PutMessageStatus.MESSAGE_ILLEGAL
    with rmqcore.open(tmp_path, services=False) as store:
        assert store.put(half).status == illegal
        half.body = b"body"
        with pytest.raises(TypeError, match="topic: expected str, got NoneType"):
            store.put(half)
        result = store.put_many([Message("T", b"1"), half, Message("T", b"2")])
        assert list(result.statuses) == [
            PutMessageStatus.PUT_OK,
            illegal,
            PutMessageStatus.PUT_OK,
        ]


def fresh(text: str) -> str:
    """A str that nothing else holds."""
    return "".join(list(text))


class EvilBody:
    """A body that gives its message another topic while its bytes are asked for."""

    def __init__(self) -> None:
        self.message: Message | None = None

    def __buffer__(self, flags: int) -> memoryview:
        assert self.message is not None
        self.message.topic = fresh("Other" + "y" * 60)
        self.message.properties = {}
        gc.collect()
        self.garbage = ["z" * 67 for _ in range(1000)]  # where the old text was
        return memoryview(b"body")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="only C makes buffers before Python 3.12")
@pytest.mark.parametrize("way", ["put", "put_many", "put_batch"])
def test_a_body_that_changes_its_message(tmp_path: Path, way: str) -> None:
    topic = "Topic" + "x" * 60
    with rmqcore.open(tmp_path, services=False) as store:
        body = EvilBody()
        message = body.message = Message(fresh(topic), body)
        if way == "put":
            store.put(message).raise_for_status()
        else:
            getattr(store, way)([message])
        store.dispatch_once()
        assert [(m.topic, bytes(m.body)) for m in store.get(topic, 0, 0).messages] == [
            (topic, b"body")
        ]


class EvilText(str):  # noqa: SLOT000 - it has attributes
    """A property that denies its separator, and would change the message if it were asked."""

    message: Message | None = None

    def __contains__(self, text: object) -> bool:
        assert self.message is not None
        self.message.topic = fresh("Other" + "y" * 60)
        gc.collect()
        self.garbage = ["z" * 67 for _ in range(1000)]
        return False


@pytest.mark.parametrize("way", ["put", "put_many", "put_batch"])
def test_a_property_that_changes_its_message(tmp_path: Path, way: str) -> None:
    with rmqcore.open(tmp_path, services=False) as store:
        evil = EvilText("a\x01b\x02c")
        message = Message(fresh("Topic" + "x" * 60), b"body", properties={"name": evil})
        evil.message = message
        if way == "put_many":
            assert list(store.put_many([message]).statuses) == [PutMessageStatus.MESSAGE_ILLEGAL]
        else:
            with pytest.raises(ValueError, match="separator"):
                getattr(store, way)(message if way == "put" else [message])
        store.dispatch_once()
        assert list(store.queues()) == []


class _ArrowSchema(ctypes.Structure):
    """Of the Arrow C data interface."""


_ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowSchema))),
    ("dictionary", ctypes.POINTER(_ArrowSchema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ("private_data", ctypes.c_void_p),
]


class EndlessSchema:
    """A producer whose column is a struct that holds itself, or a dictionary of itself."""

    def __init__(self, *, dictionary: bool) -> None:
        self._column = _ArrowSchema(format=b"+s", name=b"topic", n_children=1)
        self._columns = (ctypes.POINTER(_ArrowSchema) * 1)(ctypes.pointer(self._column))
        self._column.children = self._columns
        if dictionary:
            self._column.dictionary = ctypes.pointer(self._column)
        self._release = _ArrowSchema._fields_[7][1](lambda _: None)
        self._schema = _ArrowSchema(
            format=b"+s", name=b"", n_children=1, children=self._columns, release=self._release
        )
        self._array = (ctypes.c_int64 * 10)()

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return (
            make(ctypes.addressof(self._schema), b"arrow_schema", None),
            make(ctypes.addressof(self._array), b"arrow_array", None),
        )


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_schema_that_holds_itself(tmp_path: Path, dictionary: bool) -> None:
    with (
        rmqcore.open(tmp_path, services=False) as store,
        pytest.raises(TypeError, match=r"column 'topic' is .*\.\.\."),
    ):
        store.put_arrow(EndlessSchema(dictionary=dictionary))
