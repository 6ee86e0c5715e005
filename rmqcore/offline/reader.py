"""`StoreReader`: any store directory, live, clean or broken, read without touching it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import index
from typing import Any, Literal, Self, cast, overload

from rmqcore._native.format.codec import DelayLevels, MessageView
from rmqcore._native.scan.batch import Batch, ColumnList
from rmqcore._native.scan.scan import ColumnScan, ViewScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.checkpoint import StoreCheckpoint, read_checkpoint
from rmqcore.disk.paths import StorePaths, absolute_path
from rmqcore.errors.arguments import check_callables, check_ints, wrong_type
from rmqcore.offline.elsewhere import LOOKED_AT, Elsewhere
from rmqcore.offline.frames.store_frames import StoreFrames
from rmqcore.offline.index.index_files import IndexFileInfo, list_index_files
from rmqcore.offline.info import StoreInfo, read_info
from rmqcore.offline.log.batch_stream import BatchStream
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageList, DamageRange, DamageWarning
from rmqcore.offline.log.failed_crcs import failed_crcs
from rmqcore.offline.log.log_files import LogFile, LogShape, list_log_files
from rmqcore.offline.log.long_record import MOST_WHOLE, LongRecords
from rmqcore.offline.log.long_rows import MOST_IN_COLUMNS, LongRowScan
from rmqcore.offline.log.store_paths import LogDirectories, store_paths
from rmqcore.offline.log.stored_body import StoredBody, stored_body
from rmqcore.offline.log.walk import Blank, LogWalk, Progress
from rmqcore.offline.log.window import record_at
from rmqcore.offline.lookup import OfflineGetResult, StoreLookup
from rmqcore.offline.missing_log import StoreEnd, emptied_files, missing_log
from rmqcore.offline.queues.compacted_queue import each_compacted_queue
from rmqcore.offline.queues.compacted_topics import CompactedTopic, list_compacted
from rmqcore.offline.queues.queues import list_queues, queue_names
from rmqcore.offline.remote.store_url import StorageOptions, StoreUrl, store_place
from rmqcore.queries.asked import check_least
from rmqcore.queries.query_answer import QueryAnswer
from rmqcore.queries.queue_info import QueueInfo
from rmqcore.shown.notebook import reader_html
from rmqcore.vocabulary.status import GetMessageStatus

__all__ = ["LogDirectories", "StoreReader", "read", "store_paths"]


class StoreReader(StoreFrames):
    """Reads a RocketMQ store directory: no lock is taken, nothing is written, no file is mapped.

    The store may be in use by a broker, not cleanly closed, or damaged: a read skips damage and lists it in `damage`. The reader
    finds file sizes from the files. Each call lists the files anew and opens them one at a time.

    Parameters
    ----------
    path : path-like or StoreUrl
        The store's root, which holds ``commitlog/``; or a ``commitlog`` directory itself. `read` opens a URL.
    config : MessageStoreConfig, optional
        Its ``message_delay_level`` gives the tags code of delayed messages, and its paths say where the CommitLog is; all else is
        below `path`, whatever ``store_path_root_dir`` says.
    commitlog : str, path-like or sequence of path-like, optional
        Where the CommitLog is, if it is not ``path/commitlog``; a str as in storePathCommitLog, with commas between directories.
    follow_links : bool
        ``commitlog``, ``consumequeue`` and ``index`` in `path` may be links; all else in a store may not.

    Attributes
    ----------
    path : Path or StoreUrl
        Absolute from the start: a later `os.chdir` changes nothing.
    damage : list of DamageRange
        Ranges that the running or last call of `messages`, `batches` or a method of frames could not deliver, or whose body fails
        its CRC. Each such call begins with a new, empty list. Behind the first 100,000 ranges the last one stands for all others
        (`MoreDamage`). A read of the log's end adds a range ``log_missing`` if queues, index or checkpoint know messages behind
        it; `get` and `query` add it if an entry leads there.

    Warns
    -----
    ElsewhereWarning
        The log lacks messages of a topic that a call was asked for: a compaction log has them (`compacted_messages`, `get`), or
        they may be in a tiered store, which rmqcore does not read.
    DamageWarning
        From `query`: entries of an index file cannot be found.

    Raises
    ------
    NotAStoreError
        The directory holds none of the parts of a store.
    LinkError
        A file or directory of the store is a link; also from a call that meets one.
    StoreFormatError
        From a call that reads the log: a file lies in two directories of the log.
    FileNotFoundError, NotADirectoryError
        The directory does not exist.
    ValueError
        A path is empty or has a NUL in it, `commitlog` names no directories, or `path` has a CommitLog and `config` another.

    Notes
    -----
    Thread safety: a reader serves one thread at a time, because of `damage`. Readers are cheap: make one for each thread.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | StoreUrl,
        *,
        config: MessageStoreConfig | None = None,
        commitlog: LogDirectories | None = None,
        follow_links: bool = False,
    ) -> None:
        if config is not None and not isinstance(config, MessageStoreConfig):
            raise wrong_type("config", "a MessageStoreConfig or None", config)
        self.path = path if isinstance(path, StoreUrl) else absolute_path(path, "path")
        self.damage: list[DamageRange] = DamageList()
        self._paths = store_paths(self.path, config, commitlog, follow_links=follow_links)
        self._lookup = StoreLookup(self)
        self._levels: DelayLevels | None = None
        if config is not None:
            self._levels = DelayLevels(config.delay_levels_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove files fetched from a URL; the reader of a URL cannot be used afterwards.

        The reader of a directory holds no file or lock between calls, and may be used on.
        """
        self._paths.close()

    @property
    def paths(self) -> StorePaths:
        """The paths of the store.

        Raises
        ------
        StoreClosedError
            The store is behind a URL, and `close` was called.
        """
        self._paths.check_open()
        return self._paths

    def __repr__(self) -> str:
        return f"StoreReader({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return reader_html(self.path, self.info, lambda *log: list_queues(self.paths, *log))

    # ---- messages -----------------------------------------------------------------------------------

    @overload
    def messages(
        self,
        *,
        topics: Iterable[str] | None = ...,
        queue_ids: Iterable[int] | None = ...,
        tags: Iterable[str] | None = ...,
        keys: Iterable[str] | None = ...,
        since_ms: int | None = ...,
        until_ms: int | None = ...,
        start_phy_offset: int | None = ...,
        end_phy_offset: int | None = ...,
        verify_crc: bool = ...,
        blanks: Literal[False] = False,
        most_body: int | None = ...,
        progress: Progress | None = ...,
    ) -> Iterator[MessageView]: ...

    @overload
    def messages(
        self,
        *,
        topics: Iterable[str] | None = ...,
        queue_ids: Iterable[int] | None = ...,
        tags: Iterable[str] | None = ...,
        keys: Iterable[str] | None = ...,
        since_ms: int | None = ...,
        until_ms: int | None = ...,
        start_phy_offset: int | None = ...,
        end_phy_offset: int | None = ...,
        verify_crc: bool = ...,
        blanks: bool,
        most_body: int | None = ...,
        progress: Progress | None = ...,
    ) -> Iterator[MessageView | Blank]: ...

    def messages(
        self,
        *,
        topics: Iterable[str] | None = None,
        queue_ids: Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        keys: Iterable[str] | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        start_phy_offset: int | None = None,
        end_phy_offset: int | None = None,
        verify_crc: bool = False,
        blanks: bool = False,
        most_body: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[MessageView | Blank]:
        """Return the messages in physical order.

        The scan tests the conditions in C before it makes a Python object; all conditions that are given must hold.

        Parameters
        ----------
        topics, tags, keys : iterable of str, optional
            The message has any of these. A tag is the whole TAGS value; a key is a word of KEYS, or UNIQ_KEY.
        queue_ids : iterable of int, optional
        since_ms, until_ms : int, optional
            Store timestamp in milliseconds since the epoch, `until_ms` exclusive.
        start_phy_offset, end_phy_offset : int, optional
            CommitLog offsets in bytes, the end exclusive; they need not be where a record begins.
        verify_crc : bool
            Leave out messages whose body fails its CRC. `damage` lists them either way.
        blanks : bool
            Also give `Blank` for the BLANK records that end full files.
        most_body : int, optional
            For records above 32 MiB, read only this number of bytes of the body, for a caller that asks
            ``body_start`` for no more: the others read as zeros, and ``raw`` and ``crc_ok()`` mean nothing there. Such records
            then take no more memory than that; else each is held whole, twice.
        progress : callable, optional
            Called with (bytes done, bytes in all) about once a mebibyte.

        Yields
        ------
        MessageView
            Each view holds its own copy of the record: keep as many as you like.
        """
        wanted = Conditions.of(
            topics, queue_ids, tags, keys, since_ms, until_ms, start_phy_offset, end_phy_offset
        )
        if most_body is not None:
            check_least("most_body", most_body, 0)
        _check_progress(progress)
        sink = ViewScan(
            filter=wanted.native(),
            delay_levels=self._levels,
            stop_offset=end_phy_offset,
            **({} if most_body is None else {"most_copied": MOST_WHOLE}),
        )
        long_records = None if most_body is None else LongRecords(most_body)
        walk = self._walk(
            sink,
            wanted,
            verify_crc=verify_crc,
            blanks=blanks,
            long_records=long_records,
            progress=progress,
        )
        views = _flat(walk, start_phy_offset or 0)
        elsewhere = self._elsewhere(wanted)
        return elsewhere.watch(views) if elsewhere else views

    def batches(
        self,
        columns: Iterable[str] | None = None,
        *,
        topics: Iterable[str] | None = None,
        queue_ids: Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        keys: Iterable[str] | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        start_phy_offset: int | None = None,
        end_phy_offset: int | None = None,
        verify_crc: bool = False,
        batch_rows: int = 8192,
        batch_bytes: int = 2 * 1024 * 1024,
        progress: Progress | None = None,
    ) -> BatchStream:
        """Return the messages as columns, a stream of Arrow record batches.

        Conditions and `verify_crc` mean what they mean in `messages`. ``pyarrow.table(reader.batches())``,
        ``polars.DataFrame(...)`` and DuckDB take the answer as it is; no such library is needed to make it.

        Parameters
        ----------
        columns : iterable of str, optional
            Names of MessageView attributes in the order wanted, also ``raw``; None stands for all but ``raw``. Other columns are
            not built.
        batch_rows, batch_bytes : int
            A batch ends with the record that reaches either limit. Two mebibytes stay in a core's cache from the scan to the
            consumer; larger batches were measured 1.3 to 1.5 times slower with bodies of a kibibyte.

        Raises
        ------
        ValueError
            An unknown column.
        """
        chosen = ColumnList(columns)
        check_ints(batch_rows=batch_rows, batch_bytes=batch_bytes)
        _check_progress(progress)
        wanted = Conditions.of(
            topics, queue_ids, tags, keys, since_ms, until_ms, start_phy_offset, end_phy_offset
        )
        native = wanted.native()

        def read() -> Iterator[Batch]:
            sink = ColumnScan(
                chosen,
                filter=native,
                delay_levels=self._levels,
                stop_offset=end_phy_offset,
                batch_rows=batch_rows,
                batch_bytes=batch_bytes,
            )
            bodies = {"body", "raw"}.intersection(chosen.names)
            walk = self._walk(
                sink,
                wanted,
                verify_crc=verify_crc,
                progress=progress,
                long_records=None if bodies else LongRecords(),
            )
            batches = cast("Iterator[Batch]", walk.run())
            elsewhere = self._elsewhere(wanted)
            return elsewhere.watch_batches(batches) if elsewhere else batches

        # Wrong numbers raise here, not in the middle of a stream.
        ColumnScan(chosen, batch_rows=batch_rows, batch_bytes=batch_bytes)
        return BatchStream(chosen, read)

    def batches_and_views(
        self,
        columns: ColumnList,
        wanted: Conditions,
        *,
        most_body: int,
        verify_crc: bool = False,
        progress: Progress | None = None,
    ) -> Iterator[Batch | MessageView]:
        """Yield the messages as `batches` does, but records above 8 MiB as `messages` does, in their order.

        Memory use depends on `most_body`, the bytes read of such a record's body, not on the size of records.
        """
        common: dict[str, Any] = {
            "filter": wanted.native(),
            "delay_levels": self._levels,
            "stop_offset": wanted.end_phy_offset,
        }
        sink = LongRowScan(
            ColumnScan(columns, **common),
            ViewScan(**common, batch_views=1, most_copied=MOST_IN_COLUMNS),
            MOST_IN_COLUMNS,
        )
        walk = self._walk(
            sink,
            wanted,
            verify_crc=verify_crc,
            progress=progress,
            long_records=LongRecords(most_body, most_whole=MOST_IN_COLUMNS),
        )
        for rows in walk.run():
            if isinstance(rows, list):
                yield rows.pop()  # held by nobody while the next one is read
            else:
                yield cast("Batch", rows)

    @contextmanager
    def stored_body(self, view: MessageView) -> Iterator[bytes | StoredBody]:
        """Open the whole body of a message that `messages` gave, also with `most_body`; slices of it are bytes.

        Of a record above 32 MiB the file is read as slices are asked for, a mebibyte at a time.
        """
        if view.msg_size <= MOST_WHOLE:
            yield view.body
        else:
            with stored_body(self.log_files(), view) as body:
                yield body

    def _walk(self, sink: Any, wanted: Conditions, **options: Any) -> LogWalk[Any]:
        self.damage = DamageList()
        return LogWalk(
            self.log_files(),
            sink,
            self.damage,
            start=wanted.start_phy_offset,
            stop=wanted.end_phy_offset,
            unreadable_files=True,
            end=StoreEnd(self.paths, wanted.start_phy_offset, wanted.end_phy_offset),
            **options,
        )

    def _elsewhere(self, wanted: Conditions) -> Elsewhere | None:
        """What a read of the log lacks; None for one that names no topics."""
        return None if wanted.topics is None else Elsewhere(self.paths, wanted)

    def _warn_of_elsewhere(self, topic: str) -> None:
        Elsewhere(self.paths, Conditions(topics=frozenset((topic,)))).warn()

    def compacted_messages(
        self,
        *,
        topics: Iterable[str] | None = None,
        queue_ids: Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        keys: Iterable[str] | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        verify_crc: bool = False,
    ) -> Iterator[MessageView]:
        """Return the messages of compacted topics (``cleanup.policy=COMPACTION``) that RocketMQ keeps in ``compaction/``.

        These are the newest of each key, and in files that are not compacted yet also older ones; the CommitLog may have
        deleted them. Conditions and `verify_crc` mean what they mean in `messages`; `damage` has ranges of these logs.

        Yields
        ------
        MessageView
            By topic, queue and place. ``phy_offset`` is a byte of the queue's own log.

        Raises
        ------
        LinkError
            A directory or file of ``compaction/`` is a link.
        """
        wanted = Conditions.of(topics, queue_ids, tags, keys, since_ms, until_ms)
        self.damage = DamageList()
        return self._compacted(wanted, verify_crc=verify_crc)

    def compacted_topics(self) -> list[CompactedTopic]:
        """What each compacted topic has in ``compaction/``, and how much of it the log has deleted."""
        return list_compacted(self.paths)

    def _compacted(self, wanted: Conditions, *, verify_crc: bool) -> Iterator[MessageView]:
        for queue in each_compacted_queue(
            self.paths, topics=wanted.topics, queue_ids=wanted.queue_ids
        ):
            for file in queue.log_files:
                # RocketMQ ends a file of a compaction without a BLANK: each one may end like the newest file of a log.
                walk = LogWalk(
                    [file],
                    ViewScan(filter=wanted.native(), delay_levels=self._levels),
                    self.damage,
                    verify_crc=verify_crc,
                    shape=LogShape(file.size, file.file_from_offset),
                    unreadable_files=True,
                )
                for views in walk.run():
                    yield from cast("list[MessageView]", views)

    # ---- files --------------------------------------------------------------------------------------

    def log_files(self) -> list[LogFile]:
        """The CommitLog files, ordered by offset."""
        return list_log_files(self.paths)

    def queues(self) -> list[QueueInfo]:
        """Every ConsumeQueue with its offsets, ordered by topic and queue id."""
        info = self.info()
        return list_queues(self.paths, info.min_phy_offset, info.max_phy_offset)

    def topics(self) -> list[str]:
        """Names of all topics with a queue, sorted, as `MessageStore.topics` gives them."""
        return sorted({topic for topic, _ in queue_names(self.paths)})

    def index_files(self) -> list[IndexFileInfo]:
        """Every IndexFile, oldest first."""
        return list_index_files(self.paths)

    def checkpoint(self) -> StoreCheckpoint | None:
        """The checkpoint; None when the store has no such file."""
        return read_checkpoint(self.paths.checkpoint)

    def info(self) -> StoreInfo:
        """Sizes, counts and offsets; reads the newest CommitLog file to find the log's end."""
        return read_info(self.paths, self.log_files())

    def missing_log(self) -> list[DamageRange]:
        """Return what the log lacks at its ends.

        A range ``missing_file`` for each file of no bytes before the first one that has some, and one of kind ``log_missing`` if
        queues, index or checkpoint know messages behind the log's end.
        """
        return [*emptied_files(self.paths), *missing_log(self.paths)]

    def _note_missing_log(self) -> None:
        """Add what the log lacks to `damage`: a running walk adds to the same list."""
        self._note(self.missing_log())

    def _note(self, damage: list[DamageRange]) -> None:
        self.damage += [one for one in damage if one not in self.damage]

    # ---- lookups ------------------------------------------------------------------------------------

    def message_at(self, phy_offset: int) -> MessageView | None:
        """The message whose record starts at a CommitLog offset; None when no well-formed record says that it lies there.

        It does not compare the body's CRC: see `MessageView.crc_ok`.
        """
        check_ints(phy_offset=phy_offset)
        return record_at(self.log_files(), index(phy_offset), self._levels)

    def failed_crcs(self, views: Iterable[MessageView | None]) -> list[DamageRange]:
        """Return a range of kind ``crc`` for each message whose body fails its CRC, as a walk over the log gives it."""
        failed = [view for view in views if view is not None and not view.crc_ok()]
        return failed_crcs(self.log_files(), failed) if failed else []

    def lookup(self, phy_offset: int) -> MessageView | None:
        """Another name of `message_at`."""
        return self.message_at(phy_offset)

    def lookup_id(self, msg_id: str) -> MessageView | None:
        """The message with an offset message id (32 or 56 hex digits).

        Raises
        ------
        TypeError, ValueError
            `msg_id` is not a text of 32 or 56 hex digits.
        """
        return self._lookup.lookup_id(msg_id)

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        max_bytes: int | None = None,
    ) -> OfflineGetResult:
        """Messages of a queue from an offset on, with the status and next offset that Java's store would answer.

        Arguments and answer are those of `MessageStore.get`. `damage` says so if the queue has entries of messages behind the
        log's end, or if entries that were looked at lead to no record (kind ``queue_entry``; their messages are left out) or to
        the record of another place, which is in the answer. A message whose body fails its CRC is in the answer too (kind
        ``crc``). A compacted topic (``cleanup.policy=COMPACTION``) is answered from its own log in ``compaction/``, as by
        Java: see `OfflineGetResult.compacted_log`.
        """
        found = self._lookup.get(
            topic, queue_id, queue_offset, max_messages, tags=tags, max_bytes=max_bytes
        )
        self._note(self._lookup.wrong_entries)
        self._note(self.failed_crcs(found.messages))
        if self._lookup.beyond_log:
            self._note(self.missing_log() or self._lookup.entries_beyond_log(topic, queue_id))
        elif found.status is GetMessageStatus.OFFSET_TOO_SMALL:
            self._note(emptied_files(self.paths))
        if found.status not in LOOKED_AT and not found.compacted_log:
            self._warn_of_elsewhere(topic)
        return found

    def query(
        self,
        topic: str,
        key: str,
        max_messages: int = 32,
        begin_ms: int = 0,
        end_ms: int | None = None,
        *,
        index_type: str | None = None,
    ) -> QueryAnswer:
        """Messages with a key by the IndexFiles, hash collisions left out; ``index_type="T"`` asks by tag.

        The answer is a list, and has the attributes of what `MessageStore.query` answers. Times are those of the records, to the
        millisecond, both included. ``missing_phy_offsets`` lists the entries whose record is not in the log; if the log
        ends before them, `damage` says so. What shows that the index is not complete is in ``unasked_files`` (see `QueryAnswer`)
        and a `DamageWarning`: the answer may lack messages then. `damage` has messages of the answer whose body fails its CRC.
        """
        found = self._lookup.query(
            topic, key, max_messages, begin_ms, end_ms, index_type=index_type
        )
        self._note(self.failed_crcs(found))
        if found.missing_phy_offsets:
            self._note_missing_log()
        elif not found:
            self._warn_of_elsewhere(topic)
        for unasked in found.unasked_files:
            warnings.warn(
                f"{self.path}: {unasked}; the answer may lack messages: `messages` with keys= reads the log instead",
                DamageWarning,
                stacklevel=2,
            )
        return found

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER"
    ) -> int:
        """The first queue offset stored at or after a time (LOWER), or the last at or before it (UPPER)."""
        return self._lookup.offset_by_time(topic, queue_id, timestamp_ms, boundary)


def read(
    path: str | os.PathLike[str],
    *,
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    storage_options: StorageOptions | None = None,
) -> StoreReader:
    """Open a store for reading: a directory, or a URL such as ``s3://bucket/store``; see `StoreReader`.

    Of a store behind a URL the log is read by ranges, and of other files what is asked for comes into a temporary directory until
    `StoreReader.close` (docs/paths.md). It is the store as it is listed now: a file that is another by the time it is read is a
    `RemoteChangedError`. `storage_options` are those of its filesystem.
    """
    place = store_place(path, storage_options)
    return StoreReader(place, config=config, commitlog=commitlog, follow_links=follow_links)


def _check_progress(progress: object) -> None:
    if progress is not None:
        check_callables(progress=progress)


def _flat(walk: LogWalk[list[MessageView]], start: int) -> Iterator[MessageView | Blank]:
    for found in walk.run():
        if isinstance(found, Blank):
            if found.phy_offset >= start:
                yield found
        else:
            yield from found
