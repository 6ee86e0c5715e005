"""get at the edges: arguments, limits, who holds what, files that go, and the answers of RocketMQ on its golden stores."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from typing import Any

import pytest
from support.oracle import records as oracle
from support.oracle.queue import ENTRY
from support.stores.golden_stores import CLEAN, config_of, manifest_of
from support.stores.index_batches import lay_out
from support.stores.queue_batches import open_queues, put_records, record

from rmqcore._native.files.mapped_file import MappedFile, MappedFiles
from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.queues.get import GetResult, get_messages
from rmqcore._native.queues.get_limits import GetLimits
from rmqcore._native.queues.tag_filter import TagFilter
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.errors import StoreFormatError
from rmqcore.vocabulary.status import GetMessageStatus

FILE_SIZE = 1 << 16
CONFIG = MessageStoreConfig()
LEVELS = DelayLevels(CONFIG.delay_levels_ms)
HUGE = 1 << 80


class Bench:
    """A log of one file and a queue over it."""

    def __init__(self, root: Path, records: list[oracle.Record], per_file: int = 1000) -> None:
        self.records = lay_out(records)
        data = b"".join(oracle.encode_record(record) for record in self.records)
        self.end = len(data)
        self.path = root / "commitlog" / f"{0:020d}"
        self.path.parent.mkdir(parents=True)
        self.path.write_bytes(data.ljust(FILE_SIZE, b"\0"))
        self.files = MappedFiles(FILE_SIZE, [MappedFile(os.fspath(self.path), FILE_SIZE, 0)])
        self.queues = open_queues(root, per_file)
        put_records(self.queues, self.records)

    def queue(self, topic: str = "T", queue_id: int = 0) -> ConsumeQueue | None:
        return self.queues.find(topic, queue_id)

    def get(self, offset: Any = 0, most: Any = 32, **options: Any) -> GetResult:
        return get_messages(
            options.get("queue", self.queue()),
            options.get("files", self.files),
            options.get("end", self.end),
            offset,
            most,
            options.get("tags"),
            options.get("max_bytes"),
            options.get("config", CONFIG),
            LEVELS,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(
        tmp_path, [record("T", 0, i, 0, tags=f"G{i % 3}", body=b"%d" % i) for i in range(50)]
    )


def offsets(result: GetResult) -> list[int]:
    return [message.queue_offset for message in result]


# ---- statuses and limits ----------------------------------------------------------------------------


def test_what_is_found(bench: Bench) -> None:
    result = bench.get()
    assert result.status is GetMessageStatus.FOUND
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (32, 0, 50)
    assert offsets(result) == list(range(32))
    assert [message.body for message in result.messages] == [b"%d" % i for i in range(32)]
    assert result.buffer_total_size == sum(message.msg_size for message in result)
    assert len(result) == 32
    assert "FOUND of 32 messages" in repr(result)
    assert offsets(bench.get(32)) == list(range(32, 50))


@pytest.mark.parametrize(
    ("offset", "status", "following"),
    [
        (-1, "OFFSET_TOO_SMALL", 0),
        (-HUGE, "OFFSET_TOO_SMALL", 0),
        (50, "OFFSET_OVERFLOW_ONE", 50),
        (51, "OFFSET_OVERFLOW_BADLY", 50),
        (HUGE, "OFFSET_OVERFLOW_BADLY", 50),
        ((1 << 63) - 1, "OFFSET_OVERFLOW_BADLY", 50),
    ],
)
def test_offsets_outside(bench: Bench, offset: int, status: str, following: int) -> None:
    result = bench.get(offset)
    assert (result.status.name, result.next_begin_offset) == (status, following)
    assert result.messages == []
    slave = MessageStoreConfig(broker_role="SLAVE")
    inside = max(-(1 << 63), min(offset, (1 << 63) - 1))
    assert bench.get(offset, config=slave).next_begin_offset == inside
    checked = MessageStoreConfig(broker_role="SLAVE", offset_check_in_slave=True)
    assert bench.get(offset, config=checked).next_begin_offset == following


def test_no_queue_and_an_empty_one(bench: Bench) -> None:
    for queue in (None, bench.queues._table.find_or_add("empty", 0)):
        result = bench.get(7, queue=queue)
        assert (result.status.name, result.next_begin_offset) == ("NO_MESSAGE_IN_QUEUE", 0)
        assert (result.min_offset, result.max_offset) == (0, 0)


@pytest.mark.parametrize("most", [1, 2, 31, 32, 33, 1000, HUGE])
def test_count(bench: Bench, most: int) -> None:
    assert offsets(bench.get(3, most)) == list(range(3, 3 + min(most, 32)))


@pytest.mark.parametrize("most", [0, -1, -HUGE])
def test_one_message_always_comes(bench: Bench, most: int) -> None:
    assert offsets(bench.get(3, most)) == [3]


def test_bytes(bench: Bench) -> None:
    size = bench.records[0].msg_size
    assert size is not None
    assert len(bench.get(max_bytes=2 * size)) == 2
    assert len(bench.get(max_bytes=2 * size - 1)) == 1
    for few in (0, -5, -HUGE, 1):
        assert len(bench.get(max_bytes=few)) == 1
    assert len(bench.get(max_bytes=HUGE)) == 32


def test_far_behind_the_end_counts_as_on_disk(bench: Bench) -> None:
    """The limit moves with the message: the first messages are far from the end, the later messages are near."""
    far = GetLimits(CONFIG, bench.end)  # 40 % of it
    assert len(bench.get(0, config=far)) == 8
    assert bench.get(0, config=far).suggest_pulling_from_slave
    assert len(bench.get(18, config=far)) == 8
    near = bench.get(31, config=far)
    assert offsets(near) == list(range(31, 50))
    assert not near.suggest_pulling_from_slave


def test_a_get_ends_with_the_queue_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [record("T", 0, i, 0) for i in range(20)], per_file=7)
    assert offsets(bench.get(0)) == list(range(7))
    assert offsets(bench.get(5)) == [5, 6]
    assert bench.get(5).next_begin_offset == 7


# ---- tags -------------------------------------------------------------------------------------------


def test_tags(bench: Bench) -> None:
    assert offsets(bench.get(tags=TagFilter("G1"))) == list(range(1, 50, 3))
    assert bench.get(tags=TagFilter("G1")).next_begin_offset == 50
    both = bench.get(tags=TagFilter(" G1||G2 "))
    assert offsets(both) == [i for i in range(48) if i % 3]
    assert both.next_begin_offset == 48
    result = bench.get(5, tags=TagFilter("none"))
    assert (result.status.name, result.next_begin_offset) == ("NO_MATCHED_MESSAGE", 50)
    for everything in (None, "", "*"):
        assert len(bench.get(tags=TagFilter(everything))) == 32


def test_a_filter_looks_at_so_many_entries(bench: Bench) -> None:
    config = MessageStoreConfig(max_filter_message_size=10 * ENTRY)
    result = bench.get(0, 4, tags=TagFilter("none"), config=config)
    assert (result.status.name, result.next_begin_offset) == ("NO_MATCHED_MESSAGE", 10)
    result = bench.get(0, 20, tags=TagFilter("G0"), config=config)
    assert result.next_begin_offset == 20
    assert offsets(result) == [0, 3, 6, 9, 12, 15, 18]


@pytest.mark.parametrize("expression", ["||", " ", "|| ||"])
def test_an_expression_without_a_tag(expression: str) -> None:
    with pytest.raises(ValueError, match="no tag in it"):
        TagFilter(expression)


def test_codes_of_an_expression() -> None:
    assert TagFilter("*").codes is None
    assert TagFilter("a || b").codes == frozenset(map(oracle.java_hash, "ab"))
    assert TagFilter("a").matches(oracle.java_hash("a") + (5 << 32))
    assert not TagFilter("a").matches(oracle.java_hash("b"))
    assert TagFilter("*").matches(7)


def test_delayed_messages_are_filtered_by_their_deliver_time(tmp_path: Path) -> None:
    """As in Java: the entry's code is the time, so no tag matches it (but by chance)."""
    plain = record(oracle.SCHEDULE_TOPIC, 0, 0, 0)
    delayed = oracle.Record(
        **{**plain.__dict__, "properties": oracle.encode_properties({"DELAY": "1", "TAGS": "x"})}
    )
    bench = Bench(tmp_path, [delayed])
    queue = bench.queue(oracle.SCHEDULE_TOPIC)
    assert len(bench.get(queue=queue)) == 1
    assert bench.get(queue=queue, tags=TagFilter("x")).status.name == "NO_MATCHED_MESSAGE"


@pytest.mark.parametrize("code", [-(1 << 31) - 1, -(1 << 63), -(1 << 32)])
def test_an_entry_that_points_to_an_extension_is_filtered_by_its_record(
    tmp_path: Path, code: int
) -> None:
    bench = Bench(tmp_path, [record("T", 0, i, 0, tags=f"G{i}") for i in range(2)])
    for number, stored in enumerate(bench.records):
        bench.queues.put_entry("ext", 0, stored.phy_offset, stored.msg_size or 0, code, number)
    queue = bench.queue("ext")
    assert len(bench.get(queue=queue)) == 2
    assert offsets(bench.get(queue=queue, tags=TagFilter("G1"))) == [1]
    result = bench.get(queue=queue, tags=TagFilter("G2"))
    assert (result.status.name, result.next_begin_offset) == ("NO_MATCHED_MESSAGE", 2)


# ---- what is not there ------------------------------------------------------------------------------


def test_messages_behind_the_end_of_the_log(bench: Bench) -> None:
    cut = bench.records[10].phy_offset + 5
    result = bench.get(end=cut)
    assert offsets(result) == list(range(10))
    assert result.next_begin_offset == 50
    assert bench.get(10, end=cut).status.name == "MESSAGE_WAS_REMOVING"


def test_a_damaged_record_is_passed_over(bench: Bench) -> None:
    place = bench.records[4].phy_offset
    with bench.path.open("r+b") as file:
        file.seek(place + 4)
        file.write(b"\1")
    result = bench.get()
    assert offsets(result) == [0, 1, 2, 3, *range(5, 33)]
    result = bench.get(4, 1)
    assert offsets(result) == [5]


@pytest.mark.parametrize("size", [0, -1, 1, 8, 63, 64, 90, 1 << 30, (1 << 31) - 1, -(1 << 31)])
@pytest.mark.parametrize(
    "phy_offset", [0, 1, FILE_SIZE - 1, FILE_SIZE, 1 << 62, (1 << 63) - 1, -1, -(1 << 63)]
)
def test_wild_entries(tmp_path: Path, phy_offset: int, size: int) -> None:
    bench = Bench(tmp_path, [record("T", 0, i, 0) for i in range(3)])
    bench.queues.close()
    path = next((tmp_path / "consumequeue" / "T" / "0").iterdir())
    with path.open("r+b") as file:
        file.seek(ENTRY)
        file.write(oracle.pack_cq([(phy_offset, size, 1)]))
    bench.queues = ConsumeQueues(
        StorePaths(tmp_path), MessageStoreConfig(mapped_file_size_consume_queue=20_000)
    )
    queue = bench.queues._table.find_or_add("T", 0)
    queue.set_files(0, 0, 3 * ENTRY, bench.end)
    result = bench.get(queue=queue)
    # A place in another file that gives no message makes the get skip that file's other messages, as in Java.
    assert offsets(result) in ([0], [0, 2])
    # A huge size is too much beside another message: its entry is for the next call.
    assert result.next_begin_offset == (1 if size >= 1 << 30 else 3)
    assert bench.get(1, 1, queue=queue).status.name in ("MESSAGE_WAS_REMOVING", "FOUND")


def test_a_log_file_that_is_gone(tmp_path: Path) -> None:
    """The rest of the messages in that file is skipped without a look; the messages of the next file are found."""
    bench = Bench(tmp_path, [record("T", 0, i, 0) for i in range(4)])
    second = tmp_path / "commitlog" / f"{FILE_SIZE:020d}"
    later = lay_out([record("T", 0, i, 0) for i in range(4, 6)], FILE_SIZE)
    data = b"".join(oracle.encode_record(stored) for stored in later)
    second.write_bytes(data.ljust(FILE_SIZE, b"\0"))
    put_records(bench.queues, later)
    files = MappedFiles(FILE_SIZE, [MappedFile(os.fspath(second), FILE_SIZE, FILE_SIZE)])
    result = bench.get(files=files, end=FILE_SIZE + len(data))
    assert offsets(result) == [4, 5]
    result = bench.get(files=MappedFiles(FILE_SIZE), end=FILE_SIZE + len(data))
    assert (result.status.name, result.next_begin_offset) == ("MESSAGE_WAS_REMOVING", 6)


def test_a_log_file_that_was_deleted_before_it_was_mapped(bench: Bench) -> None:
    bench.path.unlink()
    files = MappedFiles(FILE_SIZE, [MappedFile(os.fspath(bench.path), FILE_SIZE, 0)])
    assert bench.get(files=files).status.name == "MESSAGE_WAS_REMOVING"


def test_a_log_file_of_another_size(bench: Bench) -> None:
    with bench.path.open("r+b") as file:
        file.truncate(FILE_SIZE // 2)
    files = MappedFiles(FILE_SIZE, [MappedFile(os.fspath(bench.path), FILE_SIZE, 0)])
    with pytest.raises(StoreFormatError, match="file size is"):
        bench.get(files=files)


def test_a_queue_file_that_is_gone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [record("T", 0, i, 0) for i in range(20)], per_file=7)
    bench.queues._table.close_files()
    (tmp_path / "consumequeue" / "T" / "0" / f"{7 * ENTRY:020d}").unlink()
    result = bench.get(9)
    assert (result.status.name, result.next_begin_offset) == ("OFFSET_FOUND_NULL", 14)
    slave = MessageStoreConfig(broker_role="SLAVE")
    assert bench.get(9, config=slave).next_begin_offset == 9


def test_a_queue_file_that_cannot_be_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [record("T", 0, i, 0) for i in range(3)])
    bench.queues._table.close_files()
    path = next((tmp_path / "consumequeue" / "T" / "0").iterdir())
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(OSError, match="T/0"):
        bench.get()


def test_a_queue_file_that_somebody_cut(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [record("T", 0, i, 0) for i in range(30)])
    path = next((tmp_path / "consumequeue" / "T" / "0").iterdir())
    with path.open("r+b") as file:
        file.truncate(10 * ENTRY + 3)
    assert offsets(bench.get()) == list(range(10))
    assert len(bench.get(10)) == 0


# ---- who holds what ---------------------------------------------------------------------------------


def test_views_are_the_file_itself(bench: Bench) -> None:
    (message,) = bench.get(0, 1).messages
    pos = bench.path.read_bytes().index(b"0", bench.records[0].phy_offset + 84)
    assert message.body == b"0"
    with bench.path.open("r+b") as file:
        file.seek(pos)
        file.write(b"Z")
    assert message.body == b"Z"


def mapped(path: Path) -> bool:
    return bool(re.search(re.escape(str(path)), Path("/proc/self/maps").read_text()))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc")
def test_whoever_holds_a_view_keeps_the_mapping(bench: Bench) -> None:
    result = bench.get(0, 3)
    message = result.messages[1]
    bench.files.replace([])
    bench.queues.close()
    bench.path.unlink()
    gc.collect()
    assert mapped(bench.path)
    result.release()
    assert result.messages == []
    assert len(result) == 0
    assert message.body == b"1"
    assert mapped(bench.path)
    del message
    gc.collect()
    assert not mapped(bench.path)


def test_a_with_block_lets_go(bench: Bench) -> None:
    with bench.get() as result:
        kept = result.messages
        assert len(result) == 32
    assert len(result) == 0
    assert result.status is GetMessageStatus.FOUND
    assert kept[0].body == b"0"


def test_arguments_of_the_wrong_type(bench: Bench) -> None:
    for wrong in (
        {"offset": "0"},
        {"offset": 1.5},
        {"most": None},
        {"max_bytes": "x"},
        {"tags": "G1"},
        {"files": None},
    ):
        with pytest.raises(TypeError):
            bench.get(**wrong)
    with pytest.raises(TypeError):
        GetResult()


# ---- golden -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CLEAN)
def test_the_answers_of_rocketmq(golden: Path, case: str) -> None:
    manifest = manifest_of(golden, case)
    config = config_of(manifest)
    root = golden / case / "store"
    queues = ConsumeQueues(StorePaths(root), config)
    queues.load()
    queues.recover()
    queues.correct_min_offsets(manifest["minPhyOffset"])
    size = config.mapped_file_size_commit_log
    names = sorted((root / "commitlog").iterdir())
    files = MappedFiles(size, [MappedFile(os.fspath(n), size, int(n.name)) for n in names])
    levels = DelayLevels(config.delay_levels_ms)
    assert manifest["getMessage"]
    for asked in manifest["getMessage"]:
        queue = queues.find(asked["topic"], asked["queueId"])
        limits = asked["offset"], asked["maxNum"], TagFilter(asked["filter"]), asked["maxTotalSize"]
        result = get_messages(queue, files, manifest["maxPhyOffset"], *limits, config, levels)
        got = {
            "status": result.status.name,
            "nextBeginOffset": result.next_begin_offset,
            "minOffset": result.min_offset,
            "maxOffset": result.max_offset,
            "bufferTotalSize": result.buffer_total_size,
            "physicalOffsets": [message.phy_offset for message in result],
        }
        assert got == {name: asked[name] for name in got}, asked
