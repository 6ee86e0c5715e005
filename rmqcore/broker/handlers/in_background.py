"""Answers that are made away from the loop's thread, because a disk may have to be waited for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from rmqcore.broker.call import Call, answer_later, error_response
from rmqcore.broker.worker import Worker, WorkerBusyError
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand

Work = Callable[[], RemotingCommand]
"""Makes a response in another thread; it uses the store alone of all that the broker has."""


def answer_in_background(call: Call, work: Work) -> RemotingCommand | None:
    """Let another thread make the response to an administrator, who may have to come again."""
    try:
        _run(call.broker.worker, call, work)
    except WorkerBusyError as error:
        return call.respond(ResponseCode.SYSTEM_BUSY, str(error))
    return None


def answer_by_reader(call: Call, work: Work) -> None:
    """Let another thread make the response to a client."""
    _run(call.broker.readers, call, work)


def _run(worker: Worker, call: Call, work: Work) -> None:
    def then(done: Future[RemotingCommand]) -> None:
        error = done.exception()
        if error is None:
            call.answer(done.result())
            return
        call.answer(error_response(call.request, call.channel, error))

    worker.run(work, then)
    call.drop_body()


def when_warm(
    call: Call, phy_offset: int, go_on: Callable[[], RemotingCommand | None]
) -> RemotingCommand | None:
    """Go on with a record that memory holds: now, or when it is read in."""
    store = call.broker.store
    if store.is_warm_at(phy_offset):
        return go_on()
    # What went wrong there is met again by who reads the record.
    call.broker.readers.run(
        partial(store.read_in_at, phy_offset), lambda _: answer_later(call, go_on)
    )
    return None
