"""ConsumeQueues against the slow model: what is put, cut, deleted, damaged and opened again gives the same queues and files."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.doses import examples
from support.oracle import records as oracle
from support.oracle.queue import ENTRY, Queue
from support.stores.index_batches import lay_out, quick_folder
from support.stores.queue_batches import batches, column_scan, open_queues, queue_files, record

from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.queries.time_search import Boundary, offset_by_time

PER_FILE = 4
PLACES = [("A", 0), ("A", 1), ("%LMQ%x", 0), ("日本", 7)]
TYPES = [0, 0, 0, 0x8, 0x4, 0xC]

places = st.sampled_from(PLACES)
# How far a record's queue offset is from the end of its queue; 0 is what a healthy log has.
offsets_off = st.sampled_from([0, 0, 0, 0, 0, -1, -3, 1, 2, 5, 11, 40])
covered = st.just(-1) | st.integers(0, 5000)
rows = st.lists(
    st.tuples(places, offsets_off, st.sampled_from(TYPES), st.integers(0, 40)), max_size=25
)


class QueuesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = quick_folder()
        self.root = Path(self.folder.name)
        self.queues = open_queues(self.root, PER_FILE)
        self.model: dict[tuple[str, int], Queue] = {}
        self.log_end = 100
        self.behind = False

    def teardown(self) -> None:
        self.queues.close()
        self.folder.cleanup()

    def of(self, place: tuple[str, int]) -> Queue:
        return self.model.setdefault(place, Queue(PER_FILE * ENTRY, place[0]))

    def drop_behind(self) -> None:
        if self.behind:
            self.behind = False
            for queue in self.model.values():
                queue.drop_behind()

    # ---- putting ----

    @rule(
        rows=rows,
        batch_rows=st.sampled_from([1, 2, 7, 100]),
        skipped=st.integers(0, 4),
        covered_from=covered,
    )
    def put_batches(
        self, rows: list[Any], batch_rows: int, skipped: int, covered_from: int
    ) -> None:
        """Records of a log, the first of which are below the offset from which on they are wanted.

        A batch that the queues do not take before they have seen more of the log is given as if there were no more.
        """
        ends = {place: queue.max_offset for place, queue in self.model.items()}
        records = []
        for place, off, sys_flag, size in rows:
            queue_offset = max(0, ends.get(place, 0) + off)
            if sys_flag in (0, 0x8):
                ends[place] = queue_offset + 1
            topic, queue_id = place
            new = record(
                topic,
                queue_id,
                queue_offset,
                0,
                tags=f"T{size % 3}",
                sys_flag=sys_flag,
                body=bytes(size),
            )
            records.append(new)
        records = lay_out(records, self.log_end)
        begin = records[min(skipped, len(records) - 1)].phy_offset if records else 0
        if records:
            self.drop_behind()
            self.log_end = records[-1].phy_offset + (records[-1].msg_size or 0)
        for part in batched(records, batch_rows):
            want = self.put_part(part, begin, covered_from)
            assert put_part(self.queues, part, begin, covered_from) == want
            if want is not None:
                assert self.put_part(part, begin, -1) is None
                assert put_part(self.queues, part, begin, -1) is None

    def put_part(self, part: list[oracle.Record], begin: int, covered_from: int) -> int | None:
        """Put a batch into the model; answer how far back it has to be given the log, and change nothing then."""
        before = copy.deepcopy(self.model)
        answers = [
            self.of((oracle.text_of(row.topic), row.queue_id)).put(
                row.phy_offset, row.msg_size or 0, tags_code(row), row.queue_offset, covered_from
            )
            for row in part
            if row.phy_offset >= begin and row.sys_flag in (0, 0x8)
        ]
        back_to = min((answer for answer in answers if answer is not None), default=None)
        if back_to is not None:
            self.model = {
                place: before.get(place, Queue(PER_FILE * ENTRY, place[0])) for place in self.model
            }
        return back_to

    @rule(
        place=places,
        phy_offset=st.integers(0, 5000),
        size=st.integers(1, 300),
        code=st.integers(-(1 << 63), (1 << 63) - 1),
        queue_offset=st.integers(0, 40),
        covered_from=covered,
    )
    def put_entry(
        self,
        place: tuple[str, int],
        phy_offset: int,
        size: int,
        code: int,
        queue_offset: int,
        covered_from: int,
    ) -> None:
        self.drop_behind()
        entry = phy_offset, size, code, queue_offset, covered_from
        want = self.of(place).put(*entry)
        assert self.queues.put_entry(*place, *entry) == want

    # ---- the log's ends move ----

    @rule(log_min=st.integers(0, 6000))
    def correct_min_offsets(self, log_min: int) -> None:
        self.queues.correct_min_offsets(log_min)
        for queue in self.model.values():
            queue.correct_min(log_min)

    @rule(log_min=st.integers(0, 6000))
    def delete_expired(self, log_min: int) -> None:
        deleted = len(self.queues.delete_expired(log_min))
        assert deleted == sum(queue.delete_expired(log_min) for queue in self.model.values())

    @rule(back=st.sampled_from([0, 1, 50, 200, 1000, 100_000]))
    def truncate(self, back: int) -> None:
        limit = max(0, self.log_end - back)
        newest = max((queue.max_phy for queue in self.model.values()), default=-1)
        cut = 0
        if newest >= limit:
            cut = sum(queue.truncate(limit) for queue in self.model.values())
        for queue in self.model.values():
            queue.drop_behind()
        self.behind = False
        assert self.queues.truncate(limit) == cut
        self.log_end = max(100, limit)

    @rule()
    def destroy_all(self) -> None:
        self.queues.destroy_all()
        self.model = {place: Queue(PER_FILE * ENTRY, place[0]) for place in self.model}
        self.behind = False

    @rule(least_pages=st.integers(0, 2))
    def flush(self, least_pages: int) -> None:
        self.queues.flush(least_pages)

    # ---- opening again ----

    @rule(
        damage=st.lists(
            st.tuples(
                places,
                st.integers(0, 30),
                st.sampled_from([(0, 0, 0), (0, -1, 5), (7, 9, 11), (1 << 50, 1, 0)]),
            ),
            max_size=2,
        ),
    )
    def reopen(self, damage: list[tuple[tuple[str, int], int, tuple[int, int, int]]]) -> None:
        """As after a kill: entries may be damaged, also behind the end; what was in memory is gone."""
        self.queues.close()
        for place, number, entry in damage:
            self._damage(place, number, entry)
        kept = {}
        for place, queue in self.model.items():
            if queue.files:
                kept[place] = replace(queue, min_logic=0, ahead=None)
                kept[place].recover()
        before = queue_files(self.root)
        self.model = kept
        self.behind = True
        self.queues = open_queues(self.root, PER_FILE)
        assert queue_files(self.root) == before  # recovery reads

    def _damage(self, place: tuple[str, int], number: int, entry: tuple[int, int, int]) -> None:
        queue = self.model.get(place)
        if queue is None or not queue.files:
            return
        start = max(queue.files) if number < 20 else min(queue.files)
        pos = number % PER_FILE * ENTRY
        oracle.CQ_ENTRY.pack_into(queue.files[start], pos, *entry)
        path = self.root / "consumequeue" / place[0] / str(place[1]) / f"{start:020d}"
        path.write_bytes(queue.files[start])

    # ---- what must hold ----

    @invariant()
    def the_same_queues(self) -> None:
        assert set(self.queues.queues()) >= set(self.model)
        for place, model in self.model.items():
            queue = self.queues.find(*place)
            assert queue is not None
            assert (queue.min_offset, queue.max_offset) == (model.min_offset, model.max_offset)
            assert queue.max_phy_offset == model.max_phy
            for queue_offset in range(-1, model.max_offset + 2):
                assert queue.get_entry(queue_offset) == model.entry(queue_offset)
            first = model.starts[0] // ENTRY if model.starts else 0
            found = queue.entries(first, 1000).tolist()
            assert found == [model.read(*divmod_file(q)) for q in range(first, model.max_offset)]
        assert self.queues.max_phy_offset == max([-1, *(q.max_phy for q in self.model.values())])

    @invariant()
    def the_same_files(self) -> None:
        want = {
            place: {start: bytes(data) for start, data in queue.files.items()}
            for place, queue in self.model.items()
            if queue.files
        }
        assert queue_files(self.root) == want

    @rule(
        place=places,
        timestamp=st.integers(-1, 130),
        boundary=st.sampled_from(Boundary),
        log_min=st.integers(0, 4000),
    )
    def offset_by_time(
        self, place: tuple[str, int], timestamp: int, boundary: Boundary, log_min: int
    ) -> None:
        """Times that rise with the log, with equal ones, and messages that cannot be read."""
        queue, model = self.queues.find(*place), self.model.get(place)
        if queue is None or model is None:
            return

        def time_of(phy_offset: int) -> int:
            return -1 if phy_offset < 0 or phy_offset % 11 == 10 else phy_offset // 100

        found = offset_by_time(
            queue, queue.min_offset, queue.max_offset, log_min, timestamp, boundary, time_of
        )
        if model.min_offset >= model.max_offset:  # all its messages are gone; Java throws
            assert found == model.max_offset
            return
        want = model.offset_by_time(
            timestamp,
            boundary is Boundary.UPPER,
            log_min,
            lambda phy, size: -1 if size == oracle.CQ_FILLER[1] else time_of(phy),
        )
        assert found == want


def batched(records: list[oracle.Record], count: int) -> list[list[oracle.Record]]:
    return [records[at : at + count] for at in range(0, len(records), count)]


def tags_code(row: oracle.Record) -> int:
    read = oracle.decode_record(oracle.encode_record(row))
    assert isinstance(read, oracle.Record)
    return read.tags_code


def put_part(
    queues: ConsumeQueues, part: list[oracle.Record], begin: int, covered_from: int
) -> int | None:
    columns = column_scan()
    (batch,) = batches(columns, part)
    return queues.put_batch(columns, batch, begin, covered_from)


def divmod_file(queue_offset: int) -> tuple[int, int]:
    """Start of the file that holds an entry, and the byte in it."""
    number, place = divmod(queue_offset, PER_FILE)
    return number * PER_FILE * ENTRY, place * ENTRY


def test_the_search_for_the_begin_starts_where_it_was_before_files_went(tmp_path: Path) -> None:
    """Java's search is told the old begin, and passes over a living entry in front of a hole; ours was told the first file's."""
    queues, model = open_queues(tmp_path, PER_FILE), Queue(PER_FILE * ENTRY, "A")
    for queue_offset in (*range(9), 10):  # 9 is missing: a filler
        phy_offset = 100 + 100 * queue_offset
        entry = phy_offset, 50, 0, queue_offset, -1
        assert queues.put_entry("A", 0, *entry) == model.put(*entry)
    assert len(queues.delete_expired(850)) == model.delete_expired(850) == 2
    queue = queues.find("A", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset) == (model.min_offset, model.max_offset) == (10, 11)


QueuesMachine.TestCase.settings = settings(examples(0.6), stateful_step_count=25)
TestQueues = QueuesMachine.TestCase
