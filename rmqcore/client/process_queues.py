"""The messages that a push consumer holds: the order in which handlers get them, and the progress of each queue.

Source: RocketMQ 5.5.0 ProcessQueue, DefaultMQPushConsumerImpl#pullMessage (its limits), ConsumeMessageOrderlyService.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rmqcore.client.assigned_queue import PulledQueue, Reading
from rmqcore.client.broker_questions import QueueState
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.send_back import with_first_topic
from rmqcore.errors.arguments import check_ints


@dataclass(frozen=True, slots=True)
class HeldLimits:
    """How much a consumer holds before it stops pulling. A pull in progress may exceed the limits.

    Attributes
    ----------
    messages, size : int
        Messages, and bytes of their records, of all queues.
    messages_of_queue, size_of_queue : int
        Messages, and bytes of their records, of one queue.
    span_of_queue : int
        Queue offsets from the lowest unfinished message to the next pull: these are delivered again after a crash.
        Source: RocketMQ 5.5.0 consumeConcurrentlyMaxSpan.

    Raises
    ------
    ValueError
        A limit is below 1, `span_of_queue` below 0: no message would be pulled.
    TypeError
        A limit is not a whole number.
    """

    messages: int = 10_000
    size: int = 512 << 20
    messages_of_queue: int = 1_000
    size_of_queue: int = 100 << 20
    span_of_queue: int = 2_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value, least = getattr(self, name), int(name != "span_of_queue")
            check_ints(**{name: value})
            if value < least:
                raise ValueError(f"{name} is {value}, expected at least {least}")


class Held:
    """A message from its pull until it is finished.

    Attributes
    ----------
    queue : ProcessQueue
    message : ReceivedMessage
    task : Task or None
        The task that works on it.
    """

    __slots__ = ("message", "queue", "task")

    def __init__(self, queue: ProcessQueue, message: ReceivedMessage) -> None:
        self.queue = queue
        self.message = message
        self.task: asyncio.Task[object] | None = None


class ProcessQueue(PulledQueue):
    """A queue with its unfinished messages.

    Attributes
    ----------
    waiting : deque of Held
        Messages that no task works on, in the order in which handlers get them.
    in_work : set of Held
    count, size : int
        Number of unfinished messages, and bytes of their records.
    retired : bool
        No handler gets a message of the queue any more.
    locked_until : float
        The loop's time up to which its broker holds a lock for this client. Only for consumption in order.
    suspended : bool
        No handler gets a message of the queue until a timer has run out. Only for consumption in order.
    """

    def __init__(self, queue: MessageQueue, reading: Reading, held: HeldMessages) -> None:
        super().__init__(queue, reading)
        self._held = held
        self._group = reading.group
        self._next_offset: int | None = None
        self._unfinished: dict[Held, None] = {}
        self.waiting: deque[Held] = deque()
        self.in_work: set[Held] = set()
        self.count = self.size = 0
        self.retired = False
        self.locked_until = 0.0
        self.suspended = False

    @property
    def position(self) -> int | None:
        """The queue offset to commit: that of the lowest unfinished message, else the one behind the last pull."""
        if self._next_offset is None:
            return None
        unfinished = (one.message.queue_offset for one in self._unfinished)
        return min(unfinished, default=self._next_offset)

    @property
    def span(self) -> int:
        """Queue offsets between `position` and the next pull."""
        position = self.position
        return 0 if position is None or self._next_offset is None else self._next_offset - position

    def reset(self, queue_offset: int) -> None:
        """Set `position` to another offset, and mark the queue to be retired with the messages that it holds."""
        self._unfinished.clear()
        self._next_offset = queue_offset

    def state(self, now: float) -> QueueState:
        """Return the queue's state at a time of the loop."""
        is_locked = now < self.locked_until
        return QueueState(self.queue, self.position, self.count, self.size, is_locked)

    def begins(self, queue_offset: int) -> None:
        """Note the offset at which the group starts: it is committed soon, so that another member starts there too."""
        self._next_offset = queue_offset

    async def room(self) -> None:
        """Wait until the limits allow another pull."""
        await self._held.room(self)

    def pulled(self, messages: tuple[ReceivedMessage, ...], next_offset: int) -> None:
        """Add the messages of a pull."""
        if self.retired:
            return
        found = [Held(self, with_first_topic(message, self._group)) for message in messages]
        self._unfinished |= dict.fromkeys(found)
        self.waiting.extend(found)
        self._next_offset = next_offset
        self._held.count(self, len(found), sum(one.message.msg_size for one in found))

    def done_with(self, one: Held) -> None:
        """Forget a message that is finished."""
        self._unfinished.pop(one, None)


class HeldMessages:
    """The queues of a consumer, served in turn, with their messages. Used by its loop's thread only.

    Parameters
    ----------
    limits : HeldLimits
    orderly : bool
        Handlers get one message at a time of each queue, while the queue is locked.
    """

    def __init__(self, limits: HeldLimits, *, orderly: bool) -> None:
        self.orderly = orderly
        self._limits = limits
        self._queues: deque[ProcessQueue] = deque()
        self._in_work: set[Held] = set()
        self._count = self._size = 0
        self._changed = asyncio.Event()
        self._waiters = 0

    def add(self, queue: ProcessQueue) -> None:
        """Start to pass on the messages of a queue."""
        self._queues.append(queue)

    def retire(self, queue: ProcessQueue) -> None:
        """Stop pulling and handling messages of a queue; running handlers may finish theirs."""
        if queue.retired:
            return
        queue.drop()
        queue.retired = True
        queue.waiting.clear()
        self._queues.remove(queue)
        self.count(queue, -queue.count, -queue.size)

    async def take(self, ended: Callable[[], bool]) -> Held | None:
        """Wait for the next message, and note that the current task works on it.

        Parameters
        ----------
        ended : callable
            Returns True to stop waiting; called again after each `tell`.

        Returns
        -------
        Held or None
            None if `ended` returned True. A cancelled call has taken no message.
        """
        while not ended():
            if (found := self._next()) is not None:
                return found
            await self.change()
        return None

    def finish(self, one: Held) -> None:
        """Note that a message is finished: its offset may be committed."""
        queue = one.queue
        if self._leave(one):
            queue.done_with(one)
            if not queue.retired:
                self.count(queue, -1, -one.message.msg_size)
            self.tell()

    def finish_message(self, message: ReceivedMessage) -> None:
        """Finish a message that a task works on; do nothing if none does."""
        for one in self._in_work:
            if one.message is message:
                self.finish(one)
                return

    def put_back(self, one: Held, *, seconds: float = 0.0) -> None:
        """Deliver a message again after some seconds, as the next of its queue; a queue in order waits for it."""
        if not self._leave(one):
            return
        queue = one.queue
        self.tell()
        if queue.retired:
            return
        if seconds <= 0:
            queue.waiting.appendleft(one)
            return
        loop = asyncio.get_running_loop()
        if self.orderly:
            queue.suspended = True
            queue.waiting.appendleft(one)
            loop.call_later(seconds, self._resume, queue)
        else:
            loop.call_later(seconds, self._again, one)

    async def idle(self, queue: ProcessQueue) -> None:
        """Wait until no task works on a message of a queue."""
        while queue.in_work:
            await self.change()

    async def room(self, queue: ProcessQueue) -> None:
        """Wait until the limits allow another pull of a queue."""
        limits = self._limits
        while (
            queue.count >= limits.messages_of_queue
            or queue.size >= limits.size_of_queue
            or self._count >= limits.messages
            or self._size >= limits.size
            or queue.span > limits.span_of_queue
        ):
            await self.change()

    def count(self, queue: ProcessQueue, count: int, size: int) -> None:
        """Count messages that were added, or removed with negative numbers."""
        queue.count += count
        queue.size += size
        self._count += count
        self._size += size
        self.tell()

    async def change(self) -> None:
        """Wait for the next change."""
        self._waiters += 1
        try:
            await self._changed.wait()
        finally:
            self._waiters -= 1

    def tell(self) -> None:
        """Wake all waiting tasks; each checks for itself whether it can continue."""
        if self._waiters:
            self._changed.set()
            self._changed = asyncio.Event()

    def _next(self) -> Held | None:
        now = asyncio.get_running_loop().time()
        for _ in range(len(self._queues)):
            queue = self._queues[0]
            self._queues.rotate(-1)
            if queue.waiting and self._may_give(queue, now):
                one = queue.waiting.popleft()
                one.task = asyncio.current_task()
                queue.in_work.add(one)
                self._in_work.add(one)
                return one
        return None

    def _may_give(self, queue: ProcessQueue, now: float) -> bool:
        return not self.orderly or (
            not queue.in_work and not queue.suspended and now < queue.locked_until
        )

    def _leave(self, one: Held) -> bool:
        """Note that no task works on a message any more; return False if none did."""
        if one not in one.queue.in_work:
            return False
        one.queue.in_work.discard(one)
        self._in_work.discard(one)
        one.task = None
        return True

    def _resume(self, queue: ProcessQueue) -> None:
        queue.suspended = False
        self.tell()

    def _again(self, one: Held) -> None:
        if not one.queue.retired:
            one.queue.waiting.appendleft(one)
            self.tell()
