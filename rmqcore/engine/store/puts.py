"""Puts of an open store: the append, then the waits for the disk (SYNC_FLUSH) and for followers (SYNC_MASTER)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from rmqcore._native.put.appender import Appender
from rmqcore._native.put.arrow_put import put_arrow
from rmqcore._native.put.message import Message
from rmqcore._native.put.put_result import PutResult, refused_result
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.store.flush import Flush
from rmqcore.engine.store.followers import Followers
from rmqcore.engine.store.light_put import LightPut
from rmqcore.engine.store.put_many_result import PutManyResult
from rmqcore.engine.store.put_waits import MASTER_ALONE, replicas_needed, waits
from rmqcore.engine.store.state import StoreState
from rmqcore.errors import StoreError
from rmqcore.errors.arguments import check_iterable
from rmqcore.vocabulary.status import PutMessageStatus

Result = TypeVar("Result", PutResult, PutManyResult)


class Puts:
    """Append messages to a log, and wait for disk and followers if the settings require it.

    Attributes
    ----------
    append_one : callable
        Append one message without a wait. Chosen once, by the kind of the store, to save the choice in each put.
    """

    def __init__(
        self,
        log: CommitLog,
        config: MessageStoreConfig,
        state: StoreState,
        flush: Flush,
        followers: Followers,
    ) -> None:
        self._appender = log.appender
        self._state = state
        self._flush = flush
        self._followers = followers
        self._sync = config.syncs_puts
        self._timeout_ms = config.sync_flush_timeout
        self._takes_none = config.takes_no_puts
        self._replicates = replicas_needed(config) > MASTER_ALONE
        self._slave_timeout = config.slave_timeout / 1000
        self._is_plain = not (self._takes_none or config.enable_lmq)
        self.append_one: Callable[[Message], PutResult] = self._appender.put
        if self._takes_none:
            self.append_one = partial(_refuse, state)
        elif config.enable_lmq:
            self.append_one = LightPut(log, config, self._appender.put).put

    @property
    def plain_appender(self) -> Appender | None:
        """The native append if a put of this store needs no further step; otherwise None."""
        return self._appender if self._is_plain else None

    @property
    def chosen_put(self) -> Callable[[Message], PutResult]:
        """The callable behind `MessageStore.put`; under ASYNC_FLUSH the native append itself.

        A property, because an object that holds its own bound method is a reference cycle.
        """
        return self.put_and_wait if self._sync or self._replicates else self.append_one

    def put_and_wait(self, message: Message) -> PutResult:
        """Append one message; wait for disk (SYNC_FLUSH) and followers (SYNC_MASTER), unless its WAIT is false."""
        result = self.append_one(message)
        if result.stored and waits(message.properties):
            return self._wait(result, result.phy_offset + result.msg_size)
        return result

    def put_batch(self, messages: Iterable[Message]) -> PutResult:
        """Append messages of one queue, all of them or none."""
        batch = _copied(messages)
        result = self.append_batch(batch)
        if result.stored and waits(batch[0].properties):
            return self._wait(result, result.phy_offset + result.msg_size)
        return result

    def append_batch(self, messages: Iterable[Message]) -> PutResult:
        """Append messages of one queue, all of them or none, without a wait."""
        batch = _copied(messages)
        if self._takes_none and batch:
            return _refuse(self._state)
        return self._appender.put_batch(batch)

    def put_many(self, messages: Iterable[Message]) -> PutManyResult:
        """Append messages in order, each for itself."""
        every = messages if type(messages) is list else _copied(messages)
        if self._takes_none:
            return PutManyResult.of_results([_refuse(self._state)] * len(every))
        if self._is_plain:
            result = PutManyResult.of_codes(*self._appender.put_many(every))
        else:
            result = PutManyResult.of_results(self._put_each(every))
        return self._wait_many(result)

    def put_arrow(self, data: object) -> PutManyResult:
        """Append the rows of Arrow data in order."""
        if self._takes_none:
            _refuse(self._state).raise_for_status()
        codes, phy_offsets, queue_offsets, times, refused_at, refusal, column, reason = put_arrow(
            self._appender, data
        )
        result = PutManyResult.of_codes(
            codes,
            phy_offsets,
            queue_offsets,
            times,
            self._appender.max_phy_offset,
            refused_at,
            refusal,
            refused_column=column,
            column_reason=reason,
        )
        return self._wait_many(result)

    # ---- how

    def _put_each(self, messages: list[Message]) -> list[PutResult]:
        """Append one by one, with the results of the native `put_many`."""
        for place, message in enumerate(messages):
            if not isinstance(message, Message):
                kind = type(message).__name__
                raise TypeError(f"put_many: message {place} is a {kind}, expected a Message")
        results: list[PutResult] = []
        for message in messages:
            try:
                results.append(self.append_one(message))
            except (BufferError, OverflowError, TypeError, ValueError) as error:
                results.append(refused_result(PutMessageStatus.MESSAGE_ILLEGAL, str(error)))
            except StoreError:
                if not any(result.stored for result in results):
                    raise
                rest = len(messages) - len(results)
                return results + [refused_result(PutMessageStatus.SERVICE_NOT_AVAILABLE)] * rest
        return results

    def _wait_many(self, result: PutManyResult) -> PutManyResult:
        return self._wait(result, result.end_offset) if result.count else result

    def _wait(self, result: Result, end_offset: int) -> Result:
        """Wait for disk and followers, both from now on; return the result with the status of these waits."""
        until = time.monotonic() + self._slave_timeout if self._replicates else 0.0
        status = self._wait_flushed(end_offset) if self._sync else PutMessageStatus.PUT_OK
        if self._replicates:
            replicas = self._followers.wait(end_offset, until - time.monotonic())
            if replicas is not PutMessageStatus.PUT_OK:
                status = replicas  # as in Java, for any answer of the disk
        return result if status is PutMessageStatus.PUT_OK else result.with_status(status)

    def _wait_flushed(self, end_offset: int) -> PutMessageStatus:
        """SYNC_FLUSH: wait for the group commit (without threads: sync here)."""
        waiters = self._state.waiters
        if waiters is None:
            self._flush.flush_log()
            return PutMessageStatus.PUT_OK
        return waiters.wait_flushed(end_offset, self._timeout_ms)


def _copied(messages: Iterable[Message]) -> list[Message]:
    """Return a copy of the list: a batch is measured, then filled, and another thread may change the caller's list."""
    check_iterable("messages", "Message", messages)
    return list(messages)


def _refuse(state: StoreState, _message: object = None) -> PutResult:
    """Refuse a put in a slave, whose log grows only by the master's bytes."""
    state.raise_unless_writable()
    return refused_result(PutMessageStatus.SERVICE_NOT_AVAILABLE)
