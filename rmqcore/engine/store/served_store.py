"""Methods of a store for servers: callbacks instead of blocking calls, and the log as bytes for replication."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.put.appender import Appender
from rmqcore._native.put.log_views import is_warm, read_in
from rmqcore._native.put.mapped_file import MappedFiles
from rmqcore._native.queues.get import GetResult, get_warm_messages, read_in_messages
from rmqcore._native.queues.get_limits import GetLimits
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.engine.dispatch.arrivals import ArrivalCallback, Listening
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.store.offset_waiters import Callback
from rmqcore.engine.store.raw_log import RawLog
from rmqcore.engine.store.store_dispatch import StoreDispatch
from rmqcore.engine.store.store_flush import StoreFlush
from rmqcore.engine.store.store_followers import StoreFollowers
from rmqcore.engine.store.store_put import StorePut
from rmqcore.engine.store.store_state import StoreState
from rmqcore.errors.arguments import check_ints, named
from rmqcore.queries.asked import check_get
from rmqcore.queries.tag_filter import TagFilter

if TYPE_CHECKING:
    from typing_extensions import Buffer


_T = TypeVar("_T")


class ServedStore:
    """The methods of a MessageStore that a broker and its replication call. All may be called from any thread."""

    config: MessageStoreConfig
    _dispatch: StoreDispatch
    _flush: StoreFlush
    _followers: StoreFollowers
    _puts: StorePut
    _raw: RawLog
    _state: StoreState
    _log: CommitLog
    _queues: ConsumeQueues
    _index: IndexService
    _files: MappedFiles
    _appender: Appender
    _get_limits: GetLimits
    _levels: DelayLevels

    @property
    def plain_appender(self) -> Appender | None:
        """The appender for messages that native code has prepared.

        None where a put is more than an append: in a slave, or with light queues. The caller waits by itself: under SYNC_FLUSH by
        `on_flushed`, for followers by `on_replicated`.
        """
        return self._puts.plain_appender

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
            PUT_OK: on disk. FLUSH_DISK_TIMEOUT: unknown when the time was over; a later call reports it. UNKNOWN_ERROR: the store
            failed or was dropped before the result was known. docs/concurrency.md lists the threads that call it; they hold no
            lock of the store. The next sync waits for the callback, so it should return quickly. An exception that it raises is
            shown in `stats()` and has no other effect.
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
        Without threads (``services=False``) `flush` and `close` call the callbacks, and timeouts are not watched. A store that
        is dropped then calls none, nor does a forked child.

        Source: RocketMQ 5.5.0 CommitLog.GroupCommitService, FlushDiskWatcher.
        """
        timeout_ms = self.config.sync_flush_timeout if timeout_ms is None else timeout_ms
        self._flush.on_flushed(end_phy_offset, callback, timeout_ms)

    def replicated(self, phy_offset: int) -> None:
        """Record that enough followers have the CommitLog up to an offset, and answer the puts and callbacks that wait for it.

        Replication calls this. `replicas_needed` (rmqcore/engine/store/put_waits.py) returns how many replicas are enough: for a
        SYNC_MASTER `in_sync_replicas`, including the master.

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
        return self._followers.replicated_offset

    def on_replicated(
        self, end_phy_offset: int, callback: Callback, timeout_ms: int | None = None
    ) -> None:
        """Call ``callback(status)`` once, when enough followers hold the CommitLog up to an offset: the wait of a SYNC_MASTER.

        Whatever the role of the store and the messages are: a program that does not need followers does not ask.

        Parameters
        ----------
        end_phy_offset : int
            Where a message ends: ``phy_offset + msg_size`` of what `append` returned.
        callback : callable
            PUT_OK: `replicated` has reported that offset. FLUSH_SLAVE_TIMEOUT: the time is over; the message stays stored here,
            and goes to followers when they come. UNKNOWN_ERROR: the store has failed, was closed or was dropped before. The
            thread that has the answer calls it (docs/concurrency.md) and holds no lock of the store. What it raises is shown in
            `stats()`, and keeps no other callback from its answer.
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
        Without threads (``services=False``) `replicated`, `flush` and `close` call the callbacks, and no other call watches the
        time. A store that is dropped then calls none, nor does a forked child.

        Source: RocketMQ 5.5.0 CommitLog#handleHA, GroupTransferService.
        """
        timeout_ms = self.config.slave_timeout if timeout_ms is None else timeout_ms
        self._followers.on_replicated(end_phy_offset, callback, timeout_ms)

    def on_dispatched(
        self, callback: ArrivalCallback, topics: Iterable[str] | None = None
    ) -> Listening:
        """Call ``callback(arrivals)`` after each dispatch, with the queues that have new entries.

        Parameters
        ----------
        callback : callable
            Gets a list of `Arrival`: ``topic``, ``queue_id``, ``next_queue_offset`` (behind the newest entry) and ``tags_codes``
            of the new entries. One list per batch of dispatch, which covers about a millisecond. The dispatch thread
            (``services=False``: the caller of `dispatch_once`) calls it, and holds no lock of the store; the next dispatch waits
            for it. An exception that it raises is shown in `stats()` and has no other effect.
        topics : iterable of str, optional
            The wanted topics; the callback may get others, too. If all listeners together want at most 8 topics, messages of
            other topics are dispatched without the GIL.

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
        `get` returns every reported message. A message may be reported twice, after an interrupt or if two threads dispatch;
        messages that the `close` of a store without threads dispatches are not reported. If messages arrive while a listener
        registers, its first list may be empty: the earlier messages are already in the queues and are not reported. To miss
        nothing, read `max_offset` once after registering, and again on each empty list. While a listener wants all topics,
        dispatch needs the GIL for each batch (docs/concurrency.md).

        Source: RocketMQ 5.5.0 MessageArrivingListener.
        """
        return self._dispatch.listen(callback, topics)

    # ---- reads that wait for no disk, and those that wait for one beside all other threads

    def get_warm(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
    ) -> GetResult | None:
        """Do as `get`, but wait for no disk: it ends before the first message that memory does not hold.

        Returns
        -------
        GetResult or None
            None: that is the first one already. `read_in` waits for it. Where the system does not tell what memory holds, this is
            the same as `get`, whose errors it has.
        """
        asked = topic, queue_id, queue_offset, max_messages, tags
        return self._get_as(get_warm_messages, *asked, self._log.appended_from)

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
        self._get_as(read_in_messages, topic, queue_id, queue_offset, max_messages, tags)

    def _get_as(
        self,
        get: Callable[..., _T],
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int,
        tags: str | None,
        *more: int,
    ) -> _T:
        """Call a native get, with the errors of `MessageStore.get`."""
        self._state.raise_if_closed()
        try:
            if max_messages < 1:
                check_get(topic, queue_id, queue_offset, max_messages, tags, None)
            return get(
                self._queues.find(topic, queue_id),
                self._files,
                self._appender.max_phy_offset,
                queue_offset,
                max_messages,
                TagFilter(tags) if tags is not None else None,
                None,
                self._get_limits,
                self._levels,
                *more,
            )
        except TypeError as error:
            given = topic, queue_id, queue_offset, max_messages, tags, None
            raise named(error, check_get, *given) from None

    def is_warm_at(self, phy_offset: int) -> bool:
        """Return whether `lookup` can read without waiting for the disk."""
        self._state.raise_if_closed()
        check_ints(phy_offset=phy_offset)
        inside = 0 <= phy_offset <= MAX_OFFSET
        return not inside or is_warm(self._files, phy_offset, self._log.max_offset)

    def read_in_at(self, phy_offset: int) -> None:
        """Wait until memory holds what `lookup` would give, as `read_in`."""
        self._state.raise_if_closed()
        check_ints(phy_offset=phy_offset)
        if 0 <= phy_offset <= MAX_OFFSET:
            read_in(self._files, phy_offset, self._log.max_offset)

    def read_in_query(
        self,
        topic: str,
        key: str,
        max_messages: int,
        begin_ms: int,
        end_ms: int,
        index_type: str | None = None,
    ) -> None:
        """Wait until memory holds what `query` would give, as `read_in`."""
        self._state.raise_if_closed()
        search = self._index.search
        found = search.query(topic, key, max_messages, begin_ms, end_ms, index_type, keep_gil=False)
        for phy_offset in found.phy_offsets:
            self.read_in_at(phy_offset)

    # ---- topics that are deleted

    def hide_before(self, topic: str, phy_offset: int) -> None:
        """Start the queues of a topic at the first message at or behind a CommitLog offset, until the store is closed.

        Queue offsets, files and log stay as they are: `lookup` and `query` find what is hidden. Messages before `phy_offset` that
        are not dispatched yet are not hidden; `wait_dispatched` before.

        Parameters
        ----------
        topic : str
        phy_offset : int

        Raises
        ------
        StoreClosedError
        """
        check_ints(phy_offset=phy_offset)
        self._state.raise_if_closed()
        self._queues.hide_before(topic, phy_offset)

    # ---- the log as bytes

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
            Bytes to return at most, up to the end of their file (with its BLANK) and not beyond `confirm_offset`: under
            SYNC_FLUSH a slave gets nothing that this store may lose. Empty at that end. It keeps the mapped file that it reads.

        Raises
        ------
        ValueError
            The log has no such offset, or not any more.
        StoreClosedError

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#getCommitLogData.
        """
        return self._raw.read(phy_offset, max_bytes)

    def append_raw(self, phy_offset: int, data: Buffer) -> int:
        """Append bytes of the master's CommitLog as they are; the store is a SLAVE. They are dispatched like any message.

        Parameters
        ----------
        phy_offset : int
            Where they lie in the master's log: `max_phy_offset`, or behind the bytes that were given last. A log that holds
            nothing begins where any file of the master's does.
        data : buffer
            Records, and the rest of a file behind a BLANK. They may begin and end in the middle of a record: the log grows by
            whole records alone, and the begin of the next one is kept in memory until the rest is given.

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
            There is no disk space or no file descriptor; the call can be repeated later.
        StoreFailedError, StoreClosedError

        Notes
        -----
        Java appends any bytes; bytes that are not a record stop its dispatch later.

        Source: RocketMQ 5.5.0 DefaultMessageStore#appendToCommitLog, CommitLog#appendData.
        """
        return self._raw.append(phy_offset, data)
