"""`codec.encode_many` of Arrow columns: the bytes of the same messages, and what a row refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.strategies import bodies, host_text, hosts, int32, int64, property_maps, topics
from support.stores.append_log import NOW_MS

from rmqcore import Message, codec

WHERE: dict[str, Any] = {"phy_offset": 0, "store_timestamp_ms": NOW_MS}

ROWS = st.fixed_dictionaries(
    {"topic": st.sampled_from(["a", "b"]) | topics, "body": bodies},
    optional={
        "queue_id": st.integers(0, 2),
        "tags": st.sampled_from(["A", "TagB", "é", "a\x01b"]),
        "keys": st.lists(st.sampled_from(["k1", "k2", "é", "x" * 20]), max_size=3),
        "properties": property_maps.filter(lambda m: not {"TAGS", "KEYS"} & set(m)),
        "flag": int32,
        "sys_flag": st.sampled_from([0, 1, 4, 8, 12]) | int32,
        "born_timestamp_ms": int64,
        "born_host": hosts.map(host_text),
        "store_host": hosts.map(host_text),
        "reconsume_times": int32,
        "prepared_transaction_offset": int64,
    },
)


def table_of(rows: list[dict[str, Any]]) -> Any:
    pa = pytest.importorskip("pyarrow")
    kinds = {
        "topic": pa.string(),
        "body": pa.binary(),
        "tags": pa.string(),
        "keys": pa.list_(pa.string()),
        "properties": pa.map_(pa.string(), pa.string()),
        "born_host": pa.string(),
        "store_host": pa.string(),
    }
    names = {name: None for row in rows for name in row}
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if name == "properties":
            values = [None if value is None else list(value.items()) for value in values]
        columns[name] = pa.array(values, kinds.get(name, pa.int64()))
    return pa.table(columns)


def message_of(row: dict[str, Any]) -> Message:
    return Message(**{name: value for name, value in row.items() if value is not None})


@given(
    st.lists(ROWS, min_size=1, max_size=10), st.booleans(), st.integers(0, 2**40), st.integers(1, 4)
)
def test_rows_and_messages_give_the_same_bytes(
    rows: list[dict[str, Any]], crc: bool, queue_offset: int, chunk: int
) -> None:
    table = table_of(rows)
    where: dict[str, Any] = {**WHERE, "queue_offset": queue_offset, "append_prop_crc": crc}
    expected = codec.encode_many([message_of(row) for row in rows], **where)
    forms = [table, table.to_reader(chunk), *table.combine_chunks().to_batches()[:1]]
    for form in forms:
        assert codec.encode_many(form, **where) == expected


def test_rows_that_only_a_store_refuses() -> None:
    """A long topic, a long body, a negative queue: a record has room for them."""
    rows: list[dict[str, Any]] = [
        {"topic": "t" * 300, "body": b""},
        {"topic": "t", "body": b"x" * (5 << 20)},
        {"topic": "", "body": b""},
        {"topic": "t", "body": b"", "queue_id": -3},
        {"topic": "t", "body": b"", "properties": {"INNER_NUM": "3"}},
        {"topic": "a/b", "body": b""},
    ]
    for row in rows:
        expected = codec.encode_many([message_of(row)], **WHERE)
        assert codec.encode_many(table_of([row]), **WHERE) == expected


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"topic": None}, "row 3, column 'topic': null"),
        ({"body": None}, "row 3, column 'body': null"),
        ({"tags": "\x02"}, "row 3, column 'tags': .* separator"),
        ({"keys": ["a b"]}, "row 3, column 'keys': key 'a b'"),
        ({"properties": {"a\x01": "b"}}, "row 3, column 'properties': .* separator"),
        ({"flag": 2**31}, "row 3, column 'flag': 2147483648 has no room in its field"),
        ({"queue_id": 2**31}, "row 3.*2147483648"),
        ({"born_host": "here"}, "row 3, column 'born_host': host 'here': expected 'ip:port'"),
        ({"tags": "x" * 32762}, "row 3.*properties of 32,?768 bytes"),
        ({"topic": "x" * 32768}, "row 3.*topic of 32,?768 bytes"),
    ],
)
def test_a_row_without_a_record_is_named(row: dict[str, Any], words: str) -> None:
    rows = [{"topic": "t", "body": b""}] * 3 + [{"topic": "t", "body": b"", **row}]
    table = table_of(rows)
    for form in (table, table.to_reader(1), table.to_reader(2)):
        with pytest.raises(ValueError, match=words):
            codec.encode_many(form, **WHERE)


def test_a_table_whose_columns_do_not_fit_names_the_column() -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="no column 'body'"):
        codec.encode_many(pa.table({"topic": ["t"]}), **WHERE)
    with pytest.raises(TypeError, match="'body' is string, expected binary"):
        codec.encode_many(pa.table({"topic": ["t"], "body": ["b"]}), **WHERE)


def test_more_rows_than_a_chunk_has() -> None:
    rows = [
        {"topic": f"t{n % 11}", "body": b"x" * (n % 90), "queue_id": n % 3} for n in range(4000)
    ]
    expected = codec.encode_many([message_of(row) for row in rows], **WHERE)
    assert codec.encode_many(table_of(rows), **WHERE) == expected
    assert codec.encode_many(table_of(rows).to_reader(700), **WHERE) == expected


@pytest.mark.parametrize("name", ["phy_offset", "queue_offset"])
def test_a_row_whose_offset_leaves_a_long_is_named(name: str) -> None:
    rows = [{"topic": "t", "body": b""}] * 4
    most = {"phy_offset": 2**63 - 1 - 2 * 92, "queue_offset": 2**63 - 1 - 1}[name]
    for form in (table_of(rows), table_of(rows).to_reader(1)):
        with pytest.raises(OverflowError, match=f"row [23]: {name} .* does not fit a Java long"):
            codec.encode_many(form, **{**WHERE, name: most})


def test_a_crc_property_gives_way_as_in_a_list() -> None:
    row = {"topic": "t", "body": b"x", "properties": {"__CRC32#": "v\x02", "a": "b"}}
    where: dict[str, Any] = {**WHERE, "append_prop_crc": True}
    assert codec.encode_many(table_of([row]), **where) == codec.encode_many(
        [message_of(row)], **where
    )
