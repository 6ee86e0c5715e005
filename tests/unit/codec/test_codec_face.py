"""What `rmqcore.codec` shows of itself: its names, their docstrings and signatures, what an import of it loads."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, codec

PARAMETERS = {
    "body_crc": "buf",
    "check": "buf pos=0 * check_crc=True check_prop_crc=False",
    "decode": "buf pos=0",
    "decode_all": "buf pos=0 * check_crc=False copy=False",
    "decode_batch": "body * check_size=True",
    "decode_properties": "buf",
    "encode": "message * phy_offset queue_offset store_timestamp_ms append_prop_crc=False",
    "encode_batch": "messages",
    "encode_into": "buffer pos message * phy_offset queue_offset store_timestamp_ms append_prop_crc=False",
    "encode_many": "messages * phy_offset store_timestamp_ms queue_offset=0 append_prop_crc=False",
    "encode_properties": "properties",
    "index_key_hash": "topic key",
    "java_hash": "text",
    "msg_id": "store_host phy_offset",
    "pack_cq": "phy_offset msg_size tags_code",
    "pack_host": "text",
    "parse_msg_id": "msg_id",
    "properties": "buf",
    "scan": "buf * base_offset=0 columns=None verify_crc=False",
    "scan_batches": "buf * base_offset=0 columns=None verify_crc=False batch_rows=8192 batch_bytes=2097152",
    "unpack_cq": "buf pos=0",
    "unpack_cq_entries": "buf",
    "unpack_host": "packed",
    "unwrap": "view",
}
TYPES = {"BatchMessage", "CqEntry", "MessageView", "MsgId", "Properties", "ScanBatches", "ScanResult"}  # fmt: skip


def test_what_is_public_is_what_is_shown() -> None:
    assert dir(codec) == sorted(codec.__all__)
    assert len(set(codec.__all__)) == len(codec.__all__)
    assert set(codec.__all__) == {*PARAMETERS, *TYPES}
    for name in codec.__all__:
        assert not name.startswith("_")
        value = getattr(codec, name)
        assert isinstance(value, type) == (name in TYPES)
        assert value.__name__ == name
    with pytest.raises(AttributeError, match="no_such_name"):
        codec.no_such_name  # type: ignore[attr-defined] # noqa: B018


def test_a_star_import_gives_the_same() -> None:
    found: dict[str, Any] = {}
    exec("from rmqcore.codec import *", found)
    assert set(found) - {"__builtins__"} == set(codec.__all__)


@pytest.mark.parametrize("name", sorted([*PARAMETERS, *TYPES]))
def test_each_name_has_a_docstring(name: str) -> None:
    text = inspect.getdoc(getattr(codec, name))
    assert text
    parts = text.split("\n\n")
    first = parts[parts[0].startswith(f"{name}(")]  # Cython puts the call in front
    assert first.strip().endswith("."), first
    if name in PARAMETERS:
        assert "Raises\n------\n" in text
    if name in PARAMETERS and name not in ("scan", "scan_batches", "unpack_cq_entries"):
        assert "Notes\n-----\n" in text
        assert "Thread safety: " in text
        assert "Source: " in text


@pytest.mark.parametrize("name", PARAMETERS)
def test_each_function_shows_its_parameters(name: str) -> None:
    function = getattr(codec, name)
    shown = []
    star = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        assert parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        plain = parameter.default is parameter.empty
        shown.append(parameter.name if plain else f"{parameter.name}={parameter.default}")
    assert " ".join(shown) == PARAMETERS[name]


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_help_begins_with_the_call(name: str) -> None:
    import pydoc

    page = pydoc.plain(pydoc.render_doc(getattr(codec, name)))
    assert f"{name}(" in page


def loaded_by(program: str, *names: str) -> list[str]:
    """Which of some packages a program loads in a process of its own."""
    program += f"\nimport sys; print(*sorted({set(names)} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


USES = """
import rmqcore.codec
from rmqcore import Message, codec

message = Message("t", b"body", 0, "A", ["k"], {"a": "b"})
at = dict(phy_offset=0, store_timestamp_ms=1)
raw = codec.encode(message, queue_offset=0, **at)
codec.encode_into(bytearray(raw), 0, message, queue_offset=0, **at)
for view in (codec.decode(raw), *codec.decode_all(codec.encode_many([message] * 3, **at))):
    view.as_dict(), codec.properties(view)["a"], codec.check(view.raw), repr(view)
codec.decode_properties(codec.encode_properties({"a": "b"}))
codec.unpack_cq(codec.pack_cq(1, 2, 3))
codec.decode_batch(codec.encode_batch([message]))
codec.unwrap(view)
codec.unpack_host(codec.pack_host("1.2.3.4:5")), codec.parse_msg_id(codec.msg_id("1.2.3.4:5", 6))
codec.java_hash("a"), codec.index_key_hash("t", "k"), codec.body_crc(b"")
dir(codec)
"""


def test_what_is_one_record_loads_no_numpy() -> None:
    assert loaded_by("import rmqcore.codec", "numpy", "pyarrow", "asyncio") == []
    assert loaded_by(USES, "numpy", "pyarrow", "polars", "pandas") == []


@pytest.mark.parametrize(
    "call", ["unpack_cq_entries(bytes(20))", "pack_cq([1], [2], [3])", "scan(b'').batch.column('body')"]
)  # fmt: skip
def test_where_an_array_is_asked_for_numpy_comes(call: str) -> None:
    if call.startswith("scan"):
        assert loaded_by("from rmqcore import codec; codec.scan(b'')", "pyarrow") == []
        return
    assert loaded_by(f"from rmqcore import codec; codec.{call}", "numpy") == ["numpy"]


def test_what_comes_out_can_be_sent_to_another_process() -> None:
    message = Message("t", b"body", 0, "A", ["k"], {"a": "é"})
    raw = codec.encode(message, phy_offset=7, queue_offset=0, store_timestamp_ms=1)
    given = [
        codec.decode(raw),
        codec.decode_all(bytearray(raw * 2))[1],
        codec.decode_all(raw, copy=True)[0],
        codec.unpack_cq(codec.pack_cq(1, 2, 3)),
        codec.decode_batch(codec.encode_batch([message]))[0],
        codec.parse_msg_id("7F00000100002A9F000000000000007B"),
        codec.properties(codec.encode_properties({"a": "é"})),
    ]
    for one in given:
        for again in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
            assert again == one
            assert type(again) is type(one)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (codec.CqEntry, ("phy_offset", "msg_size", "tags_code")),
        (codec.BatchMessage, ("flag", "body", "properties")),
        (codec.MsgId, ("store_host", "phy_offset")),
    ],
)
def test_the_tuples_are_named(kind: Any, fields: tuple[str, ...]) -> None:
    assert kind._fields == fields
    assert kind.__module__ == "rmqcore.codec"
    assert repr(kind(*fields)).startswith(f"{kind.__name__}({fields[0]}=")
    for field in fields:
        assert getattr(kind, field).__doc__
        assert getattr(kind(*fields), field) == field


def test_the_client_and_the_package_use_the_same_objects() -> None:
    assert rmqcore.MessageView is codec.MessageView
    assert rmqcore.codec is codec


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("rmqcore.codec.message", "Message"),
        ("rmqcore.vocabulary.status", "PutMessageStatus"),
        ("rmqcore.vocabulary.sysflag", "COMPRESSED"),
        ("rmqcore.config", "MessageStoreConfig"),
        ("rmqcore.errors", "StoreError"),
    ],
)
def test_programs_import_the_public_modules_by_their_names(name: str, what: str) -> None:
    """In a fresh interpreter and as the first import: the modules themselves lie in rooms of the package."""
    program = f"from {name} import {what}; import {name} as module; assert module.{what} is {what}"
    subprocess.run([sys.executable, "-c", program], check=True)
