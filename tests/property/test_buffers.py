"""What may be handed to the codec as bytes, and what happens when it changes under a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.buffers import KINDS, mapped
from support.oracle import records as oracle
from support.oracle.strategies import Sample, samples

from rmqcore import codec
from rmqcore.errors import CorruptMessageError

NAMES = [name for name in dir(codec.MessageView) if not name.startswith("_")]
METHODS = {"decompress", "crc_ok", "prop_crc_ok"}


@given(sample=samples())
def test_every_contiguous_buffer_is_taken(sample: Sample) -> None:
    """Each sample in each kind: to make the sample costs more than to read it."""
    raw = sample.expected
    properties = oracle.encode_properties(sample.properties) or b"\x02"
    crc, decoded = oracle.body_crc(raw), oracle.decode_properties(properties)
    for kind, made in KINDS.items():
        buf = made(raw)
        assert codec.decode(buf).raw == raw, kind
        assert codec.check(buf) == len(raw), kind
        assert codec.body_crc(made(raw)) == crc, kind
        assert codec.decode_properties(made(properties)) == decoded, kind


@pytest.mark.parametrize(
    "strided",
    [
        memoryview(bytes(400))[::2],
        np.zeros(400, np.uint8)[::2],
        np.zeros((20, 20), np.uint8)[:, :5],
    ],
    ids=["memoryview", "numpy", "numpy columns"],
)
@pytest.mark.parametrize(
    "function", [codec.decode, codec.check, codec.body_crc, codec.decode_properties]
)
def test_a_buffer_with_gaps_is_refused_in_words(
    function: Callable[[Any], Any], strided: Any
) -> None:
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        function(strided)


@pytest.mark.parametrize("wrong", ["text", 17, None, [1, 2], object()])
@pytest.mark.parametrize(
    "function", [codec.decode, codec.check, codec.body_crc, codec.decode_properties]
)
def test_what_is_no_buffer_is_a_type_error(function: Callable[[Any], Any], wrong: Any) -> None:
    with pytest.raises(TypeError):
        function(wrong)


@pytest.mark.parametrize("pos", [-1, -(2**63), -(2**80), 108, 2**31, 2**63 - 1, 2**63, 2**80])
@pytest.mark.parametrize("function", [codec.decode, codec.check])
def test_a_position_outside_the_buffer_is_a_value_error(
    function: Callable[..., Any], pos: int
) -> None:
    with pytest.raises(ValueError, match="outside the buffer"):
        function(bytes(107), pos)


def test_a_position_at_the_end_is_a_record_of_which_nothing_is_left() -> None:
    for function in (codec.decode, codec.check):
        with pytest.raises(CorruptMessageError, match="cut off after 0 bytes"):
            function(bytes(107), 107)


def look_at_everything(view: codec.MessageView) -> None:
    for name in NAMES:
        if name == "decompress":
            continue
        value = getattr(view, name)
        if name in METHODS:
            value()
    repr(view)


@given(samples(), st.data())
def test_a_buffer_that_changes_under_a_view_gives_other_values_only(
    sample: Sample, data: st.DataObject
) -> None:
    """Every length was read once: nothing that is written later may lead a read outside the buffer."""
    buf = bytearray(sample.expected)
    view = codec.decode(buf)
    look_at_everything(view)
    for _ in range(3):
        at = data.draw(st.integers(0, len(buf) - 1))
        noise = data.draw(st.binary(max_size=60))[: len(buf) - at]
        buf[at : at + len(noise)] = noise
        look_at_everything(view)
    buf[:] = b"\xff" * len(buf)
    look_at_everything(view)
    assert view.raw == bytes(buf)


@given(samples())
def test_a_view_holds_its_buffer(sample: Sample) -> None:
    buf, area = bytearray(sample.expected), mapped(sample.expected)
    views = [codec.decode(buf), codec.decode(area)]
    with pytest.raises(BufferError):
        buf.append(0)
    with pytest.raises(BufferError):
        area.close()
    assert all(view.raw == sample.expected for view in views)
    views.clear()
    buf.append(0)
    area.close()


@given(samples())
def test_a_view_outlives_the_memoryview_it_was_made_from(sample: Sample) -> None:
    window = memoryview(bytearray(b"before" + sample.expected))[6:]
    view = codec.decode(window)
    window.release()
    assert view.raw == sample.expected


def test_a_view_is_made_by_decode_only() -> None:
    with pytest.raises(TypeError):
        codec.MessageView()
    with pytest.raises(TypeError):
        type("Sub", (codec.MessageView,), {})
    raw = oracle.encode_record(oracle.Record(b"t", b"", b""))
    with pytest.raises(AttributeError):
        codec.decode(raw).topic = "other"  # type: ignore[misc]
