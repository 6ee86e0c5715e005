"""``config/consumerOffset.json``: how far each consumer group has read, as a broker wrote it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import MAX_OFFSET, MAX_QUEUE_ID, StorePaths
from rmqcore.errors import StoreError

FILE = "config/consumerOffset.json"
BACKUP = FILE + ".bak"
BETWEEN_TOPIC_AND_GROUP = "@"
MOST_BYTES = 64 << 20
MOST_VALUES = 4_000_000
"""Bounds of a file that is read; with a group on each of 100,000 topics of 16 queues it has 25 MB and 1.7 million values."""
MOST_PROBLEMS = 100
MOST_SHOWN = 200
"""Letters of a name or value from the file that a problem repeats."""

ROCKSDB = ("config/metadata", "config/consumerOffsets", "config/rdb")
"""Where a broker keeps its offsets instead that was told to keep them in RocksDB."""

# A string, which stays as it is, or a number: one before a colon is an object's key, which fastjson writes without quotes.
# Strings without an end and numbers without a colon match as well, so that nothing is looked at twice.
_KEYS = re.compile(r'"(?:[^"\\]|\\.)*+"?|(-?\d++)(\s*+:)?', re.DOTALL)
_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)


@dataclass(frozen=True)
class DataVersion:
    """How often and when the broker wrote its offsets."""

    counter: int
    timestamp_ms: int
    state_version: int


@dataclass(frozen=True)
class ConsumerOffsets:
    """The offsets that consumer groups have committed; those that broadcast keep theirs themselves.

    Attributes
    ----------
    groups : mapping of str to a mapping of (topic, queue id) to int
        By group and queue the queue offset of the first message that the group has not consumed. ``%RETRY%GROUP`` is a topic
        like any other. Groups and queues have the order of the file.
    source : Path or None
        The file that was read; None where there is none, or none that can be read.
    is_backup : bool
        `source` is the ``.bak`` file: what the broker wrote last but one.
    data_version : DataVersion or None
        None where the file has none.
    problems : tuple of str
        What could not be read, each as a sentence; not more than 100, the last of which counts all others.
    """

    groups: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    source: Path | None = None
    is_backup: bool = False
    data_version: DataVersion | None = None
    problems: tuple[str, ...] = ()


def read_consumer_offsets(paths: StorePaths) -> ConsumerOffsets:
    """Read the consumer groups' offsets of a store; a store without the files has none.

    As in Java the ``.bak`` file is read where the file is missing, empty or no JSON; `ConsumerOffsets.problems` tells of it.
    Offsets that are none are left out and told, where Java would read nothing of the file. Nothing is raised for what lies
    there.

    Parameters
    ----------
    paths : StorePaths

    Notes
    -----
    Source: RocketMQ 5.5.0 ConfigManager#load, ConsumerOffsetManager#decode.
    """
    problems = _Problems()
    _tell_rocksdb(paths, problems)
    for place in (FILE, BACKUP):
        try:
            text = _read(paths, place)
            if text is None:
                continue
            saved = _parse(text)
        except (StoreError, OSError, ValueError) as error:
            what = str(error)
            problems.add(what if os.fspath(paths.root) in what else f"{paths.root / place}: {what}")
            continue
        groups, version = _groups(saved, problems.at(paths.root / place)), _version(saved)
        is_backup = place == BACKUP
        if is_backup:
            problems.add(
                f"{paths.root / BACKUP} was read instead: offsets may be older than the groups'"
            )
        return ConsumerOffsets(groups, paths.root / place, is_backup, version, problems.told())
    return ConsumerOffsets(problems=problems.told())


def _tell_rocksdb(paths: StorePaths, problems: _Problems) -> None:
    for place in ROCKSDB:
        path = paths.root / place
        if path.is_dir():
            problems.add(
                f"{path}: a broker that keeps offsets in RocksDB has made it; those are not read"
            )


def _read(paths: StorePaths, place: str) -> str | None:
    """The text of a file; None where it is not there."""
    try:
        with Folder(paths.root) as root:
            file = root.open_file(place, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        data = _read_most(file.fileno())
    finally:
        file.close()
    return data.decode("utf-8-sig", errors="replace")


def _read_most(fd: int) -> bytes:
    data = bytearray()
    while part := os.pread(fd, 1 << 20, len(data)):
        data += part
        if len(data) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes, which no broker writes")
    return bytes(data)


def _parse(text: str) -> dict[str, Any]:
    """The object that the text is; keys without quotes are read."""
    if not text.strip():
        raise ValueError("it is empty")
    if text.count(",") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES} values, which no broker writes")
    try:
        saved = json.loads(_KEYS.sub(_quoted, text), parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON, perhaps torn: {error}") from None
    if not isinstance(saved, dict):
        raise ValueError(f"it holds {_shown(saved)}, expected an object")  # noqa: TRY004  (no argument has a wrong type)
    return saved


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found[2] is None else f'"{found[1]}"{found[2]}'


def _integer(digits: str) -> int | str:
    """A number; one with more digits than a long has stays text, and int() is not asked for it."""
    return int(digits) if len(digits) <= 20 else digits


def _version(saved: Mapping[str, Any]) -> DataVersion | None:
    version = saved.get("dataVersion")
    if not isinstance(version, dict):
        return None
    parts = (_long(version.get(name, 0)) for name in ("counter", "timestamp", "stateVersion"))
    return DataVersion(*(0 if part is None else part for part in parts))


def _groups(
    saved: Mapping[str, Any], tell: Callable[[str], None]
) -> dict[str, dict[tuple[str, int], int]]:
    table = saved.get("offsetTable", {})
    groups: dict[str, dict[tuple[str, int], int]] = {}
    if not isinstance(table, dict):
        tell(f"offsetTable is {_shown(table)}, expected an object")
        return groups
    for key, offsets in table.items():
        topic, between, group = key.partition(BETWEEN_TOPIC_AND_GROUP)
        if not (topic and between and group) or BETWEEN_TOPIC_AND_GROUP in group:
            tell(f"{_shown(key)} is not a topic and a group with one @ between them")
        elif not isinstance(offsets, dict):
            tell(f"{_shown(key)} has {_shown(offsets)}, expected offsets by queue id")
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
        where = f"topic {_shown(topic)}, group {_shown(group)}"
        if queue_id is None or not 0 <= queue_id <= MAX_QUEUE_ID:
            tell(f"{where}: {_shown(name)} is no queue id")
        elif queue_offset is None or queue_offset < 0:
            tell(f"{where}, queue {queue_id}: {_shown(value)} is no queue offset")
        else:
            groups.setdefault(group, {})[topic, queue_id] = queue_offset


def _long(value: object) -> int | None:
    """A Java long, also as text; None for anything else."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if type(value) is not int or not -MAX_OFFSET <= value <= MAX_OFFSET:
        return None
    return value


def _shown(value: object) -> str:
    """A value of the file for a problem, in ASCII and not longer than a line or two."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = ascii(value[: MOST_SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


class _Problems:
    """The first problems, and how many there are."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._more = 0

    def add(self, text: str) -> None:
        if len(self._first) < MOST_PROBLEMS - 1:
            self._first.append(text)
        else:
            self._more += 1

    def at(self, path: Path) -> Callable[[str], None]:
        return lambda text: self.add(f"{path}: {text}")

    def told(self) -> tuple[str, ...]:
        more = (f"... and {self._more} more problems",) if self._more else ()
        return (*self._first, *more)
