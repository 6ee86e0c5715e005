"""A consumer for asyncio that gives each message to a handler, and says which messages are finished.

Source: RocketMQ 5.5.0 DefaultMQPushConsumer, DefaultMQPushConsumerImpl, ConsumeMessageConcurrentlyService,
ConsumeMessageOrderlyService, RebalancePushImpl.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Self

from rmqcore.client.assigned_queue import ConsumeFrom, Reading
from rmqcore.client.broker_questions import QueueState
from rmqcore.client.commits import AUTO_COMMIT_SECONDS, Commits, Positions
from rmqcore.client.events import OnEvent
from rmqcore.client.membership import Membership, Reader
from rmqcore.client.messages.consume_status import ConsumeStatus
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.send_back import BY_TIMES, DEAD_LETTER, send_back_request
from rmqcore.client.messages.subscriptions import subscription
from rmqcore.client.messages.validators import check_topic
from rmqcore.client.process_queues import Held, HeldLimits, HeldMessages, ProcessQueue
from rmqcore.client.queue_locks import LOCK_SECONDS, RENEW_SECONDS, QueueLocks
from rmqcore.errors import ClientClosedError, ClientError, NotReachedError
from rmqcore.errors.arguments import check_ints
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.names import retry_topic

_LOG = logging.getLogger("rmqcore.client")
MAX_RECONSUME_TIMES = 16
CONCURRENCY = 8
SEND_BACK_SECONDS = 5.0
LOCAL_RETRY_SECONDS = 5.0
"""After how long a message is given again that its broker did not take back. Source: RocketMQ 5.5.0 submitConsumeRequestLater."""
SUSPEND_SECONDS = 1.0
"""How long a queue waits after a failure in order. Source: RocketMQ 5.5.0 suspendCurrentQueueTimeMillis."""
CANCEL_SECONDS = 1.0
Handler = Callable[[ReceivedMessage], Awaitable[ConsumeStatus | None]]


class AsyncPushConsumer:
    """Passes the messages of topics to a handler, as a member of a consumer group. Belongs to the event loop that first uses it.

    `run` calls a handler for each message; ``async for message in consumer`` is the other way. Of each queue the group's
    offset is the lowest message that is not finished, and never beyond it: what was not finished comes again, to this member
    or another.

    Parameters
    ----------
    namesrv : str or iterable of str
        Addresses of name servers, ``host:port``; in one text with ``;`` between them.
    group : str
        Name of the consumer group.
    consume_from : ConsumeFrom or str
        Where the group begins in a queue that it has no offset of, as for `AsyncPullConsumer`.
    max_reconsume_times : int, optional
        How often a message comes back before it is stored in the group's dead letters, ``%DLQ%group``. None: 16 times, and in
        order without an end.
    delay_level : int
        Delay of a message that comes back, 1 to 18 as in ``messageDelayLevel`` of its broker; 0: the longer, the more often.
    concurrency : int
        How many messages `run` works on at once.
    orderly : bool
        Of each queue one message at a time is given, in order, by one member of the group. After a failure its queue waits
        for a second, and the same message is given again.
    pull_batch_size : int
        The most messages of one pull.
    limits : HeldLimits, optional
        How many messages and bytes are held, of a queue and in all.
    now_ms : callable, optional
        The clock: milliseconds since the epoch.
    on_event : callable, optional
        Told a `ClientEvent` for everything that is done or fails, in the loop's thread.

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
        begin = ConsumeFrom(consume_from)
        self._held = HeldMessages(limits or HeldLimits(), orderly=orderly)
        self._assigned: dict[MessageQueue, ProcessQueue] = {}
        self._releasing: dict[MessageQueue, ProcessQueue] = {}
        self._commits = Commits()
        self._member = Membership(
            namesrv,
            group,
            now_ms,
            Reader(self._assign, lambda _: None, self._placed, self._reset, self._states),
            consume_type="CONSUME_PASSIVELY",
            consume_from=begin,
            retry_topic=retry_topic(group),
            on_event=on_event,
        )
        self._instance = self._member.instance
        self._reading = Reading(
            self._instance, group, begin, pull_batch_size, self._member.subscriptions.__getitem__
        )
        self._locks = QueueLocks(self._instance, group)
        self._runs = 0
        self._stopped = False
        self._workers: set[asyncio.Task[None]] = set()
        self._started = self._closing = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- what is read -----------------------------------------------------------------------------

    async def subscribe(
        self,
        topic: str,
        expression: str = "*",
        timeout: float = 30.0,  # noqa: ASYNC109 as for AsyncPullConsumer
    ) -> None:
        """Read a topic too. The group's retry topic is read as well.

        What is sent after this has returned is read, also by a new group. Another expression for a topic that is read already
        holds for what is pulled from then on.

        Parameters
        ----------
        topic : str
            One that no broker has yet is read as soon as it is there.
        expression : str
            ``TagA || TagB``; ``*`` for all messages.
        timeout : float
            Seconds for the whole call.

        Raises
        ------
        ValueError
            The topic's name or the expression is invalid.
        ClientError
            No name server could be asked, or the time is over: then the topic is not subscribed.
        """
        check_topic(topic)
        wanted = subscription(topic, expression, self._instance.now_ms())
        self._check_open()
        await self._member.subscribe(wanted, timeout)

    async def unsubscribe(self, topic: str) -> None:
        """Read a topic no more. Messages of it that are in work are finished.

        As in RocketMQ all members share the queues of each topic, those that do not read it too: while this consumer reads
        other topics, its part of the queues is read by no member. Let all members unsubscribe, or close this one.

        Raises
        ------
        ClientClosedError
            The consumer was closed.
        """
        await self._member.unsubscribe(topic)

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer reads, those of the retry topic included, sorted."""
        return sorted(self._assigned)

    # ---- messages ---------------------------------------------------------------------------------

    async def run(self, handler: Handler, concurrency: int | None = None) -> None:
        """Call a handler for each message, until `stop` or `close`.

        A message is finished when its handler returns None or `ConsumeStatus.CONSUME_SUCCESS`. When the handler raises an
        exception or returns `ConsumeStatus.RECONSUME_LATER` the broker gets the message back and delivers it again later;
        where the broker does not take it the message is given again after five seconds. In order, the message is given again
        after one second.

        When this call is cancelled, the handlers are cancelled too. A message whose handler did not return is not finished:
        the next `run` has it again, or another member after `close`.

        Parameters
        ----------
        handler : callable
            A coroutine function; it gets a `ReceivedMessage`.
        concurrency : int, optional
            How many messages are worked on at once. None: that of the consumer.

        Raises
        ------
        TypeError
            The handler is not a coroutine function, or it returned something else. The message is not finished.
        ClientError
            Nothing is subscribed, or the consumer was closed.
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
                if not worker.cancelled():  # by close, whose time was over
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
        """Make `run` return when the messages in work are finished. Handlers may call it."""
        self._stopped = True
        self._held.tell()

    async def until_stopped(self) -> None:
        """Wait until `run` has returned, or will return without another step of a handler."""
        while self._runs:
            await self._held.change()

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Iterate over the messages. Asking for the next message finishes the one before.

        A message is not finished, and is given again, when its loop was left in its body: by an exception, by cancellation,
        by ``break`` or ``return``. Several tasks may loop over one consumer. The loops end when the consumer is closed.
        """
        self._check_subscribed()
        return _Messages(self._held, lambda: self._closing)

    def finish(self, message: ReceivedMessage) -> None:
        """Finish the message of a loop before the loop is left, or before its work is done.

        Parameters
        ----------
        message : ReceivedMessage
            One that a loop over this consumer works on. A message that is finished or was given up already is left alone.
        """
        self._held.finish_message(message)

    # ---- the end ----------------------------------------------------------------------------------

    async def close(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109 as for AsyncPullConsumer
        """Finish the messages in work, commit, unlock queues, say goodbye to the brokers. A second call does nothing.

        Parameters
        ----------
        timeout : float
            Seconds to wait for handlers. Those that still run are cancelled then, and other members have their messages
            again. A call that is cancelled closes the connections at once: what was not committed before comes again.

        Raises
        ------
        ClientError
            A handler has called this: it would wait for itself. `stop` is for handlers.
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
            self.abandon()  # no member is left behind that reads nothing
            raise

    async def _close(self, seconds: float) -> None:
        queues = list(self._assigned.values())
        for queue in queues:
            self._held.retire(queue)
        self._held.tell()
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._idle(queues)
        except TimeoutError:
            _LOG.warning("close: handlers still run after %g s", seconds)
            for worker in self._workers:
                worker.cancel()
            if self._workers:
                await asyncio.wait(self._workers, timeout=CANCEL_SECONDS)
        await self._commits.commit_unasked(self._positions(queues), AUTO_COMMIT_SECONDS)
        if self._held.orderly:
            await self._locks.unlock(one.queue for one in queues if not self._others_work_on(one))
        self._assigned.clear()
        await self._member.close()

    def abandon(self) -> None:
        """Close all connections without a word; for a loop that ends."""
        self._closing = True
        self._held.tell()
        self._instance.abandon()

    async def _idle(self, queues: list[ProcessQueue]) -> None:
        """Wait until nothing is worked on: by handlers, and by the loops of other tasks."""
        while (
            self._runs
            or any(map(self._others_work_on, queues))
            or any(self._others_work_on(one) or not one.in_work for one in self._releasing.values())
        ):
            await self._held.change()

    def _others_work_on(self, queue: ProcessQueue) -> bool:
        me = asyncio.current_task()
        return any(
            one.task is not None and one.task is not me and not one.task.done()
            for one in queue.in_work
        )

    # ---- work -------------------------------------------------------------------------------------

    async def _work(self, handler: Handler, run_ended: asyncio.Event) -> None:
        def ended() -> bool:
            return self._closing or self._stopped or run_ended.is_set()

        while (one := await self._held.take(ended)) is not None:
            try:
                await self._handle(one, handler)
            finally:
                self._held.put_back(one)  # nothing, where it is finished or given again later

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
            )  # the handler's own: something that it waited for was cancelled
            return
        except Exception as error:  # noqa: BLE001 whatever a handler raises, the message comes again
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
        why = "RECONSUME_LATER" if error is None else f"{type(error).__name__}: {error}"
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

    # ---- which queues -----------------------------------------------------------------------------

    async def _assign(self, topic: str, queues: list[MessageQueue]) -> bool:
        if self._closing:
            return True
        self._start()
        await self._release([one for one in self._of_topic(topic) if one.queue not in queues])
        if self._has_left(topic):
            queues = []  # the topic was unsubscribed while offsets were committed: nothing would pull these
        new = {one: 0.0 for one in queues if one not in self._assigned | self._releasing}
        if self._held.orderly and new:
            new = await self._lock(topic, new)
        for queue, locked_until in new.items():
            added = self._assigned[queue] = ProcessQueue(queue, self._reading, self._held)
            added.locked_until = locked_until
            self._held.add(added)
            added.start()
        leaving = any(one.topic == topic for one in self._releasing)
        return not leaving and all(one in self._assigned for one in queues)

    def _start(self) -> None:
        """Begin what is repeated, at the first call."""
        if not self._started:
            self._started = True
            self._instance.every(AUTO_COMMIT_SECONDS, self._commit)
            if self._held.orderly:
                self._instance.every(RENEW_SECONDS, self._renew_locks)

    async def _placed(self, topic: str) -> None:
        for one in self._of_topic(topic):
            await one.placed.wait()

    async def _release(self, gone: list[ProcessQueue]) -> None:
        """Leave queues to other members: at once, or in order, when the work on them has ended."""
        for one in gone:
            self._held.retire(one)
            del self._assigned[one.queue]
            if self._held.orderly:
                self._releasing[one.queue] = one
                self._instance.run(self._let_go(one))
        if gone and not self._held.orderly:
            await self._commits.commit_unasked(self._positions(gone), AUTO_COMMIT_SECONDS)

    async def _reset(self, offsets: dict[MessageQueue, int]) -> None:
        """Drop what is held of queues and commit other offsets: the next rebalance reads them from there.

        Source: RocketMQ 5.5.0 MQClientInstance#resetOffset.
        """
        found = [one for one in self._assigned.values() if one.queue in offsets]
        for one in found:
            one.reset(offsets[one.queue])
        await self._release(found)

    def _states(self) -> list[QueueState]:
        return [one.state(asyncio.get_running_loop().time()) for one in self._assigned.values()]

    async def _let_go(self, one: ProcessQueue) -> None:
        try:
            await self._held.idle(one)
            await self._commits.commit_unasked(self._positions([one]), AUTO_COMMIT_SECONDS)
            await self._locks.unlock([one.queue])
        finally:
            del self._releasing[one.queue]
            self._held.tell()
            if all(other.topic != one.queue.topic for other in self._releasing):
                self._member.left(one.queue.topic)
            self._member.wake()

    def _has_left(self, topic: str) -> bool:
        """Return True if queues of a topic are not wanted any more; asked again after each wait."""
        return self._closing or topic not in self._member.subscriptions

    def _of_topic(self, topic: str) -> list[ProcessQueue]:
        return [one for one in self._assigned.values() if one.queue.topic == topic]

    # ---- offsets and locks ------------------------------------------------------------------------

    async def _commit(self) -> None:
        positions = self._positions(self._assigned.values())
        await self._commits.commit_unasked(positions, AUTO_COMMIT_SECONDS)

    def _positions(self, queues: Iterable[ProcessQueue]) -> Positions:
        """How far the queues are finished; in order, of those that are still locked: no other member is further."""
        now = asyncio.get_running_loop().time()
        return [
            (one, one.position)
            for one in queues
            if not self._held.orderly or now < one.locked_until
        ]

    async def _lock(self, topic: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        """Lock queues; return those that are locked, each with the time up to which it is consumed."""
        until = asyncio.get_running_loop().time() + LOCK_SECONDS
        locked = [one for one, ours in (await self._locks.lock(queues)).items() if ours]
        if self._has_left(topic):
            await self._locks.unlock(locked)
            return {}
        return dict.fromkeys(locked, until)

    async def _renew_locks(self) -> None:
        held = self._assigned | self._releasing
        asked = asyncio.get_running_loop().time()
        lost = []
        for queue, ours in (await self._locks.lock(held)).items():
            one = held[queue]
            if ours and asked < one.locked_until:
                one.locked_until = asked + LOCK_SECONDS
                continue
            # Another member may have consumed the queue: what is held of it is read again from where the group is.
            _LOG.warning("%s: the lock was lost", queue)
            one.locked_until = 0.0
            if self._assigned.get(queue) is one:
                lost.append(one)
        await self._release(lost)
        self._held.tell()

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

    Its message is put back when the loop has ended: the loop alone holds this object.
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
    """Refuse a number of handlers.

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
