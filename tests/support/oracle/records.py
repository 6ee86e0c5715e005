"""The slow second implementation, made from the description of the formats alone.

Nothing of rmqcore is imported here. Everything reads as the format says it: one field after another
with `struct`, texts as whole strings, no cleverness. The native code is right when it agrees with
this file and both agree with the stores that RocketMQ itself wrote (tests/conformance). All integers
on disk are big-endian and signed.
"""

from __future__ import annotations

import codecs
import enum
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

V1, V2, BLANK = -626843481, -626843477, -875286124
BORN_V6, STORE_V6, TRANSACTION_MASK, ROLLBACK = 0x10, 0x20, 0xC, 0xC
CRC_MASK = 0x7FFFFFFF
CRC_NAME = "__CRC32#"
CRC_AREA = len(CRC_NAME) + 1 + 10 + 1
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DELAYS_MS = [
    s * 1000 for s in (1, 5, 10, 30, *(60 * m for m in range(1, 11)), 1200, 1800, 3600, 7200)
]


def wrap(value: int, bits: int) -> int:
    """Two's complement: what is left of `value` in a signed integer of `bits` bits."""
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


# ---- texts ------------------------------------------------------------------------------------------


def _as_java_replaces(error: UnicodeError) -> tuple[str, int]:
    """Java differs from Python at encoded surrogates only: their 2 or 3 bytes are one U+FFFD, not one each."""
    assert isinstance(error, UnicodeDecodeError)
    bad = error.object[error.start : error.start + 3]
    if len(bad) >= 2 and bad[0] == 0xED and 0xA0 <= bad[1] <= 0xBF:
        whole = len(bad) == 3 and 0x80 <= bad[2] <= 0xBF
        return "\ufffd", error.start + (3 if whole else 2)
    return "\ufffd", error.end


codecs.register_error("java", _as_java_replaces)


def text_of(data: bytes) -> str:
    """What Java's ``new String(bytes, UTF_8)`` gives."""
    return data.decode("utf-8", "java")


def java_hash(text: str) -> int:
    """String.hashCode: over UTF-16 units, 32-bit wrap."""
    value = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        value = 31 * value + unit
    return wrap(value, 32)


def index_key_hash(topic: str, key: str) -> int:
    value = java_hash(f"{topic}#{key}")
    return 0 if value == -(1 << 31) else abs(value)


# ---- properties -------------------------------------------------------------------------------------


def parse_properties(text: str) -> dict[str, str]:
    """Position by position, as the description has it."""
    found: dict[str, str] = {}
    i, n = 0, len(text)
    while i < n:
        e = text.find("\x02", i)
        if e < 0:
            e = n
        if e - i >= 3:
            s = text.find("\x01", i)
            if i < s < e - 1:
                found[text[i:s]] = text[s + 1 : e]
        i = e + 1
    return found


def decode_properties(data: bytes) -> dict[str, str]:
    return parse_properties(text_of(data))


def encode_properties(properties: Mapping[str, str | None]) -> bytes:
    return "".join(f"{k}\x01{v}\x02" for k, v in properties.items() if v is not None).encode()


def hash_map_order(properties: Mapping[str, str], size: int = 128) -> dict[str, str]:
    """The order in which Java's HashMap gives what was put into it.

    128 buckets are those of a map that was read from a record or a request, 16 those of one that is made with nothing in it;
    twice as many above three quarters.
    """
    buckets: list[list[str]] = [[] for _ in range(size)]
    for count, name in enumerate(properties, 1):
        buckets[_bucket(name, len(buckets))].append(name)
        if count > len(buckets) * 3 // 4:
            names = [one for bucket in buckets for one in bucket]
            buckets = [[] for _ in range(2 * len(buckets))]
            for one in names:
                buckets[_bucket(one, len(buckets))].append(one)
    return {name: properties[name] for bucket in buckets for name in bucket}


def _bucket(name: str, count: int) -> int:
    code = java_hash(name) & 0xFFFFFFFF
    return (code ^ code >> 16) % count


def key_tokens(keys: str) -> list[str]:
    return [token for token in keys.split(" ") if token]


# ---- the CommitLog record ---------------------------------------------------------------------------


class Reason(enum.IntEnum):
    """Why a record is refused; the numbers are those of record.h."""

    SHORT = -1
    ZERO = -2
    MAGIC = -3
    TOTALSIZE = -4
    BODYLENGTH = -5
    TOPICLENGTH = -6
    PROPERTIESLENGTH = -7
    LENGTHS = -8
    PHYSICALOFFSET = -9
    BODYCRC = -10
    PROPCRC = -11


class Refused(ValueError):
    """The bytes are no valid record."""

    def __init__(self, reason: Reason, found: int, expected: int) -> None:
        super().__init__(reason, found, expected)
        self.reason, self.found, self.expected = reason, found, expected


@dataclass(frozen=True)
class Host:
    """4 or 16 address bytes and a port of 4 bytes."""

    address: bytes
    port: int

    @property
    def v6(self) -> bool:
        return len(self.address) == 16

    @property
    def packed(self) -> bytes:
        return self.address + struct.pack(">i", self.port)


@dataclass(frozen=True)
class Record:
    """One message; `body_crc`, `magic` and `msg_size` are None in one that was not read from bytes."""

    topic: bytes
    body: bytes
    properties: bytes
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    phy_offset: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: Host = Host(b"\x7f\0\0\1", 0)
    store_timestamp_ms: int = 0
    store_host: Host = Host(b"\x7f\0\0\1", 0)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int | None = None
    magic: int | None = None
    msg_size: int | None = None

    @property
    def property_map(self) -> dict[str, str]:
        return decode_properties(self.properties)

    @property
    def msg_id(self) -> str:
        return (self.store_host.packed + struct.pack(">q", self.phy_offset)).hex().upper()

    @property
    def tags_code(self) -> int:
        return tags_code(text_of(self.topic), self.property_map, self.store_timestamp_ms)


@dataclass(frozen=True)
class Blank:
    """The rest of a file; only these 8 bytes of it mean anything."""

    msg_size: int


def body_crc(body: bytes) -> int:
    return zlib.crc32(body) & CRC_MASK


def crc_area(covered: bytes) -> bytes:
    """The appended property: ten decimal digits, the least significant first."""
    value = zlib.crc32(covered) & CRC_MASK
    return f"{CRC_NAME}\x01{f'{value:010d}'[::-1]}\x02".encode()


def encode_record(record: Record, *, append_prop_crc: bool = False) -> bytes:
    """The record's bytes; lengths, magic, both CRCs and the IPv6 bits follow from the content."""
    properties = record.properties
    if append_prop_crc:
        if properties and not properties.endswith(b"\x02"):
            properties += b"\x02"
        properties += bytes(CRC_AREA)
    v2 = len(record.topic) > 127
    sys_flag = record.sys_flag & ~(BORN_V6 | STORE_V6)
    sys_flag |= (BORN_V6 if record.born_host.v6 else 0) | (STORE_V6 if record.store_host.v6 else 0)
    rest = b"".join(
        [
            struct.pack(
                ">iiiqqiq",
                body_crc(record.body),
                record.queue_id,
                record.flag,
                record.queue_offset,
                record.phy_offset,
                sys_flag,
                record.born_timestamp_ms,
            ),
            record.born_host.packed,
            struct.pack(">q", record.store_timestamp_ms),
            record.store_host.packed,
            struct.pack(">iq", record.reconsume_times, record.prepared_transaction_offset),
            struct.pack(">i", len(record.body)) + record.body,
            struct.pack(">h" if v2 else ">b", len(record.topic)) + record.topic,
            struct.pack(">h", len(properties)) + properties,
        ]
    )
    whole = struct.pack(">ii", 8 + len(rest), V2 if v2 else V1) + rest
    if append_prop_crc:
        whole = whole[:-CRC_AREA] + crc_area(whole[:-CRC_AREA])
    return whole


def smallest_size(magic: int, sys_flag: int) -> int:
    hosts = (16 if sys_flag & BORN_V6 else 4) + (16 if sys_flag & STORE_V6 else 4)
    return 76 + hosts + 4 + (2 if magic == V2 else 1) + 2


def decode_record(data: bytes, pos: int = 0) -> Record | Blank:
    """Structure only: the record at `pos`, or the reason why there is none."""
    left = len(data) - pos
    if left < 8:
        raise Refused(Reason.SHORT, left, 8)
    total, magic = struct.unpack_from(">ii", data, pos)
    if magic == BLANK:
        if total < 8:
            raise Refused(Reason.TOTALSIZE, total, 8)
        return Blank(total)
    if magic not in (V1, V2):
        raise Refused(Reason.ZERO if magic == total == 0 else Reason.MAGIC, magic, V1)
    if total < smallest_size(magic, 0):
        raise Refused(Reason.TOTALSIZE, total, smallest_size(magic, 0))
    if total > left:
        raise Refused(Reason.SHORT, left, total)
    (sys_flag,) = struct.unpack_from(">i", data, pos + 36)
    if total < smallest_size(magic, sys_flag):
        raise Refused(Reason.TOTALSIZE, total, smallest_size(magic, sys_flag))

    record = data[pos : pos + total]
    cursor = 8

    def take(form: str) -> int:
        nonlocal cursor
        (value,) = struct.unpack_from(">" + form, record, cursor)
        cursor += struct.calcsize(">" + form)
        return int(value)

    def take_bytes(count: int) -> bytes:
        nonlocal cursor
        cursor += count
        return record[cursor - count : cursor]

    def length(form: str, after: int, reason: Reason) -> int:
        """A length field that must leave `after` bytes for the fields behind its own bytes."""
        value = take(form)
        room = total - cursor - after
        if not 0 <= value <= room:
            raise Refused(reason, value, room)
        return value

    crc, queue_id, flag, queue_offset, phy_offset, sys_flag, born_ms = (
        take(form) for form in "iiiqqiq"
    )
    born_host = Host(take_bytes(16 if sys_flag & BORN_V6 else 4), take("i"))
    store_ms = take("q")
    store_host = Host(take_bytes(16 if sys_flag & STORE_V6 else 4), take("i"))
    reconsume_times, prepared = take("i"), take("q")
    topic_form = "h" if magic == V2 else "b"
    body = take_bytes(length("i", struct.calcsize(topic_form) + 2, Reason.BODYLENGTH))
    topic = take_bytes(length(topic_form, 2, Reason.TOPICLENGTH))
    properties = take_bytes(length("h", 0, Reason.PROPERTIESLENGTH))
    if cursor != total:
        raise Refused(Reason.LENGTHS, total, cursor)
    return Record(
        topic,
        body,
        properties,
        queue_id,
        flag,
        queue_offset,
        phy_offset,
        sys_flag,
        born_ms,
        born_host,
        store_ms,
        store_host,
        reconsume_times,
        prepared,
        body_crc=crc,
        magic=magic,
        msg_size=total,
    )


def check_record(
    data: bytes, pos: int = 0, *, check_crc: bool = True, check_prop_crc: bool = False
) -> int:
    """The record's size, 0 for a BLANK; `Refused` for anything else."""
    found = decode_record(data, pos)
    if isinstance(found, Blank):
        return 0
    assert found.msg_size is not None and found.body_crc is not None
    if check_crc and found.body_crc != body_crc(found.body):
        raise Refused(Reason.BODYCRC, found.body_crc, body_crc(found.body))
    if check_prop_crc:
        check_appended_crc(data[pos : pos + found.msg_size], found.properties)
    return found.msg_size


def check_appended_crc(raw: bytes, properties: bytes) -> None:
    area = properties[-CRC_AREA:]
    digits = area[9:19]
    shape = (
        len(area) == CRC_AREA and area[:9] == CRC_NAME.encode() + b"\x01" and area[19:] == b"\x02"
    )
    if not shape or not all(0x30 <= digit <= 0x39 for digit in digits):
        raise Refused(Reason.PROPCRC, -1, 0)
    stored, actual = int(digits[::-1]), zlib.crc32(raw[:-CRC_AREA]) & CRC_MASK
    if stored != actual:
        raise Refused(Reason.PROPCRC, stored, actual)


def blank(room: int) -> bytes:
    """The 8 bytes that close a file of which `room` bytes are left."""
    return struct.pack(">ii", room, BLANK)


@dataclass
class Scanned:
    """Records from the start of a buffer, where the scan ended and why (None: the buffer's end)."""

    records: list[Record] = field(default_factory=list)
    end_pos: int = 0
    stop: Reason | Blank | None = None


def scan(data: bytes, base_offset: int | None = None, *, check_crc: bool = False) -> Scanned:
    """Whole records one behind the other; with a base each must say that it lies where it lies."""
    done = Scanned()
    while done.end_pos < len(data):
        try:
            found = decode_record(data, done.end_pos)
            if isinstance(found, Blank):
                done.stop = found
                return done
            at = done.end_pos + (base_offset or 0)
            if base_offset is not None and found.phy_offset != at:
                raise Refused(Reason.PHYSICALOFFSET, found.phy_offset, at)
            if check_crc:
                check_record(data, done.end_pos)
        except Refused as refused:
            done.stop = refused.reason
            return done
        assert found.msg_size is not None
        done.records.append(found)
        done.end_pos += found.msg_size
    return done


# ---- ConsumeQueue -----------------------------------------------------------------------------------

CQ_ENTRY = struct.Struct(">qiq")
CQ_FILLER = (0, 0x7FFFFFFF, 0)


def delay_level(text: str) -> int:
    """Integer.parseInt over ASCII digits; 0 for what is no int."""
    digits = text.removeprefix("+")
    if not digits or not digits.isascii() or not digits.isdigit():
        return 0
    return int(digits) if int(digits) < 1 << 31 else 0


def tags_code(
    topic: str,
    properties: Mapping[str, str],
    store_timestamp_ms: int,
    delays_ms: Sequence[int] = DELAYS_MS,
) -> int:
    """What the queue entry holds: the deliver time on the schedule topic, the hash of the whole TAGS otherwise."""
    if topic == SCHEDULE_TOPIC and "DELAY" in properties:
        level = min(delay_level(properties["DELAY"]), len(delays_ms))
        if level > 0:
            return wrap(store_timestamp_ms + delays_ms[level - 1], 64)
    return java_hash(properties.get("TAGS", ""))


def pack_cq(entries: Iterable[tuple[int, int, int]]) -> bytes:
    return b"".join(CQ_ENTRY.pack(*entry) for entry in entries)


def unpack_cq(data: bytes) -> list[tuple[int, int, int]]:
    return [(phy, size, code) for phy, size, code in CQ_ENTRY.iter_unpack(data)]


# ---- IndexFile --------------------------------------------------------------------------------------

INDEX_HEADER = struct.Struct(">qqqqii")
INDEX_ENTRY = struct.Struct(">iqii")


def index_keys(record: Record) -> list[str]:
    """What a record is indexed under, in order; a rolled back one under nothing."""
    if record.sys_flag & TRANSACTION_MASK == ROLLBACK:
        return []
    properties = record.property_map
    keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
    keys += key_tokens(properties.get("KEYS", ""))
    return keys + ([f"T#{properties['TAGS']}"] if "TAGS" in properties else [])


@dataclass
class IndexFile:
    """Header, slots and entries held as numbers; entry 0 is never used."""

    slot_count: int
    capacity: int
    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_phy_offset: int = 0
    end_phy_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1
    slots: dict[int, int] = field(default_factory=dict)
    entries: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)

    def put(self, topic: str, key: str, phy_offset: int, store_timestamp_ms: int) -> bool:
        """Add one key; False when the file is full."""
        if self.index_count >= self.capacity:
            return False
        key_hash = index_key_hash(topic, key)
        slot = key_hash % self.slot_count
        head = self.slots.get(slot, 0)
        if not 0 < head <= self.index_count:
            head = 0
        seconds = 0
        if self.begin_timestamp_ms > 0:
            seconds = min(
                max((store_timestamp_ms - self.begin_timestamp_ms) // 1000, 0), 0x7FFFFFFF
            )
        self.entries[self.index_count] = (key_hash, phy_offset, seconds, head)
        self.slots[slot] = self.index_count
        if self.index_count <= 1:
            self.begin_phy_offset, self.begin_timestamp_ms = phy_offset, store_timestamp_ms
        self.hash_slot_count += head == 0
        self.index_count += 1
        self.end_phy_offset, self.end_timestamp_ms = phy_offset, store_timestamp_ms
        return True

    def encode(self) -> bytes:
        """The whole file. An index count of 1 is 0 on disk until the first entry is there."""
        out = bytearray(40 + 4 * self.slot_count + 20 * self.capacity)
        count = self.index_count if self.index_count > 1 else 0
        INDEX_HEADER.pack_into(
            out,
            0,
            self.begin_timestamp_ms,
            self.end_timestamp_ms,
            self.begin_phy_offset,
            self.end_phy_offset,
            self.hash_slot_count,
            count,
        )
        for slot, head in self.slots.items():
            struct.pack_into(">i", out, 40 + 4 * slot, head)
        for number, entry in self.entries.items():
            INDEX_ENTRY.pack_into(out, 40 + 4 * self.slot_count + 20 * number, *entry)
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes, slot_count: int) -> IndexFile:
        capacity, rest = divmod(len(data) - 40 - 4 * slot_count, 20)
        if capacity < 1 or rest:
            raise ValueError(f"{len(data)} bytes are no index file of {slot_count} slots")
        begin_ms, end_ms, begin, end, used_slots, count = INDEX_HEADER.unpack_from(data)
        file = cls(slot_count, capacity, begin_ms, end_ms, begin, end, used_slots, max(count, 1))
        heads = struct.unpack_from(f">{slot_count}i", data, 40)
        file.slots = {slot: head for slot, head in enumerate(heads) if head}
        base = 40 + 4 * slot_count
        for number in range(1, min(file.index_count, capacity)):
            file.entries[number] = INDEX_ENTRY.unpack_from(data, base + 20 * number)
        return file

    def chain(self, key_hash: int) -> Iterator[int]:
        """Entry numbers of a slot, newest first; ends at the first link that leads nowhere or in a circle."""
        number, seen = self.slots.get(key_hash % self.slot_count, 0), set[int]()
        while number in self.entries and number not in seen:
            seen.add(number)
            yield number
            number = self.entries[number][3]

    def find(self, key_hash: int, begin_ms: int, end_ms: int, most: int) -> list[int]:
        """Phy offsets of the entries with this hash and a time inside, newest first."""
        found: list[int] = []
        for number in self.chain(key_hash):
            entry_hash, phy_offset, seconds, previous = self.entries[number]
            if len(found) >= most or seconds < 0:
                break
            time = self.begin_timestamp_ms + seconds * 1000
            if entry_hash == key_hash and begin_ms <= time <= end_ms:
                found.append(phy_offset)
            if time < begin_ms or not 0 < previous <= self.index_count or previous == number:
                break
        return found


def build_index(records: Iterable[Record], slot_count: int, capacity: int) -> list[IndexFile]:
    """Index files of records in log order; a full one is followed by one that begins with its end.

    Every message asks for a file with room before anything else, also one that then puts no key.
    """
    files: list[IndexFile] = []

    def with_room() -> IndexFile:
        if files and files[-1].index_count < capacity:
            return files[-1]
        fresh = IndexFile(slot_count, capacity)
        if files:
            fresh.begin_timestamp_ms = fresh.end_timestamp_ms = max(files[-1].end_timestamp_ms, 0)
            fresh.begin_phy_offset = fresh.end_phy_offset = max(files[-1].end_phy_offset, 0)
        files.append(fresh)
        return fresh

    for record in records:
        if record.phy_offset < with_room().end_phy_offset:
            continue
        for key in index_keys(record):
            if not with_room().put(
                text_of(record.topic), key, record.phy_offset, record.store_timestamp_ms
            ):
                raise ValueError(f"an index file of {capacity} entries has no room for one")
    return files


# ---- checkpoint -------------------------------------------------------------------------------------

CHECKPOINT_FIELDS = [
    "physic_msg_timestamp_ms",
    "logics_msg_timestamp_ms",
    "index_msg_timestamp_ms",
    "master_flushed_offset",
    "confirm_phy_offset",
    "logics_physical_offset",
]


def encode_checkpoint(values: Mapping[str, int]) -> bytes:
    return struct.pack(">6q4048x", *(values.get(name, 0) for name in CHECKPOINT_FIELDS))


def decode_checkpoint(data: bytes) -> dict[str, int]:
    return dict(zip(CHECKPOINT_FIELDS, struct.unpack_from(">6q", data), strict=True))
