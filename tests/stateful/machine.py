"""The store machine: random steps on a real store and on the model, which must never differ.

One example is the life of a directory: messages come, files roll, the process closes it or crashes, somebody damages what the
crash left, and it is opened again. The store runs without threads, so each of its steps is a rule here.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stateful import compare, crashes, messages
from support.oracle import records as oracle
from support.oracle.log import Log
from support.oracle.store import Image, ModelConfig, ModelMessage, ModelStore, NoLog, read_image

import rmqcore
from rmqcore._native.threads.bell import Bell
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import CommitLogMissingError
from rmqcore.offline.fsck import fsck
from rmqcore.vocabulary.status import PutMessageStatus

START_MS = 1_700_000_000_000
MEMORY = Path("/dev/shm")  # only what the file system does counts here, not the disk

configs = st.builds(
    ModelConfig,
    mapped_file_size_commit_log=st.sampled_from([4096, 4096, 8192, 16384]),
    mapped_file_size_consume_queue=st.sampled_from([200, 200, 41, 20]),
    max_hash_slot_num=st.just(8),
    max_index_num=st.sampled_from([20, 3]),
    max_message_size=st.sampled_from([2048, 4 << 20]),
    enabled_append_prop_crc=st.sampled_from([False, False, True]),
    force_verify_prop_crc=st.booleans(),
    check_crc_on_recover=st.sampled_from([True, True, False]),
    commit_log_recover_max_num=st.sampled_from([10, 10, 5]),
    message_index_enable=st.sampled_from([True, True, True, False]),
    message_index_safe=st.sampled_from([False, False, True]),
    enable_lmq=st.booleans(),
    enable_multi_dispatch=st.booleans(),
    flush_disk_type=st.sampled_from(["ASYNC_FLUSH", "ASYNC_FLUSH", "SYNC_FLUSH"]),
    max_filter_message_size=st.sampled_from([16_000, 60]),
    max_msgs_num_batch=st.sampled_from([64, 3]),
    access_message_in_memory_max_ratio=st.sampled_from([40, 0]),
    max_transfer_bytes_on_message_in_memory=st.sampled_from([256 * 1024, 700]),
    max_transfer_count_on_message_in_memory=st.sampled_from([32, 3]),
    max_transfer_count_on_message_in_disk=st.sampled_from([8, 2]),
).map(lambda c: c if c.enabled_append_prop_crc else replace(c, force_verify_prop_crc=False))
topics = st.sampled_from([*messages.TOPICS, "%LMQ%a", "%LMQ%b", "other", "nobody"])
queue_ids = st.sampled_from([0, 0, 1, 77, 2**31 - 1, -1])
near_offsets = st.integers(-2, 40) | st.sampled_from([-(2**63), 2**63 - 1, 2**70])
boundaries = st.sampled_from(["LOWER", "UPPER"])


class StoreMachine(RuleBasedStateMachine):
    """`store` is the real store in `root`, `model` says what it must be."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.generation = 0
        self.old_checkpoint: bytes | None = None
        self.cleaned_up_to = 0  # where the log began when queues and index were last cleaned
        self.unseen = (
            False  # a bit flipped where no checksum is: an offset in a record may be any number
        )
        self.whole = True  # nothing was done to this directory that recovery does not mend

    # ---- opening and closing ------------------------------------------------------------------------

    @initialize(config=configs)
    def begin(self, config: ModelConfig) -> None:
        self.config = config
        # A light queue that a message names twice, or beside an ordinary one, has gaps in Java too, which fsck reports.
        self.whole = not config.enable_lmq
        self.root = self.folder / "0"
        self.open_both({})

    def open_store(self, root: Path) -> MessageStore:
        return rmqcore.open(root, services=False, clock=lambda: self.now_ms, **vars(self.config))

    def open_both(self, image: Image) -> None:
        """Open `root`, whose files are `image`."""
        self.model = ModelStore.open(image, self.config)
        self.cleaned_up_to = 0
        self.store = self.open_store(self.root)
        self.heard: list[list[PutMessageStatus]] = []  # by who waits for the disk
        self.replicated = 0
        # Where each callback that waits for followers has its message's end, and what it has heard.
        self.heard_of_followers: list[tuple[int, list[PutMessageStatus]]] = []
        report, recovered = self.store.recovery, self.model.recovery
        assert report.clean_exit == recovered.clean_exit
        assert (report.end_phy_offset, report.cut_bytes) == (recovered.end, recovered.cut_bytes)
        self.model.adopt_queues(read_image(self.root))
        # How much is given to the index again is the recovery's to decide: an index takes nothing twice.
        self.model.index_from = min(self.model.index_from, self.store.reput_from_offset)
        if not report.clean_exit and not self.unseen:  # then all of so small a log is compared
            assert self.model.misplaced() == []
        # As in Java only so many of the newest files are looked at; messages before them that are in no queue stay so. If the
        # checkpoint names no offset (the first message's is 0) a later file of the same millisecond is believed to be older.
        self.whole = self.whole and not report.warnings and "the time" not in report.start_reason
        if not self.whole:  # how much of an index is made anew is then the recovery's to decide too
            self.model.adopt_index(read_image(self.root))
            self.model.index_from = self.store.reput_from_offset

    @rule()
    def close_and_open_again(self) -> None:
        self.close()
        self.open_both(read_image(self.root))
        assert self.store.recovery.cut_bytes == 0
        assert self.store.recovery.differing_entries == 0 or not self.whole

    def close(self) -> None:
        self.store.close()
        self.model.close()
        assert all(answers == [PutMessageStatus.PUT_OK] for answers in self.heard)
        unknown = PutMessageStatus.UNKNOWN_ERROR
        for end, answers in self.heard_of_followers:
            assert answers == [PutMessageStatus.PUT_OK if end <= self.replicated else unknown]
        compare.same_files(self.model, self.root)
        self.check_checkpoint()
        if self.whole and self.model.log.files:
            found = fsck(self.root)
            assert found.exit_code == 0, [str(finding) for finding in found.findings]

    def check_checkpoint(self) -> None:
        """After a clean exit the checkpoint says that everything is on disk, and no more."""
        values = oracle.decode_checkpoint((self.root / "checkpoint").read_bytes())
        log = self.model.log
        times = [record.store_timestamp_ms for _, record in log.records(log.min_offset, log.end)]
        assert not (self.root / "abort").exists()
        assert 0 <= values["logics_physical_offset"] <= log.end
        assert values["confirm_phy_offset"] <= log.end
        if times and self.whole:
            assert values["physic_msg_timestamp_ms"] in (0, *times)
            assert values["logics_msg_timestamp_ms"] in (0, *times)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.close()
        finally:
            if hasattr(self, "store"):  # an example can end before `begin`
                self.store.close()
            shutil.rmtree(self.folder)

    # ---- crashes ------------------------------------------------------------------------------------

    def copy(self) -> Image:
        """What is on disk at this moment, if only the process dies."""
        checkpoint = self.root / "checkpoint"
        if checkpoint.exists():
            self.old_checkpoint = checkpoint.read_bytes()
        return read_image(self.root)

    def check_copy(self, image: Image) -> None:
        """Nothing that was acknowledged is missing in a copy."""
        for start, data in self.model.log.files.items():
            used = max(0, min(self.model.log.end - start, len(data)))
            if used:
                assert image[f"commitlog/{start:020}"][:used] == data[:used]
        assert "abort" in image

    def go_on_with(self, image: Image) -> None:
        """The store is gone; from now on `root` is a directory with these files."""
        self.store.close()
        self.generation += 1
        self.root = self.folder / str(self.generation)
        crashes.write_image(image, self.root)
        try:
            self.open_both(image)
        except NoLog:
            with pytest.raises(CommitLogMissingError):
                self.open_store(self.root)
            shutil.rmtree(self.root)
            self.open_both({})

    @rule()
    def crash(self) -> None:
        image = self.copy()
        self.check_copy(image)
        end = self.model.log.end
        self.go_on_with(image)
        assert self.model.log.end == end
        assert self.store.recovery.cut_bytes == 0

    @rule(data=st.data(), kinds=crashes.kinds)
    def crash_with_damage(self, data: st.DataObject, kinds: list[str]) -> None:
        image = self.copy()
        log = self.model.log
        flushed = min(self.model.flushed, log.end)
        next_offset = self.model.next_offsets.get(("T", 0), 0)
        damage = crashes.Damage(image, log.file_size, flushed, log.end, next_offset)
        for kind in kinds:
            damage.do(kind, data.draw, self.old_checkpoint)
        # Headers and properties have a checksum only if the configuration says so, the size in a BLANK never.
        unseen = {"flipped", "misplaced", "zeros_between"}
        if not (self.config.force_verify_prop_crc and self.config.check_crc_on_recover):
            unseen.add("torn")
        self.whole = self.whole and not (crashes.NOT_MENDED | unseen).intersection(kinds)
        older = self.unseen  # a recovery that begins earlier than the one before it may meet an old flip for the first time
        self.unseen = older or bool(unseen.intersection(kinds))
        self.go_on_with(image)
        if "no_first_file" not in kinds and not older:
            assert self.model.log.end >= flushed
        if not self.unseen:
            self.check_prefix(log)

    @rule(data=st.data(), dispatched=st.sampled_from(["all", "some", "nothing"]))
    def power_cut(self, data: st.DataObject, dispatched: str) -> None:
        """New messages, some in queues and index already, of which the end does not get to the disk."""
        self.put_many(data)
        if dispatched == "all":
            self.dispatch()
        elif dispatched == "some":
            self.dispatch_some(data)
        others = st.sampled_from([[], [], ["no_abort"], ["hole"], ["no_index"], ["no_queue"]])
        log_damage = st.sampled_from(crashes.LOG_DAMAGE)
        self.crash_with_damage(data, [data.draw(log_damage), *data.draw(others)])

    def check_prefix(self, before: Log) -> None:
        """What is there after a crash is the beginning of what was there before."""
        end = min(before.end, self.model.log.end)
        for start, data in self.model.log.files.items():
            assert data[: end - start] == before.files.get(start, data)[: end - start]

    @rule()
    def crash_between_queues_and_index(self) -> None:
        """The process dies in the middle of a dispatch: queues have what the index has not."""
        dispatcher, taken = self.store._parts.dispatcher, list[Image]()
        index = dispatcher._index
        copy = self.copy

        class Watched:
            def put_batch(self, *batch: Any) -> None:
                taken.append(copy())
                assert index is not None
                index.put_batch(*batch)

        dispatcher._index = Watched()
        try:
            self.store.dispatch_once()
        finally:
            dispatcher._index = index
        self.model.dispatch()
        if taken:
            self.go_on_with(taken[0])

    @rule()
    def open_twice(self) -> None:
        """An open that crashes at once: the next one finds nothing to do, and leaves all files as they are."""
        self.crash()
        files = compare.directory(self.root)
        self.crash()
        assert self.store.recovery.cut_bytes == 0
        assert compare.directory(self.root) == files

    # ---- puts ---------------------------------------------------------------------------------------

    @rule(passed=st.sampled_from([0, 0, 1, 999, 1000, 4321, 60_000, -1500]))
    def time_passes(self, passed: int) -> None:
        self.now_ms += passed

    @rule(data=st.data())
    def put(self, data: st.DataObject) -> None:
        given = data.draw(messages.any_message(self.config))
        want = self.model.put(given, self.now_ms)
        compare.same_put(want, self.store.put(messages.to_message(given)))

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        """Without a wait; who asks is told at once what is on disk, else by the next flush."""
        given = data.draw(messages.any_message(self.config))
        want = self.model.append(given, self.now_ms)
        result = self.store.append(messages.to_message(given))
        compare.same_put(want, result)
        end = data.draw(st.integers(0, self.model.log.end))
        answers: list[PutMessageStatus] = []
        self.store.on_flushed(end, answers.append)
        assert answers == [PutMessageStatus.PUT_OK] * (end <= self.model.flushed)
        self.heard.append(answers)

    @rule(data=st.data())
    def put_batch(self, data: st.DataObject) -> None:
        given = data.draw(messages.batches(self.config))
        want = self.model.put_batch(given, self.now_ms)
        compare.same_put(
            want, self.store.put_batch([messages.to_message(message) for message in given])
        )

    @rule(data=st.data())
    def put_many(self, data: st.DataObject) -> None:
        given = data.draw(st.lists(messages.any_message(self.config), max_size=30))
        want = self.model.put_many(given, self.now_ms)
        compare.same_puts(
            want, self.store.put_many([messages.to_message(message) for message in given])
        )

    @rule(data=st.data())
    def put_arrow(self, data: st.DataObject) -> None:
        given = data.draw(st.lists(messages.any_message(self.config), max_size=30))
        want = self.model.put_many(given, self.now_ms, to_light=False)
        compare.same_puts(want, self.store.put_arrow(messages.to_table(given)))

    @rule(
        count=st.integers(10, 60),
        body_len=st.sampled_from([0, 40, 300]),
        queues=st.sampled_from([1, 1, 3]),
    )
    def put_much(self, count: int, body_len: int, queues: int) -> None:
        """Enough to fill files of all kinds."""
        given = [
            ModelMessage(
                "T",
                b"m" * (body_len + i % 7),
                i % queues,
                {"TAGS": "AB"[i % 2], "KEYS": f"k{i % 5}"},
            )
            for i in range(count)
        ]
        want = self.model.put_many(given, self.now_ms)
        compare.same_puts(
            want, self.store.put_many([messages.to_message(message) for message in given])
        )

    @rule(left=st.sampled_from([0, 7, 8, 9, 90, 98, 99, 100, 107]))
    def fill_the_file(self, left: int) -> None:
        """A message that leaves just so many bytes of the file, or goes to the next file because they are too few."""
        log = self.model.log
        room = log.file_size - log.end % log.file_size
        size = room - left - 92 - (20 if self.config.enabled_append_prop_crc else 0)
        if size >= 0:
            given = ModelMessage("T", b"f" * size)
            want = self.model.put(given, self.now_ms)
            compare.same_put(want, self.store.put(messages.to_message(given)))

    @rule(data=st.data())
    def wait_for_followers(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(0, self.model.log.end))
        answers: list[PutMessageStatus] = []
        self.store.on_replicated(end, answers.append, 3_600_000)
        self.heard_of_followers.append((end, answers))
        self.check_replicated()

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        """Followers report any offset of the log, also one that is lower than before."""
        phy_offset = data.draw(st.integers(0, self.model.log.end))
        self.store.replicated(phy_offset)
        self.replicated = max(self.replicated, phy_offset)
        self.check_replicated()

    def check_replicated(self) -> None:
        assert self.store.replicated_offset == self.replicated
        for end, answers in self.heard_of_followers:
            assert answers == [PutMessageStatus.PUT_OK] * (end <= self.replicated)

    # ---- steps --------------------------------------------------------------------------------------

    @rule()
    def flush(self) -> None:
        self.model.flush()
        assert self.store.flush() == self.model.flushed
        assert all(answers == [PutMessageStatus.PUT_OK] for answers in self.heard)

    @rule()
    def flush_consume_queues(self) -> None:
        """The checkpoint may say no more of the queues than the log has on disk, so that is synced too."""
        self.store.flush_consume_queues()
        self.store.write_checkpoint()
        self.model.flush()
        self.copy()

    @rule()
    def prepare_space(self) -> None:
        while self.store.prepare_space():
            pass

    @rule()
    def dispatch(self) -> None:
        behind = self.model.behind
        self.model.dispatch()
        done = self.store.dispatch_once()
        # Behind a damaged queue offset, which no checksum covers, dispatch goes back to look for what is missing.
        assert done == behind or (done > behind and not self.whole)
        assert self.store.dispatch_behind_bytes == 0

    @rule(follow=st.booleans())
    def dispatch_until(self, follow: bool) -> None:
        self.model.dispatch()
        while self.store.dispatch_until(Bell(), follow=follow):
            pass
        assert self.store.dispatch_behind_bytes == 0

    @rule()
    def wait_dispatched(self) -> None:
        self.model.dispatch()
        assert self.store.wait_dispatched(60)

    @rule()
    def delete_expired(self) -> None:
        """Entries of messages that the log has lost, as a cleaner does it."""
        at = self.model.log.min_offset
        queues = sum(queue.delete_expired(at) for queue in self.model.queues.values())
        assert len(self.store._queues.delete_expired(at)) == queues
        assert len(self.store._index.delete_expired(at)) == self.model.indexes.delete_expired(at)

    @rule(expired=st.integers(0, 12))
    def clean(self, expired: int) -> None:
        """A round of cleaning, after the oldest files were not changed for longer than they are kept."""
        model, log = self.model, self.model.log
        for number, start in enumerate(log.starts):
            path = self.root / "commitlog" / f"{start:020}"
            if path.exists():
                changed = self.now_ms / 1000 - (1e6 if number < expired else 0)
                os.utime(path, (changed, changed))
        done_up_to = min(model.flushed, model.reput_from, log.end - 1)
        for start in log.starts[: min(expired, self.store.config.delete_file_batch_max)]:
            if start + log.file_size > done_up_to:
                break
            del log.files[start]
            model.flush()  # before the first deletion
        if log.min_offset > self.cleaned_up_to:
            for queue in model.queues.values():
                queue.delete_expired(log.min_offset)
            model.indexes.delete_expired(log.min_offset)
            self.cleaned_up_to = log.min_offset
        self.store.execute_delete_files_manually()
        report = self.store.clean_once(now_ms=self.now_ms, disk_ratio=0, pause=lambda _: False)
        assert report.min_phy_offset == log.min_offset

    @rule(data=st.data())
    def dispatch_some(self, data: st.DataObject) -> None:
        """Up to the end of some record, as if the log had ended there when the step began."""
        ends = [
            at + (record.msg_size or 0)
            for at, record in self.model.log.records(
                max(self.model.reput_from, self.model.log.min_offset), self.model.confirm_offset
            )
        ]
        if ends:
            end = data.draw(st.sampled_from(ends))
            self.model.dispatch(end)
            self.store._parts.dispatcher.dispatch_once(end)

    # ---- questions ----------------------------------------------------------------------------------

    @rule(
        topic=topics,
        queue_id=queue_ids,
        offset=near_offsets,
        most=st.sampled_from([1, 2, 32, 100]),
        tags=st.sampled_from([None, None, "*", "A", "Aa", "A || BB", "none"]),
        max_bytes=st.sampled_from([None, None, 0, 100, 500]),
    )
    def get(self, **ask: Any) -> None:
        names = "topic", "queue_id", "offset", "most", "tags", "max_bytes"
        compare.same_get(self.model, self.store, *(ask[name] for name in names))

    @rule(data=st.data(), tags=st.sampled_from([None, "A", "Aa"]))
    def get_what_is_there(self, data: st.DataObject, tags: str | None) -> None:
        places = sorted(self.model.queues)
        if places:
            topic, queue_id = data.draw(st.sampled_from(places))
            last = self.model.max_offset(topic, queue_id)
            offset = data.draw(st.integers(0, last))
            compare.same_get(self.model, self.store, topic, queue_id, offset, 32, tags, None)

    @rule(
        topic=topics,
        key=st.sampled_from(["k1", "k2", "Aa", "BB", "u1", "T#A", "A", "𝕜", ""]),
        most=st.sampled_from([0, 1, 3, 32, 100]),
        begin_ms=st.sampled_from([0, START_MS, START_MS + 5000]),
        end_ms=st.sampled_from([None, None, START_MS + 5000, START_MS + 100_000, 0]),
        index_type=st.sampled_from([None, None, "T", "K", "U"]),
    )
    def query(self, **ask: Any) -> None:
        names = "topic", "key", "most", "begin_ms", "end_ms", "index_type"
        compare.same_query(self.model, self.store, *(ask[name] for name in names))

    @rule(data=st.data())
    def lookup(self, data: st.DataObject) -> None:
        log = self.model.log
        starts = [at for at, _ in log.records(log.min_offset, log.end)]
        near = st.integers(log.min_offset - 1, log.end + 100) | st.sampled_from(
            [-1, 2**63 - 1, 2**70]
        )
        at = data.draw(st.sampled_from(starts) | near if starts else near)
        compare.same_lookup(self.model, self.store, at)

    @rule(
        data=st.data(),
        boundary=boundaries,
        passed=st.integers(-2, 40).map(lambda seconds: seconds * 333)
        | st.sampled_from([-START_MS, 2**62]),
    )
    def offset_by_time(self, data: st.DataObject, boundary: str, passed: int) -> None:
        places = [*sorted(self.model.queues), ("nobody", 0)]
        place = data.draw(st.sampled_from(places))
        times = {
            record.store_timestamp_ms
            for _, record in self.model.log.records(self.model.log.min_offset, self.model.log.end)
        }
        at_ms = data.draw(st.sampled_from([START_MS + passed, *sorted(times)]))
        want = self.model.offset_by_time(*place, at_ms, boundary)
        compare.agree("offset", self.store.offset_by_time(*place, at_ms, boundary), want)

    @rule(topic=topics, queue_id=queue_ids, offset=near_offsets)
    def phy_offset_of(self, topic: str, queue_id: int, offset: int) -> None:
        want = self.model.phy_offset_of(topic, queue_id, offset)
        compare.agree("phy_offset", self.store.phy_offset_of(topic, queue_id, offset), want)

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def same_offsets(self) -> None:
        compare.same_offsets(self.model, self.store)
