"""The UDFs' kernels over Arrow arrays, without Spark: equal to the codec one row at a time, whatever the array looks like."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import strategies

from rmqcore import codec, sysflag
from rmqcore.codec.compression import decompress_body
from rmqcore.errors import CompressionError, CompressionLibraryError

pa = pytest.importorskip("pyarrow")
udf_arrow = pytest.importorskip("rmqcore.spark.udf.kernels")

ALL_FLAGS = 0x7FFFFFFF


def laid_out(draw: st.DrawFn, values: list[Any], kind: Any) -> Any:
    """An array of these values: as it is made, or a slice out of the middle of a longer one."""
    if draw(st.booleans()):
        return pa.array(values, kind)
    front = draw(st.integers(1, 9))
    example = next((value for value in values if value is not None), None)
    longer = pa.array([example] * front + values + [example, None], kind)
    return longer.slice(front, len(values))


@st.composite
def arrays(draw: st.DrawFn, values: st.SearchStrategy[Any], *kinds: Any) -> Any:
    drawn = draw(st.lists(st.none() | values, max_size=20))
    return laid_out(draw, drawn, draw(st.sampled_from(kinds)))


BINARY = (pa.binary(), pa.binary(), pa.large_binary())
TEXT = (pa.string(), pa.string(), pa.large_string())


def by_row(column: Any, call: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else call(value) for value in column.to_pylist()]


@given(arrays(strategies.bodies, *BINARY))
def test_body_crc_is_the_codec_s(column: Any) -> None:
    found = udf_arrow.body_crc(column)
    found.validate(full=True)
    assert found.type == pa.int32()
    assert found.to_pylist() == by_row(column, codec.body_crc)


@given(arrays(st.text(strategies.characters, max_size=40), *TEXT))
def test_java_hash_is_the_codec_s(column: Any) -> None:
    found = udf_arrow.java_hash(column)
    found.validate(full=True)
    assert found.type == pa.int32()
    assert found.to_pylist() == by_row(column, codec.java_hash)


@given(arrays(st.text(strategies.characters, max_size=12), *TEXT))
def test_a_tags_code_is_the_hash_and_0_without_tags(column: Any) -> None:
    found = udf_arrow.tags_code(column)
    assert found.type == pa.int64()
    assert found.to_pylist() == [codec.java_hash(tags or "") for tags in column.to_pylist()]


@given(
    arrays(strategies.property_maps.map(codec.encode_properties) | st.binary(max_size=40), *BINARY)
)
def test_properties_are_the_codec_s(column: Any) -> None:
    found = udf_arrow.decode_properties(column)
    found.validate(full=True)
    assert found.type == pa.map_(pa.string(), pa.string())
    expected = by_row(column, lambda value: list(codec.decode_properties(value).items()))
    assert found.to_pylist() == expected


def test_properties_come_from_text_too() -> None:
    found = udf_arrow.decode_properties(pa.array(["a\x01é\x02b\x01", None, ""]))
    assert found.to_pylist() == [[("a", "é")], None, []]


def test_properties_longer_than_a_record_can_have_are_decoded_all_the_same() -> None:
    long = b"a\x01" + b"x" * 40_000 + b"\x02b\x01y\x02"
    values = [b"k\x01v\x02", long, None, long, long, b""]
    found = udf_arrow.decode_properties(pa.array(values))
    found.validate(full=True)
    expected = by_row(pa.array(values), lambda value: list(codec.decode_properties(value).items()))
    assert found.to_pylist() == expected


KINDS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "zlib": (sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB, zlib.compress),
    "old zlib": (sysflag.COMPRESSED, zlib.compress),
    "plain": (0, bytes),
    "plain, other bits": (ALL_FLAGS & ~sysflag.COMPRESSED, bytes),
    "no zlib": (sysflag.COMPRESSED, lambda body: b"\xff" + body),
    "no such type": (sysflag.COMPRESSED | sysflag.COMPRESSION_TYPE_MASK, bytes),
}


@st.composite
def body_columns(draw: st.DrawFn) -> tuple[Any, Any]:
    rows = []
    for name, body in draw(
        st.lists(st.tuples(st.sampled_from(sorted(KINDS)), strategies.bodies), max_size=12)
    ):
        flag, pack = KINDS[name]
        kept = draw(st.sampled_from(["both", "both", "both", "no flag", "no body"]))
        rows.append(
            (None if kept == "no body" else pack(body), None if kept == "no flag" else flag)
        )
    bodies, flags = ([row[part] for row in rows] for part in (0, 1))
    return laid_out(draw, bodies, pa.binary()), laid_out(draw, flags, pa.int32())


def plain(body: bytes | None, flag: int | None) -> bytes | None:
    if body is None or flag is None:
        return None
    try:
        return decompress_body(body, flag)
    except CompressionError:
        return None


@given(body_columns())
def test_plain_bodies_are_those_of_compression_or_null(columns: tuple[Any, Any]) -> None:
    bodies, flags = columns
    found = udf_arrow.decompress_body(bodies, flags)
    found.validate(full=True)
    assert found.type == pa.binary()
    assert found.to_pylist() == [
        plain(body, flag) for body, flag in zip(bodies.to_pylist(), flags.to_pylist(), strict=True)
    ]


def test_a_body_that_is_not_what_its_flag_says_fails_the_query_if_asked() -> None:
    bodies = pa.array([b"plain", zlib.compress(b"x"), b"no zlib"])
    flags = pa.array([0, sysflag.COMPRESSED, sysflag.COMPRESSED], pa.int32())
    mode = pa.array(["FAILFAST"] * 3)
    with pytest.raises(
        CompressionError, match=r"^row 2 of the batch: the body of 7 bytes is not ZLIB"
    ):
        udf_arrow.decompress_body(bodies, flags, mode)
    assert udf_arrow.decompress_body(bodies[:2], flags[:2], mode[:2]).to_pylist() == [
        b"plain",
        b"x",
    ]


def test_a_missing_library_is_no_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every LZ4 body of a table became null, on a cluster whose executors lacked one package."""
    import sys

    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    flags = pa.array([sysflag.COMPRESSED | sysflag.COMPRESSION_LZ4], pa.int32())
    with pytest.raises(CompressionLibraryError, match=r"^row 0 .*rmqcore\[compress\]"):
        udf_arrow.decompress_body(pa.array([b"body"]), flags)


@pytest.mark.parametrize("column", [pa.array([5]), pa.array([{"a": 1}]), pa.array([[b"x"]])])
def test_a_column_of_another_type_is_named(column: Any) -> None:
    """``rmq_body_crc(queue_id)`` failed with the words that Arrow has no function cast_binary for int32."""
    with pytest.raises(
        TypeError, match=r"expected a binary or string column, got (int64|struct|list)"
    ):
        udf_arrow.body_crc(column)


def test_columns_of_nulls_alone_are_columns_of_nulls() -> None:
    nothing = pa.nulls(3)
    for kernel in (udf_arrow.body_crc, udf_arrow.java_hash, udf_arrow.decode_properties):
        assert kernel(nothing).to_pylist() == [None] * 3
    assert udf_arrow.tags_code(nothing).to_pylist() == [0] * 3
    assert udf_arrow.decompress_body(nothing, pa.nulls(3)).to_pylist() == [None] * 3


def test_columns_without_rows_keep_their_types() -> None:
    for kernel, kind in [
        (udf_arrow.body_crc, pa.int32()),
        (udf_arrow.tags_code, pa.int64()),
        (udf_arrow.decode_properties, pa.map_(pa.string(), pa.string())),
    ]:
        for empty in (pa.array([], pa.binary()), pa.array([b"a"]).slice(1), pa.nulls(0)):
            assert kernel(empty).type == kind
            assert len(kernel(empty)) == 0


def test_a_column_whose_offsets_lie_is_an_error() -> None:
    offsets = pa.py_buffer(array("i", [0, 900, 8]))
    lying = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(bytes(8))])
    for kernel in (udf_arrow.body_crc, udf_arrow.java_hash):
        with pytest.raises(
            ValueError, match="offsets 0 and 900 do not follow each other in 8 bytes"
        ):
            kernel(lying)


@pytest.mark.parametrize("mode", ["FAILFAST", "failfast", "Permissive"])
def test_a_mode_is_known_in_any_case(mode: str) -> None:
    assert udf_arrow.any_mode(mode) == mode.upper()
    assert udf_arrow.any_mode(pa.array([mode] * 3)) == mode.upper()


def test_a_mode_is_one_known_text() -> None:
    assert udf_arrow.any_mode(None) == "PERMISSIVE"
    assert udf_arrow.any_mode(pa.array([], pa.string())) == "PERMISSIVE"
    with pytest.raises(ValueError, match="'DROPMALFORMED' is neither PERMISSIVE nor FAILFAST"):
        udf_arrow.any_mode("DROPMALFORMED")
    for several in (["FAILFAST", "PERMISSIVE"], [None]):
        with pytest.raises(ValueError, match="one text for all rows"):
            udf_arrow.any_mode(pa.array(several, pa.string()))
