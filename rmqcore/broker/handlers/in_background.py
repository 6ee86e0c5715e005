"""Answers that are made away from the loop's thread, because a disk may have to be waited for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from rmqcore.broker.call import Call, error_response
from rmqcore.broker.worker import WorkerBusyError
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand


def answer_in_background(call: Call, work: Callable[[], RemotingCommand]) -> RemotingCommand | None:
    """Let another thread make the response; it uses the store alone of all that the broker has."""

    def then(done: Future[RemotingCommand]) -> None:
        error = done.exception()
        if error is None:
            call.answer(done.result())
            return
        call.answer(error_response(call.request, call.channel, error))

    try:
        call.broker.worker.run(work, then)
    except WorkerBusyError as error:
        return call.respond(ResponseCode.SYSTEM_BUSY, str(error))
    return None
