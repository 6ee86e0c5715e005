"""Responses that are made away from the loop's thread, because a disk may have to be waited for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar, cast

from rmqcore.broker.call import Call, answer_later, error_response
from rmqcore.broker.worker import Worker, WorkerBusyError
from rmqcore.remoting.bodies.json_object import encode_json, encode_long_json
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand

LONG_BODY_BYTES = 64 << 10
"""A longer JSON body takes more than some milliseconds: 1 MiB half a second."""
SHORT_TABLE = 500
"""Entries of a table that is written in the loop's thread, in a millisecond or two."""
MOST_ONEWAY_WAITING = 10_000
"""Work of readers that waits; above it one-way requests are dropped. The broker asks again for the end of a transaction."""
_T = TypeVar("_T")
Work = Callable[[], RemotingCommand]
"""Makes a response in another thread; it uses the store alone of all that the broker has."""


def answer_in_background(call: Call, work: Work) -> RemotingCommand | None:
    """Build the response to an administrator in another thread; if too many wait, the response asks to try again."""
    try:
        _run(call.broker.worker, call, work)
    except WorkerBusyError as error:
        return call.respond(ResponseCode.SYSTEM_BUSY, str(error))
    return None


def with_parsed_body(
    call: Call,
    parse: Callable[[str, bytes], _T],
    go_on: Callable[[Call, _T], RemotingCommand | None],
) -> RemotingCommand | None:
    """Continue with the parsed body of a request; a long body is parsed in another thread, and what follows it waits."""
    name, body = call.code.name, call.request.body
    if len(body) <= LONG_BODY_BYTES:
        return go_on(call, parse(name, body))

    def work() -> _T | None:
        # Bodies of clients that have left in a crowd would keep the thread busy for seconds.
        return None if call.channel.closed else parse(name, body)

    def then(done: Future[_T | None]) -> None:
        if not call.channel.closed:
            answer_later(call, lambda: go_on(call, cast("_T", done.result())))
        call.channel.release()

    try:
        call.broker.parser.run(work, then, body_bytes=len(body))
    except WorkerBusyError as error:
        return call.respond(ResponseCode.SYSTEM_BUSY, str(error))
    call.channel.hold()
    return None


def answer_with_table(
    call: Call,
    make: Callable[[], object],
    entries: int,
    *,
    ext_fields: dict[str, str] | None = None,
) -> RemotingCommand | None:
    """Send a response with a table as JSON; a table of many entries is made and written in another thread.

    Parameters
    ----------
    call : Call
    make : callable
        Returns the body, from a copy that was made in the loop's thread and does not change. Any thread may call it.
    entries : int
    ext_fields : dict, optional
    """
    if entries <= SHORT_TABLE:
        return call.respond(ext_fields=ext_fields, body=encode_json(make()))
    if call.request.is_oneway:
        return None
    try:
        _run(
            call.broker.parser,
            call,
            lambda: call.respond(ext_fields=ext_fields, body=encode_long_json(make())),
        )
    except WorkerBusyError as error:
        return call.respond(ResponseCode.SYSTEM_BUSY, str(error))
    return None


def answer_by_reader(call: Call, work: Work) -> None:
    """Build the response to a client in another thread; do nothing for a one-way request, which has no response."""
    if call.request.is_oneway:
        return
    _run(call.broker.readers, call, work)


def _run(worker: Worker, call: Call, work: Work) -> None:
    def then(done: Future[RemotingCommand]) -> None:
        error = done.exception()
        if error is None:
            call.answer(done.result())
            return
        call.answer(error_response(call.request, call.channel, error))

    worker.run(work, then)
    call.drop_frame()


def when_warm(
    call: Call, phy_offset: int, go_on: Callable[[], RemotingCommand | None]
) -> RemotingCommand | None:
    """Call `go_on` when memory holds the record at an offset: at once, or after a thread has read it in."""
    store = call.broker.store
    if store.is_warm_at(phy_offset):
        return go_on()
    if call.request.is_oneway and call.broker.readers.waiting >= MOST_ONEWAY_WAITING:
        return None  # no limit of unanswered requests counts it
    # An error of the read is raised again by the step that reads the record.
    call.broker.readers.run(
        partial(store.read_in_at, phy_offset), lambda _: answer_later(call, go_on)
    )
    return None
