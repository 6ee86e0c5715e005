"""Recovery as a whole: Java's offsets and queue bytes, nothing lost in silence, the same end wherever it is killed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import records as oracle
from support.stores.built_store import QUEUE_ENTRIES, BuiltStore
from support.stores.index_batches import quick_folder

from rmqcore.config import MessageStoreConfig
from rmqcore.config.broker_conf import snake_case
from rmqcore.disk import checkpoint as checkpoint_module
from rmqcore.disk.checkpoint import CheckpointFile, StoreCheckpoint, read_checkpoint
from rmqcore.disk.log_window import WholeFile
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues import queue_places
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery import cut as recovery_cut
from rmqcore.engine.recovery import recovery
from rmqcore.engine.recovery import sync as recovery_sync
from rmqcore.engine.recovery.recovery import (
    RecoveryPlan,
    RecoveryReport,
    plan_recovery,
    recover,
)
from rmqcore.errors import CommitLogMissingError
from rmqcore.offline.fsck import fsck

if TYPE_CHECKING:
    from conftest import StoreCopy

CRASHES = """
    cp90 cq_garbage cq_hole expired flipped flipped_clean_exit garbage_tail last_file_missing no_checkpoint no_cq no_cq_clean_exit
    no_index no_index_clean_exit old_checkpoint running_copy stale_tail torn torn_clean_exit zero_checkpoint
""".split()
HEALED = "no_cq", "no_cq_clean_exit"
FILE_SIZE = 1024
CONFIG = MessageStoreConfig(
    mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=20 * QUEUE_ENTRIES
)


def never(error: OSError) -> None:
    raise error


@dataclass
class Opened:
    """A store as far as recovery opens it."""

    root: Path
    config: MessageStoreConfig = CONFIG

    def __post_init__(self) -> None:
        self.paths = StorePaths(self.root)
        self.log = CommitLog(self.paths, self.config, on_failure=never)
        self.log.load()
        self.queues = ConsumeQueues(self.paths, self.config)
        self.queues.load()
        self.queues.recover()
        self.checkpoint = CheckpointFile(self.paths.checkpoint)
        self.clean_exit = not self.paths.abort.exists()

    def plan(self) -> RecoveryPlan:
        return plan_recovery(
            self.log, self.queues, self.checkpoint.values, self.config, clean_exit=self.clean_exit
        )

    def recover(self) -> RecoveryReport:
        try:
            return recover(
                self.paths,
                self.config,
                self.log,
                self.queues,
                self.checkpoint,
                clean_exit=self.clean_exit,
            )
        finally:
            self.queues.close()

    def range(self, topic: str, queue_id: int) -> tuple[int, int]:
        queue = self.queues.find(topic, queue_id)
        assert queue is not None
        return queue.min_offset, queue.max_offset


def tree(root: Path, *parts: str) -> dict[str, bytes]:
    folders = [root / part for part in parts] or [root]
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def data(root: Path) -> dict[str, bytes]:
    return tree(root, "commitlog", "consumequeue")


# ---- against Java -----------------------------------------------------------------------------------


def java_config(manifest: dict[str, Any]) -> MessageStoreConfig:
    known = manifest["storeConfig"].items()
    return MessageStoreConfig(**{snake_case(n): v for n, v in known if n != "enableCompaction"})


@pytest.mark.parametrize("case", CRASHES)
def test_offsets_and_queues_are_javas(golden: Path, store_copy: StoreCopy, case: str) -> None:
    folder = golden / f"crash_{case}"
    manifest = json.loads((folder / "manifest.json").read_text())
    root = store_copy(f"crash_{case}", "input")
    config = java_config(manifest)
    store = Opened(root, config)
    report = store.recover()
    assert report.end_phy_offset == manifest["maxPhyOffset"]
    assert report.min_phy_offset == manifest["minPhyOffset"]
    confirmed = manifest["recoveredCheckpoint"]["confirmPhyOffset"]
    assert report.confirm_phy_offset == confirmed
    assert store.checkpoint.values.confirm_phy_offset == confirmed
    for queue in manifest["queues"]:
        place = queue["topic"], queue["queueId"]
        if (
            case in HEALED
        ):  # Java's recovery makes entries for the messages of the newest files alone
            assert store.range(*place) == (0, queue["maxOffset"])
            continue
        assert store.range(*place) == (queue["minOffset"], queue["maxOffset"])
        assert store.log.next_queue_offset(*place) == queue["maxOffset"]
        folder_name = f"consumequeue/{place[0]}/{place[1]}"
        java = tree(folder / "recovered", folder_name)
        for name, content in java.items():
            limit = queue["maxOffset"] * 20 - int(name[-20:])
            begin = max(0, queue["minOffset"] * 20 - int(name[-20:]))
            if limit > begin:
                assert (root / name).read_bytes()[begin:limit] == content[begin:limit]
    for name, content in tree(folder / "recovered", "commitlog").items():
        limit = max(0, manifest["maxPhyOffset"] - int(name[-20:]))
        assert (root / name).read_bytes()[:limit] == content[:limit]
    assert sorted(os.listdir(root / "commitlog")) == sorted(
        os.listdir(folder / "recovered" / "commitlog")
    )
    assert [f for f in fsck(root).findings if f.kind.startswith("cq")] == []
    before = data(root)
    again = Opened(root, config).recover()
    assert again.end_phy_offset == report.end_phy_offset
    assert (again.cut_bytes, again.truncated_entries, again.differing_entries) == (0, 0, 0)
    assert data(root) == before


@pytest.mark.parametrize(
    "case", "basic batch compressed delay ipv6 lmq longtopic propcrc transaction".split()
)
def test_a_clean_store_stays_as_it_is(store_copy: StoreCopy, golden: Path, case: str) -> None:
    root = store_copy(case)
    manifest = json.loads((golden / case / "manifest.json").read_text())
    before = data(root)
    store = Opened(root, java_config(manifest))
    report = store.recover()
    assert data(root) == before
    assert (report.cut_bytes, report.healed_entries, report.truncated_entries) == (0, 0, 0)
    assert (report.differing_entries, report.filled_entries) == (0, 0)
    assert not report.warnings
    assert not (root / "cut").exists()
    for queue in manifest["queues"]:
        assert store.range(queue["topic"], queue["queueId"]) == (
            queue["minOffset"],
            queue["maxOffset"],
        )


# ---- what is cut ------------------------------------------------------------------------------------


def built(root: Path, count: int = 40, *, abort: bool = True) -> BuiltStore:
    store = BuiltStore(root, log_file_size=FILE_SIZE).fill(count)
    store.write(abort=abort)
    return store


def test_what_is_cut_is_kept_and_counted(tmp_path: Path) -> None:
    store = built(tmp_path)
    bad = store.records[-4]
    log = bytes(store.log)
    store.change_log(bad.phy_offset + 4, b"\0")
    report = Opened(tmp_path).recover()
    assert report.end_phy_offset == bad.phy_offset
    assert report.cut_bytes == len(log) - bad.phy_offset
    assert report.cut_path == str(tmp_path / "cut")
    assert "MAGIC" in report.stop_reason
    assert f"cut {report.cut_bytes} bytes" in str(report)
    (kept,) = report.cut_files
    assert Path(kept).name == f"{bad.phy_offset:020}"
    wanted = bytearray(log[bad.phy_offset :])
    wanted[4] = 0
    assert Path(kept).read_bytes() == wanted
    assert (report.truncated_entries, report.queues) == (4, 4)
    again = Opened(tmp_path).recover()
    assert (again.cut_bytes, again.cut_path, again.cut_files) == (0, None, ())


def test_a_stale_record_is_no_message_unless_java_is_asked_for(tmp_path: Path) -> None:
    for on in (True, False):
        root = tmp_path / str(on)
        store = built(root)
        end = len(store.log)
        old = store.records[3]
        raw = bytes(store.log[old.phy_offset :][: old.msg_size])
        store.change_log(end, raw)
        config = replace(CONFIG, check_commit_log_offset_on_recover=on)
        report = Opened(root, config).recover()
        assert report.end_phy_offset == (end if on else end + len(raw))
        assert report.cut_bytes == (len(raw) if on else 0)


@pytest.mark.parametrize("abort", [True, False])
def test_a_plan_changes_nothing_and_is_what_is_done(tmp_path: Path, abort: bool) -> None:
    store = built(tmp_path, abort=abort)
    store.change_log(store.records[-2].phy_offset + 89, b"garbage")
    before = tree(tmp_path)
    opened = Opened(tmp_path)
    plan = opened.plan()
    opened.queues.close()
    assert tree(tmp_path) == before
    assert plan.loses_something
    report = Opened(tmp_path).recover()
    assert plan.end_phy_offset == report.end_phy_offset == store.records[-2].phy_offset
    assert plan.cut_bytes == report.cut_bytes > 0
    assert len(plan.truncated_queues) == 2
    assert json.loads(json.dumps(plan.as_dict()))["cut_bytes"] == plan.cut_bytes
    assert json.loads(json.dumps(report.as_dict()))["end_phy_offset"] == report.end_phy_offset


def test_without_damage_a_plan_loses_nothing(tmp_path: Path) -> None:
    built(tmp_path).write_checkpoint(logics_physical_offset=1)
    opened = Opened(tmp_path)
    plan = opened.plan()
    opened.queues.close()
    assert not plan.loses_something
    assert plan.differing_entries == 0
    assert plan.findings.compared_records == 40


def test_an_empty_last_file_of_a_crash_between_two_calls(tmp_path: Path) -> None:
    store = built(tmp_path)
    empty = tmp_path / "commitlog" / f"{-(-len(store.log) // FILE_SIZE) * FILE_SIZE:020}"
    empty.touch()
    assert Opened(tmp_path).recover().end_phy_offset == len(store.log)
    assert not empty.exists()


def test_files_made_ahead_are_deleted_and_not_counted(tmp_path: Path) -> None:
    store = built(tmp_path)
    ahead = tmp_path / "commitlog" / f"{-(-len(store.log) // FILE_SIZE) * FILE_SIZE:020}"
    ahead.write_bytes(bytes(FILE_SIZE))
    opened = Opened(tmp_path)
    report = opened.recover()
    assert (report.cut_bytes, report.removed_files) == (0, (str(ahead),))
    assert not ahead.exists()
    assert opened.log.files.end_offset == int(ahead.name)


# ---- what is missing --------------------------------------------------------------------------------


def test_no_log_but_queues_is_refused(tmp_path: Path) -> None:
    """The CommitLog's disk is not mounted: Java would delete all queues and begin at offset 0."""
    built(tmp_path, abort=False)
    (tmp_path / "commitlog").rename(tmp_path / "elsewhere")
    before = tree(tmp_path)
    for make in (False, True):
        if make:
            (tmp_path / "commitlog").mkdir()
        with pytest.raises(CommitLogMissingError, match="no CommitLog file") as caught:
            Opened(tmp_path).recover()
        assert str(caught.value).startswith(f"{tmp_path / 'commitlog'}: ")
        assert "recover_without_commit_log" in caught.value.hint
        assert tree(tmp_path) == before
    config = replace(CONFIG, recover_without_commit_log=True)
    report = Opened(tmp_path, config).recover()
    assert (report.end_phy_offset, report.min_phy_offset) == (0, -1)
    assert tree(tmp_path, "consumequeue") == {}


def test_a_new_directory(tmp_path: Path) -> None:
    report = Opened(tmp_path).recover()
    assert (report.end_phy_offset, report.cut_bytes, report.warnings) == (0, 0, ())
    assert read_checkpoint(tmp_path / "checkpoint") in (None, StoreCheckpoint())


def test_a_missing_middle_file_is_told(tmp_path: Path) -> None:
    store = built(tmp_path, abort=False)
    path, _ = store.log_file(2 * FILE_SIZE)
    path.unlink()
    opened = Opened(tmp_path)
    report = opened.recover()
    assert report.end_phy_offset == len(store.log)
    assert [str(2 * FILE_SIZE) in text for text in report.warnings] == [True]
    lost = next(r for r in store.records if r.phy_offset // FILE_SIZE == 2)
    opened.log.begin(report.end_phy_offset)
    assert opened.log.view_at(lost.phy_offset) is None
    assert opened.log.view_at(store.records[-1].phy_offset) is not None


@pytest.mark.parametrize("count", [20, 200])
def test_queues_that_are_gone_come_back(tmp_path: Path, count: int) -> None:
    """Also the entries of messages before the newest files, which the recovery's scan begins with."""
    built(tmp_path, count, abort=False)
    original = tree(tmp_path, "consumequeue")
    shutil.rmtree(tmp_path / "consumequeue")
    report = Opened(tmp_path).recover()
    assert tree(tmp_path, "consumequeue") == original
    assert report.healed_entries == report.differing_entries == count
    assert (report.start_phy_offset > 0) == (not report.queues_by_dispatch) == (count == 200)
    assert report.warnings == ()


# ---- the checkpoint ---------------------------------------------------------------------------------


def test_the_checkpoint_never_leads_the_log(tmp_path: Path) -> None:
    """Java leaves it as it was: the next crash then begins behind messages that no queue has."""
    store = built(tmp_path)
    store.write_checkpoint(logics_physical_offset=store.records[-1].phy_offset)
    store.change_log(store.records[-3].phy_offset, b"\x7f")
    Opened(tmp_path).recover()
    values = read_checkpoint(tmp_path / "checkpoint")
    assert values is not None
    last = store.records[-4]
    assert values.logics_physical_offset == values.confirm_phy_offset == last.phy_offset
    assert values.logics_msg_timestamp_ms == last.store_timestamp_ms


def test_nothing_sound_at_all(tmp_path: Path) -> None:
    store = built(tmp_path, 3)
    store.change_log(0, b"\x7f")
    report = Opened(tmp_path).recover()
    assert (report.end_phy_offset, report.scanned_records) == (0, 0)
    values = read_checkpoint(tmp_path / "checkpoint")
    assert values is not None and values.logics_physical_offset == 0


# ---- killed anywhere --------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.fixture
def kill_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Let the n-th write, sync, rename or removal be the last thing that the process does."""
    left = [-1]

    def counted(do: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return do(*arguments, **named)

        return run

    for module, names in (
        (os, ("fsync", "pwrite", "unlink", "ftruncate")),
        (Path, ("rename", "unlink", "replace")),
        (recovery_cut, ("sync_data",)),
        (recovery_sync, ("sync_data",)),
        (checkpoint_module, ("sync_data",)),
        (recovery, ("take_out", "_set_checkpoint", "_drop_files", "heal_by_plan")),
        (ConsumeQueues, ("write_places", "settle", "flush", "sync_places")),
        (queue_places, ("write_entries", "sync_data")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, counted(getattr(module, name)))

    def arm(steps: int) -> None:
        left[0] = steps

    yield arm
    left[0] = -1


@pytest.mark.parametrize("abort", [True, False])
def test_killed_between_any_two_steps(
    tmp_path: Path, kill_after: Callable[[int], None], abort: bool
) -> None:
    store = built(tmp_path / "made", 60, abort=abort)
    bad = store.records[33 if abort else -3]
    store.change_log(bad.phy_offset + 89, b"XXX")
    ahead = -(-len(store.log) // FILE_SIZE) * FILE_SIZE
    (tmp_path / "made" / "commitlog" / f"{ahead:020}").write_bytes(bytes(FILE_SIZE))
    path, pos = store.queue_file("T", 1, len(store.queues["T", 1]) - 3)
    content = bytearray(path.read_bytes())
    content[pos:] = bytes(len(content) - pos)  # the queue lacks its newest entries
    path.write_bytes(content)
    store.write_checkpoint(logics_physical_offset=store.records[12].phy_offset)

    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "made", whole)
    report = Opened(whole).recover()
    assert report.end_phy_offset == bad.phy_offset
    for steps in range(200):
        root = tmp_path / "killed"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(tmp_path / "made", root)
        kill_after(steps)
        died = True
        with suppress(Killed):
            Opened(root).recover()
            died = False
        kill_after(-1)
        again = Opened(root).recover()
        assert again.end_phy_offset == report.end_phy_offset, steps
        assert data(root) == data(whole), steps
        assert tree(root, "checkpoint") == tree(whole, "checkpoint"), steps
        kept = {name: text for name, text in tree(root / "cut").items() if not name.startswith(".")}
        assert kept == tree(whole / "cut"), steps
        if not died:
            break
    else:
        raise AssertionError("it never came to its end")
    assert steps > 12


# ---- any damage -------------------------------------------------------------------------------------


@given(
    count=st.integers(0, 45),
    abort=st.booleans(),
    damage=st.lists(
        st.tuples(st.integers(0, 8 * FILE_SIZE), st.binary(min_size=1, max_size=40)), max_size=3
    ),
    queue_damage=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 400), st.binary(min_size=1, max_size=30)),
        max_size=2,
    ),
    checkpoint=st.integers(-1, 9 * FILE_SIZE),
    most=st.sampled_from([1, 2, 10]),
)
@examples(1.5)
def test_whatever_is_damaged(
    count: int,
    abort: bool,
    damage: list[tuple[int, bytes]],
    queue_damage: list[tuple[int, int, bytes]],
    checkpoint: int,
    most: int,
) -> None:
    """The log keeps a beginning of what was put; no queue points behind it; a second recovery changes nothing."""
    with quick_folder() as name:
        root = Path(name)
        store = BuiltStore(root, log_file_size=FILE_SIZE).fill(count)
        store.write(abort=abort)
        if checkpoint >= 0:
            store.write_checkpoint(logics_physical_offset=checkpoint)
        else:
            (root / "checkpoint").unlink()
        original = bytes(store.log)
        for at, noise in damage:
            path, pos = store.log_file(at % max(len(store.log), 1))
            patch(path, pos, noise[: FILE_SIZE - pos])
        files = sorted(path for path in (root / "consumequeue").rglob("0*") if path.is_file())
        for number, at, noise in queue_damage:
            if files:
                path = files[number % len(files)]
                size = path.stat().st_size
                patch(path, at % size, noise[: size - at % size])
        config = replace(CONFIG, commit_log_recover_max_num=most)
        opened = Opened(root, config)
        report = opened.recover()
        end = report.end_phy_offset
        assert 0 <= end <= max(len(original), 0) + FILE_SIZE
        log = b"".join(tree(root, "commitlog").values())
        scanned = log[report.start_phy_offset : end]
        if scanned and not damage:
            assert scanned == original[report.start_phy_offset : end]
        assert not log[end:].strip(b"\0") or log[end + 4 : end + 8] == oracle.BLANK.to_bytes(
            4, "big", signed=True
        )
        for topic, queue_id in opened.queues.queues():
            queue = opened.queues.find(topic, queue_id)
            assert queue is not None
            assert opened.log.next_queue_offset(topic, queue_id) == queue.max_offset
        before = data(root)
        again = Opened(root, config).recover()
        if again.start_phy_offset >= report.start_phy_offset:
            assert (again.end_phy_offset, again.cut_bytes) == (end, 0)
            assert data(root) == before


def patch(path: Path, pos: int, noise: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[pos : pos + len(noise)] = noise
    path.write_bytes(content)


# ---- a large directory ------------------------------------------------------------------------------


def test_a_terabyte_gets_its_queues_back_from_the_first_bytes_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 1 << 30
    folder = tmp_path / "commitlog"
    folder.mkdir()
    raw = b""
    for number in range(1024):
        start = number * size
        record = oracle.Record(
            b"T", b"x", b"", queue_offset=number, phy_offset=start, store_timestamp_ms=5
        )
        raw = oracle.encode_record(record)
        with (folder / f"{start:020}").open("wb") as file:
            file.write(raw + (oracle.blank(size - len(raw)) if number < 1023 else b""))
            file.truncate(size)
    opened_files: list[str] = []
    original = WholeFile.__init__

    def opening(self: WholeFile, path: str, file_size: int) -> None:
        opened_files.append(path)
        original(self, path, file_size)

    monkeypatch.setattr(WholeFile, "__init__", opening)
    config = MessageStoreConfig(mapped_file_size_consume_queue=2000)
    opened = Opened(tmp_path, config)
    report = opened.recover()
    assert report.end_phy_offset == 1023 * size + len(raw)
    assert report.scanned_records == 10
    assert report.healed_entries == 1024
    assert len(opened_files) <= 2100  # to compare, and to place
    assert opened.range("T", 0) == (0, 1024)
    entries = oracle.unpack_cq((tmp_path / f"consumequeue/T/0/{1000 * 20:020}").read_bytes())
    assert entries[14][0] == 1014 * size
