"""put_arrow of rows against put_many of the equal messages: the same bytes, offsets, statuses, whatever types there are."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.strategies import (
    bodies,
    host_text,
    hosts,
    int32,
    int64,
    property_maps,
    text_without,
    topics,
)
from support.stores.append_log import Appended, append_log

from rmqcore import Message

Row = dict[str, Any]
STRINGS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint16(), pa.large_string()),
    pa.dictionary(pa.int64(), pa.string_view()),
]
BINARIES = [
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.uint8(), pa.binary()),
]
INTEGERS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
]
ITEMS = STRINGS[:3]  # pyarrow makes no list of dictionaries from Python values
KEYS = [*map(pa.list_, ITEMS), *map(pa.large_list, ITEMS)]
MAPS = [pa.map_(name, value) for name in ITEMS for value in ITEMS]

# Half of everything is a message; the rest is over a limit, or holds what a message may not.
texts = text_without("\x02", max_size=20) | st.sampled_from(["", "a", "x" * 12, "x" * 13, "a\x01b"])
bad_texts = st.sampled_from(["\x02", "a\x02", "x" * 8 + "\x02" + "y" * 9, "é\x02"])
words = text_without("\x02 ", min_size=1, max_size=20)
bad_words = st.sampled_from(["", " ", "a b", "k" * 20 + " ", "é é", "\x02"])
names = property_maps.filter(lambda given: "TAGS" not in given and "KEYS" not in given)
bad_properties = st.sampled_from(
    [
        {"a\x01": "b"},
        {"a": "\x02"},
        {"TAGS": "one"},
        {"KEYS": "one two"},
        {"KEYS": "one", "TAGS": ""},
        {"INNER_NUM": "3"},
        {"big": "v" * 32760},
        {"big": "v" * 32761},
        {f"{i:04}": "v" * 100 for i in range(400)},
        {f"{i}": "" for i in range(40)},
        {"none": None, "": "x", "y": None},
    ]
)
host_texts = hosts.map(host_text) | st.sampled_from(["", "127.0.0.1:10911"])
bad_hosts = st.sampled_from(
    ["x", "1.2.3.4", "1.2.3.4:", "01.2.3.4:5", "::1:5", "[::1]:5", "1.2.3.4:99999999999"]
)
# The edges of the field, and the value beyond each edge.
wide = int32 | st.sampled_from([2**31, -(2**31) - 1, 2**63 - 1, -(2**63)])


def mostly(good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(good, good, good, good, good, bad)


rows = st.fixed_dictionaries(
    {
        "topic": mostly(topics, st.none() | st.sampled_from(["", "t" * 256, "a/b", "x" * 5000])),
        "body": mostly(bodies, st.none() | st.just(b"x" * 3000)),
    },
    optional={
        "queue_id": mostly(st.integers(0, 3), wide | st.none()),
        "tags": mostly(texts, bad_texts | st.none()),
        "keys": mostly(st.lists(words, max_size=3), st.lists(bad_words, max_size=3) | st.none()),
        "properties": mostly(names, bad_properties | st.none()),
        "flag": mostly(int32, wide | st.none()),
        "sys_flag": mostly(st.sampled_from([0, 1, 4, 8, 12]), wide | st.none()),
        "born_timestamp_ms": int64 | st.none(),
        "born_host": mostly(host_texts, bad_hosts | st.none()),
        "store_host": mostly(host_texts, bad_hosts | st.none()),
        "reconsume_times": mostly(int32, wide | st.none()),
        "prepared_transaction_offset": int64 | st.none(),
    },
)


def fits(kind: pa.DataType, values: list[int | None]) -> bool:
    low, high = (0, 2**kind.bit_width - 1)
    if pa.types.is_signed_integer(kind):
        low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    return all(value is None or low <= value <= high for value in values)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Row], pa.Table]:
    """Rows, and a table of them: any types, cut into chunks, each a slice with something before and behind it."""
    given_rows = draw(st.lists(rows, min_size=1, max_size=12))
    columns = {name: None for row in given_rows for name in row}
    arrays = {}
    for name in columns:
        values = [row.get(name) for row in given_rows]
        kind: pa.DataType
        if name in ("topic", "tags", "born_host", "store_host"):
            kind = draw(st.sampled_from(STRINGS))
        elif name == "body":
            kind = draw(st.sampled_from(BINARIES))
        elif name == "keys":
            kind = draw(st.sampled_from(KEYS))
        elif name == "properties":
            kind = draw(st.sampled_from(MAPS))
            values = [None if value is None else list(value.items()) for value in values]
        else:
            kinds = [kind for kind in INTEGERS if fits(kind, values)]
            if name == "born_timestamp_ms":
                kinds.append(pa.timestamp("ms", draw(st.sampled_from([None, "UTC"]))))
            kind = draw(st.sampled_from(kinds))
        if all(value is None for value in values) and draw(st.booleans()):
            kind = pa.null()
        arrays[name] = array(values, kind, draw(st.integers(0, 3)))
    order = draw(st.permutations(list(arrays)))
    table = pa.table({name: arrays[name] for name in order})
    cuts = sorted(draw(st.lists(st.integers(0, len(given_rows)), max_size=3)))
    chunks = [
        table.slice(begin, end - begin)
        for begin, end in zip([0, *cuts], [*cuts, len(given_rows)], strict=True)
    ]
    return given_rows, pa.concat_tables(chunks)


def array(values: list[Any], kind: pa.DataType, extra: int) -> pa.Array:
    """The values as a slice of a longer array."""
    padded = [*values[:extra], *values, *values[:extra]]
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    made = pa.array(padded, plain)
    if plain is not kind:
        as_dictionary = pa.array(padded, pa.binary() if "binary" in str(plain) else pa.string())
        encoded = as_dictionary.dictionary_encode()
        made = pa.DictionaryArray.from_arrays(
            encoded.indices.cast(kind.index_type), encoded.dictionary.cast(plain)
        )
    return made.slice(len(values[:extra]), len(values))


def message(row: Row) -> Message:
    """The equal message; where a row makes no message, a message that every put refuses."""
    given_row = {name: value for name, value in row.items() if value is not None}
    try:
        made = Message(given_row.pop("topic"), given_row.pop("body"), **given_row)
    except (KeyError, ValueError):
        made = Message("refused", b"")
        made.body = None  # type: ignore[assignment]
    return made


def by_put_many(given_rows: list[Row], *, crc: bool) -> tuple[Appended, bytes]:
    with append_log(max_message_size=2500, append_prop_crc=crc) as log:
        return log.put_many([message(row) for row in given_rows]), log.data


@given(tables(), st.booleans())
def test_rows_and_messages_give_the_same_bytes(made: tuple[list[Row], pa.Table], crc: bool) -> None:
    given_rows, table = made
    expected, data = by_put_many(given_rows, crc=crc)
    forms: list[object] = [table, table.to_reader()]
    if len(given_rows) == 1 or all(len(chunks.chunks) == 1 for chunks in table.columns):
        forms += table.combine_chunks().to_batches()
    for form in forms:
        with append_log(max_message_size=2500, append_prop_crc=crc) as log:
            assert log.put_arrow(form) == expected
            assert log.data == data
            assert (log.refusal is None) == (set(expected.statuses) == {"PUT_OK"})


@given(st.lists(rows.filter(lambda row: row["topic"] is not None), min_size=1, max_size=6))
def test_polars(given_rows: list[Row]) -> None:
    pl = pytest.importorskip("polars")
    kinds: dict[str, object] = {
        "topic": pl.String,
        "body": pl.Binary,
        "tags": pl.Categorical,
        "keys": pl.List(pl.String),
        "born_host": pl.String,
        "store_host": pl.Categorical,
    }
    columns = {name: None for row in given_rows for name in row if name != "properties"}
    kept = [{name: row[name] for name in columns if name in row} for row in given_rows]
    frame = pl.DataFrame(
        {
            name: pl.Series([row.get(name) for row in kept], dtype=kinds.get(name, pl.Int64))
            for name in columns
        }
    )
    expected, data = by_put_many(kept, crc=False)
    with append_log(max_message_size=2500) as log:
        assert log.put_arrow(frame) == expected
        assert log.data == data


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from("s ms us ns".split()))
def test_timestamps_of_every_unit(units: int, unit: str) -> None:
    per_second = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    expected_ms = units * 1000 // per_second
    kind = pa.timestamp(unit, str(UTC))
    table = pa.table({"topic": ["t"], "body": [b""], "born_timestamp_ms": pa.array([units], kind)})
    with append_log() as log:
        found = log.put_arrow(table)
        if -(2**63) <= expected_ms < 2**63:
            assert found.statuses == ["PUT_OK"]
            assert int.from_bytes(log.data[40:48], "big", signed=True) == expected_ms
        else:
            assert found.statuses == ["MESSAGE_ILLEGAL"]
            assert log.refusal == (
                f"row 0, column 'born_timestamp_ms': {units} has no room in its field"
            )
