"""The places of messages with some ids and keys in a store: an id may name its place, and the index knows keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rmqcore._native.format.codec import MessageView
from rmqcore.codec import index_key_hash, parse_msg_id
from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.disk.store_kinds import INDEX_DATABASE
from rmqcore.disk.topics_file import TOPICS_FILE, configured_topics
from rmqcore.errors import CorruptIndexError, StoreError
from rmqcore.offline.index.index_files import (
    IndexFileReader,
    find_index_files,
    unasked_files,
    wrong_entry,
)
from rmqcore.offline.index_coverage import AskedKey, IndexCoverage
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.window import record_at
from rmqcore.offline.rocksdb.index_database import IndexDatabase, asked_index
from rmqcore.queries.index_query import has_key, has_key_hash
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.storage.locations import StoreLocation


@dataclass(frozen=True)
class FindPlacesTask:
    """The ids and keys that a task looks up in one store.

    Attributes
    ----------
    store : StoreLocation
    offset_ids : frozenset of str
        Ids that look like offset message ids.
    keys, ids : frozenset of str
        Looked up in the index: `keys` as any kind of key, `ids` as UNIQ_KEYs.
    index_topics : tuple of str or None
        The topics to look up in the index, which has keys only together with their topic; None for all topics that have
        queues or are in ``config/topics.json``, empty for no use of the index.
    options : SourceOptions
    """

    store: StoreLocation
    offset_ids: frozenset[str]
    keys: frozenset[str]
    ids: frozenset[str]
    index_topics: tuple[str, ...] | None
    options: SourceOptions


@dataclass(frozen=True)
class Places:
    """The places that a task found in one store.

    Attributes
    ----------
    phy_offsets : tuple of int
        CommitLog offsets where the records begin.
    ids : frozenset of str
        The ids that were found.
    missing : tuple of int
        Offsets of index entries at which the log has no record, although that part of the log was not deleted.
    """

    phy_offsets: tuple[int, ...] = ()
    ids: frozenset[str] = frozenset()
    missing: tuple[int, ...] = ()


def find_places(task: FindPlacesTask) -> Places:
    """Look ids and keys up.

    Raises
    ------
    StoreError
        The index is used, and is missing or damaged.
    """
    files = task.store.log_files()
    places: set[int] = set()
    found: set[str] = set()
    for msg_id in task.offset_ids:
        message = record_at(files, parse_msg_id(msg_id).phy_offset)
        # The id may name a place on another broker, where another record lies; and a UNIQ_KEY has the same form.
        if message is not None and message.msg_id == msg_id.upper():
            places.add(message.phy_offset)
            found.add(msg_id)
    missing: set[int] = set()
    if task.index_topics != ():
        for text, message in _by_index(task, files, task.ids - found, missing):
            places.add(message.phy_offset)
            if text in task.ids:
                found.add(text)
    return Places(tuple(sorted(places)), frozenset(found), tuple(sorted(missing)))


def _by_index(
    task: FindPlacesTask, files: list[LogFile], ids: Iterable[str], missing: set[int]
) -> Iterator[tuple[str, MessageView]]:
    asked = [(key, None) for key in task.keys] + [(msg_id, "U") for msg_id in ids]
    with task.store.local_copy("index", INDEX_DATABASE, "abort", TOPICS_FILE) as paths:
        topics = task.index_topics
        if topics is None and (queues := task.store.topics()):
            topics = tuple(sorted({*queues, *configured_topics(paths)}))
        topics = topics or ()
        readers = find_index_files(paths)
        has_files = any(reader.header.index_count > 1 for reader in readers)
        in_rocksdb = asked_index(paths, has_files=has_files)
        database = in_rocksdb.database
        _check_index(
            task.store, readers, topics, files, has_entries=has_files or database is not None
        )
        wanted = [AskedKey(topic, text, kind) for topic in topics for text, kind in asked]
        unread = in_rocksdb.unread
        lines = IndexCoverage().lacking(
            paths, readers, files, wanted, database, to_end=bool(unread)
        )
        _check_coverage(task.store, [unread, *lines] if unread and lines else lines)
        for topic in topics:
            for text, kind in asked:
                key_hash = index_key_hash(topic, text)
                for message in _messages(task, readers, files, key_hash, missing):
                    if has_key(message, topic, text, kind):
                        yield text, message
                    elif not has_key_hash(message, key_hash):
                        _check_coverage(task.store, [wrong_entry(message.phy_offset)])
                if database is not None:
                    asked_key = AskedKey(topic, text, kind)
                    for message in _in_database(task, database, files, asked_key, missing):
                        yield text, message
        _check_coverage(task.store, unasked_files(readers))


def _check_coverage(store: StoreLocation, lines: list[str]) -> None:
    """Raise if the index lacks the keys of some messages."""
    if lines:
        raise StoreError(f"{store.root}: {lines[0]}: omit useIndex to search the log itself")


def _check_index(
    store: StoreLocation,
    readers: list[IndexFileReader],
    topics: tuple[str, ...],
    files: list[LogFile],
    *,
    has_entries: bool,
) -> None:
    """Raise if the index is missing or broken: a lookup without a result would not prove that the message is missing."""
    advice = "omit useIndex to search the log itself"
    for reader in readers:
        why = reader.problem()
        if why is not None:
            raise CorruptIndexError(
                f"{store.root}/index/{reader.path.name}",
                0,
                "file",
                f"one whose entries can all be found ({advice})",
                f"damaged: {why}",
            )
    if not has_entries:
        if files and record_at(files, files[0].file_from_offset) is not None:
            raise StoreError(
                f"{store.root}/index has no entries, but the log has messages: {advice}"
            )
        return
    if not topics:
        raise StoreError(
            f"{store.root}/consumequeue has no topics, and index keys include the topic: name the "
            f"topics, or {advice}"
        )


def _messages(
    task: FindPlacesTask,
    readers: list[IndexFileReader],
    files: list[LogFile],
    wanted: int,
    missing: set[int],
) -> Iterator[MessageView]:
    """Yield the messages that the index has for a hash, including collisions; note entries whose record is not in the log."""
    log_min = files[0].file_from_offset if files else 0
    # The index keeps whole seconds since its file begins: one second more loses no message. Messages stored before
    # that, by a clock that was set back, have the time of the beginning: so the lookup has no end, and the records have
    # the exact times.
    begin_ms = max(0, (task.options.starting_timestamp or 0) - 1000)
    for reader in readers:
        for phy_offset in reader.find(wanted, begin_ms, limit=reader.header.index_count):
            message = record_at(files, phy_offset)
            if message is not None:
                yield message
            elif phy_offset >= log_min:
                missing.add(phy_offset)


def _in_database(
    task: FindPlacesTask,
    database: IndexDatabase,
    files: list[LogFile],
    asked: AskedKey,
    missing: set[int],
) -> Iterator[MessageView]:
    """Yield the messages that the index in RocksDB has for a key; note entries whose record is not in the log."""
    log_min = files[0].file_from_offset if files else 0
    places = database.find(
        asked.topic,
        asked.key,
        MAX_OFFSET,
        task.options.starting_timestamp or 0,
        index_type=asked.index_type,
        has_key=lambda phy_offset: True,  # the records say so below
    )
    for phy_offset in places:
        message = record_at(files, phy_offset)
        if message is None:
            if phy_offset >= log_min:
                missing.add(phy_offset)
        elif has_key(message, *asked):
            yield message
