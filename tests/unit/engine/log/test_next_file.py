"""The next file of the log, which one thread makes without the space lock, while others put."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.faults.interrupt_points import Injector, Interrupted, TimedOut
from support.faults.interrupt_scenes import no_hang

from rmqcore import Message, MessageStoreConfig
from rmqcore._native.files.mapped_file import MappedFile
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.log import log_space
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.log.log_space import FileStep
from rmqcore.engine.log.mapped_files import create_mapped_file
from rmqcore.vocabulary.status import PutMessageStatus as Status

SIZE = 1 << 20
PIECE = 100 << 10
BOUND_S = 120


def open_log(root: Path, size: int = SIZE) -> CommitLog:
    """Open a new log; what it tells of failures is in `failures`."""
    config = MessageStoreConfig(mapped_file_size_commit_log=size)
    log = CommitLog(StorePaths(root), config, on_failure=failures.append)
    log.load()
    log.begin(0)
    return log


failures: list[OSError] = []


@pytest.fixture(autouse=True)
def no_failures() -> None:
    failures.clear()


@pytest.fixture(autouse=True)
def few_pages_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the next file is wanted while the current one still lacks pages."""
    monkeypatch.setattr(log_space, "PAGES_AHEAD", 64 << 10)


def names(root: Path) -> list[int]:
    return sorted(int(name) for name in os.listdir(root / "commitlog"))


def put(log: CommitLog, body_len: int = PIECE) -> Status:
    return log.appender.put(Message("t", bytes(body_len))).status


def fill(log: CommitLog, left: int, size: int = SIZE) -> None:
    """Put until no more than so many bytes are left in the file."""
    while size - log.max_offset % size > left:
        assert put(log, left // 2) is Status.PUT_OK


def prepare(log: CommitLog) -> None:
    while log.prepare_space():
        pass


def next_file_step(log: CommitLog) -> FileStep:
    """Make the steps before the one of the next file, and give that."""
    while not isinstance(step := log._space.next_step(), FileStep):
        assert step is not None
        log._make(step)
    return step


class Made:
    """Stands in for `create_mapped_file`: counts the calls, and calls `first` in the first one, before the file is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: Callable[[], object]) -> None:
        self.starts: list[int] = []
        self._first = first
        monkeypatch.setattr(log_space, "create_mapped_file", self)

    def __call__(self, directory: Path, file_size: int, start: int, **more: Any) -> MappedFile:
        self.starts.append(start)
        if len(self.starts) == 1:
            self._first()
        return create_mapped_file(directory, file_size, start, **more)


@contextmanager
def beside(work: Callable[..., object], *args: object) -> Iterator[threading.Thread]:
    """Do it in a thread that has to end soon after the block."""
    thread = threading.Thread(target=work, args=args)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(BOUND_S)
        assert not thread.is_alive()


@contextmanager
def held_before_the_file(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Made, Callable[[], object]]]:
    """A thread that works ahead stands before the next file, until a call of what this gives, or the end of the block."""
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go_on.wait(BOUND_S)

    next_file_step(log)
    made = Made(monkeypatch, hold)
    with beside(log.prepare_space):
        try:
            assert held.wait(BOUND_S)
            yield made, go_on.set
        finally:
            go_on.set()


def test_a_put_that_needs_pages_does_not_wait_for_the_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made under the space lock: on a busy disk a put waited 18 ms for the syncs of a file that it did not need."""
    log = open_log(tmp_path)
    put(log)
    with held_before_the_file(log, monkeypatch) as (made, _):
        end = log.appender.allocated_offset
        assert end < SIZE // 2
        with beside(fill, log, SIZE // 4) as puts:
            puts.join(BOUND_S / 2)
            assert not puts.is_alive(), "a put waits for the file"
        assert log.appender.allocated_offset > end
        assert (made.starts, names(tmp_path)) == ([SIZE], [0])
    assert names(tmp_path) == log.file_starts() == [0, SIZE]
    assert failures == []


def test_a_put_that_needs_the_file_takes_that_of_the_thread_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    fill(log, PIECE)
    answers: list[Status] = []
    with held_before_the_file(log, monkeypatch) as (made, go_on):
        with beside(lambda: answers.append(put(log))) as waits:
            waits.join(0.1)
            assert answers == []
            assert put(log, 100) is Status.PUT_OK  # there is room for it
            go_on()
        assert answers == [Status.PUT_OK]
    assert made.starts == [SIZE]
    assert log.max_offset > SIZE
    assert names(tmp_path) == log.file_starts() == [0, SIZE]


def test_the_first_file_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    answers: list[Status] = []
    with (
        held_before_the_file(log, monkeypatch) as (made, go_on),
        beside(lambda: answers.append(put(log))) as waits,
    ):
        waits.join(0.1)
        go_on()
    assert (answers, made.starts, names(tmp_path)) == ([Status.PUT_OK], [0], [0])


def test_many_threads_and_one_that_works_ahead_make_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, count = 16 << 10, 300
    log = open_log(tmp_path, size)
    made = Made(monkeypatch, lambda: None)
    answers: list[Status] = []

    def puts() -> None:
        answers.extend(put(log, 1000) for _ in range(count))

    def ahead() -> None:
        while any(thread.is_alive() for thread in threads):
            log.prepare_space()

    threads = [threading.Thread(target=puts) for _ in range(3)]
    for thread in threads:
        thread.start()
    with beside(ahead):
        for thread in threads:
            thread.join(BOUND_S)
    assert answers == [Status.PUT_OK] * (3 * count)
    assert made.starts == log.file_starts() == names(tmp_path)
    assert made.starts == list(range(0, made.starts[-1] + 1, size))


def test_a_step_that_comes_late_makes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, PIECE)
    step = next_file_step(log)
    assert step.start == SIZE
    put(log)  # makes the file, and goes on in it
    log._make(step)
    assert names(tmp_path) == log.file_starts() == [0, SIZE]
    prepare(log)
    log._make(step)
    assert names(tmp_path) == log.file_starts()
    log.close()
    log._make(step)
    assert names(tmp_path) == [0, SIZE]


def test_a_close_waits_for_the_file_and_deletes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    put(log)
    with held_before_the_file(log, monkeypatch) as (made, go_on), beside(log.close) as close:
        close.join(0.1)
        assert close.is_alive()
        go_on()
    assert (made.starts, names(tmp_path)) == ([SIZE], [0])


def test_a_close_deletes_a_file_that_nobody_has_heard_of(tmp_path: Path) -> None:
    """Between the making and the telling the log may be closed."""
    log = open_log(tmp_path)
    put(log)
    step = next_file_step(log)
    log._space.make_file(step)
    assert (names(tmp_path), log.file_starts()) == ([0, SIZE], [0])
    log.close()
    log._space.done(step)
    assert (names(tmp_path), log.file_starts()) == ([0], [])


@pytest.mark.parametrize("ending", ["close", "release"])
def test_no_file_is_made_after_the_end(tmp_path: Path, ending: str) -> None:
    log = open_log(tmp_path)
    put(log)
    step = next_file_step(log)
    getattr(log, ending)()
    log._make(step)
    assert names(tmp_path) == [0]


def test_a_handler_on_top_of_the_maker_may_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the one who waits for the file to hold the space lock, it would wait for the handler, and the handler for it."""
    log = open_log(tmp_path)
    fill(log, PIECE)
    answers: list[Status] = []
    waits = threading.Thread(target=lambda: answers.append(put(log)))

    def handler() -> None:
        waits.start()
        waits.join(0.1)
        assert put(log, 100) is Status.PUT_OK
        with pytest.raises(RuntimeError, match="reentrant call"):
            put(log)

    next_file_step(log)
    made = Made(monkeypatch, handler)
    with no_hang():
        assert log.prepare_space()
    waits.join(BOUND_S)
    assert (answers, made.starts) == ([Status.PUT_OK], [SIZE])
    assert put(log) is Status.PUT_OK


def test_a_full_disk_is_told_to_both_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    fill(log, PIECE)
    answers: list[Status] = []
    told: list[OSError] = []
    ftruncate = os.ftruncate
    held, go_on = threading.Event(), threading.Event()

    def full(descriptor: int, length: int) -> None:
        held.set()
        assert go_on.wait(BOUND_S)
        raise OSError(errno.ENOSPC, "No space left on device")

    def ahead() -> None:
        try:
            log.prepare_space()
        except OSError as error:
            told.append(error)

    next_file_step(log)
    monkeypatch.setattr(os, "ftruncate", full)
    with beside(ahead):
        assert held.wait(BOUND_S)
        with beside(lambda: answers.append(put(log))) as waits:
            waits.join(0.1)
            go_on.set()
    assert answers == [Status.CREATE_MAPPED_FILE_FAILED]
    assert [error.errno for error in (*told, *failures)] == [errno.ENOSPC] * 2
    assert names(tmp_path) == log.file_starts() == [0]
    monkeypatch.setattr(os, "ftruncate", ftruncate)
    assert put(log) is Status.PUT_OK
    assert names(tmp_path) == log.file_starts() == [0, SIZE]


STRIDE = dose("RMQCORE_NEXT_FILE_STRIDE", test=3, verify=1, night=1)
"""Through the places that an exception comes from."""
ACTS: dict[str, Callable[[CommitLog], object]] = {
    "the thread ahead": CommitLog.prepare_space,
    "a put": lambda log: put(log, 1000),
}


@pytest.mark.parametrize("by", ACTS)
def test_an_exception_at_any_place(tmp_path: Path, by: str) -> None:
    """The file comes into use with the next call, whatever of it was there: its name, its length, its place in the list."""
    size = 16 << 10
    log = open_log(tmp_path, size)
    places: set[str] = set()
    for at in itertools.count(1, STRIDE):
        fill(log, 600, size)
        step = next_file_step(log)
        assert step.start not in names(tmp_path)
        injector = Injector(at)
        try:
            injector.run(ACTS[by], log)
        except (Interrupted, TimedOut):
            places.add(injector.place.split()[1])
        before = log.max_offset
        assert put(log, 1000) is Status.PUT_OK
        assert step.start < log.max_offset < max(before, step.start) + 2000
        assert log.file_starts() == names(tmp_path) == list(range(0, step.start + 1, size))
        assert log._space._making is None
        if not injector.place:
            break
    assert {"make_file", "create_mapped_file", "_next_part", "done", "_make"} <= places
    assert failures == []
    assert {path.stat().st_size for path in (tmp_path / "commitlog").iterdir()} == {size}
