"""What the tests of the index share: records laid out as a log, batches of their keys, services over a folder."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from support.oracle import records as oracle

from rmqcore._native.scan import scan
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.index.index_service import COLUMNS, IndexService

START_MS = 1_700_000_000_000
MOST = 1 << 62
PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC


def lay_out(records: Iterable[oracle.Record], start: int = 0) -> list[oracle.Record]:
    """Give records their places, one behind the other from `start` on."""
    placed = []
    for record in records:
        size = len(oracle.encode_record(record))
        placed.append(replace(record, phy_offset=start, msg_size=size))
        start += size
    return placed


def end_of(records: list[oracle.Record]) -> int:
    """Where the log of these records ends."""
    if not records:
        return 0
    size = records[-1].msg_size
    assert size is not None
    return records[-1].phy_offset + size


def batches(records: list[oracle.Record], rows: int = 8192) -> Iterator[Batch]:
    """Batches of at most `rows` rows, as a dispatcher hands them on."""
    if not records:
        return
    data = b"".join(oracle.encode_record(record) for record in records)
    start, columns, pos = records[0].phy_offset, ColumnScan(COLUMNS, batch_rows=rows), 0
    while pos < len(data):
        place = columns.feed(data, len(data), pos, start, MOST, check_crc=True)
        pos, code = place.pos, place.code
        assert code in (scan.FULL, scan.END), code
        yield columns.take()


def quick_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for one example, in memory where that is possible: a sync of a real disk takes milliseconds."""
    memory = "/dev/shm"
    return tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)


class Clock:
    """A wall clock for names that stands still unless told otherwise: the hardest case."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


class Opened:
    """A service over a folder, with what it told the checkpoint."""

    def __init__(
        self,
        root: Path,
        slots: int = 7,
        capacity: int = 5,
        *,
        clean: bool = True,
        index_msg_timestamp_ms: int = 0,
        clock: Clock | None = None,
        **config: Any,
    ) -> None:
        self.root = root
        self.full_ms = [index_msg_timestamp_ms]
        self.service = IndexService(
            StorePaths(root),
            MessageStoreConfig(max_hash_slot_num=slots, max_index_num=capacity, **config),
            on_full=self.full_ms.append,
            clock=clock or Clock(),
        )
        self.service.load(clean=clean, index_msg_timestamp_ms=index_msg_timestamp_ms)

    def put(self, records: list[oracle.Record], rows: int = 8192, from_offset: int = 0) -> Opened:
        for batch in batches(records, rows):
            self.service.put_batch(None, batch, from_offset)
        return self

    def resume(self, records: list[oracle.Record], rows: int = 8192) -> Opened:
        """Put again what is missing, as a dispatcher does after an open."""
        offset = self.service.resume_offset
        return self if offset is None else self.put(records, rows, offset)

    def find(self, topic: str, key: str, limit: int = 64) -> list[int]:
        return self.service.query_offsets(topic, key, limit, -1 << 63, (1 << 63) - 1).phy_offsets

    def contents(self) -> list[bytes]:
        """Close, and give the files in name order."""
        self.service.close()
        return index_contents(self.root)


def index_contents(root: Path) -> list[bytes]:
    folder = root / "index"
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def expected_contents(
    records: list[oracle.Record], slots: int = 7, capacity: int = 5
) -> list[bytes]:
    """Files as Java leaves them when it is shut down; of an empty one it then writes the count too, which is 1."""
    contents = []
    for file in oracle.build_index(records, slots, capacity):
        data = bytearray(file.encode())
        struct.pack_into(">i", data, 36, file.index_count)
        contents.append(bytes(data))
    return contents


def java_answer(
    files: list[oracle.IndexFile], topic: str, key: str, limit: int, begin_ms: int, end_ms: int
) -> tuple[list[int], int, int]:
    """IndexService#queryOffset and what queryMessage makes of it: sorted, and zeros when nothing was found."""
    found: list[int] = []
    for file in reversed(files):
        begin, end = file.begin_timestamp_ms, file.end_timestamp_ms
        if (
            (begin_ms < begin and end_ms > end)
            or begin <= begin_ms <= end
            or begin <= end_ms <= end
        ):
            wanted = oracle.index_key_hash(topic, key)
            found += file.find(wanted, begin_ms, end_ms, limit - len(found))
        if begin < begin_ms or len(found) >= limit:
            break
    if not found:
        return [], 0, 0
    return sorted(found), files[-1].end_timestamp_ms, files[-1].end_phy_offset


def make_record(
    topic: str = "T",
    keys: str | None = None,
    *,
    uniq_key: str | None = None,
    tags: str | None = None,
    store_timestamp_ms: int = START_MS,
    sys_flag: int = 0,
) -> oracle.Record:
    properties = {"UNIQ_KEY": uniq_key, "KEYS": keys, "TAGS": tags}
    return oracle.Record(
        topic.encode(),
        b"b",
        oracle.encode_properties(properties),
        sys_flag=sys_flag,
        store_timestamp_ms=store_timestamp_ms,
    )


TOPICS = ["T", "日本"]
WORDS = [f"k{number}" for number in range(12)]


RISING_MS = [1, 7, 999, 1000, 60_000]


@st.composite
def logs(draw: st.DrawFn, most: int = 30, *, rising: bool = False) -> list[oracle.Record]:
    """Records with none to many keys, of all transaction types, with a clock that may stand still or go back."""
    records = []
    now = START_MS if rising else draw(st.sampled_from([START_MS, 0, 999, -5000, (1 << 62)]))
    steps = st.sampled_from(RISING_MS if rising else [*RISING_MS, 0, -1, -1500, -200_000, 1 << 41])
    for _ in range(draw(st.integers(0, most))):
        now += draw(steps)
        words = draw(st.lists(st.sampled_from(WORDS), max_size=4))
        records.append(
            make_record(
                draw(st.sampled_from(TOPICS)),
                " ".join(words) or None,
                uniq_key=draw(st.none() | st.sampled_from(WORDS)),
                tags=draw(st.none() | st.sampled_from(["A", "B"])),
                store_timestamp_ms=now,
                sys_flag=draw(st.sampled_from([0, 0, 0, PREPARED, COMMIT, ROLLBACK])),
            )
        )
    return lay_out(records)
