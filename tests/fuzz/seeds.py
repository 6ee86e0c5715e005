"""Writes the seed inputs of the fuzz targets: python tests/fuzz/seeds.py OUT makes OUT/record, OUT/scan and so on.

They come from the oracle, so each target starts with inputs that reach behind the first checks. Same bytes every time.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.oracle import records as oracle
from support.oracle.batch import Inner, encode_batch
from support.oracle.records import Host, Record

V4, V6 = Host(b"\x0a\0\0\1", 10911), Host(bytes(range(16)), 10911)
PAIRS = {
    "TAGS": "TagA",
    "KEYS": "k1 k2  k3",
    "UNIQ_KEY": "7F0000010ABC18B4AAC22A5D1F4C0000",
    "WAIT": "true",
}
PLAIN = oracle.encode_properties(PAIRS)
ODD = b"TAGS\1TagB\2\2\1x\2y\1\2KEYS\1a\1b\2TAGS\1TagA\2TAGS\xed\xa0\x80\1\xff\2last\1one"
RECORDS = [
    Record(b"topic", b"hello", PLAIN, 1, 2, 3, 0, 0, 1, V4, 2, V4),
    Record("日本".encode(), b"", b"", sys_flag=0x301, born_host=V6, store_host=V4),
    Record(b"%RETRY%" + b"g" * 200, b"x" * 70, ODD, sys_flag=8, born_host=V6, store_host=V6),
    Record(
        b"SCHEDULE_TOPIC_XXXX",
        b"\0" * 9,
        b"DELAY\0013\2TAGS\1TagA\2",
        store_timestamp_ms=1700000000000,
    ),
    Record(b"t" * 127, b"\xda\xa3\x20\xa7" * 6, PLAIN * 3, sys_flag=0xC, reconsume_times=-1),
]


def raw_records() -> list[bytes]:
    plain = [oracle.encode_record(record) for record in RECORDS]
    return plain + [oracle.encode_record(record, append_prop_crc=True) for record in RECORDS]


def log(room: int) -> bytes:
    data = b""
    for record in RECORDS * 2:
        data += oracle.encode_record(
            replace(record, phy_offset=len(data)), append_prop_crc=len(data) % 2 == 1
        )
    return data + oracle.blank(room) + bytes(room - 8)


def scans() -> list[bytes]:
    whole = log(40)
    torn = bytearray(whole)
    torn[250:260] = b"\xff" * 10
    flags = [0b00000111, 0b00100110, 0b00011110, 0b01000111, 0b10000100, 0b00000000]
    bodies = [
        whole,
        bytes(torn),
        whole[:-44],
        whole[:500],
        log(8),
        whole.replace(b"TagA", b"Tag\xff"),
    ]
    # Columns: numbers only; topic and body; what a queue entry needs; all.
    columns = [(0x7F, 0, 0), (0x03, 0xC0, 0), (0x02, 0, 0x20), (0xFF, 0xFF, 0xFF)]
    return [
        bytes([flag, 50, 1, 0, 0, *columns[number % 4]]) + body
        for number, (flag, body) in enumerate(product(flags, bodies))
    ]


def splits() -> list[bytes]:
    """Boundaries in a log, and records in bodies, some of which end where their outer record ends."""
    inner = oracle.encode_record(RECORDS[0])
    suffix = len(inner) - inner.index(b"hello") - 5
    outer = [
        oracle.encode_record(replace(RECORDS[0], body=body))
        for body in (inner, inner * 3 + b"padding", inner + inner[:-suffix])
    ]
    bodies = [log(40), log(8)[:-8], b"".join(outer * 2), outer[1] + log(8)]
    return [
        bytes([flags, 1, at >> 8, at & 0xFF, 4, 0, behind, 0]) + body
        for body in bodies
        for flags in (1, 3, 5)
        for at, behind in ((100, 40), (400, 255), (len(body) * 2 // 3, 0))
    ]


def properties() -> list[bytes]:
    texts = [
        PLAIN,
        ODD,
        b"",
        b"\1\2" * 40,
        b"n" * 63 + b"\1v\2",
        PLAIN * 5,
        "é\1\U0001f600\2".encode(),
    ]
    return [bytes([before]) + b"q" * before + text for text in texts for before in (0, 3, 88)]


def texts() -> list[bytes]:
    """What is quoted, what is no UTF-8, and records in little and in much room."""
    plain = [b'"a\\b, c"\r\n', "=\uff1d\0\x1f\u00e9\U0001f600".encode(), ODD, b"x" * 2000]
    plain += [(host.packed + bytes(range(8))).hex().encode() for host in (V4, V6)]
    return [
        bytes([room, kind, 9]) + data
        for data in (*plain, *raw_records())
        for room, kind in ((0, 0), (9, 1), (30, 6), (45, 0x82))
    ]


def queues() -> list[bytes]:
    entries = [oracle.CQ_FILLER, (0, 107, 2598919), (107, 91, -1), (198, 300, 1 << 40)]
    good = oracle.pack_cq(entries)
    bad = oracle.pack_cq([*entries, (-1, 5, 0), (500, 0, 0), (600, 91, 0)])
    limits = [struct.pack(">q", limit) for limit in (0, 107, 1 << 62)]
    return [limit + data for limit in limits for data in (good, bad, bad[:-3], b"")]


def indexes() -> list[bytes]:
    found = []
    for slots, entries in ((1, 6), (5, 30), (40, 12)):
        file = oracle.IndexFile(slots, entries)
        for number in range(entries - 2):
            file.put("topic", f"k{number % 7}", 100 * number, 1_700_000_000_000 + 900 * number)
        data = file.encode()
        looped = bytearray(data)
        looped[40 + 4 * slots + 20 * 3 + 16 : 40 + 4 * slots + 20 * 4] = struct.pack(">i", 3)
        for control in (0, 1, 3):
            head = bytes([slots - 1, 0, 0, 0, control, 1, 2, 1, 1, 0, 0, 0])
            found += [head + data, head + bytes(looped), head + data[:-7]]
    return found


def index_puts() -> list[bytes]:
    """The same index files, and what is put into them: rows, keys of each row, room, times, hashes."""
    puts = [
        bytes([24, 0b0110_1011, 200, 0, 101, 3, 7, 40, 2, 1, 3]),
        bytes([9, 0xFF, 3, 1, 90, 200, 0, 1, 0, 3, 0]),
        bytes([1, 4, 0, 2, 0, 0, 255, 255, 11, 0, 1]),
    ]
    return [
        data[:1] + puts[number % len(puts)] + bytes(4) + data[12:]
        for number, data in enumerate(indexes())
    ]


def checkpoints() -> list[bytes]:
    values = dict.fromkeys(oracle.CHECKPOINT_FIELDS, 1_700_000_000_000)
    return [oracle.encode_checkpoint(values)[:60], bytes(48), b"\xff" * 47]


def arrows() -> list[bytes]:
    """Some columns of short growing strings; from there the fuzzer finds the rest by itself."""
    return [
        bytes([rows, wanted & 0xFF, wanted >> 8])
        + (bytes([kind, 1, 2, 3, 1, 0x61, 5, 0]) * 100)[:900]
        for rows in (1, 5, 30)
        for wanted in (0x003, 0x00F, 0x03F, 0x1FFF)
        for kind in (0, 4, 0x82)
    ]


def message_batches() -> list[bytes]:
    """Messages of batches, one in the body of another, with a wrong number in each of their lengths."""
    one = Inner(-1, b"hello", PLAIN)
    whole = encode_batch([one, Inner(7, b"", b""), Inner(0, encode_batch([one] * 2), ODD)])
    found = [whole, whole[:-1], bytes(44), encode_batch([Inner(0, b"", b"")] * 3)]
    for at, form in ((0, ">i"), (16, ">i"), (25, ">h")):
        for lie in (-1, 0, 21, 22, 23, 32767):
            changed = bytearray(whole)
            struct.pack_into(form, changed, at, lie)
            found.append(bytes(changed))
    return [bytes([control]) + data for data in found for control in (0, 1)]


def sends() -> list[bytes]:
    """Frames of plain sends and batches, JSON and binary, and what is near to them."""
    texts = [
        "UNIQ_KEY\1K\2TAGS\1é",
        "UNIQ_KEY\1K\2WAIT\1true\2",
        "TAGS\1a\2UNIQ_KEY\1K\2DELAY\0013\2",
    ]
    inner = [b"", b"TAGS\1b", b"UNIQ_KEY\1J\2KEYS\1k\2"]
    image = b"".join(
        struct.pack(">iiiii", 0, 0, 0, 7, 3) + b"xyz" + struct.pack(">h", len(text)) + text
        for text in inner
    )
    found = []
    for number, text in enumerate(texts):
        for code, body in ((310, b"body"), (320, image), (320, image[:-2])):
            for frame in send_frames(code, number, text, body):
                found += [bytes([number * 7]) + frame * 2, bytes([31]) + frame + frame[:-3]]
    return found


def send_frames(code: int, number: int, properties: str, body: bytes) -> Iterator[bytes]:
    """The same send with a JSON and a binary header."""
    values = ["g", "T", "", "4", "3", "257", "1700000000000", "-1", properties, "0", "false", "16"]
    fields = dict(zip("abcdefghijkl", values, strict=True), m=str(code == 320).lower())
    return frames(code, number, fields, body)


def pulls() -> list[bytes]:
    """Pulls, JSON and binary, several in a row, and what is near to them."""
    found = []
    for number, (code, subscription) in enumerate(
        [(11, "*"), (361, "A || é"), (11, '"'), (30, "*")]
    ):
        fields = {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "0",
            "queueOffset": "-1",
            "maxMsgNums": "32",
            "sysFlag": "6",
            "commitOffset": "0",
            "suspendTimeoutMillis": "15000",
            "subVersion": "1700000000000",
            "subscription": subscription,
            "expressionType": "TAG",
            "maxMsgBytes": "1",
            "requestSource": "0",
        }
        for frame in frames(code, 4 * number, fields, b""):
            found += [frame * 2 + frame[:-3], frame]
    return found


def frames(code: int, number: int, fields: dict[str, str], body: bytes) -> Iterator[bytes]:
    """The same request with a JSON and a binary header."""
    members = {"code": code, "extFields": fields, "flag": number & 2, "opaque": -number}
    as_json = json.dumps(members, separators=(",", ":"), ensure_ascii=number == 1).encode()
    pairs = b"".join(sized(">h", name) + sized(">i", value) for name, value in fields.items())
    binary = struct.pack(">hbhiiii", code, 0, 479, number, 0, 0, len(pairs)) + pairs
    for kind, header in ((0, as_json), (1, binary)):
        words = struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header))
        yield words + header + body


def sized(length: str, text: str) -> bytes:
    """A text behind its length."""
    return struct.pack(length, len(text.encode())) + text.encode()


SEEDS = {
    "record": lambda: [*raw_records(), oracle.blank(100), bytes(100)],
    "scan": scans,
    "split": splits,
    "properties": properties,
    "message_batch": message_batches,
    "text": texts,
    "cq": queues,
    "index": indexes,
    "mapped_index": index_puts,
    "checkpoint": checkpoints,
    "arrow": arrows,
    "pull": pulls,
    "send": sends,
}


def main(out: Path) -> None:
    for name, make in SEEDS.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(make()):
            (folder / f"seed-{number:03d}").write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
