"""MessageStore: an open store as one machine without threads, put together from parts; every step is a method call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from rmqcore._native.format.codec import MessageView
from rmqcore._native.index.query import QueryResult, query_messages
from rmqcore._native.put.message import Message
from rmqcore._native.put.put_method import PutMethod
from rmqcore._native.put.put_result import PutResult
from rmqcore._native.queues.get import GetResult, get_messages
from rmqcore._native.queues.get_limits import GetLimits
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import MAX_OFFSET, StorePaths
from rmqcore.engine.recovery.thoroughness import NORMAL, RecoverMode
from rmqcore.engine.store.put_many_result import PutManyResult
from rmqcore.engine.store.raw_log import RawLog
from rmqcore.engine.store.served_store import ServedStore
from rmqcore.engine.store.stepped_store import SteppedStore
from rmqcore.engine.store.store_clean import StoreClean
from rmqcore.engine.store.store_dispatch import StoreDispatch
from rmqcore.engine.store.store_flush import StoreFlush
from rmqcore.engine.store.store_followers import StoreFollowers
from rmqcore.engine.store.store_get import StoreGet
from rmqcore.engine.store.store_parts import Settle, StoreParts, as_given
from rmqcore.engine.store.store_put import StorePut
from rmqcore.engine.store.store_scrub import StoreScrub
from rmqcore.engine.store.store_state import StoreState, Waiters
from rmqcore.engine.store.store_stats import StoreStats
from rmqcore.errors.arguments import named
from rmqcore.queries.asked import check_get, check_query
from rmqcore.queries.index_query import INDEX_TYPES
from rmqcore.queries.queue_info import QueueInfo
from rmqcore.queries.tag_filter import TagFilter
from rmqcore.shown.notebook import Shown, store_html


class MessageStore(SteppedStore, ServedStore, PutMethod):
    """A store that is open for writing. Made by `rmqcore.open`.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    create : bool
        Make the directory when it is not there.
    clock : callable, optional
        Answers milliseconds since the epoch; called once a put inside the append lock.
    mode : RecoverMode
    settle : callable
        Gives the configuration for the files that are there.

    Attributes
    ----------
    config : MessageStoreConfig
        With the file sizes that the store has.
    recovery : RecoveryReport
        What this open scanned, cut and dispatched again.

    Raises
    ------
    StoreError, OSError
        As `rmqcore.open`.

    Notes
    -----
    Thread safety: all methods may be called from any thread. After a fork a store is unusable in the child.

    Source: RocketMQ 5.5.0 DefaultMessageStore.
    """

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        *,
        create: bool = True,
        clock: Callable[[], int] | None = None,
        mode: RecoverMode = NORMAL,
        settle: Settle = as_given,
    ) -> None:
        self.paths = paths
        self._state = state = StoreState(paths.root)
        self._parts = parts = StoreParts(paths, config, state, create, clock, mode, settle)
        self.config = parts.config
        try:
            self._put_together(parts, parts.config)
        except BaseException:
            parts.release()
            raise

    def _put_together(self, parts: StoreParts, config: MessageStoreConfig) -> None:
        self.recovery = parts.recovery
        self._dispatch = StoreDispatch(parts, config, self._state)
        self._flush = StoreFlush(parts, self._state, self._dispatch)
        self._followers = StoreFollowers(parts.log, self._state)
        self._puts = StorePut(parts.log, config, self._state, self._flush, self._followers)
        self._gets = StoreGet(parts, self._state)
        self._raw = RawLog(parts, config, self._state, self._dispatch)
        self._scrub = StoreScrub(parts, config, self._state, self._dispatch)
        self._clean = StoreClean(parts, config, self._state, self._dispatch, self._flush)
        self._stats = StoreStats(parts, self._state, self._dispatch, self._scrub)
        # For the calls that are made a million times a second: each is one attribute away.
        self._put_with(self._puts.put, self._puts.append)
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._files = parts.log.files
        self._levels = parts.log.delay_levels
        self._appender = parts.log.appender
        self._get_limits = GetLimits(config)
        self._state.guard(self._appender)

    def attach(self, waiters: Waiters) -> None:
        """Run the steps in threads from now on; `close` stops them."""
        self._state.waiters = waiters

    # ---- where it is

    @property
    def min_phy_offset(self) -> int:
        """CommitLog offset of the first byte that is there."""
        return self._log.min_offset

    @property
    def max_phy_offset(self) -> int:
        """CommitLog offset after the last record."""
        return self._log.max_offset

    @property
    def flushed_phy_offset(self) -> int:
        """CommitLog offset up to which everything is on disk; moves only after a sync that succeeded."""
        return self._log.flushed_offset

    @property
    def confirm_offset(self) -> int:
        """CommitLog offset up to which consumers may see messages: with SYNC_FLUSH only what is on disk."""
        return self._dispatch.confirm_offset

    @property
    def reput_from_offset(self) -> int:
        """CommitLog offset up to which messages are in queues and index."""
        return self._dispatch.reput_from_offset

    @property
    def dispatch_behind_bytes(self) -> int:
        """CommitLog bytes that consumers may see and that are not yet in queues and index."""
        return self._dispatch.behind_bytes

    # ---- puts

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
        return self._puts.put_batch(messages)

    def append_batch(self, messages: Iterable[Message]) -> PutResult:
        """Do as `put_batch`, but wait for nothing: what `append` is to `put`. `on_flushed` tells when it is on disk."""
        return self._puts.append_batch(messages)

    def put_many(self, messages: Iterable[Message]) -> PutManyResult:
        """Append any messages in order, each for itself, in one native call.

        A message that cannot be stored has its status in the answer and keeps none of the others from it. With SYNC_FLUSH the
        disk is waited for once.

        Raises
        ------
        TypeError
            An item is not a Message; nothing was stored.

        Notes
        -----
        Other errors as `put`.
        """
        return self._puts.put_many(messages)

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
        return self._puts.put_arrow(data)

    # ---- reads

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        max_bytes: int | None = None,
    ) -> GetResult:
        """Return messages of a queue from an offset on.

        Parameters
        ----------
        topic : str
        queue_id, queue_offset : int
        max_messages : int
            At most 32 come at once, 8 from far behind (the ``max_transfer_*`` fields), and never past the end of a queue file.
        tags : str, optional
            ``"TagA"``, ``"TagA || TagB"`` or ``"*"``; hashes are compared, as a broker does.
        max_bytes : int, optional
            One message always comes.

        Returns
        -------
        GetResult
            Its messages read the mapped file without a copy; holding one keeps the file mapped.

        Raises
        ------
        TypeError
            An argument of another type; it is named.
        ValueError
            `max_messages` below 1, or no tag in `tags`.
        StoreClosedError

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#getMessage.
        """
        if self._state.closed is not None:
            self._state.raise_if_closed()
        try:
            if max_messages < 1:
                check_get(topic, queue_id, queue_offset, max_messages, tags, max_bytes)
            return get_messages(
                self._queues.find(topic, queue_id),
                self._files,
                self._appender.max_phy_offset,
                queue_offset,
                max_messages,
                TagFilter(tags) if tags is not None else None,
                max_bytes,
                self._get_limits,
                self._levels,
            )
        except TypeError as error:
            given = topic, queue_id, queue_offset, max_messages, tags, max_bytes
            raise named(error, check_get, *given) from None

    def query(
        self,
        topic: str,
        key: str,
        max_messages: int = 32,
        begin_ms: int = 0,
        end_ms: int | None = None,
        *,
        index_type: str | None = None,
    ) -> QueryResult:
        """Return the newest messages with a key, in physical order.

        Parameters
        ----------
        topic, key : str
        max_messages : int
            At most `max_msgs_num_batch` (64) come.
        begin_ms, end_ms : int
            Store time in milliseconds, both included; the index knows it to the second.
        index_type : str, optional
            ``"T"``: `key` is a tag. ``"K"`` and ``"U"`` are keys and unique keys, which the index does not tell apart.

        Returns
        -------
        QueryResult
            Entries whose records are gone are left out.

        Raises
        ------
        TypeError
            An argument of another type; it is named.
        ValueError
            A negative `max_messages`, another `index_type`, a time that no long holds.
        StoreClosedError

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#queryMessage. Its second and third round ask the same again, because they go on
        before the store time of a record that is not there.
        """
        if self._state.closed is not None:
            self._state.raise_if_closed()
        try:
            if (
                max_messages < 0
                or type(begin_ms) is not int
                or (end_ms is not None and type(end_ms) is not int)
                or (index_type is not None and index_type not in INDEX_TYPES)
            ):
                check_query(topic, key, max_messages, begin_ms, end_ms, index_type)
            return query_messages(
                self._index.search,
                self._files,
                self._appender,
                self._levels,
                topic,
                key,
                max_messages,
                begin_ms,
                MAX_OFFSET if end_ms is None else end_ms,
                index_type,
            )
        except (OverflowError, TypeError) as error:
            given = topic, key, max_messages, begin_ms, end_ms, index_type
            raise named(error, check_query, *given) from None

    def lookup(self, phy_offset: int) -> MessageView | None:
        """Return the message whose record starts at a CommitLog offset; None if no record does."""
        return self._gets.lookup(phy_offset)

    def lookup_id(self, msg_id: str) -> MessageView | None:
        """Return the message with this broker's message id; None if there is no message with exactly this id.

        Raises
        ------
        ValueError
            Not 32 or 56 hex digits.
        """
        return self._gets.lookup_id(msg_id)

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER"
    ) -> int:
        """Return the first queue offset stored at or after a time (LOWER), or the last at or before it (UPPER).

        Raises
        ------
        ValueError
            Another `boundary`.

        Notes
        -----
        Source: RocketMQ 5.5.0 ConsumeQueue#getOffsetInQueueByTime.
        """
        return self._gets.offset_by_time(topic, queue_id, timestamp_ms, boundary)

    def phy_offset_of(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return the CommitLog offset that a queue entry holds; None outside the queue."""
        return self._gets.phy_offset_of(topic, queue_id, queue_offset)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of a queue's first message; 0 for an unknown queue."""
        return self._gets.min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after a queue's last dispatched message; 0 for an unknown queue."""
        return self._gets.max_offset(topic, queue_id)

    def topics(self) -> list[str]:
        """Return the names of all topics with a queue."""
        return self._gets.topics()

    def queues(self) -> list[QueueInfo]:
        """Return every queue with its offsets, sorted by topic and queue id; each is also the pair of these."""
        return self._gets.queues()

    # ---- waiting, and what it does

    def wait_dispatched(self, timeout: float | None = None) -> bool:
        """Wait until all messages that consumers may see are in queues and index; answer whether they are.

        Without threads (``services=False``) the steps are made here.

        Parameters
        ----------
        timeout : float, optional
            Seconds.
        """
        return self._dispatch.wait(timeout)

    def stats(self) -> dict[str, Any]:
        """Return the offsets, whether the store has failed, and the errors of the background threads (docs/durability.md)."""
        self._state.raise_if_forked()
        return self._stats.read()

    # ---- failed, closed

    def fail(self, error: BaseException) -> None:
        """Refuse writes from now on; reads continue. The first failure is kept."""
        self._state.fail(error)

    def note_error(self, service: str, error: BaseException | None) -> None:
        """Show an error that costs no data in `stats()`; writes continue. None: the error is resolved."""
        self._state.note_error(service, error)

    @property
    def failed(self) -> bool:
        """True if a write, sync or allocation has failed since the store was opened."""
        return self._state.failure is not None

    @property
    def background_errors(self) -> dict[str, str]:
        """Errors in the store's threads that cost no data, by thread name, until the step succeeds."""
        return dict(self._state.errors)

    @property
    def refusal(self) -> str | None:
        """Why messages are refused: the first failure, or which room or descriptors are missing. None while they are taken."""
        failure = self._state.failure
        return self._state.no_puts if failure is None else str(failure)

    def raise_if_failed(self) -> None:
        """Raise StoreFailedError when the store has failed."""
        self._state.raise_if_failed()

    def close(self) -> None:
        """Write everything, say that the exit is clean, and let go of the directory. May be repeated, from any thread.

        Pending messages are dispatched first. Views that the program holds stay valid. After a failure nothing is written: the
        next open recovers. On top of another call of the same thread (a signal handler, a destructor) that holds a lock, puts
        end at once and the rest follows when that call returns or raises, or at the exit of the interpreter.

        Raises
        ------
        StoreFailedError
            Something could not be written now; the directory is let go of all the same.
        """
        self._state.close(finish=self._flush.finish, release=self._release)

    def _release(self) -> None:
        self._clean.end(self._scrub.release)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self._state.closed or ("failed" if self.failed else "open")
        return f"<MessageStore {str(self.paths.root)!r}, {state}>"

    def _repr_html_(self) -> str:
        return store_html("MessageStore", self.paths.root, self._shown)

    def _shown(self) -> Shown:
        return {"path": self.paths.root, **self.stats()}, self.queues()
