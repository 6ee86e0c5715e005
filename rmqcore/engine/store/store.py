"""MessageStore: an open store as one machine without threads; every step is a method call.

The methods here are the contract: arguments, results, errors, threads. Each calls one of the parts, which do the work:

| part | its work |
|---|---|
| `_state` (state.py) | open, failed or closed; what pauses puts, and how a close ends them |
| `_parts` (parts.py) | open and recovery; log, queues, index, dispatcher, checkpoint and locks |
| `_puts` (puts.py) | the append, then the waits for disk and followers |
| `_reads` (reads.py) | lookups in log, queues and index |
| `_flush` (flush.py) | log, queues, index and checkpoint to disk |
| `_dispatch` (dispatch.py) | log to queues and index; listeners for new entries |
| `_clean` (clean.py), `_scrub` (scrub.py) | rounds that delete, and rounds that compare |
| `_followers` (followers.py), `_raw_log` (raw_log.py) | offsets of followers, and the log as bytes for them |

The parts refer to the state and each other, never to the store, so a dropped store is released at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from rmqcore._native.format.codec import MessageView
from rmqcore._native.index.query import QueryResult, query_messages
from rmqcore._native.put.appender import Appender
from rmqcore._native.put.message import Message
from rmqcore._native.put.put_method import PutMethod
from rmqcore._native.put.put_result import PutResult
from rmqcore._native.queues.get import GetResult, get_messages, get_warm_messages, read_in_messages
from rmqcore._native.threads.bell import Bell
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import MAX_OFFSET, StorePaths
from rmqcore.engine.clean.cleaner import Pause
from rmqcore.engine.clean.report import CleanReport
from rmqcore.engine.dispatch.arrivals import ArrivalCallback, Listening
from rmqcore.engine.recovery.thoroughness import NORMAL, RecoverMode
from rmqcore.engine.store.clean import Clean
from rmqcore.engine.store.dispatch import Dispatch
from rmqcore.engine.store.flush import Flush
from rmqcore.engine.store.followers import Followers
from rmqcore.engine.store.offset_waiters import Callback, OffsetWaiters
from rmqcore.engine.store.parts import Settle, StoreParts, as_given
from rmqcore.engine.store.put_many_result import PutManyResult
from rmqcore.engine.store.puts import Puts
from rmqcore.engine.store.raw_log import RawLog
from rmqcore.engine.store.reads import Reads
from rmqcore.engine.store.scrub import Scrub
from rmqcore.engine.store.state import StoreState, Waiters
from rmqcore.engine.store.stats import read_stats
from rmqcore.errors.arguments import named
from rmqcore.queries.asked import check_get, check_query
from rmqcore.queries.index_query import INDEX_TYPES
from rmqcore.queries.queue_info import QueueInfo
from rmqcore.queries.tag_filter import TagFilter
from rmqcore.shown.notebook import Shown, store_html

if TYPE_CHECKING:
    from typing_extensions import Buffer


class MessageStore(PutMethod):
    """A store that is open for writing. Made by `rmqcore.open`.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    create : bool
        Make the directory if it is missing.
    clock : callable, optional
        Returns milliseconds since the epoch; called once per put, inside the append lock.
    mode : RecoverMode
    settle : callable
        Returns the configuration for the existing files.

    Attributes
    ----------
    config : MessageStoreConfig
        Configuration with the store's own file sizes.
    recovery : RecoveryReport
        Report of the bytes that this open scanned, cut and dispatched again.

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
        self._dispatch = Dispatch(parts, config, self._state)
        self._flush = Flush(parts, self._state, self._dispatch)
        self._followers = Followers(parts.log, self._state)
        self._puts = Puts(parts.log, config, self._state, self._flush, self._followers)
        self._reads = Reads(parts, config, self._state)
        self._raw_log = RawLog(parts, config, self._state, self._dispatch)
        self._scrub = Scrub(parts, config, self._state, self._dispatch)
        self._clean = Clean(parts, config, self._state, self._dispatch, self._flush)
        # For calls that run a million times per second: each part is one attribute access away.
        self._put_with(self._puts.chosen_put, self._puts.append_one)
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._files = parts.log.files
        self._levels = parts.log.delay_levels
        self._appender = parts.log.appender
        self._get_limits = self._reads.get_limits
        self._state.guard(self._appender)

    def attach(self, waiters: Waiters) -> None:
        """Run the steps in threads from now on; `close` stops them."""
        self._state.waiters = waiters

    # ---- where it is

    @property
    def min_phy_offset(self) -> int:
        """CommitLog offset of the first byte."""
        return self._log.min_offset

    @property
    def max_phy_offset(self) -> int:
        """CommitLog offset after the last record."""
        return self._log.max_offset

    @property
    def flushed_phy_offset(self) -> int:
        """CommitLog offset up to which all bytes are on disk; rises only after a successful sync."""
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

    # `put` and `append` are native methods, inherited from PutMethod (src/rmqcore/_native/put/put_method.pyx): a Python
    # frame takes 30 to 70 of the 180 ns of a put. They call what `Puts` chose when the store was opened:
    # `Puts.chosen_put`, which is the appender's own put under ASYNC_FLUSH, else `Puts.put_and_wait`; and
    # `Puts.append_one`.

    def put_batch(self, messages: Iterable[Message]) -> PutResult:
        """Append messages of one topic and queue: all or nothing, next to each other, in one file.

        Parameters
        ----------
        messages : iterable of Message
            Equal in topic, queue id, SYSFLAG, born time, hosts, reconsume times, as Java's MessageExtBatch has them
            once.

        Returns
        -------
        PutResult
            `msg_size` is the total, `msg_id` lists all ids, separated by commas. MESSAGE_ILLEGAL if a message breaks a
            limit, has a transaction type or a DELAY, or if the batch exceeds `max_message_size`.

        Raises
        ------
        ValueError
            The batch is empty, or a message differs in a shared field.

        Notes
        -----
        Other errors as `put`. Source: RocketMQ 5.5.0 CommitLog#asyncPutMessages.
        """
        return self._puts.put_batch(messages)

    def append_batch(self, messages: Iterable[Message]) -> PutResult:
        """Append as `put_batch`, but return without waiting; `on_flushed` reports when the messages are on disk."""
        return self._puts.append_batch(messages)

    def put_many(self, messages: Iterable[Message]) -> PutManyResult:
        """Append any messages in order, each for itself, in one native call.

        A message that cannot be stored has its status in the result; the others are stored. With SYNC_FLUSH the call
        waits for the disk once.

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
            pyarrow, Polars, DuckDB... Columns ``topic``, ``body``, ``queue_id``, ``tags``, ``keys`` (a list of words),
            and the other arguments of Message, all but the first two optional.

        Raises
        ------
        TypeError
            `data` is not Arrow data, or a column has a wrong type.
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

    @property
    def plain_appender(self) -> Appender | None:
        """The appender for messages that native code has prepared.

        None if a put is more than an append: in a slave, or with light queues. The caller waits itself: under
        SYNC_FLUSH with `on_flushed`, for followers with `on_replicated`.
        """
        return self._puts.plain_appender

    # ---- reads

    # `get` and `query` have their whole body here: one more call is an eighth of a query without results.

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
            At most 32 are returned, 8 from far behind (the ``max_transfer_*`` fields), and none past the end of a queue
            file.
        tags : str, optional
            ``"TagA"``, ``"TagA || TagB"`` or ``"*"``; hashes are compared, as a broker does.
        max_bytes : int, optional
            Most bytes to return; one message is always returned.

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
            At most `max_msgs_num_batch` (64) are returned.
        begin_ms, end_ms : int
            Store time in milliseconds, both included; the index holds it in seconds.
        index_type : str, optional
            ``"T"``: `key` is a tag. ``"K"`` and ``"U"`` are keys and unique keys, which the index does not distinguish.

        Returns
        -------
        QueryResult
            Messages, without entries whose records were deleted.

        Raises
        ------
        TypeError
            An argument of another type; it is named.
        ValueError
            A negative `max_messages`, another `index_type`, a time that no long holds.
        StoreClosedError

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#queryMessage. Its second and third round repeat the same search,
        because they continue before the store time of a missing record.
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
        return self._reads.lookup(phy_offset)

    def lookup_id(self, msg_id: str) -> MessageView | None:
        """Return the message with this broker's message id; None if no message has exactly this id.

        Raises
        ------
        ValueError
            Not 32 or 56 hex digits.
        """
        return self._reads.lookup_id(msg_id)

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER"
    ) -> int:
        """Return the first queue offset stored at or after a time (LOWER), or the last at or before it (UPPER).

        Raises
        ------
        ValueError
            `boundary` has another value.

        Notes
        -----
        Source: RocketMQ 5.5.0 ConsumeQueue#getOffsetInQueueByTime.
        """
        return self._reads.offset_by_time(topic, queue_id, timestamp_ms, boundary)

    def phy_offset_of(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return the CommitLog offset that a queue entry holds; None outside the queue."""
        return self._reads.phy_offset_of(topic, queue_id, queue_offset)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of a queue's first message; 0 for an unknown queue."""
        return self._reads.min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after a queue's last dispatched message; 0 for an unknown queue."""
        return self._reads.max_offset(topic, queue_id)

    def topics(self) -> list[str]:
        """Return the names of all topics with a queue."""
        return self._reads.topics()

    def queues(self) -> list[QueueInfo]:
        """Return every queue with its offsets, sorted; each is also the pair (topic, queue id)."""
        return self._reads.queues()

    def hide_before(self, topic: str, phy_offset: int) -> None:
        """Start the queues of a topic at the first message at or behind a CommitLog offset, until the store is closed.

        Queue offsets, files and log stay as they are: `lookup` and `query` find hidden messages. Messages before
        `phy_offset` that are not dispatched yet are not hidden: call `wait_dispatched` first.

        Parameters
        ----------
        topic : str
        phy_offset : int

        Raises
        ------
        StoreClosedError
        """
        self._reads.hide_before(topic, phy_offset)

    # ---- reads that never wait for the disk, and reads that wait for it without the GIL

    def get_warm(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
    ) -> GetResult | None:
        """Return messages as `get`, but without waiting for the disk: only those before the first that memory lacks.

        Returns
        -------
        GetResult or None
            None: memory lacks the first message; `read_in` reads it. If the system does not report pages in memory,
            this is the same as `get`. Errors as `get`.
        """
        appended_from = self._log.appended_from
        return self._reads.get_by(
            get_warm_messages, topic, queue_id, queue_offset, max_messages, tags, appended_from
        )

    def read_in(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
    ) -> None:
        """Read the messages that `get` would return into memory, without the GIL. Errors as `get`."""
        self._reads.get_by(read_in_messages, topic, queue_id, queue_offset, max_messages, tags)

    def is_warm_at(self, phy_offset: int) -> bool:
        """Return whether `lookup` can read without waiting for the disk."""
        return self._reads.is_warm_at(phy_offset)

    def read_in_at(self, phy_offset: int) -> None:
        """Wait until memory holds the message that `lookup` would return, as `read_in`."""
        self._reads.read_in_at(phy_offset)

    def read_in_query(
        self,
        topic: str,
        key: str,
        max_messages: int,
        begin_ms: int,
        end_ms: int,
        index_type: str | None = None,
    ) -> None:
        """Wait until memory holds the messages that `query` would return, as `read_in`."""
        self._reads.read_in_query(topic, key, max_messages, begin_ms, end_ms, index_type)

    # ---- waits and callbacks

    def wait_dispatched(self, timeout: float | None = None) -> bool:
        """Wait until all messages that consumers may see are in queues and index; return False after the timeout.

        Without threads (``services=False``) this call runs the steps.

        Parameters
        ----------
        timeout : float, optional
            Seconds.
        """
        return self._dispatch.wait(timeout)

    def on_dispatched(
        self, callback: ArrivalCallback, topics: Iterable[str] | None = None
    ) -> Listening:
        """Call ``callback(arrivals)`` after each dispatch, with the queues that have new entries.

        Parameters
        ----------
        callback : callable
            Gets a list of `Arrival`: ``topic``, ``queue_id``, ``next_queue_offset`` (behind the newest entry) and
            ``tags_codes`` of the new entries. One list per batch of dispatch, which covers about a millisecond. The
            dispatch thread (``services=False``: the caller of `dispatch_once`) calls it, and holds no lock of the
            store; the next dispatch waits for it. An exception that it raises is shown in `stats()` and has no other
            effect.
        topics : iterable of str, optional
            The wanted topics; the callback may get others, too. If all listeners together want at most 8 topics,
            messages of other topics are dispatched without the GIL.

        Returns
        -------
        Listening
            ``remove()`` or leaving a ``with`` block ends it.

        Raises
        ------
        TypeError
            `callback` is not callable.
        StoreClosedError

        Notes
        -----
        `get` returns every reported message. A message may be reported twice, after an interrupt or if two threads
        dispatch; messages that the `close` of a store without threads dispatches are not reported. If messages arrive
        while a listener registers, its first list may be empty: the earlier messages are already in the queues and are
        not reported. To miss nothing, read `max_offset` once after registering, and again on each empty list. While a
        listener wants all topics, dispatch needs the GIL for each batch (docs/concurrency.md).

        Source: RocketMQ 5.5.0 MessageArrivingListener.
        """
        return self._dispatch.listen(callback, topics)

    def on_flushed(
        self, end_phy_offset: int, callback: Callback, timeout_ms: int | None = None
    ) -> None:
        """Call ``callback(status)`` once, when the CommitLog is on disk up to an offset: the wait of a put, without a thread.

        It gives the same guarantee under ASYNC_FLUSH: the flush thread starts at once, and PUT_OK follows its sync.

        Parameters
        ----------
        end_phy_offset : int
            End of a message: ``phy_offset + msg_size`` of the result of `append`.
        callback : callable
            PUT_OK: on disk. FLUSH_DISK_TIMEOUT: unknown when the time was over; a later call reports it. UNKNOWN_ERROR:
            the store failed or was dropped before the result was known. docs/concurrency.md lists the threads that call
            it; they hold no lock of the store. The next sync waits for the callback, so it should return quickly. An
            exception that it raises is shown in `stats()` and has no other effect.
        timeout_ms : int, optional
            Milliseconds; `sync_flush_timeout` when None.

        Raises
        ------
        StoreFailedError, StoreClosedError
            The bytes are not on disk, and will not be. The callback is not called.
        ValueError
            The log does not reach so far.
        TypeError
            `callback` is not callable.

        Notes
        -----
        Without threads (``services=False``) `flush` and `close` call the callbacks, and timeouts are not watched. A
        store that is dropped then calls none, nor does a forked child.

        Source: RocketMQ 5.5.0 CommitLog.GroupCommitService, FlushDiskWatcher.
        """
        timeout_ms = self.config.sync_flush_timeout if timeout_ms is None else timeout_ms
        self._flush.on_flushed(end_phy_offset, callback, timeout_ms)

    # ---- followers, and the log as bytes for them

    def replicated(self, phy_offset: int) -> None:
        """Record that enough followers have the CommitLog up to an offset, and answer the puts and callbacks that wait for it.

        Replication calls this. `replicas_needed` (rmqcore/engine/store/put_waits.py) returns how many replicas are
        enough: for a SYNC_MASTER `in_sync_replicas`, including the master.

        Parameters
        ----------
        phy_offset : int
            The followers have every byte before this offset. A lower offset than before changes nothing.

        Raises
        ------
        ValueError
            The log does not reach so far: a follower that reports more than it was sent must not count.
        StoreClosedError
            The store is closed, or was forked.
        RuntimeError
            This call interrupts another `replicated` of the same thread (a signal handler); the other call continues.

        Notes
        -----
        Callbacks of `on_replicated` are called in this thread, with no lock of the store held. Without threads
        (``services=False``) this call also answers callbacks whose time is over, those of `on_flushed` among them.

        Source: RocketMQ 5.5.0 HAService#notifyTransferSome, GroupTransferService#doWaitTransfer.
        """
        self._followers.replicated(phy_offset)

    @property
    def replicated_offset(self) -> int:
        """CommitLog offset up to which enough followers are known to hold the log; 0 after an open, and it never goes back."""
        return self._state.replica_waiters.reached_offset

    def on_replicated(
        self, end_phy_offset: int, callback: Callback, timeout_ms: int | None = None
    ) -> None:
        """Call ``callback(status)`` once, when enough followers hold the CommitLog up to an offset: the wait of a SYNC_MASTER.

        It waits for any role of the store and any message: a program that needs no followers does not call it.

        Parameters
        ----------
        end_phy_offset : int
            End of a message: ``phy_offset + msg_size`` of the result of `append`.
        callback : callable
            PUT_OK: `replicated` has reported that offset. FLUSH_SLAVE_TIMEOUT: the timeout passed; the message stays
            stored here, and followers get it when they connect. UNKNOWN_ERROR: the store failed, was closed or was
            dropped before. The thread that has the answer calls it (docs/concurrency.md) and holds no lock of the
            store. An exception that it raises is shown in `stats()` and has no other effect.
        timeout_ms : int, optional
            Milliseconds; `slave_timeout` when None.

        Raises
        ------
        StoreFailedError, StoreClosedError
            Followers are not known to hold it. The callback is not called.
        ValueError
            The log does not reach so far.
        TypeError
            `callback` is not callable.

        Notes
        -----
        Without threads (``services=False``) `replicated`, `flush` and `close` call the callbacks, and no other call
        watches the time. A store that is dropped then calls none, nor does a forked child.

        Source: RocketMQ 5.5.0 CommitLog#handleHA, GroupTransferService.
        """
        timeout_ms = self.config.slave_timeout if timeout_ms is None else timeout_ms
        self._followers.on_replicated(end_phy_offset, callback, timeout_ms)

    def read_range(self, phy_offset: int, max_bytes: int) -> memoryview:
        """Return the bytes of the CommitLog from an offset on, as they are: the bytes that a slave receives.

        Parameters
        ----------
        phy_offset : int
            Need not be the start of a record.
        max_bytes : int

        Returns
        -------
        memoryview
            At most `max_bytes`, up to the end of their file (with its BLANK) and not beyond `confirm_offset`: under
            SYNC_FLUSH a slave gets no bytes that this store may lose. Empty at that end. The view keeps its file
            mapped.

        Raises
        ------
        ValueError
            The offset lies outside of the log, perhaps because its file was deleted.
        StoreClosedError

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#getCommitLogData.
        """
        return self._raw_log.read(phy_offset, max_bytes)

    def append_raw(self, phy_offset: int, data: Buffer) -> int:
        """Append bytes of the master's CommitLog as they are; the store is a SLAVE. They are dispatched like any message.

        Parameters
        ----------
        phy_offset : int
            Their offset in the master's log: `max_phy_offset`, or behind the bytes of the last call. An empty log may
            start at the start of any file of the master.
        data : buffer
            Records, and the rest of a file behind a BLANK. They may start and end in the middle of a record: the log
            grows only by whole records, and the first part of the next one is kept in memory until the rest arrives.

        Returns
        -------
        int
            `max_phy_offset` now.

        Raises
        ------
        ValueError
            The bytes start elsewhere, or the store is not a SLAVE.
        CorruptMessageError
            A record is not sound by the checks of a recovery. The bytes before it are appended.
        DiskFullError, TooManyFilesError
            The disk is full, or the process has no file descriptor left; the call can be repeated later.
        StoreFailedError, StoreClosedError

        Notes
        -----
        Java appends any bytes; bytes that are not a record stop its dispatch later.

        Source: RocketMQ 5.5.0 DefaultMessageStore#appendToCommitLog, CommitLog#appendData.
        """
        return self._raw_log.append(phy_offset, data)

    # ---- steps: services repeat them; without threads a program calls them itself

    def dispatch_once(self) -> int:
        """Put one window of the log into queues and index; return its bytes, 0 if no record waits.

        Raises
        ------
        DiskFullError, TooManyFilesError
            The disk has no space for entries, or the process no free descriptor; the next call tries again. Until then
            puts return SERVICE_NOT_AVAILABLE.
        StoreFailedError
            A write failed, now or earlier.
        CorruptMessageError
            A record of the log fails its check; nothing behind it is dispatched.
        """
        return self._dispatch.once()

    def dispatch_until(self, bell: Bell, *, follow: bool) -> bool:
        """Dispatch the new records, with `follow` also those that arrive; return True to be called again at once.

        Concurrent puts do not wait for the GIL. The call returns when the bell rings, after some milliseconds without a
        record (False), or after 0.1 s.

        Parameters
        ----------
        bell : Bell
        follow : bool
            Not under SYNC_FLUSH, where each flush makes a new end.

        Raises
        ------
        DiskFullError, TooManyFilesError, StoreFailedError, CorruptMessageError
            As `dispatch_once`.
        """
        return self._dispatch.until(bell, follow)

    def flush(self, least_pages: int = 0) -> int:
        """Bring the CommitLog to disk; return `flushed_phy_offset`.

        Parameters
        ----------
        least_pages : int
            Do nothing while fewer pages of 4096 bytes wait; 0: sync any bytes that wait.

        Raises
        ------
        StoreFailedError
            The sync failed, or the store has failed before: the bytes that are on disk are unknown.
        """
        return self._flush.flush_log(least_pages)

    @property
    def flush_waiters(self) -> OffsetWaiters:
        """Callbacks that wait for the disk; `flush` notes its offset here, and the flush thread answers them."""
        return self._state.flush_waiters

    @property
    def replica_waiters(self) -> OffsetWaiters:
        """Callbacks that wait for followers; `replicated` answers them."""
        return self._state.replica_waiters

    def flush_consume_queues(self, least_pages: int = 0) -> None:
        """Bring the queues' entries to disk; with 0 note in the checkpoint how far they are."""
        self._flush.flush_queues(least_pages)

    def write_checkpoint(self) -> None:
        """Bring the checkpoint to disk."""
        self._flush.write_checkpoint()

    def prepare_space(self) -> bool:
        """Allocate and populate one step ahead of the writer; return True if more is wanted now.

        Raises
        ------
        DiskFullError, TooManyFilesError
            The disk has no space, or the process no free descriptor; puts use the space already allocated, and the next
            call tries again.
        StoreFailedError
            The disk refuses for another reason, now or earlier.
        """
        return self._flush.prepare_space()

    def scrub_once(self) -> int:
        """Compare a piece of log, queues and index; return its bytes, 0 at a round's end. `stats` shows problems."""
        return self._scrub.once()

    def on_append(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, after the next append."""
        self._log.on_append(ring)

    def on_low_space(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, when `prepare_space` has work to do."""
        self._log.on_low_space(ring)
        self._index.on_low_space(ring)

    def clean_once(
        self,
        *,
        now_ms: int | None = None,
        disk_ratio: float | None = None,
        pause: Pause | None = None,
    ) -> CleanReport:
        """Run one round of cleaning: delete files by Java's rules, and check whether the disk is too full for puts.

        Files of the CommitLog are deleted oldest first, `delete_file_batch_max` at most: at an hour of `delete_when`,
        or if a disk is used by more than `disk_max_used_space_ratio`, those unchanged for `file_reserved_time`; if it
        is used by more than `disk_space_clean_forcibly_ratio`, all but the newest. Then queue and index files without
        messages are deleted. Above `disk_space_warning_level_ratio` puts return SERVICE_NOT_AVAILABLE, until a round
        finds the disk below `disk_space_clean_forcibly_ratio`.

        Parameters
        ----------
        now_ms : int, optional
            Replaces the clock: milliseconds since the epoch. A file's age is counted from its mtime.
        disk_ratio : float, optional
            Replaces the used part of all disks, 0 to 1.
        pause : callable, optional
            ``pause(milliseconds)`` is called between two files, instead of a sleep; True ends the round.

        Returns
        -------
        CleanReport

        Raises
        ------
        ValueError
            `disk_ratio` is not between 0 and 1.
        StoreFailedError
            The directories were moved or replaced, or files cannot be deleted.

        Notes
        -----
        Views that the program holds stay valid; their disk space is freed when they are dropped. Messages that are not
        yet on disk, or not yet in the queues, are not deleted; Java deletes them.

        Source: RocketMQ 5.5.0 DefaultMessageStore.CleanCommitLogService, ConsumeQueueStore.CleanConsumeQueueService,
        IndexService#deleteExpiredFile.
        """
        return self._clean.once(now_ms, disk_ratio, pause)

    def take_clean_reports(self) -> list[CleanReport]:
        """Return the reports of the rounds that deleted files since the last call: 100 at most, the newest ones.

        Thread safety: any thread may call it; a report is returned once.
        """
        reports = self._clean.reports
        taken: list[CleanReport] = []
        with contextlib.suppress(IndexError):  # no report is left
            while True:
                taken.append(reports.popleft())
        return taken

    def clean_expired_consume_queues(self) -> list[tuple[str, int]]:
        """Delete queues whose messages have all left the log, as mqadmin cleanExpiredCQ; return topics and queue ids.

        The store never does this by itself: the queue may belong to a deleted topic, or to one that gets one message
        per month. The next message of a deleted queue gets queue offset 0. Topics that RocketMQ itself uses are left
        alone.

        Raises
        ------
        StoreFailedError
            A file cannot be deleted, now or earlier.

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#cleanExpiredConsumerQueue, ConsumeQueueStore#cleanExpired.
        """
        return self._clean.expired_queues()

    def execute_delete_files_manually(self) -> None:
        """Delete expired files at any hour in the next 20 cleaning rounds, as mqadmin deleteExpiredCommitLog does.

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#executeDeleteFilesManually.
        """
        self._clean.by_hand()

    # ---- failed, closed

    def stats(self) -> dict[str, Any]:
        """Return the offsets, whether the store has failed, and the errors of the background threads (docs/durability.md)."""
        self._state.raise_if_forked()
        return read_stats(self._parts, self._state, self._dispatch, self._scrub)

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
        """Why messages are refused: the first failure, or missing room or descriptors. None while they are accepted."""
        failure = self._state.failure
        return self._state.no_puts if failure is None else str(failure)

    def raise_if_failed(self) -> None:
        """Raise StoreFailedError if the store has failed."""
        self._state.raise_if_failed()

    def close(self) -> None:
        """Write all data, mark the exit as clean, and release the directory. May be repeated, from any thread.

        Pending messages are dispatched first. Views that the program holds stay valid. After a failure no file is
        written: the next open recovers. Inside another call of the same thread that holds a lock (a signal handler, a
        destructor), puts end at once and the rest follows when that call returns or raises, or at the exit of the
        interpreter.

        Raises
        ------
        StoreFailedError
            A write failed; the directory is released all the same.
        """
        self._state.close(finish=self._flush.finish, release=self._release)

    def _release(self) -> None:
        self._clean.end(self._scrub.release)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- shown

    def __repr__(self) -> str:
        state = self._state.closed or ("failed" if self.failed else "open")
        return f"<MessageStore {str(self.paths.root)!r}, {state}>"

    def _repr_html_(self) -> str:
        return store_html("MessageStore", self.paths.root, self._shown)

    def _shown(self) -> Shown:
        return {"path": self.paths.root, **self.stats()}, self.queues()
