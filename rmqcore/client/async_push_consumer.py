"""A consumer for asyncio that passes each message to a handler, and commits the finished messages.

Source: RocketMQ 5.5.0 DefaultMQPushConsumer, DefaultMQPushConsumerImpl, ConsumeMessageConcurrentlyService,
ConsumeMessageOrderlyService, RebalancePushImpl.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Self

from rmqcore.client.assigned_queue import ConsumeFrom
from rmqcore.client.events import OnEvent
from rmqcore.client.messages.consume_status import ConsumeStatus
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.send_back import BY_TIMES, DEAD_LETTER, send_back_request
from rmqcore.client.messages.subscriptions import subscription
from rmqcore.client.messages.validators import check_topic
from rmqcore.client.process_queues import Held, HeldLimits, HeldMessages, ProcessQueue
from rmqcore.client.push_queues import PushQueues
from rmqcore.errors import ClientClosedError, ClientError, NotReachedError
from rmqcore.errors.arguments import check_ints
from rmqcore.remoting.codes import RequestCode

_LOG = logging.getLogger("rmqcore.client")
MAX_RECONSUME_TIMES = 16
CONCURRENCY = 8
SEND_BACK_SECONDS = 5.0
LOCAL_RETRY_SECONDS = 5.0
"""After how long a message is given again that its broker did not take back. Source: RocketMQ 5.5.0 submitConsumeRequestLater."""
SUSPEND_SECONDS = 1.0
"""How long a queue waits after a failure in order. Source: RocketMQ 5.5.0 suspendCurrentQueueTimeMillis."""
LAST_SECONDS = 2.0
"""Of the time of `close` for handlers that are cancelled and the commit, together at most half of it."""
GRACE_SECONDS = 0.05
"""What each of the two has in any case: with a broker that answers both take less."""
Handler = Callable[[ReceivedMessage], Awaitable[ConsumeStatus | None]]


class AsyncPushConsumer:
    """Passes the messages of topics to a handler, as a member of a consumer group.

    The consumer is bound to the event loop that first uses it. `run` calls a handler for each message;
    ``async for message in consumer`` iterates instead. The group's offset in each queue is that of the lowest
    unfinished message: unfinished messages are delivered again, to this member or another.

    Parameters
    ----------
    namesrv : str or iterable of str
        Addresses of name servers, ``host:port``; in one string with ``;`` between them.
    group : str
        Name of the consumer group.
    consume_from : ConsumeFrom or str
        Where the group starts in a queue without an offset of the group, as for `AsyncPullConsumer`.
    max_reconsume_times : int, optional
        How often a message is delivered again before it is stored in the group's dead letters, ``%DLQ%group``. None: 16
        times; without a limit if `orderly`.
    delay_level : int
        Delay until a message is delivered again, 1 to 18 as in the broker's ``messageDelayLevel``; 0: longer each time.
    concurrency : int
        How many handlers `run` runs at once.
    orderly : bool
        Process each queue in order, one message at a time, in one member of the group. After a failure the queue waits
        for one second, and the same message is delivered again.
    pull_batch_size : int
        Most messages of one pull.
    limits : HeldLimits, optional
        Most messages and bytes held, per queue and in total.
    now_ms : callable, optional
        The clock: milliseconds since the epoch.
    on_event : callable, optional
        Receives a `ClientEvent` for everything that succeeds or fails, in the loop's thread.

    Raises
    ------
    ValueError
        A name, an address or a number is invalid.
    """

    def __init__(
        self,
        namesrv: str | Iterable[str],
        group: str,
        *,
        consume_from: ConsumeFrom | str = ConsumeFrom.CONSUME_FROM_LAST_OFFSET,
        max_reconsume_times: int | None = None,
        delay_level: int = BY_TIMES,
        concurrency: int = CONCURRENCY,
        orderly: bool = False,
        pull_batch_size: int = 32,
        limits: HeldLimits | None = None,
        now_ms: Callable[[], int] | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        _check_number("pull_batch_size", pull_batch_size, 1, 1024)
        check_concurrency(concurrency)
        _check_number("delay_level", delay_level, 0, 1_000)
        if max_reconsume_times is not None:
            _check_number("max_reconsume_times", max_reconsume_times, 0, (1 << 31) - 1)
        self._max_reconsume_times = max_reconsume_times
        self._delay_level = delay_level
        self._concurrency = concurrency
        self._group = group
        self._held = HeldMessages(limits or HeldLimits(), orderly=orderly)
        self._queues = PushQueues(
            namesrv,
            group,
            self._held,
            consume_from=ConsumeFrom(consume_from),
            pull_batch_size=pull_batch_size,
            now_ms=now_ms,
            on_event=on_event,
        )
        self._member = self._queues.member
        self._instance = self._member.instance
        self._runs = 0
        self._stopped = self._closing = False
        self._workers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- subscriptions ----------------------------------------------------------------------------

    async def subscribe(
        self,
        topic: str,
        expression: str = "*",
        timeout: float = 30.0,  # noqa: ASYNC109 as for AsyncPullConsumer
    ) -> None:
        """Add a topic. The group's retry topic is read as well.

        Messages sent after this call has returned are read, also by a new group. A new expression for a topic that is
        read already applies to later pulls.

        Parameters
        ----------
        topic : str
            A topic that no broker has yet is read as soon as it exists.
        expression : str
            ``TagA || TagB``; ``*`` for all messages.
        timeout : float
            Seconds for the whole call.

        Raises
        ------
        ValueError
            The topic's name or the expression is invalid.
        ClientError
            No name server answers, or the time is over: then the topic is not subscribed.
        """
        check_topic(topic)
        wanted = subscription(topic, expression, self._instance.now_ms())
        self._check_open()
        await self._member.subscribe(wanted, timeout)

    async def unsubscribe(self, topic: str, timeout: float = 5.0) -> None:  # noqa: ASYNC109 as for AsyncPullConsumer
        """Stop reading a topic. Handlers of its messages that are running finish their work.

        As in RocketMQ all members share the queues of each topic, even members that do not read it: while this consumer
        reads other topics, no member reads its part of the queues. Let all members unsubscribe, or close this one.

        Parameters
        ----------
        topic : str
        timeout : float
            Seconds for the whole call.

        Raises
        ------
        ClientClosedError
            The consumer was closed.
        AnswerTimeoutError
            The time is over; the brokers are notified later.
        """
        await self._member.unsubscribe(topic, timeout)

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer reads, those of the retry topic included, sorted."""
        return sorted(self._queues.assigned)

    # ---- messages ---------------------------------------------------------------------------------

    async def run(self, handler: Handler, concurrency: int | None = None) -> None:
        """Call a handler for each message, until `stop` or `close`.

        A message is finished when its handler returns None or `ConsumeStatus.CONSUME_SUCCESS`. If the handler raises
        an exception or returns `ConsumeStatus.RECONSUME_LATER`, the message goes back to the broker, which delivers it
        again later; if the broker refuses it, the handler is called again after five seconds. With `orderly`, the
        handler is called again after one second.

        If this call is cancelled, the handlers are cancelled too. A message whose handler did not return is not
        finished: the next `run` gets it again, or another member after `close`.

        Parameters
        ----------
        handler : callable
            A coroutine function that receives a `ReceivedMessage`.
        concurrency : int, optional
            How many handlers run at once; by default the consumer's `concurrency`.

        Raises
        ------
        TypeError
            The handler is not a coroutine function, or it returned another value. The message is not finished.
        ClientError
            No topic is subscribed, or the consumer was closed.
        """
        number = self._concurrency if concurrency is None else concurrency
        check_concurrency(number)
        self._check_subscribed()
        if self._runs == 0:
            self._stopped = False
        self._runs += 1
        ended = asyncio.Event()
        create = asyncio.get_running_loop().create_task
        own = [create(self._work(handler, ended)) for _ in range(number)]
        self._workers.update(own)
        try:
            done, _ = await asyncio.wait(own, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                if not worker.cancelled():  # by `close` after its timeout
                    worker.result()
        finally:
            ended.set()
            for worker in own:
                worker.cancel()
            try:
                await asyncio.gather(*own, return_exceptions=True)
            finally:
                self._workers.difference_update(own)
                self._runs -= 1
                self._held.tell()

    def stop(self) -> None:
        """Make `run` return when the running handlers have finished. Handlers may call it."""
        self._stopped = True
        self._held.tell()

    async def until_stopped(self) -> None:
        """Wait until `run` has returned, or will return without running a handler again."""
        while self._runs:
            await self._held.change()

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Iterate over the messages. The request for the next message finishes the one before.

        If the loop's body is left early, by an exception, by cancellation, by ``break`` or ``return``, its message is
        not finished and is delivered again. Several tasks may loop over one consumer. The loops end when the consumer
        is closed.
        """
        self._check_subscribed()
        return _Messages(self._held, lambda: self._closing)

    def finish(self, message: ReceivedMessage) -> None:
        """Finish the message of a loop before the loop is left or asks for the next message.

        Parameters
        ----------
        message : ReceivedMessage
            A message of a loop over this consumer. One that is finished or was given up already is ignored.
        """
        self._held.finish_message(message)

    # ---- the end ----------------------------------------------------------------------------------

    async def close(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109 as for AsyncPullConsumer
        """Finish the running handlers, commit, unlock queues, and unregister. A second call does nothing.

        Parameters
        ----------
        timeout : float
            Seconds for the whole call. Handlers that still run two seconds before its end, or after half of a timeout
            below four seconds, are cancelled, and other members get their messages; the rest of the time is for their
            end and the commit. Cancelling the call closes the connections at once: messages that were not committed
            before are delivered again.

        Raises
        ------
        ClientError
            A handler called this, and would wait for itself. Handlers call `stop` instead.
        """
        if not self._instance.is_ours:
            self._instance.abandon()
            return
        if asyncio.current_task() in self._workers:
            raise ClientError(
                "close() inside a handler would wait for that handler: call stop() instead"
            )
        self._closing = True
        try:
            await self._close(timeout)
        except BaseException:
            self.abandon()  # else the brokers would keep a member that reads nothing
            raise

    async def _close(self, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + max(seconds, 0)
        cancel_at = end - min(LAST_SECONDS, max(seconds, 0) / 2)
        self._queues.close_intake()
        self._held.tell()
        try:
            async with asyncio.timeout_at(cancel_at):
                await self._idle()
        except TimeoutError:
            _LOG.warning("close(%g): handlers still run, and are cancelled", seconds)
            for worker in self._workers:
                worker.cancel()
            if self._workers:
                left = max((end - clock()) / 2, GRACE_SECONDS)
                await asyncio.wait(self._workers, timeout=left)
        left = max(end - clock(), GRACE_SECONDS)
        await self._queues.commit_and_leave(self._others_work_on, left)

    def abandon(self) -> None:
        """Close all connections without unregistering; for a loop that ends."""
        self._closing = self._queues.closing = True
        self._held.tell()
        self._instance.abandon()

    async def _idle(self) -> None:
        """Wait until neither handlers nor loops of other tasks work on a message."""
        queues = self._queues
        while (
            self._runs
            or any(map(self._others_work_on, queues.assigned.values()))
            or any(
                self._others_work_on(one) or not one.in_work for one in queues.releasing.values()
            )
        ):
            await self._held.change()

    def _others_work_on(self, queue: ProcessQueue) -> bool:
        me = asyncio.current_task()
        return any(
            one.task is not None and one.task is not me and not one.task.done()
            for one in queue.in_work
        )

    # ---- handlers ---------------------------------------------------------------------------------

    async def _work(self, handler: Handler, run_ended: asyncio.Event) -> None:
        def ended() -> bool:
            return self._closing or self._stopped or run_ended.is_set()

        while (one := await self._held.take(ended)) is not None:
            try:
                await self._handle(one, handler)
            finally:
                self._held.put_back(one)  # no effect if it is finished or delivered again later

    async def _handle(self, one: Held, handler: Handler) -> None:
        try:
            with self._instance.events.timed("handle", one.message.topic):
                status: object = handler(one.message)
                is_coroutine = False
                if inspect.isawaitable(status):
                    is_coroutine = True
                    status = await status
        except asyncio.CancelledError as error:
            worker = asyncio.current_task()
            if worker is not None and worker.cancelling():
                raise
            await self._failed(
                one, error
            )  # raised by the handler: something that it waited for was cancelled
            return
        except Exception as error:  # noqa: BLE001 after any error of a handler the message is delivered again
            await self._failed(one, error)
            return
        if not is_coroutine:
            raise TypeError(f"the handler returned {status!r}, expected a coroutine")
        if status is None or status is ConsumeStatus.CONSUME_SUCCESS:
            self._held.finish(one)
        elif status is ConsumeStatus.RECONSUME_LATER:
            await self._failed(one, None)
        else:
            expected = "None, ConsumeStatus.CONSUME_SUCCESS or ConsumeStatus.RECONSUME_LATER"
            raise TypeError(f"the handler returned {status!r}, expected {expected}")

    async def _failed(self, one: Held, error: BaseException | None) -> None:
        why = (
            "RECONSUME_LATER"
            if error is None
            else traceback.format_exception_only(error)[-1].strip()
        )
        _LOG.warning("%r is handled again: %s", one.message, why, exc_info=error)
        most = self._max_reconsume_times
        if self._held.orderly and (most is None or one.message.reconsume_times < most):
            self._again(one, SUSPEND_SECONDS)
            return
        if one.queue.retired and not self._closing:
            return  # the next member that reads the queue has the message
        level = DEAD_LETTER if self._held.orderly else self._delay_level
        try:
            await self._send_back(one.message, level)
        except ClientError as refusal:
            _LOG.warning("%r could not be sent back: %s", one.message, refusal)
            self._again(one, SUSPEND_SECONDS if self._held.orderly else LOCAL_RETRY_SECONDS)
        else:
            self._held.finish(one)

    def _again(self, one: Held, seconds: float) -> None:
        one.message = one.message.tried_again()
        self._held.put_back(one, seconds=seconds)

    async def _send_back(self, message: ReceivedMessage, level: int) -> None:
        code, name = RequestCode.CONSUMER_SEND_MSG_BACK, message.broker_name
        address = self._instance.routes.master(name)
        if address is None:
            raise NotReachedError(name, code.name, "no route names its master")
        most = self._max_reconsume_times
        request = send_back_request(
            message,
            self._group,
            delay_level=level,
            max_reconsume_times=MAX_RECONSUME_TIMES if most is None else most,
        )
        await self._instance.ask(address, request, lambda _: None, seconds=SEND_BACK_SECONDS)

    # ---- refusals ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closing:
            raise ClientClosedError("this client was closed")
        self._instance.check_open()

    def _check_subscribed(self) -> None:
        self._check_open()
        if not self._member.subscriptions:
            raise ClientError("nothing is subscribed: call subscribe(topic) first")


class _Messages:
    """The messages of one loop.

    Only the loop refers to this object. So its message is put back when the loop has ended.
    """

    def __init__(self, held: HeldMessages, ended: Callable[[], bool]) -> None:
        self._one: Held | None = None
        self._held = held
        self._ended = ended
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        if self._one is not None:
            before, self._one = self._one, None
            self._held.finish(before)
        self._one = await self._held.take(self._ended)
        if self._one is None:
            raise StopAsyncIteration
        return self._one.message

    def __del__(self) -> None:
        if self._one is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._held.put_back, self._one)


def check_concurrency(value: int) -> None:
    """Check the number of handlers that run at once.

    Raises
    ------
    ValueError
        The number is out of range.
    """
    _check_number("concurrency", value, 1, 10_000)


def _check_number(name: str, value: int, least: int, most: int) -> None:
    check_ints(**{name: value})
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}, expected {least} to {most}")
