"""The version of a table: of a broker's topics, groups and offsets, in files and on the wire.

Source: RocketMQ 5.5.0 DataVersion.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataVersion:
    """Version of a table's state: equal versions have equal states."""

    state_version: int = 0
    timestamp_ms: int = 0
    counter: int = 0

    def next(self, now_ms: int) -> DataVersion:
        """Return the version of a table that changed at this time."""
        return DataVersion(self.state_version, now_ms, self.counter + 1)

    def as_json(self) -> dict[str, int]:
        """Return it by Java's names."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp_ms,
        }
