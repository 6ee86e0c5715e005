"""Hypothesis strategies for messages, records and damage to them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from support.oracle import records as oracle

from rmqcore import Message

INT32_EDGES = [0, 1, -1, 2**31 - 1, -(2**31)]
INT64_EDGES = [0, 1, -1, 2**63 - 1, -(2**63), 2**32]
LENGTH_EDGES = [*INT32_EDGES, 7, 8, 90, 91, 127, 128, 255, 32767, 32768, 65535]

int32 = st.sampled_from(INT32_EDGES) | st.integers(-(2**31), 2**31 - 1)
int64 = st.sampled_from(INT64_EDGES) | st.integers(-(2**63), 2**63 - 1)
# Every code point that has a UTF-8 form: one, two, three and four bytes of it are equally likely.
characters = st.one_of(
    st.characters(max_codepoint=0x7F),
    st.characters(min_codepoint=0x80, max_codepoint=0x7FF),
    st.characters(min_codepoint=0x800, max_codepoint=0xFFFF, exclude_categories=["Cs"]),
    st.characters(min_codepoint=0x10000),
)


def text_without(
    separators: str, *, min_size: int = 0, max_size: int = 40
) -> st.SearchStrategy[str]:
    allowed = characters.filter(lambda character: character not in separators)
    return st.text(allowed, min_size=min_size, max_size=max_size)


def _to_length(text: str, size: int) -> str:
    """Repeated and cut to `size` UTF-8 bytes, the rest filled with x."""
    repeated = (text * size).encode()[:size].decode("utf-8", "ignore")
    return repeated + "x" * (size - len(repeated.encode()))


# 1..255 bytes; the lengths where V2 begins, and the longest, come often.
topics = st.builds(
    _to_length,
    st.text(characters, min_size=1, max_size=8),
    st.sampled_from([1, 126, 127, 128, 129, 254, 255]) | st.integers(1, 255),
)
bodies = st.binary(max_size=200) | st.builds(
    lambda unit, size: (unit * (size // len(unit) + 1))[:size],
    st.binary(min_size=1, max_size=50),
    st.integers(0, 5000),
)
property_names = st.sampled_from(
    ["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "WAIT", "__CRC32#", "INNER_MULTI_DISPATCH"]
) | text_without("\x01\x02", min_size=1, max_size=12)
property_values = (
    text_without("\x02")
    | st.sampled_from(["3", "a b", " a  b ", "\x01", "a\x01b", "\x00"])
    | st.just("")
)
property_maps = st.dictionaries(property_names, property_values, max_size=8)

hosts = st.builds(
    oracle.Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), int32
)


def host_text(host: oracle.Host) -> str:
    if host.v6:
        return f"[{socket.inet_ntop(socket.AF_INET6, host.address)}]:{host.port}"
    return f"{socket.inet_ntop(socket.AF_INET, host.address)}:{host.port}"


@dataclass(frozen=True)
class Sample:
    """The same message as the package and as the oracle take it."""

    record: oracle.Record
    properties: dict[str, str]
    append_prop_crc: bool

    @property
    def message(self) -> Message:
        record = self.record
        return Message(
            record.topic.decode(),
            record.body,
            record.queue_id,
            properties=self.properties,
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp_ms=record.born_timestamp_ms,
            born_host=host_text(record.born_host),
            store_host=host_text(record.store_host),
            reconsume_times=record.reconsume_times,
            prepared_transaction_offset=record.prepared_transaction_offset,
        )

    @property
    def expected(self) -> bytes:
        return oracle.encode_record(self.record, append_prop_crc=self.append_prop_crc)


@st.composite
def samples(
    draw: Callable[[st.SearchStrategy[object]], object],
    phy_offsets: st.SearchStrategy[int] = int64,
    appended: st.SearchStrategy[bool] | None = None,
) -> Sample:
    append_prop_crc = draw(st.booleans() if appended is None else appended)
    properties = draw(property_maps)
    assert isinstance(properties, dict)
    stored = {k: v for k, v in properties.items() if not (append_prop_crc and k == "__CRC32#")}
    topic = draw(topics | st.just(oracle.SCHEDULE_TOPIC))
    assert isinstance(topic, str)
    record = draw(
        st.builds(
            oracle.Record,
            topic=st.just(topic.encode()),
            body=bodies,
            properties=st.just(oracle.encode_properties(stored)),
            queue_id=int32,
            flag=int32,
            queue_offset=int64,
            phy_offset=phy_offsets,
            sys_flag=int32 | st.integers(0, 0x7FF),
            born_timestamp_ms=int64,
            born_host=hosts,
            store_timestamp_ms=int64,
            store_host=hosts,
            reconsume_times=int32,
            prepared_transaction_offset=int64,
        )
    )
    assert isinstance(record, oracle.Record)
    return Sample(record, properties, bool(append_prop_crc))


def log_of(sampled: list[Sample], base_offset: int) -> bytes:
    """Records one behind the other, each with the phy offset it lies at."""
    log = b""
    for sample in sampled:
        record = replace(sample.record, phy_offset=base_offset + len(log))
        log += oracle.encode_record(record, append_prop_crc=sample.append_prop_crc)
    return log


# ---- damage -----------------------------------------------------------------------------------------


def length_fields(raw: bytes) -> list[tuple[int, str]]:
    """Position and struct form of the numbers in a whole record that decide its shape."""
    record = oracle.decode_record(raw)
    assert isinstance(record, oracle.Record)
    body_at = oracle.smallest_size(oracle.V1, record.sys_flag) - 3
    topic_at = body_at + len(record.body)
    form = ">h" if record.magic == oracle.V2 else ">b"
    props_at = topic_at + struct.calcsize(form) + len(record.topic)
    return [
        (0, ">i"),
        (4, ">i"),
        (36, ">i"),
        (body_at - 4, ">i"),
        (topic_at, form),
        (props_at, ">h"),
    ]


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """`whole` after up to four changes; the length fields are hit as often as all other bytes."""
    fields = length_fields(whole)
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["field", "nudge", "flip", "cut", "insert", "remove", "fill"]))
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        if kind in ("field", "nudge"):
            position, form = draw(st.sampled_from(fields))
            if position + struct.calcsize(form) > len(data):
                continue
            bits = 8 * struct.calcsize(form)
            edges = [*LENGTH_EDGES, oracle.V1, oracle.V2, oracle.BLANK]
            value = draw(st.sampled_from(edges))
            if kind == "nudge":
                value = struct.unpack_from(form, data, position)[0] + draw(st.integers(-9, 9))
            struct.pack_into(form, data, position, oracle.wrap(value, bits))
        elif kind == "flip" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = draw(st.binary(max_size=30))
        elif kind == "remove":
            del data[at : at + draw(st.integers(1, 30))]
        elif kind == "fill":
            size = draw(st.integers(1, 30))
            data[at : at + size] = bytes([draw(st.integers(0, 255))]) * len(data[at : at + size])
    return bytes(data)
