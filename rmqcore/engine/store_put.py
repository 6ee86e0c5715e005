"""The writing half of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rmqcore._native.arrow_put import put_arrow
from rmqcore._native.commitlog import PutResult, refused_result
from rmqcore._native.message import Message
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.light_put import LightPut
from rmqcore.engine.paths import StorePaths
from rmqcore.engine.put_many_result import PutManyResult
from rmqcore.engine.store_state import StoreState
from rmqcore.status import PutMessageStatus


class StorePut(StoreState):
    """Puts; see MessageStore."""

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        *,
        create: bool = True,
        clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(paths, config, create=create, clock=clock)
        self._is_slave = config.broker_role == "SLAVE" and not config.duplication_enable
        self._light_put: LightPut | None = None
        if config.enable_lmq:
            self._light_put = LightPut(self._log, config, self._appender.put)
        plain = self._light_put is None and not self._is_slave
        # One attribute, chosen once: a put should not ask each time what kind of store this is.
        self._append = self._appender.put if plain else self._append_specially

    def put(self, message: Message) -> PutResult:
        """Append one message.

        Returns
        -------
        PutResult
            PUT_OK: the message is in the log, with SYNC_FLUSH on disk too (docs/durability.md). A message that breaks a limit
            is MESSAGE_ILLEGAL or PROPERTIES_SIZE_EXCEEDED, and nothing is stored.

        Raises
        ------
        StoreFailedError
            A write, a sync or an allocation failed, now or earlier.
        StoreClosedError
            The store is closed.
        ValueError
            A property with a separator (0x01, 0x02) in it, text that is no valid Unicode.

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#putMessage, CommitLog#asyncPutMessage.
        """
        result = self._append(message)
        if self._sync and result.stored:
            return self._confirm(result, message)
        return result

    def put_batch(self, messages: Iterable[Message]) -> PutResult:
        """Append messages of one topic and queue: all or nothing, next to each other, in one file.

        Parameters
        ----------
        messages : iterable of Message
            Equal in topic, queue id, SYSFLAG, born time, hosts, reconsume times, as Java's MessageExtBatch has them once.

        Returns
        -------
        PutResult
            `msg_size` is the total, `msg_id` has all ids with commas between them. MESSAGE_ILLEGAL when one breaks a limit,
            with a transaction type, with a DELAY, or when the batch is over `max_message_size`.

        Raises
        ------
        ValueError
            No message, or one that differs in what all share.

        Notes
        -----
        Other errors as `put`. Source: RocketMQ 5.5.0 CommitLog#asyncPutMessages.
        """
        batch = list(messages)
        if self._is_slave and batch:
            return self._append_specially(batch[0])
        result = self._appender.put_batch(batch)
        if self._sync and result.stored:
            return self._confirm(result, batch[0])
        return result

    def put_many(self, messages: Iterable[Message]) -> PutManyResult:
        """Append any messages in order, each for itself, in one native call.

        A message that cannot be stored has its status in the answer and keeps none of the others from it. With SYNC_FLUSH the
        disk is waited for once.

        Raises
        ------
        TypeError
            Something that is no Message; then nothing was stored.

        Notes
        -----
        Other errors as `put`.
        """
        every = messages if isinstance(messages, list) else list(messages)
        if self._append != self._appender.put:
            result = PutManyResult.of_results([self._append(message) for message in every])
        else:
            result = PutManyResult.of_codes(*self._appender.put_many(every))
        return self._confirm_many(result)

    def put_arrow(self, data: object) -> PutManyResult:
        """Append the rows of Arrow data in order, without a Python object for any of them.

        Parameters
        ----------
        data : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            pyarrow, Polars, DuckDB... Columns ``topic``, ``body``, ``queue_id``, ``tags``, ``keys`` (a list of words), and the
            other arguments of Message, all but the first two optional.

        Raises
        ------
        TypeError
            No Arrow data, or a column of a type that it cannot have.
        ValueError
            An unknown, missing or repeated column.
        OSError
            The stream itself failed; rows of the batches before are stored.
        PutFailedError
            The store is a slave.

        Notes
        -----
        Statuses and other errors as `put_many`. A row with INNER_MULTI_DISPATCH goes to its own queue only.
        """
        if self._is_slave:
            self._append_specially(Message("", b"")).raise_for_status()
        codes, phy_offsets, queue_offsets, times, refusal = put_arrow(self._appender, data)
        result = PutManyResult.of_codes(
            codes, phy_offsets, queue_offsets, times, self._appender.max_phy_offset, refusal
        )
        return self._confirm_many(result)

    # ---- how

    def _append_specially(self, message: Message) -> PutResult:
        if self._is_slave:
            self.raise_if_closed()
            return refused_result(PutMessageStatus.SERVICE_NOT_AVAILABLE)
        assert self._light_put is not None
        if self._light_put.concerns(message):
            return self._light_put.put(message)
        return self._appender.put(message)

    def _confirm(self, result: PutResult, message: Message) -> PutResult:
        """SYNC_FLUSH: wait for the disk, unless the message says that nobody does."""
        if message.properties.get("WAIT", "true").lower() != "true":
            return result
        status = self._wait_flushed(result.phy_offset + result.msg_size)
        return result if status is PutMessageStatus.PUT_OK else result.with_status(status)

    def _confirm_many(self, result: PutManyResult) -> PutManyResult:
        if not self._sync or result.count == 0:
            return result
        status = self._wait_flushed(result.end_offset)
        return result if status is PutMessageStatus.PUT_OK else result.with_status(status)

    def _wait_flushed(self, end_offset: int) -> PutMessageStatus:
        if self._waiters is not None:
            return self._waiters.wait_flushed(end_offset, self.config.sync_flush_timeout)
        self.flush_commitlog()
        return PutMessageStatus.PUT_OK

    def flush_commitlog(self, least_pages: int = 0) -> int:
        """Bring the CommitLog to disk; answers up to where it is there.

        Raises
        ------
        StoreFailedError
            The sync failed, or the store has failed before: what is on disk is not known.
        """
        self.raise_if_closed()
        self.raise_if_failed()
        try:
            return self._log.flush(least_pages)
        except OSError:
            self.raise_if_failed()
            raise
