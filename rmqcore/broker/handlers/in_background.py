"""Answers that are made away from the loop's thread, because a disk may have to be waited for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future

from rmqcore.broker.call import Call
from rmqcore.broker.worker import WorkerBusyError
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand, code_name

_LOG = logging.getLogger("rmqcore.broker")


def answer_in_background(call: Call, work: Callable[[], RemotingCommand]) -> RemotingCommand | None:
    """Let another thread make the response; it uses the store alone of all that the broker has."""

    def then(done: Future[RemotingCommand]) -> None:
        error = done.exception()
        if error is None:
            call.answer(done.result())
            return
        _LOG.warning("%s of %s: %s", code_name(call.code), call.channel.peer, error, exc_info=error)
        remark = f"{type(error).__name__}: {error}"
        call.answer(call.respond(ResponseCode.SYSTEM_ERROR, remark))

    try:
        call.broker.worker.run(work, then)
    except WorkerBusyError as error:
        return call.respond(ResponseCode.SYSTEM_BUSY, str(error))
    return None
