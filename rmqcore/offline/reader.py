"""`StoreReader`: any store directory, live, clean or broken, read without touching it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

from rmqcore._native.codec import DelayLevels, MessageView
from rmqcore._native.scan import Batch, ColumnList, ColumnScan, Filter, ViewScan
from rmqcore.engine.checkpoint import StoreCheckpoint, read_checkpoint
from rmqcore.engine.paths import StorePaths
from rmqcore.errors import NotAStoreError
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.files import LogFile, list_log_files
from rmqcore.offline.index_files import IndexFileInfo, list_index_files
from rmqcore.offline.info import StoreInfo, read_info
from rmqcore.offline.lookup import OfflineGetResult, StoreLookup
from rmqcore.offline.queues import QueueInfo, list_queues
from rmqcore.offline.stream import BatchStream
from rmqcore.offline.walk import Blank, LogWalk, Progress
from rmqcore.offline.window import record_at

if TYPE_CHECKING:
    from rmqcore.config import MessageStoreConfig


class StoreReader:
    """Reads a RocketMQ store directory: no lock is taken, nothing is written, no file is mapped.

    The store may be in use by a broker, not cleanly closed, or damaged: damage never stops a read, it is skipped and listed in
    `damage`. File sizes are found from the files. Files are listed anew by each call and opened one at a time.

    Parameters
    ----------
    path : path-like
        The store's root, which holds ``commitlog/``; or a ``commitlog`` directory itself.
    config : MessageStoreConfig, optional
        Only ``message_delay_level`` is used, for the tags code of delayed messages.

    Attributes
    ----------
    path : Path
    damage : list of DamageRange
        What the running or last `messages` or `batches` could not deliver or found with a failing CRC; starts empty with each
        of them.

    Raises
    ------
    NotAStoreError
        The directory holds none of the parts of a store.
    FileNotFoundError, NotADirectoryError
        There is no such directory.

    Notes
    -----
    Thread safety: one thread at a time for one reader, because of `damage`; readers are cheap, make one a thread.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, config: MessageStoreConfig | None = None
    ) -> None:
        self.path = Path(path)
        self.damage: list[DamageRange] = []
        self.paths = store_paths(self.path)
        self._lookup = StoreLookup(self)
        self._levels: DelayLevels | None = None
        if config is not None:
            self._levels = DelayLevels(config.delay_levels_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held between calls."""

    def __repr__(self) -> str:
        return f"StoreReader({str(self.path)!r})"

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
        progress: Progress | None = None,
    ) -> Iterator[MessageView | Blank]:
        """Give the messages in physical order.

        Conditions are tested in C before a Python object is made; all that are given must hold.

        Parameters
        ----------
        topics, tags, keys : iterable of str, optional
            Any of them. A tag is the whole TAGS value; a key is a word of KEYS, or UNIQ_KEY.
        queue_ids : iterable of int, optional
        since_ms, until_ms : int, optional
            Store timestamp in milliseconds since the epoch, `until_ms` exclusive.
        start_phy_offset, end_phy_offset : int, optional
            CommitLog offsets in bytes, the end exclusive; need not be the start of a record.
        verify_crc : bool
            Leave out messages whose body fails its CRC. They are in `damage` either way.
        blanks : bool
            Also give `Blank` for the BLANK records that end full files.
        progress : callable, optional
            Called with (bytes done, bytes in all) about once a mebibyte.

        Yields
        ------
        MessageView
            Each over its own copy of the record: keep as many as you like.
        """
        conditions = {
            "topics": topics, "queue_ids": queue_ids, "tags": tags, "keys": keys, "since_ms": since_ms,
            "until_ms": until_ms, "start_phy_offset": start_phy_offset, "end_phy_offset": end_phy_offset,
        }  # fmt: skip
        sink = ViewScan(
            filter=_filter(conditions), delay_levels=self._levels, stop_offset=end_phy_offset
        )
        walk = self._walk(sink, conditions, verify_crc=verify_crc, blanks=blanks, progress=progress)
        return _flat(walk, start_phy_offset or 0)

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
        """Give the messages as columns, a stream of Arrow record batches.

        Conditions and `verify_crc` as in `messages`. ``pyarrow.table(reader.batches())``, ``polars.DataFrame(...)`` and DuckDB
        take the answer as it is; neither is needed to make it.

        Parameters
        ----------
        columns : iterable of str, optional
            MessageView names in the order wanted, also ``raw``; all but ``raw`` when None. What is not asked for is not built.
        batch_rows, batch_bytes : int
            A batch ends with the record that reaches either. Two mebibytes stay in a core's cache from the scan to the
            consumer; larger batches were measured 1.3 to 1.5 times slower with bodies of a kibibyte.

        Raises
        ------
        ValueError
            An unknown column.
        """
        chosen = ColumnList(columns)
        conditions = {
            "topics": topics, "queue_ids": queue_ids, "tags": tags, "keys": keys, "since_ms": since_ms,
            "until_ms": until_ms, "start_phy_offset": start_phy_offset, "end_phy_offset": end_phy_offset,
        }  # fmt: skip
        wanted = _filter(conditions)

        def read() -> Iterator[Batch]:
            sink = ColumnScan(
                chosen, filter=wanted, delay_levels=self._levels, stop_offset=end_phy_offset, batch_rows=batch_rows,
                batch_bytes=batch_bytes,
            )  # fmt: skip
            walk = self._walk(sink, conditions, verify_crc=verify_crc, progress=progress)
            return cast("Iterator[Batch]", walk.run())

        read_check = ColumnScan(chosen, batch_rows=batch_rows, batch_bytes=batch_bytes)
        del read_check  # wrong numbers are an error here, not in the middle of somebody's stream
        return BatchStream(chosen, read)

    def _walk(self, sink: Any, conditions: dict[str, Any], **options: Any) -> LogWalk[Any]:
        self.damage = []
        return LogWalk(
            self.log_files(),
            sink,
            self.damage,
            start=conditions["start_phy_offset"],
            stop=conditions["end_phy_offset"],
            **options,
        )

    # ---- files --------------------------------------------------------------------------------------

    def log_files(self) -> list[LogFile]:
        """CommitLog files by offset."""
        return list_log_files(self.paths)

    def queues(self) -> list[QueueInfo]:
        """Every ConsumeQueue with its offsets, by topic and queue id."""
        info = self.info()
        return list_queues(self.paths, info.min_phy_offset, info.max_phy_offset)

    def index_files(self) -> list[IndexFileInfo]:
        """Every IndexFile, oldest first."""
        return list_index_files(self.paths)

    def checkpoint(self) -> StoreCheckpoint | None:
        """The checkpoint, None without one."""
        return read_checkpoint(self.paths.checkpoint)

    def info(self) -> StoreInfo:
        """Sizes, counts and offsets; reads the newest CommitLog file to find the log's end."""
        return read_info(self.paths, self.log_files())

    # ---- lookups ------------------------------------------------------------------------------------

    def message_at(self, phy_offset: int) -> MessageView | None:
        """The message whose record starts at a CommitLog offset; None when no well-formed record says that it lies there.

        The body's CRC is not compared: see `MessageView.crc_ok`.
        """
        return record_at(self.log_files(), phy_offset, self._levels)

    def lookup(self, phy_offset: int) -> MessageView | None:
        """As `message_at`."""
        return self.message_at(phy_offset)

    def lookup_id(self, msg_id: str) -> MessageView | None:
        """The message with an offset message id (32 or 56 hex digits).

        Raises
        ------
        ValueError
            `msg_id` is none.
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
    ) -> OfflineGetResult:
        """Messages of a queue from an offset on, with the status and next offset that Java's store would answer."""
        return self._lookup.get(topic, queue_id, queue_offset, max_messages, tags=tags)

    def query(
        self,
        topic: str,
        key: str,
        max_messages: int = 32,
        begin_ms: int = 0,
        end_ms: int | None = None,
        *,
        index_type: str | None = None,
    ) -> list[MessageView]:
        """Messages with a key by the IndexFiles, hash collisions left out; ``index_type="T"`` asks by tag."""
        return self._lookup.query(topic, key, max_messages, begin_ms, end_ms, index_type=index_type)

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER"
    ) -> int:
        """The first queue offset stored at or after a time (LOWER), or the last at or before it (UPPER)."""
        return self._lookup.offset_by_time(topic, queue_id, timestamp_ms, boundary)


def read(path: str | os.PathLike[str], *, config: MessageStoreConfig | None = None) -> StoreReader:
    """Open a store directory for reading; see `StoreReader`."""
    return StoreReader(path, config=config)


def store_paths(root: Path) -> StorePaths:
    """Where the parts of a store lie, given its root or its ``commitlog`` directory.

    Raises
    ------
    NotAStoreError
        The directory holds none of the parts of a store.
    FileNotFoundError, NotADirectoryError
        There is no such directory.
    """
    names = [entry.name for entry in os.scandir(root)]  # says that there is none, or no directory
    if holds_store(names):
        return StorePaths(root)
    if holds_log_files(root.name, names):
        return StorePaths(root.parent, commitlog=root)
    raise NotAStoreError(f"{root} holds no commitlog/, consumequeue/, index/ or checkpoint")


def holds_store(names: Iterable[str]) -> bool:
    """Whether a directory with these names in it is a store's root."""
    return not {"commitlog", "consumequeue", "index", "checkpoint"}.isdisjoint(names)


def holds_log_files(directory: str, names: Iterable[str]) -> bool:
    """Whether a directory of this name, with these names in it, is a CommitLog's."""
    return directory == "commitlog" or any(len(name) == 20 and name.isdigit() for name in names)


def _filter(conditions: dict[str, Any]) -> Filter | None:
    return None if all(value is None for value in conditions.values()) else Filter(**conditions)


def _flat(walk: LogWalk[list[MessageView]], start: int) -> Iterator[MessageView | Blank]:
    for found in walk.run():
        if isinstance(found, Blank):
            if found.phy_offset >= start:
                yield found
        else:
            yield from found
