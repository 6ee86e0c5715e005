"""The queue offsets up to which the delay levels were delivered: `delayOffset.json`.

Source: RocketMQ 5.5.0 ScheduleMessageService, DelayOffsetSerializeWrapper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmqcore.broker.config_files import ConfigFiles
from rmqcore.remoting.bodies.json_object import JsonObject
from rmqcore.remoting.bodies.topic_configs import data_version
from rmqcore.vocabulary.data_version import DataVersion

FILE = "delayOffset.json"
UPDATE_VERSION_STEP = 200
"""Steps of the offsets in one version of the file."""
_FIRST_LEVEL, _LAST_LEVEL = 1, 1024


class DelayOffsets:
    """The queue offset of each level's next message. Its methods are called by the loop's thread only.

    Parameters
    ----------
    config_files : ConfigFiles
    now_ms : callable
        The clock.

    Attributes
    ----------
    changed : bool
        Whether an offset has changed since the last `save`.
    """

    def __init__(self, config_files: ConfigFiles, now_ms: Callable[[], int]) -> None:
        self._config_files = config_files
        self._now_ms = now_ms
        self._table: dict[int, int] = {}
        self._version = DataVersion()
        self._updates = 0
        self.changed = False

    def load(self) -> None:
        """Read the file.

        Raises
        ------
        StoreFormatError
            The file exists, and neither it nor its ``.bak`` can be read.
        """
        saved = self._config_files.load_as(FILE, _parse)
        if saved is not None:
            self._version, self._table = saved

    def get(self, level: int) -> int | None:
        """Return the offset of a level; None before the first one is stored."""
        return self._table.get(level)

    def whole(self) -> dict[int, int]:
        """Return all offsets by level, with those of levels that this broker does not have any more."""
        return dict(self._table)

    def note(self, level: int, queue_offset: int) -> None:
        """Store an offset."""
        self._table[level] = queue_offset
        self.changed = True
        self._updates += 1
        if self._updates % UPDATE_VERSION_STEP == 0:
            self._version = self._version.next(self._now_ms())

    def as_json(self) -> dict[str, Any]:
        """Return the contents for the file and for a slave."""
        offsets = {str(level): self._table[level] for level in sorted(self._table)}
        return {"dataVersion": self._version.as_json(), "offsetTable": offsets}

    def adopt(self, told: dict[str, Any]) -> None:
        """Replace the offsets by those of a master's GET_ALL_DELAY_OFFSET, and write the file if they differ.

        Raises
        ------
        RequestError
            The offsets are invalid.
        """
        found = _parse(told)
        if found != (self._version, self._table):
            self._version, self._table = found
            self.save(self.as_json())

    def save(self, snapshot: dict[str, Any]) -> None:
        """Queue a write of the file."""
        self._config_files.save(FILE, snapshot)


def _parse(saved: dict[str, Any]) -> tuple[DataVersion, dict[int, int]]:
    found = JsonObject(FILE, "", saved)
    offsets = {}
    table = saved.get("offsetTable") or {}
    if not isinstance(table, dict):
        found.refuse("offsetTable", "an object", table)
    members = JsonObject(FILE, "offsetTable", table)
    for key in table:
        level = int(key) if key.isascii() and key.isdigit() and len(key) <= 9 else 0
        if not _FIRST_LEVEL <= level <= _LAST_LEVEL:
            found.refuse("offsetTable", "levels from 1 on", key)
        offsets[level] = members.number(key)
    version = found.child("dataVersion")
    return data_version(version), offsets
