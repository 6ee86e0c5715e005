"""The wire against anything: commands come back through any cut, hostile bytes raise the documented errors alone."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from rmqcore.errors import ProtocolError, RequestError
from rmqcore.remoting.codes import LanguageCode, RequestCode, SerializeType
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import Frame, FrameDecoder, encode_frame
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.request_fields import REQUEST_FIELDS, parse_fields

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
filled = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
shorts = st.integers(-(1 << 15), (1 << 15) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)


@st.composite
def commands(draw: st.DrawFn) -> RemotingCommand:
    """Commands that both forms can say: what is empty in the binary form is none."""
    return RemotingCommand(
        draw(shorts),
        draw(st.sampled_from(LanguageCode)),
        version=draw(shorts),
        opaque=draw(ints),
        flag=draw(ints),
        remark=draw(st.none() | filled),
        ext_fields=draw(st.dictionaries(filled, filled, max_size=5)),
        body=draw(st.binary(max_size=40)),
        serialize_type=draw(st.sampled_from(SerializeType)),
    )


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in itertools.pairwise(ends)]


@given(st.lists(commands(), max_size=4), st.lists(st.integers(0, 1 << 16), max_size=12))
def test_commands_come_back_through_any_cut(sent: list[RemotingCommand], places: list[int]) -> None:
    data = b"".join(map(encode_command, sent))
    decoder = FrameDecoder()
    found = []
    for piece in cut(data, places):
        decoder.feed(piece)
        found += [decode_command(frame) for frame in iter(decoder.next_frame, None)]
        assert decoder.pending <= len(data)
    assert found == sent
    assert decoder.pending == 0


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A valid stream with a few bytes changed, cut or put in."""
    data = bytearray(
        b"".join(map(encode_command, draw(st.lists(commands(), min_size=1, max_size=3))))
    )
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        size = draw(st.integers(0, 4))
        data[place : place + size] = draw(st.binary(max_size=4))
    return bytes(data)


@given(st.binary(max_size=300) | damaged(), st.lists(st.integers(0, 1 << 16), max_size=6))
def test_hostile_bytes_are_frames_commands_or_protocol_errors(
    data: bytes, places: list[int]
) -> None:
    decoder = FrameDecoder()
    taken = 0
    try:
        for piece in cut(data, places):
            decoder.feed(piece)
            for frame in iter(decoder.next_frame, None):
                taken += len(encode_frame(frame))
                read(frame)
            assert decoder.pending + taken <= len(data)
    except ProtocolError as error:
        told(error, "frame")


def told(error: ProtocolError | RequestError, *places: str) -> None:
    assert (error.part if isinstance(error, ProtocolError) else error.request) in places
    assert str(error).count(error.field)


def read(frame: Frame) -> None:
    """What a broker does with a frame; only the two documented errors may come of it."""
    try:
        command = decode_command(frame)
    except ProtocolError as error:
        told(error, "JSON header", "binary header")
        return
    for code in REQUEST_FIELDS:
        try:
            parse_fields(code, command.ext_fields)
        except RequestError as error:
            told(error, code.name)


values: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)
members = st.sampled_from(["code", "opaque", "flag", "version", "language", "remark", "extFields"])


@given(st.dictionaries(members | texts, values, max_size=8) | values)
def test_any_json_is_a_header_or_a_protocol_error(value: object) -> None:
    read(Frame(SerializeType.JSON, json.dumps(value).encode(), b""))
    if isinstance(value, dict):
        known = {"code": int(RequestCode.HEART_BEAT), "opaque": 1}
        read(Frame(SerializeType.JSON, json.dumps({**value, **known}).encode(), b""))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_header_or_a_protocol_error(data: bytes) -> None:
    for serialize_type in SerializeType:
        read(Frame(serialize_type, data, b""))


@given(st.lists(st.sampled_from(['"', "\\", "[", "]", "{", "}", ":", "1", ",", "a"]), max_size=60))
def test_soup_of_json_is_a_header_or_a_protocol_error(parts: list[str]) -> None:
    for times in (1, 50):
        read(Frame(SerializeType.JSON, "".join(parts * times).encode(), b""))
