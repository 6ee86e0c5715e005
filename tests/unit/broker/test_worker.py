"""Work away from the loop's thread, and those who wait for it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from support.broker import FakeLoop

from rmqcore.broker.long_work import uncollected
from rmqcore.broker.thens import call_each
from rmqcore.broker.worker import MOST_WAITING, MOST_WAITING_BYTES, Worker, WorkerBusyError


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def worker(loop: FakeLoop) -> Iterator[Worker]:
    made = Worker(loop)
    yield made
    made.close()


def test_work_is_done_elsewhere_and_told_in_the_loop(loop: FakeLoop, worker: Worker) -> None:
    told: list[tuple[int, int]] = []
    here = threading.get_ident()

    def then(done: Future[int]) -> None:
        told.append((done.result(), threading.get_ident()))

    worker.run(threading.get_ident, then)
    loop.run_until(lambda: bool(told))
    ((there, in_loop),) = told
    assert there != here
    assert in_loop == here


def test_work_that_fails_is_told(loop: FakeLoop, worker: Worker) -> None:
    told: list[BaseException | None] = []
    worker.run(lambda: 1 // 0, lambda done: told.append(done.exception()))
    loop.run_until(lambda: bool(told))
    assert isinstance(told[0], ZeroDivisionError)


def test_so_much_may_wait_and_no_more(loop: FakeLoop, worker: Worker) -> None:
    told: list[Any] = []
    go_on = threading.Event()
    try:
        for _ in range(MOST_WAITING):
            worker.run(go_on.wait, told.append)
        with pytest.raises(WorkerBusyError, match=r"64 requests"):
            worker.run(go_on.wait, told.append)
    finally:
        go_on.set()  # otherwise the end of the worker waits for ever
    loop.run_until(lambda: len(told) == MOST_WAITING)
    worker.run(go_on.wait, told.append)
    loop.run_until(lambda: len(told) == MOST_WAITING + 1)


def test_bodies_have_a_bound_in_bytes(loop: FakeLoop, worker: Worker) -> None:
    """Of 300 clients with long heartbeats most were refused, and each sent its 150 KB again at once."""
    told: list[Any] = []
    go_on = threading.Event()
    body = MOST_WAITING_BYTES // (2 * MOST_WAITING)
    try:
        for _ in range(2 * MOST_WAITING):
            worker.run(go_on.wait, told.append, body_bytes=body)
        with pytest.raises(WorkerBusyError, match=r"67,108,864 bytes of requests are already"):
            worker.run(go_on.wait, told.append, body_bytes=1)
        worker.run(go_on.wait, told.append)  # work without a body has its own bound
    finally:
        go_on.set()
    loop.run_until(lambda: len(told) == 2 * MOST_WAITING + 1)
    worker.run(go_on.wait, told.append, body_bytes=MOST_WAITING_BYTES)
    loop.run_until(lambda: not worker.waiting)


def test_one_that_raises_keeps_nobody_from_being_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []

    def fails(_: int) -> None:
        raise KeyError("a bug")

    call_each([told.append, fails, told.append], 7)
    assert told == [7, 7]
    assert "a bug" in caplog.text


def test_the_garbage_collector_rests_while_many_objects_are_made(loop: FakeLoop) -> None:
    worker = Worker(loop, makes_objects=True)
    told: list[bool] = []
    for _ in range(2):
        worker.run(gc.isenabled, lambda done: told.append(done.result()))
    loop.run_until(lambda: len(told) == 2)
    worker.close()
    assert told == [False, False]
    assert gc.isenabled()
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled(), "who had it off before still has"
    finally:
        gc.enable()
