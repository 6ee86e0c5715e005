"""`rmqcore.find_config`: the configuration of a store whose ``broker.conf`` is not at hand, its sizes found from its files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rmqcore._native.format.layout import (
    CQ_STORE_UNIT_SIZE,
    INDEX_ENTRY_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    REC_HEADER_SIZE,
    index_file_size,
)
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.abort import AbortFile
from rmqcore.disk.index.header import read_header
from rmqcore.disk.index.slot_count import find_slot_count
from rmqcore.disk.inside.links import is_file, is_folder
from rmqcore.disk.load_files import load_files
from rmqcore.disk.paths import StorePaths, absolute_path, is_index_file_name, parse_file_name
from rmqcore.disk.queue_files import ends_in_room
from rmqcore.disk.read_range import entries_of, opened
from rmqcore.errors import StoreFormatError
from rmqcore.offline.info import log_end
from rmqcore.offline.log.log_files import list_log_files, mapped_file_size
from rmqcore.offline.reader import store_paths

SIZE_FIELDS = frozenset(
    {
        "mapped_file_size_commit_log",
        "mapped_file_size_consume_queue",
        "max_hash_slot_num",
        "max_index_num",
    }
)
SAMPLED_QUEUES = 100
MOST_SLOTS = 1 << 25
"""Slots that a file may tell: 128 MiB, which are in memory while an index is made. Java makes 5 million."""
SLOTS_AN_ENTRY = 16
"""As many slots for each entry may a file tell; Java makes a quarter. A file of many slots and few entries would ask for many
mebibytes of disk for each few keys of the log."""


def find_config(
    path: str | os.PathLike[str],
    config: MessageStoreConfig | None = None,
    *,
    follow_links: bool = False,
) -> MessageStoreConfig:
    """Return the configuration that a store's files were made with, as far as they show it; nothing is changed.

    `rmqcore.open` does the same for the sizes that it is not given. Files tell ``mapped_file_size_commit_log``,
    ``mapped_file_size_consume_queue``, ``max_hash_slot_num`` and ``max_index_num``.

    Parameters
    ----------
    path : path-like
        The store's root, or its ``commitlog`` directory.
    config : MessageStoreConfig, optional
        All other settings, where the CommitLog is, and the sizes of those kinds of files that the store does not have.
    follow_links : bool
        As `rmqcore.open`.

    Raises
    ------
    NotAStoreError
        The directory holds none of the parts of a store.
    StoreFormatError
        Files of the log have two sizes, the error names one of each; or no configuration has these sizes.
    OSError
        A directory cannot be read.
    """
    paths = store_paths(absolute_path(path, "path"), config, follow_links=follow_links)
    found = found_config(paths, config)
    load_files(paths.commitlogs, found.mapped_file_size_commit_log)
    return found


def adopt_sizes(paths: StorePaths, config: MessageStoreConfig) -> MessageStoreConfig:
    """Return the configuration for an open: sizes that were not given are taken from the files.

    After an unclean exit the only queue file may have lost its end, and tells nothing then unless it has room left: see
    `odd_files`.

    Raises
    ------
    StoreFormatError
        The only file of the log ends within a record: it may have lost its end, and all later files would get its length.
    """
    return _adopted(paths, config, SIZE_FIELDS - config.given)


def config_to_open(paths: StorePaths, config: MessageStoreConfig) -> MessageStoreConfig:
    """Return the result of `found_config` for a store to open: no size is taken from a file that may have lost its end.

    Raises
    ------
    OSError, StoreFormatError
        As `found_config` and `adopt_sizes`; a size of log files that `config` gives, and that the file has, is believed.
    """
    return _adopted(paths, config, SIZE_FIELDS)


def _adopted(
    paths: StorePaths, config: MessageStoreConfig, wanted: AbstractSet[str]
) -> MessageStoreConfig:
    if not wanted:
        return config
    found = found_sizes(paths, config)
    if "mapped_file_size_commit_log" in wanted:
        _check_only_log_file(paths, config)
    if AbortFile(paths.abort).exists and _lone_queue_file_may_be_short(paths.consumequeue):
        wanted = wanted - {"mapped_file_size_consume_queue"}
    return _with_sizes(paths, config, {name: found[name] for name in wanted & found.keys()})


def _check_only_log_file(paths: StorePaths, config: MessageStoreConfig) -> None:
    """Refuse to go by a log file that no other one confirms, and that ends with a record.

    A BLANK belongs there, or bytes that nobody has written.
    """
    files = list_log_files(paths)
    if len(files) != 1 or files[0].size in (0, config.mapped_file_size_commit_log):
        return
    (file,) = files
    pos = log_end(files) - file.file_from_offset
    with opened(Path(file.path), os.O_RDONLY) as fd:
        rest = os.pread(fd, REC_HEADER_SIZE, pos)
    size, magic = (int.from_bytes(rest[at : at + 4], "big", signed=True) for at in (0, 4))
    begins_record = magic in (MAGIC_V1, MAGIC_V2)
    if len(rest) < REC_HEADER_SIZE or (begins_record and size > file.size - pos):
        error = StoreFormatError(
            f"{file.path}: file size is {file.size}, expected "
            f"{config.mapped_file_size_commit_log}; it does not end like a CommitLog file, so its "
            "end may be lost"
        )
        error.hint = (
            "if the file is complete, set its size: mapped_file_size_commit_log, in a broker.conf "
            "mappedFileSizeCommitLog; `rmqcore fsck` checks it, `rmqcore salvage` saves its "
            "messages"
        )
        raise error


def _lone_queue_file_may_be_short(folder: Path) -> bool:
    """Return True if there is one queue file, so that no other says whether it has its length, and it has no room left either."""
    files = list(islice(_queue_files(folder), 2))
    return len(files) == 1 and not ends_in_room(*files[0])


def found_config(paths: StorePaths, config: MessageStoreConfig | None = None) -> MessageStoreConfig:
    """Return a configuration with the file sizes of a store.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig, optional
        All other settings, and the sizes of those kinds of files that the store does not have.

    Raises
    ------
    OSError
        A directory cannot be read.
    StoreFormatError
        No configuration has these sizes.
    """
    settings = MessageStoreConfig() if config is None else config
    return _with_sizes(paths, settings, found_sizes(paths, settings))


def _with_sizes(
    paths: StorePaths, settings: MessageStoreConfig, sizes: dict[str, Any]
) -> MessageStoreConfig:
    try:
        return settings.changed(**sizes)
    except ValueError as error:
        raise StoreFormatError(
            f"{paths.root}: a broker cannot have files of these sizes: {error}"
        ) from None


def found_sizes(paths: StorePaths, config: MessageStoreConfig) -> dict[str, Any]:
    """Return the fields of a configuration that the store's files show; a kind without whole files shows none."""
    found: dict[str, Any] = {}
    log_files = list_log_files(paths)
    if log_files:
        found["mapped_file_size_commit_log"] = mapped_file_size(log_files)
    sizes = Counter(size for _, size in _queue_files(paths.consumequeue))
    whole = {size: count for size, count in sizes.items() if size % CQ_STORE_UNIT_SIZE == 0}
    if whole:
        found["mapped_file_size_consume_queue"] = max(whole, key=lambda size: (whole[size], size))
    geometry = _index_geometry(paths.index, config)
    if geometry is not None:
        found["max_hash_slot_num"], found["max_index_num"] = geometry
    return found


def _queue_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Paths and sizes of the queue files of some queues."""
    queues = (queue for topic in _folders(folder) for queue in _folders(topic))
    for _, queue in zip(range(SAMPLED_QUEUES), queues, strict=False):
        for entry in entries_of(queue):
            if parse_file_name(entry.name) is not None and is_file(entry):
                with suppress(FileNotFoundError):  # the cleaner was faster
                    size = entry.stat().st_size
                    if size:
                        yield entry.path, size


def _folders(folder: str | Path) -> Iterator[str]:
    return (entry.path for entry in entries_of(folder) if is_folder(entry))


def _index_geometry(folder: Path, config: MessageStoreConfig) -> tuple[int, int] | None:
    """Slots and entries of the newest index file whose size tells them; None without such a file."""
    try:
        names = sorted(filter(is_index_file_name, os.listdir(folder)), reverse=True)
    except FileNotFoundError:
        return None
    for name in names:
        with suppress(FileNotFoundError):  # the cleaner was faster
            geometry = _geometry_of(folder / name, config)
            if geometry is not None:
                return geometry
    return None


def _geometry_of(path: Path, config: MessageStoreConfig) -> tuple[int, int] | None:
    size = path.lstat().st_size
    if size == config.index_file_size:
        return config.max_hash_slot_num, config.max_index_num
    slots = find_slot_count(path, size, read_header(path))
    if slots is None or slots > MOST_SLOTS:
        return None
    entries = (size - index_file_size(slots, 0)) // INDEX_ENTRY_SIZE
    return (slots, entries) if slots <= SLOTS_AN_ENTRY * entries else None
