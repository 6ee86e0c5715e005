"""get against slow Python: any log, any entries, any limits."""

from __future__ import annotations

import os
import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import records as oracle
from support.oracle.get import SlowConfig, SlowLog, slow_get
from support.oracle.queue import ENTRY, Queue
from support.stores.index_batches import quick_folder
from support.stores.queue_batches import open_queues

from rmqcore._native.files.mapped_file import MappedFile, MappedFiles
from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.queues.get import (
    GetResult,
    get_messages,
    get_warm_messages,
    read_in_messages,
)
from rmqcore._native.queues.get_limits import GetLimits
from rmqcore._native.queues.tag_filter import TagFilter
from rmqcore.config import MessageStoreConfig

FILE_SIZE = 2048
PER_FILE = 5
CONFIG = MessageStoreConfig()
Asked = tuple[ConsumeQueue | None, MappedFiles, int, int, int, TagFilter, int | None]
LEVELS = DelayLevels(CONFIG.delay_levels_ms)
TAGS = ["A", "B", "AaBB", "BBAa", ""]  # two of them share a hash


def make_log(rng: random.Random, count: int) -> tuple[SlowLog, list[tuple[int, int, int]]]:
    """A log of some records, damaged here and there and without some files, and the right entries of its records."""
    log, entries = bytearray(), []
    for number in range(count):
        tag = rng.choice(TAGS)
        record = oracle.Record(
            b"T",
            bytes(rng.randrange(0, 400)),
            oracle.encode_properties({"TAGS": tag} if tag else {}),
            queue_offset=number,
        )
        size = len(oracle.encode_record(record))
        room = FILE_SIZE - len(log) % FILE_SIZE
        if size + 8 > room:
            log += oracle.blank(room) + bytes(room - 8)
        record = oracle.Record(**{**record.__dict__, "phy_offset": len(log)})
        raw = bytearray(oracle.encode_record(record))
        read = oracle.decode_record(bytes(raw))
        assert isinstance(read, oracle.Record)
        if rng.random() < 0.08:  # a length, the magic, the offset or anything
            raw[rng.choice([0, 3, 5, 30, 86, rng.randrange(len(raw))])] ^= 1 << rng.randrange(8)
        entries.append((len(log), size, read.tags_code))
        log += raw
    end = len(log) - rng.choice([0, 0, 0, rng.randrange(300)])
    data = bytes(log).ljust(-(-len(log) // FILE_SIZE) * FILE_SIZE, b"\0")
    starts = range(0, len(data), FILE_SIZE)
    gone = rng.choice([0, 0, FILE_SIZE, 3 * FILE_SIZE])
    files = {s: data[s : s + FILE_SIZE] for s in starts if s >= gone and rng.random() < 0.95}
    return SlowLog(FILE_SIZE, files, max(0, end)), entries


def make_queue(
    rng: random.Random, right: list[tuple[int, int, int]], ext: float
) -> list[tuple[int, int, int]]:
    """Entries, some of which are wrong; `ext` of them hold the address of an extension instead of a tags code."""
    entries = []
    for phy, size, code in right:
        kind = rng.random()
        if rng.random() < ext:
            code = rng.randrange(-(1 << 63), -(1 << 31))  # noqa: PLW2901
        if kind < 0.05:
            entries.append(
                rng.choice([oracle.CQ_FILLER, (phy + 1, size, code), (phy, size + 1, code)])
            )
        elif kind < 0.08:
            wild = [(0, 91, 0), (1 << 62, 1 << 30, 1), (phy, 1, code), ((1 << 63) - 1, 5, 0)]
            entries.append(rng.choice(wild))
        else:
            entries.append((phy, size, code))
    return entries


def written_queue(begin: int, entries: list[tuple[int, int, int]]) -> Queue:
    """A queue of these entries, whatever they say, from an offset on; fillers before them."""
    queue = Queue(PER_FILE * ENTRY)
    skipped = begin % PER_FILE
    all_entries = [oracle.CQ_FILLER] * skipped + entries
    for place in range(0, len(all_entries), PER_FILE):
        queue.last = (begin - skipped + place) * ENTRY
        part = oracle.pack_cq(all_entries[place : place + PER_FILE])
        queue.files[queue.last] = bytearray(part.ljust(PER_FILE * ENTRY, b"\0"))
        queue.end = queue.last + len(part)
    return queue


class Got:
    """A log and a queue on disk, and the model of both."""

    def __init__(self, root: Path, rng: random.Random, count: int, ext: float) -> None:
        self.log, right = make_log(rng, count)
        (root / "commitlog").mkdir()
        mapped = []
        for start, data in self.log.files.items():
            path = root / "commitlog" / f"{start:020d}"
            path.write_bytes(data)
            mapped.append(MappedFile(os.fspath(path), FILE_SIZE, start))
        self.files = MappedFiles(FILE_SIZE, mapped)
        self.queue = written_queue(rng.choice([0, 0, 3, 12]), make_queue(rng, right, ext))
        folder = root / "consumequeue" / "T" / "0"
        folder.mkdir(parents=True)
        for start, content in self.queue.files.items():
            (folder / f"{start:020d}").write_bytes(content)
        self.queues = open_queues(root, PER_FILE)
        low = rng.randrange(self.log.end + 1)
        self.queue.correct_min(low)
        self.queues.correct_min_offsets(low)
        self.found = self.queues.find("T", 0)
        starts = self.queue.starts
        if len(starts) > 2 and rng.random() < 0.2:
            gone = rng.choice(starts[:-1])
            del self.queue.files[gone]
            self.queues._table.close_files()
            (folder / f"{gone:020d}").unlink()


@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(0, 60),
    config=st.builds(
        SlowConfig,
        memory=st.sampled_from([0, 700, 3000, 1 << 40]),
        bytes_in_memory=st.sampled_from([500, 2000, 256 * 1024]),
        count_in_memory=st.sampled_from([1, 3, 32, 300]),
        bytes_on_disk=st.sampled_from([300, 1000, 64 * 1024]),
        count_on_disk=st.sampled_from([1, 2, 8, 40]),
        filter_bytes=st.sampled_from([20, 50, 60, 16_000]),
        files=st.sampled_from([1, 1, 2, 100]),
        slave=st.booleans(),
    ),
    ext=st.sampled_from([0.0, 0.0, 0.5]),
)
@examples(1.5)
def test_get_is_the_slow_one(seed: int, count: int, config: SlowConfig, ext: float) -> None:
    rng = random.Random(seed)
    with quick_folder() as folder:
        got = Got(Path(folder), rng, count, ext)
        limits = GetLimits(
            MessageStoreConfig(
                access_message_in_memory_max_ratio=100,
                max_transfer_bytes_on_message_in_memory=config.bytes_in_memory,
                max_transfer_count_on_message_in_memory=config.count_in_memory,
                max_transfer_bytes_on_message_in_disk=config.bytes_on_disk,
                max_transfer_count_on_message_in_disk=config.count_on_disk,
                max_filter_message_size=config.filter_bytes,
                travel_cq_file_num_when_get_message=config.files,
                broker_role="SLAVE" if config.slave else "ASYNC_MASTER",
            ),
            config.memory,
        )
        for _ in range(25):
            offset = rng.randrange(-2, got.queue.max_offset + 4)
            most = rng.choice([1, 2, 5, 32, 64, 1000])
            max_bytes = rng.choice([None, None, 0, 150, 600, 5000, 1 << 62])
            tags = rng.choice([None, None, "A", "A || B", "AaBB", "C", "*", ""])
            names = None if tags in (None, "*", "") else {t.strip() for t in str(tags).split("||")}
            want = slow_get(got.queue, got.log, offset, most, names, max_bytes, config)
            asked = (got.found, got.files, got.log.end, offset, most, TagFilter(tags), max_bytes)
            with get_messages(*asked, limits, LEVELS) as result:
                assert [m.phy_offset for m in result] == want.found
                assert result.status.name == want.status
                assert result.next_begin_offset == want.next_begin_offset
                assert (result.min_offset, result.max_offset) == (want.min_offset, want.max_offset)
                assert result.buffer_total_size == want.total == sum(m.msg_size for m in result)
                if want.status not in EDGES:
                    assert result.suggest_pulling_from_slave == want.from_slave
                for message in result:
                    raw = got.log.record(message.phy_offset, message.msg_size)
                    assert message.raw == raw
                check_warm(asked, limits, result, rng.choice([0, 1 << 62]))
        got.queues.close()


def check_warm(asked: Asked, limits: GetLimits, plain: GetResult, held_from: int) -> None:
    """Of messages that memory holds, a get that waits for no disk gives what the plain one gives."""
    read_in_messages(*asked, limits, LEVELS)
    warm = get_warm_messages(*asked, limits, LEVELS, held_from)
    assert warm is not None
    assert warm.status is plain.status
    assert warm.next_begin_offset == plain.next_begin_offset
    assert (warm.min_offset, warm.max_offset) == (plain.min_offset, plain.max_offset)
    assert [m.phy_offset for m in warm] == [m.phy_offset for m in plain]
    assert warm.suggest_pulling_from_slave == plain.suggest_pulling_from_slave


EDGES = {
    "NO_MESSAGE_IN_QUEUE",
    "OFFSET_TOO_SMALL",
    "OFFSET_OVERFLOW_ONE",
    "OFFSET_OVERFLOW_BADLY",
}
