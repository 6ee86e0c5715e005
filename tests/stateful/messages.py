"""Messages for the store machine: few topics, keys and tags, so that they meet; and every way to break a limit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.oracle.store import ModelConfig, ModelMessage
from support.oracle.strategies import host_text

from rmqcore import Message

TOPICS = ["T", "U", "日本", "L" * 130, "%RETRY%g", oracle.SCHEDULE_TOPIC]
BAD_TOPICS = ["", ".", "..", "a/b", "n\0l", "x" * 256, "ä" * 128]
TAGS = ["A", "Aa", "BB", "A || B"]  # Aa and BB have the same hash
KEYS = ["k1", "k2", "k1 k2", " k1  k1 ", "Aa", "BB", "𝕜"]
LIGHT = ["%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%b,other", "%LMQ%a,%LMQ%a", ",", "%LMQ%a,", " "]
HOSTS = [
    oracle.Host(b"\x7f\0\0\1", 0),
    oracle.Host(b"\x0a\1\2\3", 10911),
    oracle.Host(bytes(range(16)), 1),
]
# An older record's bytes as a body: what a scan that goes astray would take for a message.
RECORD_IN_BODY = oracle.encode_record(oracle.Record(b"T", b"inner", b"", phy_offset=4096))

properties = st.fixed_dictionaries(
    {},
    optional={
        "TAGS": st.sampled_from(TAGS),
        "KEYS": st.sampled_from(KEYS),
        "UNIQ_KEY": st.sampled_from(["u1", "u2"]),
        "DELAY": st.sampled_from(["0", "1", "18", "99", "x", "-1"]),
        "WAIT": st.sampled_from(["true", "false", "FALSE"]),
        "INNER_MULTI_DISPATCH": st.sampled_from(LIGHT),
        oracle.CRC_NAME: st.just("0123456789"),
        "p": st.sampled_from(["", "\x01", "v" * 300]),
    },
)
few_properties = st.sampled_from(
    [{}, *({"TAGS": tag, "KEYS": key} for tag in TAGS for key in KEYS)]
)
bodies = st.one_of(
    st.integers(0, 600).map(lambda size: b"b" * size),
    st.sampled_from([b"", RECORD_IN_BODY, b"\0" * 40, b"x" * 1500]),
)
plain = st.builds(
    ModelMessage,
    topic=st.sampled_from(TOPICS),
    body=bodies,
    queue_id=st.sampled_from([0, 0, 0, 1, 77]),
    properties=few_properties,
)
rich = st.builds(
    ModelMessage,
    topic=st.sampled_from(TOPICS),
    body=bodies,
    queue_id=st.sampled_from([0, 1, 2**31 - 1]),
    properties=properties,
    flag=st.sampled_from([0, 1, -1]),
    sys_flag=st.sampled_from([0, 0, 1, 4, 8, 12, 0x301, 0x30, 2]),
    born_timestamp_ms=st.sampled_from([None, 0, 1, -1]),
    born_host=st.sampled_from(HOSTS),
    store_host=st.sampled_from(HOSTS),
    reconsume_times=st.sampled_from([0, 16]),
    prepared_transaction_offset=st.sampled_from([0, 1 << 40]),
)


def refused(config: ModelConfig) -> st.SearchStrategy[ModelMessage]:
    """Messages that the store must not take, and their neighbours that it must."""
    most = config.max_message_size
    fits = config.mapped_file_size_commit_log - 8 - 92
    return st.one_of(
        st.sampled_from(BAD_TOPICS).map(lambda topic: ModelMessage(topic, b"b")),
        st.sampled_from([most - 1, most, most + 1, fits - 1, fits, fits + 1]).map(
            lambda size: ModelMessage("T", b"b" * size)
        ),
        st.sampled_from([32700, 32763, 32764, 32765]).map(
            lambda size: ModelMessage("T", b"", properties={"p": "v" * size})
        ),
        st.sampled_from(
            [
                ModelMessage("T", b"b", -1),
                ModelMessage("T", b"b", sys_flag=0x80),
                ModelMessage("T", b"b", properties={"INNER_NUM": "2"}),
            ]
        ),
    )


def without_crc(given: ModelMessage) -> ModelMessage:
    pairs = {name: value for name, value in given.properties.items() if name != oracle.CRC_NAME}
    return replace(given, properties=pairs)


def any_message(config: ModelConfig) -> st.SearchStrategy[ModelMessage]:
    # A store that appends the property takes a caller's out; a store that does not would keep it, and fsck complain.
    own = rich if config.enabled_append_prop_crc else rich.map(without_crc)
    return st.one_of(plain, plain, own, refused(config))


@st.composite
def batches(draw: st.DrawFn, config: ModelConfig) -> list[ModelMessage]:
    """Messages that share what a batch shares."""
    first = draw(any_message(config))
    given = draw(st.lists(st.tuples(bodies, few_properties), max_size=5))
    return [first] + [
        ModelMessage(**{**vars(first), "body": body, "properties": pairs}) for body, pairs in given
    ]


def to_message(given: ModelMessage) -> Message:
    """The same message as the package takes it."""
    return Message(
        given.topic,
        given.body,
        given.queue_id,
        properties=given.properties,
        flag=given.flag,
        sys_flag=given.sys_flag,
        born_timestamp_ms=given.born_timestamp_ms,
        born_host=host_text(given.born_host),
        store_host=host_text(given.store_host),
        reconsume_times=given.reconsume_times,
        prepared_transaction_offset=given.prepared_transaction_offset,
    )


def to_table(messages: Iterable[ModelMessage]) -> Any:
    """The same messages as Arrow columns."""
    rows = list(messages)
    pairs = [list(row.properties.items()) for row in rows]
    return pa.table(
        {
            "topic": pa.array([row.topic for row in rows], pa.string()),
            "body": pa.array([row.body for row in rows], pa.binary()),
            "queue_id": pa.array([row.queue_id for row in rows], pa.int32()),
            "properties": pa.array(pairs, pa.map_(pa.string(), pa.string())),
            "flag": pa.array([row.flag for row in rows], pa.int32()),
            "sys_flag": pa.array([row.sys_flag for row in rows], pa.int32()),
            "born_timestamp_ms": pa.array([row.born_timestamp_ms for row in rows], pa.int64()),
            "born_host": pa.array([host_text(row.born_host) for row in rows], pa.string()),
            "store_host": pa.array([host_text(row.store_host) for row in rows], pa.string()),
            "reconsume_times": pa.array([row.reconsume_times for row in rows], pa.int32()),
            "prepared_transaction_offset": pa.array(
                [row.prepared_transaction_offset for row in rows], pa.int64()
            ),
        }
    )
