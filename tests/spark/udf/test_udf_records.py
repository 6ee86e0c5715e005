"""Raw records decoded in bulk, without Spark: what `rmqcore.codec` gives for each value alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import strategies

from rmqcore import Message, codec
from rmqcore.errors import CorruptMessageError
from rmqcore.spark.rows.schema import arrow_schema

pa = pytest.importorskip("pyarrow")
udf_columns = pytest.importorskip("rmqcore.spark.udf.records")
udf_records = pytest.importorskip("rmqcore.spark.udf.records")

ALL = tuple(udf_columns.COLUMNS)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
US = (2**63 - 1) // 1000  # ms that fit as microseconds


def decode(values: Any, columns: Any = None, mode: Any = "PERMISSIVE", **options: Any) -> Any:
    column = values if isinstance(values, pa.Array) else pa.array(values, pa.binary())
    fields = udf_columns.chosen(columns)
    found = udf_records.decode(column, fields, mode, **{"verify_crc": False, **options})
    found.validate(full=True)
    assert found.type == pa.struct(list(arrow_schema(fields)))
    return found


def times_as_numbers(struct: Any) -> list[Any]:
    """Rows with times in microseconds: Python's datetime ends in the year 9999."""
    fields = []
    for field, column in zip(struct.type, struct.flatten(), strict=True):
        fields.append(column.cast(pa.int64()) if pa.types.is_timestamp(field.type) else column)
    names = [field.name for field in struct.type]
    rows = pa.RecordBatch.from_arrays(fields, names).to_pylist()
    return [
        row if valid else None
        for row, valid in zip(rows, struct.is_valid().to_pylist(), strict=True)
    ]


def expected_row(view: codec.MessageView) -> dict[str, Any]:
    def micros(ms: int) -> int | None:
        return ms * 1000 if -US <= ms <= US else None

    ok = view.crc_ok()
    special = {
        "store_timestamp": micros(view.store_timestamp_ms),
        "born_timestamp": micros(view.born_timestamp_ms),
        "keys": " ".join(view.keys) or None,
        "properties": list(view.properties.items()),
        "crc_ok": ok,
        "corrupt_reason": None,
    }
    row = {name: special[name] if name in special else getattr(view, name) for name in ALL}
    if not ok:
        stored, actual = view.body_crc, codec.body_crc(view.body)
        row["corrupt_reason"] = f"BODYCRC is {stored}, expected {actual}"
    return row


def alone(value: bytes) -> codec.MessageView | None:
    """The record in the value; None when the value is not exactly one record."""
    try:
        view = codec.decode(value)
    except CorruptMessageError:
        return None
    return view if view.msg_size == len(value) else None


@st.composite
def values(draw: st.DrawFn) -> bytes | None:
    raw = draw(strategies.samples()).expected
    kind = draw(st.sampled_from(["whole"] * 5 + ["null", "damaged", "twice", "behind", "any"]))
    if kind == "null":
        return None
    if kind == "damaged":
        return draw(strategies.damaged(raw))
    if kind == "twice":
        return raw + raw
    if kind == "behind":
        return raw + draw(st.binary(min_size=1, max_size=9))
    return draw(st.binary(max_size=200)) if kind == "any" else raw


@st.composite
def columns_of_values(draw: st.DrawFn) -> tuple[list[bytes | None], Any]:
    """Values, and an array of them: whole, a slice, or with 64-bit offsets."""
    drawn = draw(st.lists(values(), max_size=8))
    front = draw(st.lists(values(), max_size=3))
    kind = draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    return drawn, pa.array([*front, *drawn, b"behind"], kind).slice(len(front), len(drawn))


@given(columns_of_values())
def test_every_row_is_what_the_codec_gives_for_it_alone(column: Any) -> None:
    drawn, array = column
    found = times_as_numbers(decode(array, [name for name in ALL if name != "corrupt_reason"]))
    for value, row in zip(drawn, found, strict=True):
        view = None if value is None else alone(value)
        if view is None:
            assert row is None
        else:
            expected = expected_row(view)
            del expected["corrupt_reason"]
            assert row == expected


@given(columns_of_values())
def test_the_reason_stands_beside_empty_fields(column: Any) -> None:
    drawn, array = column
    for value, row in zip(drawn, times_as_numbers(decode(array, ALL)), strict=True):
        if value is None:
            assert row is None
            continue
        view = alone(value)
        if view is not None:
            assert row == expected_row(view)
            continue
        assert " expected " in row.pop("corrupt_reason")
        assert set(row.values()) == {None}


@given(columns_of_values(), st.booleans())
def test_failfast_raises_exactly_when_a_value_is_malformed(column: Any, verify_crc: bool) -> None:
    drawn, array = column
    views = [None if value is None else alone(value) for value in drawn]
    bad = [
        row
        for row, (value, view) in enumerate(zip(drawn, views, strict=True))
        if value is not None and (view is None or (verify_crc and not view.crc_ok()))
    ]
    lenient = decode(array, verify_crc=verify_crc)
    nulls = [row for row, valid in enumerate(lenient.is_valid().to_pylist()) if not valid]
    assert nulls == sorted(bad + [row for row, value in enumerate(drawn) if value is None])
    if bad:
        with pytest.raises(
            CorruptMessageError, match=f"^<row {bad[0]} of the batch>@0: "
        ) as raised:
            decode(array, mode="FAILFAST", verify_crc=verify_crc)
        assert raised.value.field
    else:
        assert decode(array, mode="FAILFAST", verify_crc=verify_crc).equals(lenient)


def record(body: bytes = b"body", **numbers: int) -> bytes:
    at = {"phy_offset": 7, "queue_offset": 0, "store_timestamp_ms": 1, **numbers}
    return codec.encode(
        Message("T", body, tags="A", keys=["K1", "K2"]),
        phy_offset=at["phy_offset"],
        queue_offset=at["queue_offset"],
        store_timestamp_ms=at["store_timestamp_ms"],
    )


def test_what_is_wrong_is_said_field_expected_and_found() -> None:
    raw = record()
    flipped = raw.replace(b"body", b"bodY")
    found = decode(
        [
            raw + b"?",
            raw + raw,
            raw[:-1],
            b"",
            bytes(91),
            b"\x00\x00\x00\x5bABCD" + raw[8:],
            flipped,
        ],
        ["corrupt_reason"],
    )
    size = len(raw)
    assert [row["corrupt_reason"] for row in found.to_pylist()] == [
        f"TOTALSIZE is {size}, expected the value's {size + 1} bytes",
        f"TOTALSIZE is {size}, expected the value's {2 * size} bytes",
        f"TOTALSIZE is {size}, expected at most the {size - 1} bytes left",
        "TOTALSIZE is cut off after 0 bytes, expected the 8 bytes of a header at least",
        "MAGIC is 0 (nothing was written here), expected 0xDAA320A7 or 0xDAA320AB",
        "MAGIC is 0x41424344, expected 0xDAA320A7 or 0xDAA320AB",
        f"BODYCRC is {codec.body_crc(b'body')}, expected {codec.body_crc(b'bodY')}",
    ]


def test_a_blank_is_no_message() -> None:
    blank = (20).to_bytes(4, "big") + bytes.fromhex("cbd43194") + bytes(12)
    (row,) = decode([blank], ["corrupt_reason"]).to_pylist()
    assert row == {"corrupt_reason": "MAGIC is BLANK, expected a message"}


def test_a_crc_that_fails_makes_a_record_malformed_only_if_asked() -> None:
    flipped = record().replace(b"body", b"bodY")
    (row,) = decode([flipped], ["body", "crc_ok"]).to_pylist()
    assert row == {"body": b"bodY", "crc_ok": False}
    assert decode([flipped], ["body"], verify_crc=True).to_pylist() == [None]
    (row,) = decode([flipped], ["body", "crc_ok", "corrupt_reason"], verify_crc=True).to_pylist()
    assert row["body"] is None and row["crc_ok"] is None
    assert row["corrupt_reason"].startswith("BODYCRC is ")
    with pytest.raises(CorruptMessageError, match="BODYCRC"):
        decode([flipped], mode="FAILFAST", verify_crc=True)


def test_times_that_microseconds_cannot_hold_are_null() -> None:
    rows = [record(store_timestamp_ms=ms) for ms in (US, US + 1, -US, -US - 1, 2**63 - 1)]
    found = decode(rows, ["store_timestamp"]).field(0).cast(pa.int64())
    assert found.to_pylist() == [US * 1000, None, -US * 1000, None, None]


def test_more_records_than_one_batch_of_the_scan_takes() -> None:
    count = 2 * udf_records.BATCH_ROWS + 1
    rows: list[bytes | None] = [record(queue_offset=n) for n in range(count)]
    whole = decode(rows, ["queue_offset", "body"])
    assert whole.field(0).to_pylist() == list(range(count))
    rows[5], rows[-1] = None, b"no record"
    gaps = decode(rows, ["queue_offset"]).to_pylist()
    assert gaps[5] is None and gaps[-1] is None
    assert [row["queue_offset"] for row in gaps[:-1] if row] == [
        n for n in range(count - 1) if n != 5
    ]


def test_no_rows_and_nulls_alone() -> None:
    for columns in (None, ["corrupt_reason"], ["crc_ok", "topic"]):
        for column in (pa.array([], pa.binary()), pa.array([record()]).slice(1), pa.nulls(0)):
            assert len(decode(column, columns)) == 0
        assert decode(pa.nulls(3), columns).to_pylist() == [None] * 3
        assert decode(pa.nulls(3), columns, "FAILFAST").to_pylist() == [None] * 3


def test_bytes_under_a_null_are_not_looked_at() -> None:
    """Arrow allows a null to have bytes; the bytes of the next value were taken for the null's record."""
    raw = record(b"first"), record(b"hidden"), record(b"third")
    column = pa.array(raw, pa.binary())
    _, offsets, data = column.buffers()
    hiding = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(b"\x05"), offsets, data])
    found = decode(hiding, ["body"]).to_pylist()
    assert found == [{"body": b"first"}, None, {"body": b"third"}]
    assert decode(hiding, ["body"], "FAILFAST").to_pylist() == found


def test_the_default_columns_are_those_of_a_message_without_the_store_s_own() -> None:
    (row,) = decode([record()]).to_pylist()
    assert tuple(row) == udf_columns.DEFAULT
    assert (row["topic"], row["tags"], row["keys"], row["phy_offset"]) == ("T", "A", "K1 K2", 7)
    assert row["store_timestamp"] == EPOCH + dt.timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "columns", [["topic", "borker"], ["broker"], ["_file"], ["topic", "topic"], []]
)
def test_columns_that_cannot_be(columns: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^columns: "):
        udf_columns.chosen(columns)


def test_columns_are_no_text() -> None:
    with pytest.raises(TypeError, match="got the str 'topic'"):
        udf_columns.chosen("topic")
