"""What the verbs take of memory for stores that were made up to cost some, each in a process of its own.

A zero body of 256 MiB, which is a few kibibytes on the disk, cost `cat` four gigabytes; a full index file with wrong entries cost
`fsck` 1.5 GB. The limits are those of docs/reading-damaged-stores.md.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli.peak_memory import RUN, peak_kib
from support.doses import dose

from rmqcore import codec
from rmqcore._native.format.layout import (
    CRC_MASK,
    DEFAULT_ENTRIES,
    DEFAULT_SLOTS,
    REC_BODYCRC,
    SYS_COMPRESSED,
    SYS_COMPRESSION_ZLIB,
    body_pos,
    index_file_size,
)
from rmqcore._native.index.index_reader import encode_header
from rmqcore.codec.message import Message

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for VmHWM")

MIB = 1 << 20
TEXT_LIMIT, CHECK_LIMIT = 400 << 10, 600 << 10
"""KiB: of `cat`, `export` and `info`, and of `fsck` and `rebuild`."""


def record(pos: int, body: bytes = b"", topic: str = "T", number: int = 0, **more: object) -> bytes:
    message = Message(topic, body, **more)  # type: ignore[arg-type]
    return codec.encode(message, phy_offset=pos, queue_offset=number, store_timestamp_ms=1)


def log_of(root: Path) -> Path:
    path = root / "commitlog" / f"{0:020}"
    path.parent.mkdir(parents=True)
    return path


def long_bodies(root: Path, sizes: list[int]) -> None:
    """Records with bodies of zeros, which are holes."""
    begin = body_pos(0)
    with log_of(root).open("wb") as file:
        for number, size in enumerate(sizes):
            pos = file.tell()
            one = record(pos, b"\0", number=number)
            head = bytearray(one[:begin])
            crc = 0
            for _ in range(size // MIB):
                crc = zlib.crc32(bytes(MIB), crc)
            struct.pack_into(">i", head, 0, len(one) - 1 + size)
            struct.pack_into(">i", head, REC_BODYCRC, crc & CRC_MASK)
            struct.pack_into(">i", head, begin - 4, size)
            file.write(head)
            file.seek(size, os.SEEK_CUR)
            file.write(one[begin + 1 :])
        file.truncate(1 << 30)


def records(root: Path, data: bytes) -> None:
    path = log_of(root)
    path.write_bytes(data)
    os.truncate(path, 1 << 28)


def one_long(root: Path) -> None:
    long_bodies(root, [256 * MIB])


def three_long(root: Path) -> None:
    long_bodies(root, [256 * MIB] * 3)


def bodies_of_all_sizes(root: Path) -> None:
    """Bodies that cannot be packed, long ones among others that stay below what is long."""
    data = os.urandom(40 * MIB)
    log = bytearray()
    for number, size in enumerate([40, 3, 31, 7, 15, 1] * 2):
        for topic in ("T", "U"):
            log += record(len(log), data[: size * MIB // 2 + 1], topic, number)
            for small in range(10):
                log += record(len(log), data[small : small + 50_000], topic, number)
    records(root, bytes(log))


def bomb(root: Path) -> None:
    """Bodies of a mebibyte that are 256 when they are unpacked."""
    packer = zlib.compressobj(1)
    body = b"".join(packer.compress(bytes(16 * MIB)) for _ in range(16)) + packer.flush()
    data = b""
    for number in range(3):
        flags = SYS_COMPRESSED | SYS_COMPRESSION_ZLIB
        data += record(len(data), body, number=number, sys_flag=flags)
    records(root, data)


def many_keys(root: Path) -> None:
    """Properties of the greatest size, all of them keys."""
    data = bytearray()
    while len(data) < 8 * MIB:
        data += record(len(data), properties={"KEYS": "a b c d e f g h " * 2040})
    records(root, bytes(data))


def full_index(root: Path) -> None:
    """As `many_keys`, with more of them than an index file of Java's size has entries."""
    data = bytearray()
    while len(data) < 45 * MIB:
        data += record(len(data), properties={"KEYS": "a b c d e f g h " * 2040})
    records(root, bytes(data))


def many_names(root: Path) -> None:
    """Properties of the greatest size, with as many names as go in."""
    properties = {chr(0x100 + number): "v" for number in range(5000)}
    data = bytearray()
    while len(data) < MIB:
        data += record(len(data), properties=properties)
    records(root, bytes(data))


def many_topics(root: Path) -> None:
    data = bytearray()
    for number in range(2_000):
        data += record(len(data), topic=f"topic-{number:08}")
    records(root, bytes(data))


def long_topics(root: Path) -> None:
    """Topics of the greatest size, whose letters take four bytes each because of the first one."""
    data = bytearray()
    while len(data) < 160 * MIB:
        data += record(len(data), topic=f"\N{GRINNING FACE}{len(data)}".ljust(32_000, "x"))
    records(root, bytes(data))


def many_light_queues(root: Path) -> None:
    """One record after the other that asks for 500 queues."""
    data = bytearray()
    for number in range(2):
        names = ",".join(f"%LMQ%{number}-{queue:x}" for queue in range(500))
        offsets = ",".join("0" for _ in range(500))
        properties = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}
        data += record(len(data), number=number, properties=properties)
    records(root, bytes(data))


def wrong_index(root: Path) -> None:
    """Two index files of Java's size that say they are full, and hold zeros: all entries point at the first record."""
    data = bytearray()
    for number in range(1000):
        data += record(len(data), number=number, keys=f"k{number}")
    records(root, bytes(data))
    (root / "index").mkdir()
    for name in ("20260101000000000", "20260102000000000"):
        path = root / "index" / name
        path.write_bytes(encode_header((1, 2, 0, 0, 1, DEFAULT_ENTRIES)))
        os.truncate(path, index_file_size(DEFAULT_SLOTS, DEFAULT_ENTRIES))


TEXT = {
    "cat": ["--format", "jsonl"],
    "export": ["--format", "csv", "--out", "export"],
}
CHECKS: dict[str, list[str]] = {"fsck": [], "rebuild": ["--out", "built"]}
ALL = {"info": [], **TEXT, **CHECKS}
COLUMNS: dict[str, list[str]] = {
    "cat": ["--format", "parquet"],
    "export": ["--format", "parquet", "--out", "export"],
}
HASHES = {
    "cat": ["--body", "sha256", "--decompress"],
    "export": ["--format", "csv", "--body", "sha256", "--out", "export"],
}
UNPACKED = {"cat": ["--format", "csv", "--decompress"]}


@pytest.mark.parametrize(
    ("make", "verbs"),
    [
        (one_long, ALL),
        (three_long, TEXT),
        (three_long, {"cat": ["--format", "arrow"]}),
        (three_long, COLUMNS),
        (three_long, HASHES),
        (bodies_of_all_sizes, COLUMNS),
        (bomb, UNPACKED),
        (many_keys, ALL),
        (full_index, {"rebuild": CHECKS["rebuild"]}),
        (many_names, TEXT),
        (many_topics, CHECKS),
        (long_topics, CHECKS),
        (many_light_queues, CHECKS),
        (wrong_index, {"fsck": []}),
    ],
)
def test_memory_does_not_follow_what_a_store_claims(
    tmp_path: Path, make: Callable[[Path], None], verbs: dict[str, list[str]]
) -> None:
    root = tmp_path / "store"
    make(root)
    for verb, words in verbs.items():
        named = [tmp_path / word if word in ("export", "built") else word for word in words]
        code, kib = peak_kib(verb, root, *named)
        assert code in (0, 2)
        assert kib < (CHECK_LIMIT if verb in CHECKS else TEXT_LIMIT), verb


def test_the_figure_follows_what_is_taken() -> None:
    """A process that takes 700 MiB, and gives them back, is seen to; one that takes nothing is small."""
    took = RUN.replace("    code = main()", f"    taken = b'x' * {700 * MIB}; del taken; code = 0")
    assert 700 * 1024 <= peak_kib(source=took)[1] < 900 * 1024
    assert peak_kib(source=RUN.replace("    code = main()", "    code = 0"))[1] < 100 * 1024


LITTLE_ROOM = """
from rmqcore.disk import read_range
from rmqcore.offline.fsck import log_pass, queue_pass, queue_state
from rmqcore.maintenance.rebuild import queue_builder, queue_runs, rebuild
read_range.FEW_ENTRIES, read_range.MOST_ENTRY_BYTES = 100, 1 << 18
queue_builder.MOST_BYTES = queue_state.MOST_BYTES = queue_state.MOST_WITHOUT_FILES = 1 << 19
queue_pass.MOST_KEYS = queue_runs.MOST_WAITING = 500
queue_runs.MOST_NAME_BYTES = 1 << 17
log_pass.BATCH_ROWS = rebuild.BATCH_ROWS = 500
log_pass.TOPIC_ROOM = rebuild.TOPIC_ROOM = 1 << 15
rebuild.sync_tree = lambda folder: None
from rmqcore.cli import main
"""
FEW_QUEUES = 2_000
MORE_QUEUES = dose("RMQCORE_MORE_QUEUES", test=5_000, verify=10_000, night=10_000)
MOST_A_QUEUE = 0.25
"""KiB; it was 0.6 to 1.8."""


def queues_of_topics(root: Path, count: int) -> None:
    data = bytearray()
    for number in range(count):
        data += record(len(data), topic=f"topic-{number:08}")
    records(root, bytes(data))


def light_queues(root: Path, count: int) -> None:
    data = bytearray()
    for number in range(0, count, 500):
        names = ",".join(f"{queue:08x}" for queue in range(number, number + 500))
        offsets = ",".join("0" for _ in range(500))
        properties = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}
        data += record(len(data), bytes(MIB), number=number, properties=properties)
    records(root, bytes(data))


@pytest.mark.parametrize("make", [queues_of_topics, light_queues])
def test_memory_does_not_follow_the_number_of_queues(
    tmp_path: Path, make: Callable[[Path, int], None]
) -> None:
    """Each queue took 0.6 to 1 KiB of `rebuild`, 1.5 of `info` and 1.8 of `fsck`: a gibibyte and more for a million of them.

    The room that there is for all of them is made small here: `fsck` and `rebuild` go over the log many times.
    """
    few: dict[str, list[int]] = {}
    more: dict[str, list[int]] = {}
    a_queue: dict[str, float] = {}
    for attempt in range(3):  # how many pages of its libraries a process has is up to the system
        peaks_of(make, tmp_path / f"few{attempt}", FEW_QUEUES, few)
        peaks_of(make, tmp_path / f"more{attempt}", MORE_QUEUES, more)
        grown = {verb: min(more[verb]) - min(kib) for verb, kib in few.items()}
        a_queue = {verb: kib / (MORE_QUEUES - FEW_QUEUES) for verb, kib in grown.items()}
        if max(a_queue.values()) < MOST_A_QUEUE:
            return
    raise AssertionError(f"KiB a queue: {a_queue}")


def peaks_of(
    make: Callable[[Path, int], None], folder: Path, count: int, peaks: dict[str, list[int]]
) -> None:
    """Add the peak of each verb, in KiB, for a store with this many queues."""
    source = RUN.replace("from rmqcore.cli import main", LITTLE_ROOM)
    assert source != RUN
    root, out = folder / "store", folder / "built"
    make(root, count)

    def measure(name: str, *words: str | Path) -> None:
        peaks.setdefault(name, []).append(peak_kib(*words, source=source)[1])

    measure("fsck of the log alone", "fsck", root)
    measure("rebuild", "rebuild", root, "--cq", "--out", out)
    (out / "consumequeue").rename(root / "consumequeue")
    assert sum(1 for _ in (root / "consumequeue").glob("*/*")) >= count
    measure("fsck", "fsck", root)
    measure("info", "info", root)
