"""Delay levels: messages wait in the queues of `SCHEDULE_TOPIC`, and move to their own topics when they are due.

Source: RocketMQ 5.5.0 ScheduleMessageService, DelayOffsetSerializeWrapper.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from rmqcore.broker.channel import Timer
from rmqcore.broker.parts import BrokerParts
from rmqcore.broker.put_message import append_message, is_final, refusal
from rmqcore.broker.state.delay_offsets import FILE, DelayOffsets
from rmqcore.broker.stored_copy import copy_of, real_place
from rmqcore.codec.message import MessageView
from rmqcore.config.fields import parse_delay_levels
from rmqcore.engine.dispatch.arrivals import Arrival, Listening
from rmqcore.errors import StoreError
from rmqcore.remoting.names import wrong_topic
from rmqcore.vocabulary.status import GetMessageStatus, PutMessageStatus
from rmqcore.vocabulary.topics import SCHEDULE_TOPIC, TRANS_HALF_TOPIC

AGAIN_MS = 1_000
"""After what time a message is tried again that the store did not take."""
_MOST_AT_ONCE = 32
_LOG = logging.getLogger("rmqcore.broker")


class _Level:
    """One delay level: the offset up to which its queue is delivered, and the time of the next delivery."""

    def __init__(self, number: int, delay_ms: int) -> None:
        self.number = number
        self.delay_ms = delay_ms
        self.queue_offset = 0
        self.due_ms: int | None = None
        """None: the queue has nothing more, and an arrival wakes the level; or it waits for the disk."""
        self.awaited = self.waited_for = -1
        """Queue offsets of the message that the timer waits for, and of the one that it has waited for: that one is due, whatever
        the wall clock has been set to since."""
        self.timer: Timer | None = None
        self.waits_for_disk = False


class ScheduleMessages:
    """Delivers delayed messages. Its methods are called by the loop's thread only.

    Each level that waits has a timer, which runs by the monotonic clock and no longer than the level's delay: a wall
    clock that is set back or forward delays no message. An empty queue costs nothing. A message is delivered at least
    once: the offsets are saved when the messages delivered up to them are on disk.

    Parameters
    ----------
    broker : BrokerParts

    Attributes
    ----------
    delays_ms : tuple of int
        Of the levels 1, 2, ...
    """

    def __init__(self, broker: BrokerParts) -> None:
        config = broker.store.config
        self.delays_ms = parse_delay_levels(config.message_delay_level)
        self._broker = broker
        self._levels = [_Level(i, delay_ms) for i, delay_ms in enumerate(self.delays_ms, 1)]
        self._offsets = DelayOffsets(broker.config_files, broker.now_ms)
        self._listening: Listening | None = None

    # ---- beginning and end ----------------------------------------------------------------------------

    def start(self) -> None:
        """Read the offset of each level, and deliver from there on; a slave leaves that to its master."""
        broker = self._broker
        self._offsets.load()
        if broker.store.config.is_slave:
            return
        for level in self._levels:
            level.queue_offset = self._inside(level, self._offsets.get(level.number))
        self._listening = broker.store.on_dispatched(self._heard, topics=(SCHEDULE_TOPIC,))
        broker.every(broker.store.config.flush_delay_offset_interval, self.save)
        self._look(self._levels)

    def _inside(self, level: _Level, queue_offset: int | None) -> int:
        """Return the nearest offset in the queue. Source: ScheduleMessageService#correctDelayOffset."""
        if queue_offset is None:
            return 0
        store, queue_id = self._broker.store, level.number - 1
        low = store.min_offset(SCHEDULE_TOPIC, queue_id)
        high = store.max_offset(SCHEDULE_TOPIC, queue_id)
        right = min(max(queue_offset, low), max(low, high))
        if right != queue_offset:
            text = "delay level %d: offset %d is outside its queue (%d to %d)"
            _LOG.warning(text, level.number, queue_offset, low, high)
            self._offsets.note(level.number, right)
        return right

    def stop(self) -> None:
        """Stop the delivery, and save the offsets once the store has flushed the delivered messages."""
        if self._listening is not None:
            self._listening.remove()
            self._listening = None
        for level in self._levels:
            self._stop_timer(level)
        if not self._offsets.changed:
            return
        try:
            self._broker.store.flush()
        except (StoreError, OSError) as error:
            # Delivered messages may be lost: they are delivered again.
            _LOG.warning("%s is not saved: %s", FILE, error)
        else:
            self._offsets.save(self._offsets.as_json())

    # ---- offsets --------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """Return the offset of each level, as in `delayOffset.json` and in answers to slaves."""
        return self._offsets.as_json()

    def adopt(self, told: dict[str, Any]) -> None:
        """Adopt the master's offsets on a slave; see `DelayOffsets.adopt`."""
        self._offsets.adopt(told)

    def offsets(self) -> dict[int, int]:
        """Return for each level the queue offset of the message to deliver next."""
        return self._offsets.whole()

    def save(self) -> None:
        """Save the offsets as soon as all messages delivered before them are on disk."""
        if not self._offsets.changed:
            return
        self._offsets.changed = False
        snapshot, loop = self._offsets.as_json(), self._broker.loop

        def flushed(status: PutMessageStatus) -> None:  # in a thread of the store
            step = self._offsets.save if status is PutMessageStatus.PUT_OK else self._save_later
            loop.call_soon_threadsafe(partial(step, snapshot))

        store = self._broker.store
        try:
            store.on_flushed(store.max_phy_offset, flushed)
        except (StoreError, OSError) as error:
            _LOG.warning("%s is not saved: %s", FILE, error)
            self._offsets.changed = True

    def _save_later(self, _snapshot: dict[str, Any]) -> None:
        self._offsets.changed = True

    # ---- new messages and timers -----------------------------------------------------------------------

    def _heard(self, arrivals: list[Arrival]) -> None:
        """Pass new entries to the loop; called by the dispatching thread."""
        numbers = {a.queue_id + 1 for a in arrivals if a.topic == SCHEDULE_TOPIC}
        if numbers:
            self._broker.loop.call_soon_threadsafe(partial(self._arrived, numbers))

    def _arrived(self, numbers: set[int]) -> None:
        """Deliver from levels that were empty; on other levels the new message waits behind an earlier one."""
        if self._listening is None:
            return
        idle = [lv for lv in self._levels if lv.number in numbers and lv.due_ms is None]
        if idle:
            self._look(idle)

    def _look(self, levels: Iterable[_Level]) -> None:
        for level in levels:
            self._deliver(level)
            self._set_timer(level)

    def _set_timer(self, level: _Level) -> None:
        self._stop_timer(level)
        if level.due_ms is not None:
            most_ms = max(level.delay_ms, AGAIN_MS)
            wait_ms = min(max(level.due_ms - self._broker.now_ms(), 0), most_ms)
            level.timer = self._broker.loop.call_later(
                wait_ms / 1000, partial(self._time_is_up, level)
            )

    def _stop_timer(self, level: _Level) -> None:
        if level.timer is not None:
            level.timer.cancel()
            level.timer = None

    def _time_is_up(self, level: _Level) -> None:
        level.timer = None
        if self._listening is None:
            return
        level.waited_for = level.awaited
        self._look([level])

    # ---- delivering -----------------------------------------------------------------------------------

    def _deliver(self, level: _Level, *, is_read_in: bool = False) -> None:
        """Deliver the due messages of a level that one read of its queue returns, and set the time of the next read."""
        if level.waits_for_disk:
            return
        now_ms, store = self._broker.now_ms(), self._broker.store
        level.due_ms, level.awaited = None, -1
        wanted = SCHEDULE_TOPIC, level.number - 1, level.queue_offset, _MOST_AT_ONCE
        try:
            found = (store.get if is_read_in else store.get_warm)(*wanted)
        except (StoreError, OSError) as error:
            _LOG.error("delay level %d: %s", level.number, error)
            level.due_ms = now_ms + AGAIN_MS
            return
        if found is None:
            level.waits_for_disk = True
            self._broker.readers.run(
                partial(store.read_in, *wanted), partial(self._is_read_in, level)
            )
            return
        with found:
            if found.status is GetMessageStatus.FOUND:
                level.due_ms = self._deliver_found(level, found.messages, now_ms)
                if level.due_ms is None:
                    level.queue_offset = found.next_begin_offset
                    level.due_ms = now_ms  # read again at once: there may be more
            elif found.next_begin_offset != level.queue_offset:
                text = "delay level %d: no message at %d (%s), continuing at %d"
                _LOG.warning(
                    text, level.number, level.queue_offset, found.status, found.next_begin_offset
                )
                level.queue_offset = found.next_begin_offset
                level.due_ms = now_ms
                self._offsets.note(level.number, level.queue_offset)

    def _is_read_in(self, level: _Level, _: object) -> None:
        """Deliver the messages that memory holds now; the delivery raises an error of the read again."""
        level.waits_for_disk = False
        if self._listening is not None:
            self._deliver(level, is_read_in=True)
            self._set_timer(level)

    def _deliver_found(self, level: _Level, messages: list[MessageView], now_ms: int) -> int | None:
        """Deliver messages up to the first that is not due, and return its time; None if all are delivered."""
        for view in messages:
            due_ms = view.tags_code
            is_early = now_ms < due_ms <= now_ms + level.delay_ms
            if is_early and view.queue_offset != level.waited_for:
                if self._offsets.get(level.number) != view.queue_offset:
                    self._offsets.note(level.number, view.queue_offset)
                level.queue_offset = level.awaited = view.queue_offset
                return due_ms
            if not self._time_up(level, view):
                level.queue_offset = view.queue_offset
                return now_ms + AGAIN_MS
            level.queue_offset = view.queue_offset + 1
            self._offsets.note(level.number, level.queue_offset)
        return None

    def _time_up(self, level: _Level, view: MessageView) -> bool:
        """Store a message in its own topic; return False if the store refuses it now.

        All properties stay, DELAY included, as in Java, whose `messageTimeUp` clears them too late.
        """
        try:
            topic, queue_id = real_place(view)
            wrong = wrong_topic(topic)
        except ValueError as error:
            topic, queue_id, wrong = "", 0, str(error)
        if topic == TRANS_HALF_TOPIC:
            wrong = f"{topic} is reserved for prepared messages of transactions"
        if wrong is not None:
            text = "delay level %d: the message at queue offset %d is skipped: %s"
            _LOG.error(text, level.number, view.queue_offset, wrong)
            return True
        message = copy_of(view, topic, queue_id)
        status = refusal(self._broker, message)
        if status is None:
            result = append_message(self._broker, message)
            if result.stored:
                self._broker.stats.topic_put(topic, result.count, result.msg_size)
                self._broker.stats.broker_put(result.count)
                return True
            status = result.status
        final = is_final(self._broker, message, status)
        if (
            final or self._broker.store.refusal is None
        ):  # else StoreWatch logs once why the store refuses messages
            text = "delay level %d: the message at queue offset %d could not be stored: %s"
            _LOG.error(text, level.number, view.queue_offset, status)
        return final
