"""A fork while other threads of the parent are inside the store: in the child each call is refused or answered at once.

The child has none of these threads, so a lock that one of them holds is never let go of there.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore._native.threads.bell import Bell
from rmqcore._native.threads.mutex import Mutex
from rmqcore.engine.log.log_space import FileStep
from rmqcore.errors import StoreClosedError

pytestmark = [
    pytest.mark.forks,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 20,
    "max_index_num": 50,
    "enable_lmq": True,
    "enable_multi_dispatch": True,
}
LIGHT = Message("t", b"x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
NOW_MS = 1_700_000_000_000
BOUND_S = 120

REFUSED: dict[str, Callable[[MessageStore], object]] = {
    "put": lambda store: store.put(Message("t", b"child")),
    "append": lambda store: store.append(Message("t", b"child")),
    "append_batch": lambda store: store.append_batch([Message("t", b"child")]),
    "append_raw": lambda store: store.append_raw(0, b""),
    "hide_before": lambda store: store.hide_before("t", 0),
    "put of a light message": lambda store: store.put(LIGHT),
    "put_batch": lambda store: store.put_batch([Message("t", b"child")]),
    "put_many": lambda store: store.put_many([Message("t", b"child"), LIGHT]),
    "put_arrow": lambda store: store.put_arrow(
        pytest.importorskip("pyarrow").table({"topic": ["t"], "body": [b"child"]})
    ),
    "get": lambda store: store.get("t", 0, 0),
    "query": lambda store: store.query("t", "k"),
    "lookup": lambda store: store.lookup(0),
    "lookup_id": lambda store: store.lookup_id("7F00000100002A9F0000000000000000"),
    "offset_by_time": lambda store: store.offset_by_time("t", 0, NOW_MS),
    "phy_offset_of": lambda store: store.phy_offset_of("t", 0, 0),
    "min_offset": lambda store: store.min_offset("t", 0),
    "max_offset": lambda store: store.max_offset("t", 0),
    "get_warm": lambda store: store.get_warm("t", 0, 0),
    "read_in": lambda store: store.read_in("t", 0, 0),
    "is_warm_at": lambda store: store.is_warm_at(0),
    "read_in_at": lambda store: store.read_in_at(0),
    "read_in_query": lambda store: store.read_in_query("t", "k", 1, 0, NOW_MS),
    "topics": lambda store: store.topics(),
    "queues": lambda store: store.queues(),
    "dispatch_once": lambda store: store.dispatch_once(),
    "dispatch_until": lambda store: store.dispatch_until(Bell(), follow=True),
    "flush": lambda store: store.flush(),
    "on_flushed": lambda store: store.on_flushed(0, print),
    "on_replicated": lambda store: store.on_replicated(0, print),
    "replicated": lambda store: store.replicated(0),
    "on_dispatched": lambda store: store.on_dispatched(print),
    "read_range": lambda store: store.read_range(0, 1),
    "flush of few pages": lambda store: store.flush(4),
    "flush_consume_queues": lambda store: store.flush_consume_queues(),
    "flush_consume_queues of few pages": lambda store: store.flush_consume_queues(2),
    "write_checkpoint": lambda store: store.write_checkpoint(),
    "prepare_space": lambda store: store.prepare_space(),
    "scrub_once": lambda store: store.scrub_once(),
    "clean_once": lambda store: store.clean_once(),
    "clean_expired_consume_queues": lambda store: store.clean_expired_consume_queues(),
    "execute_delete_files_manually": lambda store: store.execute_delete_files_manually(),
    "wait_dispatched": lambda store: store.wait_dispatched(),
    "stats": lambda store: store.stats(),
    "fail": lambda store: store.fail(OSError(5, "the child's")),
    "flush of the log": lambda store: store._log.flush(),
    "steps of the log": lambda store: store._log.prepare_space(),
    "steps of its next file": lambda store: store._log._make(FileStep(1 << 16)),
}
"""What raises StoreClosedError with the parent's id."""

ANSWERED: dict[str, Callable[[MessageStore], object]] = {
    "min_phy_offset": lambda store: store.min_phy_offset,
    "max_phy_offset": lambda store: store.max_phy_offset,
    "flushed_phy_offset": lambda store: store.flushed_phy_offset,
    "confirm_offset": lambda store: store.confirm_offset,
    "reput_from_offset": lambda store: store.reput_from_offset,
    "dispatch_behind_bytes": lambda store: store.dispatch_behind_bytes,
    "on_append": lambda store: store.on_append(int),
    "plain_appender": lambda store: store.plain_appender,
    "flush_waiters": lambda store: len(store.flush_waiters),
    "replica_waiters": lambda store: len(store.replica_waiters),
    "replicated_offset": lambda store: store.replicated_offset,
    "on_low_space": lambda store: store.on_low_space(int),
    "note_error": lambda store: store.note_error("child", ValueError("its own")),
    "failed": lambda store: store.failed,
    "background_errors": lambda store: store.background_errors,
    "take_clean_reports": lambda store: store.take_clean_reports(),
    "refusal": lambda store: store.refusal,
    "raise_if_failed": lambda store: store.raise_if_failed(),
    "attach": lambda store: store.attach,
    "close": lambda store: store.close(),
    "repr": repr,
}
"""What says something all the same: numbers of the moment of the fork, and what touches nothing."""


class Clock:
    """Answers a time; once told to, it keeps its caller, which has the append lock, until the block ends."""

    def __init__(self) -> None:
        self.keep = False
        self.kept, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> int:
        if self.keep:
            self.keep = False
            self.kept.set()
            self.go_on.wait()
        return NOW_MS


@contextmanager
def held_by_a_thread(lock: Mutex) -> Iterator[None]:
    taken, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        taken.set()
        go_on.wait()

    thread = threading.Thread(target=lock.run, args=(hold,))
    thread.start()
    try:
        assert taken.wait(BOUND_S)
        yield
    finally:
        go_on.set()
        thread.join()


@contextmanager
def put_under_way(store: MessageStore, clock: Clock) -> Iterator[None]:
    """A thread is inside a put, with the append lock."""
    clock.keep = True
    thread = threading.Thread(target=store.put, args=(Message("t", b"under way"),))
    thread.start()
    try:
        assert clock.kept.wait(BOUND_S)
        yield
    finally:
        clock.go_on.set()
        thread.join()


def in_child(work: Callable[[], object]) -> int:
    """Exit code of a forked child: 0 when `work` came to its end, -SIGALRM when it waits for something that does not come."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(BOUND_S)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 pytest is the parent's
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_every_public_name_is_in_a_table() -> None:
    names = {name for name in dir(MessageStore) if not name.startswith("_")}
    assert names == {name.split(" ")[0] for name in (*REFUSED, *ANSWERED)} - {"repr", "steps"}


@pytest.mark.parametrize("services", [False, True], ids=["steps", "threads"])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_no_call_waits_for_a_lock_of_a_lost_thread(
    tmp_path: Path, services: bool, flush: str
) -> None:
    """The put of a light message waited for the append lock for ever, and so did `fail` and a flush of the log itself."""
    clock = Clock()
    store = rmqcore.open(
        tmp_path / "store", services=services, clock=clock, flush_disk_type=flush, **SMALL
    )
    store.put(Message("t", b"first", keys="k")).raise_for_status()
    store.wait_dispatched()

    def work() -> None:
        for call in ANSWERED.values():
            call(store)
        for name, call in REFUSED.items():
            try:
                call(store)
            except StoreClosedError as error:
                assert "fork" in str(error), name  # noqa: PT017 the child has no pytest around it
            else:
                raise AssertionError(name)
        with rmqcore.open(tmp_path / "child's", services=services, **SMALL) as own:
            own.put(LIGHT).raise_for_status()
        reader = rmqcore.read(tmp_path / "store")
        assert bytes(next(iter(reader.messages())).body) == b"first"

    with ExitStack() as all_held:
        all_held.enter_context(
            put_under_way(store, clock)
        )  # ends last: it may need the other locks
        if not services:
            locks = [lock for lock in gc.get_objects() if type(lock) is Mutex]
            assert len(locks) >= 10
            for lock in locks:
                all_held.enter_context(held_by_a_thread(lock))
        assert in_child(work) == 0
    store.put(Message("t", b"last")).raise_for_status()
    store.close()
    with rmqcore.open(tmp_path / "store", services=False, **SMALL) as again:
        assert again.recovery.cut_bytes == 0 and again.max_offset("t", 0) == 3


def test_a_clock_that_forks(tmp_path: Path) -> None:
    """Its child appended to the parent's log: both went on with the same put, in one mapping."""
    codes: list[int] = []

    def clock() -> int:
        if codes == []:
            pid = os.fork()
            if pid == 0:
                return NOW_MS + 1
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return NOW_MS

    parent = os.getpid()
    store = rmqcore.open(tmp_path / "store", services=False, clock=clock, **SMALL)
    try:
        result = store.put(Message("t", b"once"))
    except StoreClosedError:
        os._exit(0 if os.getpid() != parent else 2)
    finally:
        if os.getpid() != parent:
            os._exit(3)
    assert codes == [0]
    assert result.store_timestamp_ms == NOW_MS
    store.close()


def test_a_progress_that_forks(tmp_path: Path) -> None:
    """Its child finished the open without a lock, and put into the log of its parent."""
    with rmqcore.open(tmp_path / "store", services=False, **SMALL) as store:
        for _ in range(5):
            store.put(Message("t", b"x")).raise_for_status()
    codes: list[int] = []

    def progress(_done: int, _most: int) -> None:
        if codes == []:
            pid = os.fork()
            if pid:
                codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    parent = os.getpid()
    try:
        store = rmqcore.open(
            tmp_path / "store", services=False, recover="deep", progress=progress, **SMALL
        )
        if os.getpid() != parent:
            store.put(Message("t", b"child"))
    except StoreClosedError:
        os._exit(0 if os.getpid() != parent else 2)
    finally:
        if os.getpid() != parent:
            os._exit(3)
    assert codes == [0]
    assert store.put(Message("t", b"parent")).queue_offset == 5
    store.close()


def test_a_lock_that_was_free_at_the_fork_is_a_lock(tmp_path: Path) -> None:
    free, taken = Mutex(), Mutex()

    def work() -> None:
        assert free.run(str, 1) == "1"
        with pytest.raises(StoreClosedError, match="bool: a thread of the process"):
            taken.run(bool)
        order: list[int] = []
        with held_by_a_thread(free):
            waits = threading.Thread(target=free.run, args=(order.append, 2))
            waits.start()
            order.append(1)
        waits.join()
        assert order == [1, 2]

    with held_by_a_thread(taken):
        assert in_child(work) == 0
    assert taken.run(str, 1) == "1"
