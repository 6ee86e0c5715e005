"""``config/consumerOffset.json``: how far each consumer group has read, as a broker wrote it.

A broker with ``enableLmq`` has all offsets in ``config/lmqConsumerOffset.json`` instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmqcore.disk.config_files import read_config_file
from rmqcore.disk.inside.skeletons import shown_path
from rmqcore.disk.paths import MAX_OFFSET, MAX_QUEUE_ID, StorePaths
from rmqcore.errors import RemoteStorageError, StoreError
from rmqcore.vocabulary.data_version import DataVersion
from rmqcore.vocabulary.java_json import shown_value

FILE = "config/consumerOffset.json"
LMQ_FILE = "config/lmqConsumerOffset.json"
LMQ_TABLE = "lmqOffsetTable"
"""Key in `LMQ_FILE`: offsets in queue 0 by topic and light group (`rmqcore.vocabulary.topics.LMQ_PREFIX`)."""
BETWEEN_TOPIC_AND_GROUP = "@"
MOST_PROBLEMS = 100

ROCKSDB = ("config/metadata", "config/consumerOffsets", "config/rdb")
"""Places of the offsets if the broker is configured to keep them in RocksDB."""

_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)


@dataclass(frozen=True)
class ConsumerOffsets:
    """The offsets that consumer groups have committed; broadcasting consumers keep their own.

    Attributes
    ----------
    groups : mapping of str to a mapping of (topic, queue id) to int
        For each group and queue, the queue offset of the first message that the group has not consumed.
        ``%RETRY%GROUP`` is a topic like any other. Groups and queues have the order of the file.
    source : Path or None
        The file that was read; None if there is no readable file.
    is_backup : bool
        True if `source` is the ``.bak`` file, the broker's last write but one.
    data_version : DataVersion or None
        None if the file has no version.
    problems : tuple of str
        Problems of reading, each as a sentence; at most 100, the last of which counts all others.
    """

    groups: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    source: Path | None = None
    is_backup: bool = False
    data_version: DataVersion | None = None
    problems: tuple[str, ...] = ()


def read_consumer_offsets(paths: StorePaths) -> ConsumerOffsets:
    """Read the consumer groups' offsets of a store; a store without the files has no groups.

    `LMQ_FILE` is read instead if it was written after `FILE`, or `FILE` is missing: with ``enableLmq`` a broker reads
    only this file. As in Java the ``.bak`` file is read if the file is missing, empty or not JSON;
    `ConsumerOffsets.problems` reports it. Invalid offsets are left out and reported; Java would not read the file at
    all. The content of the files never raises an error.

    Parameters
    ----------
    paths : StorePaths

    Raises
    ------
    RemoteStorageError
        The store is behind a URL, and its server does not return a file.

    Notes
    -----
    Source: RocketMQ 5.5.0 ConfigManager#load, ConsumerOffsetManager#decode, LmqConsumerOffsetManager#decode.
    """
    problems = _Problems()
    _tell_rocksdb(paths, problems)
    root = shown_path(paths.root)
    file = _file_in_use(paths, problems)
    for place in (file, f"{file}.bak"):
        try:
            saved = read_config_file(paths, place)
            if saved is None:
                continue
        except RemoteStorageError:
            raise  # the content of the file is unknown
        except (StoreError, OSError, ValueError) as error:
            what = str(error)
            problems.add(what if root in what else f"{root}/{place}: {what}")
            continue
        groups, version = parse_consumer_offsets(saved, problems.at(f"{root}/{place}"))
        is_backup = place != file
        if is_backup:
            problems.add(f"{root}/{place} was read instead: its offsets may be outdated")
        return ConsumerOffsets(groups, paths.root / place, is_backup, version, problems.told())
    return ConsumerOffsets(problems=problems.told())


def parse_consumer_offsets(
    saved: Mapping[str, Any], tell: Callable[[str], None]
) -> tuple[dict[str, dict[tuple[str, int], int]], DataVersion | None]:
    """Parse the file's object; return the offsets, as `ConsumerOffsets.groups`, and their version.

    Parameters
    ----------
    saved : mapping
    tell : callable
        Called with a sentence for each invalid offset, which is skipped.
    """
    groups = _groups(saved, tell)
    light = saved.get(LMQ_TABLE, {})
    if isinstance(light, dict):
        whole = {key: {"0": queue_offset} for key, queue_offset in light.items()}
        for group, offsets in _groups({"offsetTable": whole}, tell).items():
            groups.setdefault(group, {}).update(offsets)
    else:
        tell(f"{LMQ_TABLE} is {shown_value(light)}, expected an object")
    return groups, _version(saved)


def _file_in_use(paths: StorePaths, problems: _Problems) -> str:
    """The file that the broker wrote last, whether or not ``enableLmq`` was on."""
    times: dict[str, int] = {}
    for place in (FILE, LMQ_FILE):
        with suppress(OSError):
            times[place] = (paths.root / place).lstat().st_mtime_ns
    if LMQ_FILE not in times:
        return FILE
    if FILE in times:
        newest = LMQ_FILE if times[LMQ_FILE] >= times[FILE] else FILE
        other = FILE if newest == LMQ_FILE else LMQ_FILE
        problems.add(
            f"{newest} was read, because it is newer than {other}: a broker with enableLmq reads "
            f"only {LMQ_FILE}"
        )
        return newest
    return LMQ_FILE


def _tell_rocksdb(paths: StorePaths, problems: _Problems) -> None:
    for place in ROCKSDB:
        path = paths.root / place
        if path.is_dir():
            problems.add(
                f"{shown_path(path)}: created by a broker that keeps offsets in RocksDB; those are "
                "not read"
            )


def _version(saved: Mapping[str, Any]) -> DataVersion | None:
    version = saved.get("dataVersion")
    if not isinstance(version, dict):
        return None
    parts = (_long(version.get(name, 0)) for name in ("stateVersion", "timestamp", "counter"))
    return DataVersion(*(0 if part is None else part for part in parts))


def _groups(
    saved: Mapping[str, Any], tell: Callable[[str], None]
) -> dict[str, dict[tuple[str, int], int]]:
    table = saved.get("offsetTable", {})
    groups: dict[str, dict[tuple[str, int], int]] = {}
    if not isinstance(table, dict):
        tell(f"offsetTable is {shown_value(table)}, expected an object")
        return groups
    for key, offsets in table.items():
        topic, between, group = key.partition(BETWEEN_TOPIC_AND_GROUP)
        if not (topic and between and group) or BETWEEN_TOPIC_AND_GROUP in group:
            tell(f"{shown_value(key)} is not TOPIC@GROUP")
        elif not isinstance(offsets, dict):
            tell(f"{shown_value(key)} has {shown_value(offsets)}, expected offsets by queue id")
        else:
            _add_queues(groups, topic, group, offsets, tell)
    return groups


def _add_queues(
    groups: dict[str, dict[tuple[str, int], int]],
    topic: str,
    group: str,
    offsets: Mapping[str, Any],
    tell: Callable[[str], None],
) -> None:
    for name, value in offsets.items():
        queue_id, queue_offset = _long(name), _long(value)
        where = f"topic {shown_value(topic)}, group {shown_value(group)}"
        if queue_id is None or not 0 <= queue_id <= MAX_QUEUE_ID:
            tell(f"{where}: {shown_value(name)} is not a queue id")
        elif queue_offset is None or queue_offset < 0:
            tell(f"{where}, queue {queue_id}: {shown_value(value)} is not a queue offset")
        else:
            groups.setdefault(group, {})[topic, queue_id] = queue_offset


def _long(value: object) -> int | None:
    """A Java long, also as text; None for anything else."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if type(value) is not int or not -MAX_OFFSET <= value <= MAX_OFFSET:
        return None
    return value


class _Problems:
    """The first problems, and the number of all."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._more = 0

    def add(self, text: str) -> None:
        if len(self._first) < MOST_PROBLEMS - 1:
            self._first.append(text)
        else:
            self._more += 1

    def at(self, path: str) -> Callable[[str], None]:
        return lambda text: self.add(f"{path}: {text}")

    def told(self) -> tuple[str, ...]:
        more = (f"... and {self._more} more problems",) if self._more else ()
        return (*self._first, *more)
