"""Each call of `rmqcore.codec` beside Python alone, beside msgspec and orjson, and beside Java, in one run.

The sides take turns, several rounds of each; the rows show medians of the clock. Both sides of a row are a statement in the same
loop, that of `timeit`: a local name for each function, no garbage collection, and nothing is subtracted. The message has a body
of 128 bytes, a tag and a key, and exists before it is encoded. What Python alone does stands in `bench.plain_codec`.

The rows of msgspec and orjson are a yardstick: what it costs to write and to read the same fields in another form.
"""

from __future__ import annotations

import re
import statistics
import struct
import timeit
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
import pyarrow as pa

from bench import build, plain_codec
from bench.java_steps import JavaSteps
from bench.plain_codec import PlainMessage
from bench.report import Row
from rmqcore import Message, codec

TOPIC = "BenchTopic"
BODY = b"x" * 128
QUEUE = 1
HOST = "127.0.0.1:10911"
STORED_MS = 1_700_000_000_000
COUNT = 1_000  # messages of a list
BATCH = 100  # messages of a producer's batch
PROPERTIES = {"TAGS": "TagA", "KEYS": "k17", "UNIQ_KEY": "7F00000100002A9F18B4AAC200010011"}

ROUNDS = 15
ROUND_S = 0.02  # of one side
WARM_UP_CALLS = 20_000
WARM_UP = 40  # Java's second compiler is done after this many steps of WARM_UP_CALLS messages

Side = Callable[[int], float]
"""Runs a call N times and returns the seconds that took."""


@dataclass(frozen=True)
class Call:
    """A call of ours beside what does the same: two statements, or a step of Java's."""

    name: str
    ours: str
    other: str = ""
    beside: str = "Python"
    required: float | None = None
    """How many times as quick ours has to be; of a call beside nothing, the nanoseconds that it has to stay below."""
    messages: int = 1
    same: bool = False
    """Whether both statements have a value, and the same."""


KEYWORDS = f"phy_offset=0, queue_offset=7, store_timestamp_ms={STORED_MS}"
ENCODE_INTO = f"encode_into(buffer, 0, message, {KEYWORDS})"
PLAIN_ENCODE = f"plain_encode(plain_message, 0, 7, {STORED_MS})"
MANY = f"phy_offset=0, store_timestamp_ms={STORED_MS}"
PLAIN_MANY = f"plain_encode_many(plain_messages, 0, {STORED_MS})"
ENCODE = f"encode(message, {KEYWORDS})"
ENCODE_MANY = f"encode_many(messages, {MANY})"
READ = "view = decode(record); view.topic; view.body; view.properties"
READ_ALL = "for view in decode_all(records):\n    view.topic; view.body; view.properties"
EVERY_FIELD = "view = decode(record); " + "; ".join(
    f"view.{name}"
    for name in (
        "phy_offset",
        "msg_size",
        "magic",
        "body_crc",
        "queue_id",
        "flag",
        "queue_offset",
        "sys_flag",
        "born_timestamp_ms",
        "born_host",
        "store_timestamp_ms",
        "store_host",
        "reconsume_times",
        "prepared_transaction_offset",
        "topic",
        "body",
        "properties",
    )
)
ENTRY = 248_000, 248, 2_598_919
CQ = ", ".join(map(str, ENTRY))

CALLS = [
    Call("encode", ENCODE, PLAIN_ENCODE, required=5.0, same=True),
    Call("encode_into", ENCODE_INTO, PLAIN_ENCODE),
    Call("encode_many of 1,000", ENCODE_MANY, PLAIN_MANY, required=20.0, messages=COUNT, same=True),
    Call("encode_many of 1,000, Arrow", f"encode_many(table, {MANY})", PLAIN_MANY, messages=COUNT, same=True),
    Call("decode alone", "decode(record)"),
    Call("decode; topic, body, properties", READ, "plain_decode(record, 0)", required=5.0),
    Call("decode; topic, body, tags, keys, properties", READ + "; view.tags; view.keys", required=400.0),
    Call("decode; each of 17 fields", EVERY_FIELD),
    Call("check", "check(record)"),
    Call("decode; as_dict", "decode(record).as_dict()"),
    # Both sides find where topic, body and properties lie, and copy and decode nothing of them; ours holds the numbers in the
    # record, Python's in a tuple.
    Call("decode_all of 1,000", "decode_all(records)", "plain_decode_all(records)", required=10.0, messages=COUNT),
    Call("decode_all of 1,000; topic, body, properties", READ_ALL, "plain_decode_all_read(records)", messages=COUNT),
    Call("decode_all of 1,000, copies", "decode_all(records, copy=True)", messages=COUNT),
    Call("scan of 1,000, all columns", "scan(records)", messages=COUNT),
    Call("scan_batches of 1,000, all columns", "deque(scan_batches(records), 0)", messages=COUNT),
    Call("encode_properties (3)", "encode_properties(three)", "plain_encode_properties(three)", required=4.0, same=True),
    Call("decode_properties (3)", "decode_properties(text)", "plain_decode_properties(text)", required=4.0, same=True),
    Call("properties (3), one of them read", 'properties(text)["KEYS"]', 'plain_decode_properties(text)["KEYS"]', same=True),
    Call("pack_cq", f"pack_cq({CQ})", f'pack(">qiq", {CQ})', "struct.pack", 1.0, same=True),
    Call("pack_cq", f"pack_cq({CQ})", f"compiled_pack({CQ})", "Struct.pack", same=True),
    Call("unpack_cq", "unpack_cq(entry, 0)", 'unpack_from(">qiq", entry, 0)', "struct.unpack_from", 1.0, same=True),
    Call("unpack_cq", "unpack_cq(entry, 0)", "compiled_unpack_from(entry, 0)", "Struct.unpack_from", same=True),
    Call("unpack_cq_entries of 1,000", "unpack_cq_entries(entries)", messages=COUNT),
    Call("java_hash of 32 letters", "java_hash(unique)", "plain_java_hash(unique)", same=True),
    Call("index_key_hash", 'index_key_hash(topic, "k17")', 'plain_index_key_hash(topic, "k17")', same=True),
    Call("body_crc of 128 B", "body_crc(body)", "crc32(body) & 0x7FFFFFFF", "zlib", same=True),
    Call("pack_host", "pack_host(host)"),
    Call("unpack_host", "unpack_host(packed_host)"),
    Call("msg_id", "msg_id(host, 248_000)", "plain_msg_id(host, 248_000)", same=True),
    Call("parse_msg_id", "parse_msg_id(id)", "plain_parse_msg_id(id)", same=True),
    Call("encode_batch of 100", "encode_batch(batch)", "plain_encode_batch(plain_batch)", messages=BATCH, same=True),
    Call("decode_batch of 100", "decode_batch(batch_body)", "plain_decode_batch(batch_body)", messages=BATCH, same=True),
    Call("unwrap, a batch of 100", "unwrap(stored_batch)", messages=BATCH),
    Call("encode", ENCODE, "pack_struct(fields)", "msgspec, MessagePack"),
    Call("decode; topic, body, properties", READ, "unpack_struct(packed)", "msgspec, MessagePack"),
    Call("encode", ENCODE, "dumps(text_fields)", "orjson, body as text"),
    Call("decode; topic, body, properties", READ, "loads(dumped)", "orjson, body as text"),
]  # fmt: skip

BESIDE_JAVA = [
    # CodecBench.java says what its steps do. Each call of ours makes the properties' text of a mapping and computes the CRC, and
    # `encode` makes an object of the record: the step that does all of this is the one with a requirement. Java's encoder alone
    # takes less time than a call with three named arguments takes in Python.
    Call("encode", ENCODE, "record", "Java's encoder, with CRC, properties, an array of its own", 1.5),
    Call("encode", ENCODE, "encode", "Java's encoder, with CRC"),
    Call("encode", ENCODE, "encoder", "Java's encoder, nothing else"),
    Call("encode_into", ENCODE_INTO, "encode+properties", "Java's encoder, with CRC, properties"),
    # MessageDecoder reads everything at once, a view what it is asked for: both are shown.
    Call("decode alone", "decode(record)", "decode", "MessageDecoder.decode", 3.0),
    Call("decode; topic, body, properties", READ, "decode", "MessageDecoder.decode"),
    Call("decode_all of 1,000; topic, body, properties", READ_ALL, "decodes", "MessageDecoder.decodes", messages=COUNT),
]  # fmt: skip


class Fields(msgspec.Struct):
    """What a record holds, as msgspec has it."""

    topic: str
    body: bytes
    properties: dict[str, str]
    queue_id: int
    queue_offset: int
    phy_offset: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: str
    store_timestamp_ms: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int


def names() -> dict[str, Any]:
    """What the statements speak of."""
    messages = [Message(TOPIC, BODY, QUEUE, "TagA", f"k{i}") for i in range(COUNT)]
    plain_messages = [PlainMessage(TOPIC, BODY, message.properties, QUEUE) for message in messages]
    table = pa.table(
        {
            "topic": [TOPIC] * COUNT,
            "queue_id": pa.array([QUEUE] * COUNT, pa.int32()),
            "body": [BODY] * COUNT,
            "tags": ["TagA"] * COUNT,
            "keys": [[f"k{i}"] for i in range(COUNT)],
        }
    )
    record = codec.encode(messages[17], phy_offset=0, queue_offset=7, store_timestamp_ms=STORED_MS)
    view = codec.decode(record)
    fields = {name: getattr(view, name) for name in Fields.__struct_fields__}
    text_fields = {**fields, "body": BODY.decode()}
    entry = struct.Struct(">qiq")
    return {
        **{name: getattr(codec, name) for name in codec.__all__},
        **{f"plain_{name}": value for name, value in vars(plain_codec).items()},
        "message": messages[17],
        "messages": messages,
        "table": table,
        "plain_message": plain_messages[17],
        "plain_messages": plain_messages,
        "record": record,
        "records": codec.encode_many(messages, phy_offset=0, store_timestamp_ms=STORED_MS),
        "buffer": bytearray(1024),
        "batch": messages[:BATCH],
        "plain_batch": plain_messages[:BATCH],
        "batch_body": codec.encode_batch(messages[:BATCH]),
        "stored_batch": codec.decode(
            codec.encode(
                Message(TOPIC, codec.encode_batch(messages[:BATCH]), QUEUE, sys_flag=0xC0),
                phy_offset=0,
                queue_offset=7,
                store_timestamp_ms=STORED_MS,
            )
        ),
        "three": PROPERTIES,
        "text": codec.encode_properties(PROPERTIES),
        "unique": PROPERTIES["UNIQ_KEY"],
        "entry": codec.pack_cq(*ENTRY),
        "entries": codec.pack_cq(*ENTRY) * COUNT,
        "packed_host": codec.pack_host(HOST),
        "deque": deque,
        "pack": struct.pack,
        "unpack_from": struct.unpack_from,
        "compiled_pack": entry.pack,
        "compiled_unpack_from": entry.unpack_from,
        "crc32": zlib.crc32,
        "topic": TOPIC,
        "body": BODY,
        "host": HOST,
        "id": codec.msg_id(HOST, ENTRY[0]),
        "fields": Fields(**fields),
        "pack_struct": msgspec.msgpack.Encoder().encode,
        "packed": msgspec.msgpack.encode(Fields(**fields)),
        "unpack_struct": msgspec.msgpack.Decoder(Fields).decode,
        "text_fields": text_fields,
        "dumps": orjson.dumps,
        "dumped": orjson.dumps(text_fields),
        "loads": orjson.loads,
    }


def codecs() -> list[Row]:
    """All rows."""
    known = names()
    refuse_other_results(known)
    text = codec.encode_properties(known["message"].properties)
    command = build.java_command("CodecBench", "512m")
    if command is None:
        missing = Row("codec", "all / Java", "skipped: needs java, javac and mvn")
        return [*measured([(call, sides(call, known)) for call in CALLS]), missing]
    java = JavaSteps([*command, known["record"].hex(), text.hex()])
    try:
        for call in BESIDE_JAVA:
            for _ in range(WARM_UP):
                java.ask(call.other, WARM_UP_CALLS // call.messages)
        pairs = [(call, sides(call, known)) for call in CALLS]
        pairs += [(call, sides(call, known, java)) for call in BESIDE_JAVA]
        return measured(pairs)
    finally:
        java.stop()


def refuse_other_results(known: dict[str, Any]) -> None:
    """Raise an error where both sides of a row do not come to the same."""
    pairs = [
        ("[view.topic, view.body, view.properties]", "list(plain_decode(record, 0)[1:])"),
        ("[view.msg_size for view in decode_all(records)]", "[one[0][0] for one in plain_decode_all(records)]"),
        ("[view.properties for view in decode_all(records)]", "[one[3] for one in plain_decode_all_read(records)]"),
        *((call.ours, call.other) for call in CALLS if call.same),
    ]  # fmt: skip
    known = {**known, "view": codec.decode(known["record"])}
    for pair in pairs:
        ours, other = (eval(statement, dict(known)) for statement in pair)
        if ours != other:
            raise RuntimeError(f"{pair[0]} gives {ours!r}, and {pair[1]} {other!r}")


def sides(call: Call, known: dict[str, Any], java: JavaSteps | None = None) -> list[Side]:
    """Ours, and what it is set beside."""
    if not call.other:
        return [in_python(call.ours, known)]
    if java is None:
        return [in_python(call.ours, known), in_python(call.other, known)]
    return [in_python(call.ours, known), lambda turns: int(java.ask(call.other, turns)[0]) / 1e9]


def in_python(statement: str, known: dict[str, Any]) -> Side:
    """A loop of the statement, in which each name of ours is a local one."""
    used = sorted({word for word in re.findall(r"\w+", statement) if word in known})
    setup = "\n".join(f"{name} = known[{name!r}]" for name in used)
    return timeit.Timer(statement, setup, globals={"known": known}).timeit


def measured(pairs: list[tuple[Call, list[Side]]]) -> list[Row]:
    """Measure all calls, in rounds in which each side has its turn; a row for each."""
    turns = [[turns_of_a_round(side) for side in both] for _, both in pairs]
    nanos: list[list[list[float]]] = [[[] for _ in both] for _, both in pairs]
    for _ in range(ROUNDS):
        for (call, both), of_both, found in zip(pairs, turns, nanos, strict=True):
            for side, count, values in zip(both, of_both, found, strict=True):
                values.append(side(count) / count / call.messages * 1e9)
    return [row(call, *found) for (call, _), found in zip(pairs, nanos, strict=True)]


def turns_of_a_round(side: Side) -> int:
    """How often a side does its work in `ROUND_S` seconds."""
    turns = 1
    while (seconds := side(turns)) < ROUND_S / 4:
        turns *= 2
    return max(1, int(turns * ROUND_S / seconds))


def row(call: Call, ours: list[float], others: list[float] | None = None) -> Row:
    """A row of the medians. The ratio is the median of those of the rounds, whose two turns follow one another."""
    each = "" if call.messages == 1 else " a message"
    nanos = statistics.median(ours)
    told = f"{nanos:.0f} ns{each}"
    if others is None:
        return Row("codec", call.name, told, nanos, call.required, "ns", at_most=True)
    told += f", beside {statistics.median(others):.0f} ns"
    ratio = statistics.median(other / our for our, other in zip(ours, others, strict=True))
    return Row("codec", f"{call.name} / {call.beside}", told, ratio, call.required)
