"""Stores that are large: a terabyte of CommitLog files, and thousands of queues.

The files are sparse and made by the test's own writer from the oracle, as a broker would have left them. The limit in seconds is
many times what an idle machine needs (1 to 5 s): it finds a scan of everything, which takes minutes; no busy machine meets it.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.doses import dose
from support.oracle import records as oracle

import rmqcore
from rmqcore import Message, MessageStoreConfig

GIB = 1 << 30
FILES = 1024
QUEUE_FILE = 300_000 * 20
FIRST_MS = 1_700_000_000_000
MOST_SECONDS = 120

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def mapped(root: Path) -> set[str]:
    """Files under `root` that this process has mapped."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {
        path for path in re.findall(r"(/.*)$", "\n".join(lines), re.MULTILINE) if str(root) in path
    }


def descriptors(root: Path) -> list[str]:
    """Files under `root` that this process has open, once a descriptor."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if target.startswith(str(root)):
            found.append(target)
    return found


def write_sparse(path: Path, size: int, pieces: dict[int, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
        for pos, data in pieces.items():
            file.seek(pos)
            file.write(data)


class Writer:
    """Records at places of the caller's choice, and the queue files that belong to them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)

    def record(self, phy_offset: int, topic: str, queue_id: int, number: int) -> bytes:
        queue = self.entries[topic, queue_id]
        record = oracle.Record(
            topic.encode(),
            b"body %d" % number,
            oracle.encode_properties({"TAGS": "A", "KEYS": f"key-{number}"}),
            queue_id=queue_id,
            queue_offset=len(queue),
            phy_offset=phy_offset,
            store_timestamp_ms=FIRST_MS + number,
            born_timestamp_ms=FIRST_MS + number,
        )
        data = oracle.encode_record(record)
        record = replace(record, msg_size=len(data))
        queue.append((phy_offset, len(data), record.tags_code))
        return data

    def write_queues(self) -> None:
        for (topic, queue_id), entries in self.entries.items():
            path = self.root / "consumequeue" / topic / str(queue_id) / f"{0:020d}"
            write_sparse(path, QUEUE_FILE, {0: oracle.pack_cq(entries)})

    def write_end(self, last_ms: int, *, clean: bool) -> None:
        """Checkpoint, and an abort file when nobody closed the store."""
        fields = oracle.CHECKPOINT_FIELDS[:3]
        (self.root / "checkpoint").write_bytes(
            oracle.encode_checkpoint(dict.fromkeys(fields, last_ms))
        )
        if not clean:
            (self.root / "abort").write_text("1")


# ---- a terabyte -------------------------------------------------------------------------------------


def terabyte(root: Path, *, clean: bool) -> Path:
    """1,024 files: in each but the last two records and the BLANK behind them, in the last file only the records."""
    writer = Writer(root)
    for number in range(FILES):
        start = number * GIB
        first = writer.record(start, "Large", 0, 2 * number)
        second = writer.record(start + len(first), "Large", number % 4, 2 * number + 1)
        data = first + second
        if number < FILES - 1:
            data += oracle.blank(GIB - len(data))
        write_sparse(root / "commitlog" / f"{start:020d}", GIB, {0: data})
    writer.write_queues()
    writer.write_end(FIRST_MS + 2 * FILES, clean=clean)
    return root


@linux
@pytest.mark.parametrize("clean", [True, False], ids=["after a clean exit", "after a crash"])
def test_a_terabyte_opens_fast_and_maps_what_is_asked_for(tmp_path: Path, clean: bool) -> None:
    root = terabyte(tmp_path / "store", clean=clean)
    began = time.monotonic()
    with rmqcore.open(root, services=False, message_index_enable=False) as store:
        assert time.monotonic() - began < MOST_SECONDS
        log = root / "commitlog"
        assert store.recovery.cut_bytes == 0
        assert store.min_phy_offset == 0
        assert (FILES - 1) * GIB < store.max_phy_offset < (FILES - 1) * GIB + 1000
        # Recovery looks at the last three files after a clean exit, and goes back to the checkpoint after a crash.
        at_open = mapped(log)
        assert len(at_open) <= 6
        assert len(descriptors(root)) <= 40

        # A lookup maps the file it is about and no other.
        for number in (0, 17, 512, 1000):
            before = mapped(log)
            view = store.lookup(number * GIB)
            assert view is not None and view.body == b"body %d" % (2 * number)
            new = {Path(path).name for path in mapped(log) - before}
            assert new == {f"{number * GIB:020d}"}
            assert store.lookup(number * GIB + 1) is None
            assert store.lookup((number + 1) * GIB - 8) is None
        assert store.lookup(FILES * GIB) is None and store.lookup(-1) is None
        assert len(mapped(log)) == len(at_open) + 4

        # Nor does an answer from a queue go through the files before it.
        before = mapped(log)
        found = store.get("Large", 0, store.max_offset("Large", 0) // 2, 2)
        assert [view.topic for view in found.messages] == ["Large"] * 2
        assert len(mapped(log) - before) <= 2
        assert store.offset_by_time("Large", 1, FIRST_MS + 2 * 513 + 1) == 513 // 4
        assert len(mapped(log)) < 40


@linux
def test_a_terabyte_takes_messages_and_is_read_from_end_to_end(tmp_path: Path) -> None:
    """Every file is touched in the end, more of them than a process may have open by default."""
    root = terabyte(tmp_path / "store", clean=True)
    with rmqcore.open(root, services=False, message_index_enable=False) as store:
        before = {queue_id: store.max_offset("Large", queue_id) for queue_id in range(4)}
        put = store.put(Message("Large", b"one more", 2))
        assert put.queue_offset == before[2]
        while store.dispatch_once():
            pass
        assert store.dispatch_behind_bytes == 0
        assert store.max_offset("Large", 2) == before[2] + 1
        for number in range(FILES):
            view = store.lookup(number * GIB)
            assert view is not None and view.queue_offset == number + (number + 3) // 4
        assert len(descriptors(root)) <= 64
    with rmqcore.open(root, services=False, message_index_enable=False) as store:
        assert store.recovery.cut_bytes == 0
        view = store.lookup(put.phy_offset)
        assert view is not None and view.body == b"one more"


def test_a_terabyte_without_queues_is_dispatched_again(tmp_path: Path) -> None:
    root = terabyte(tmp_path / "store", clean=True)
    for path in sorted((root / "consumequeue").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    with rmqcore.open(root, services=False, max_hash_slot_num=1000, max_index_num=10_000) as store:
        began = time.monotonic()
        while store.dispatch_once():
            pass
        assert time.monotonic() - began < MOST_SECONDS
        assert store.dispatch_behind_bytes == 0
        assert store.max_offset("Large", 0) == FILES + FILES // 4
        found = store.query("Large", "key-1500").messages
        assert [view.body for view in found] == [b"body 1500"]


# ---- thousands of queues ----------------------------------------------------------------------------

TOPICS = dose("RMQCORE_LARGE_TOPICS", test=25, verify=100, night=100)
QUEUES, EACH = 100, 3
"""Many times the queues that may be open at once, with each dose."""


def many_queues(root: Path, *, clean: bool) -> Path:
    """`TOPICS` topics of 100 queues, three messages each, in turns."""
    writer = Writer(root)
    log = bytearray()
    for number in range(TOPICS * QUEUES * EACH):
        topic, queue_id = f"Topic{number // QUEUES % TOPICS:03d}", number % QUEUES
        log += writer.record(len(log), topic, queue_id, number)
    write_sparse(root / "commitlog" / f"{0:020d}", GIB, {0: bytes(log)})
    writer.write_queues()
    writer.write_end(FIRST_MS + TOPICS * QUEUES * EACH, clean=clean)
    return root


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """Limit the number of open files to fewer than some systems allow a process by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    yield 512
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.large
@linux
@pytest.mark.parametrize("clean", [True, False], ids=["after a clean exit", "after a crash"])
def test_thousands_of_queues(tmp_path: Path, few_descriptors: int, clean: bool) -> None:
    root = many_queues(tmp_path / "store", clean=clean)
    config = MessageStoreConfig(max_hash_slot_num=10_000, max_index_num=100_000)
    queues = root / "consumequeue"
    began = time.monotonic()
    with rmqcore.open(root, config, services=False) as store:
        assert time.monotonic() - began < MOST_SECONDS
        assert len(mapped(queues)) < 100 and len(descriptors(root)) <= few_descriptors - 100
        assert len(store.queues()) == TOPICS * QUEUES
        assert store.topics() == [f"Topic{number:03d}" for number in range(TOPICS)]
        for topic in (0, TOPICS // 2, TOPICS - 1):
            for queue_id in (0, 42, 99):
                name = f"Topic{topic:03d}"
                assert store.min_offset(name, queue_id) == 0
                assert store.max_offset(name, queue_id) == EACH
                found = store.get(name, queue_id, 1)
                assert [view.queue_offset for view in found.messages] == [1, 2]
                assert {view.queue_id for view in found.messages} == {queue_id}
        # One more message for each queue, and all of them dispatched: every queue file is written to.
        messages = [
            Message(f"Topic{topic:03d}", b"more", queue_id)
            for topic in range(TOPICS)
            for queue_id in range(QUEUES)
        ]
        assert set(store.put_many(messages).queue_offsets) == {EACH}
        while store.dispatch_once():
            pass
        assert {store.max_offset(*queue) for queue in store.queues()} == {EACH + 1}
        store.flush()
        assert len(mapped(queues)) < 100 and len(descriptors(root)) <= few_descriptors - 100
    began = time.monotonic()
    with rmqcore.open(root, config, services=False) as store:
        assert time.monotonic() - began < MOST_SECONDS
        assert {store.max_offset(*queue) for queue in store.queues()} == {EACH + 1}
        assert store.get(f"Topic{TOPICS - 1:03d}", 99, EACH).messages[0].body == b"more"
        assert len(mapped(queues)) < 100 and len(descriptors(root)) <= few_descriptors - 100
