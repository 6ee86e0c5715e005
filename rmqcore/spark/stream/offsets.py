"""The offset of a stream: for each store, the CommitLog offset at which the next batch begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from rmqcore.spark.options.values import QueueOffsets, queue_offsets_of
from rmqcore.vocabulary.units import LONG_MAX

VERSION = 1


@dataclass(frozen=True)
class StreamOffset:
    """The offset that Spark writes into a checkpoint.

    Attributes
    ----------
    stores : dict of str to int
        CommitLog offset in each store, at which a record begins or ends.
    queues : dict
        Topic -> broker -> queue id -> queue offset: no earlier message of the queue becomes a row. These are the
        startingOffsets of the stream; they are stored here because a stream that continues from a checkpoint ignores
        the option.
    paths : dict of str to str
        Where each store lies; a store's name may change with its neighbours. Empty in offsets of earlier versions.
    seals : dict of str to str
        By store the hash of its log's bytes before the offset (`rmqcore.offline.log.seal`), which identifies the log. A
        store whose files do not hold these bytes has no seal; offsets of earlier versions have no seals.
    """

    stores: dict[str, int]
    queues: QueueOffsets = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    seals: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the offset as JSON values: ``{"v": 1, "stores": {"broker-a": 1073741824}}``."""
        offset: dict[str, Any] = {"v": VERSION, "stores": dict(sorted(self.stores.items()))}
        if self.queues:
            offset["queues"] = {
                topic: {
                    broker: {str(queue_id): at for queue_id, at in sorted(queues.items())}
                    for broker, queues in sorted(brokers.items())
                }
                for topic, brokers in sorted(self.queues.items())
            }
        if self.paths:
            offset["paths"] = dict(sorted(self.paths.items()))
        if self.seals:
            offset["seals"] = dict(sorted(self.seals.items()))
        return offset

    @property
    def names(self) -> set[str]:
        """Return the names of all stores in the offset."""
        return self.stores.keys() | {name for brokers in self.queues.values() for name in brokers}

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the offset with other names for its stores."""
        return replace(
            self,
            stores={names[name]: phy_offset for name, phy_offset in self.stores.items()},
            queues={
                topic: {names[name]: queues for name, queues in brokers.items()}
                for topic, brokers in self.queues.items()
            },
            paths={names[name]: path for name, path in self.paths.items() if name in names},
            seals={names[name]: sha256 for name, sha256 in self.seals.items() if name in names},
        )

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> Self:
        """Make an offset from the JSON values of `as_dict`.

        Raises
        ------
        ValueError
            The values are not an offset of this source, belong to a later version, or were changed since they were
            written.
        """
        stores = offset.get("stores")
        if offset.get("v") != VERSION or not isinstance(stores, Mapping):
            raise ValueError(f"expected a stream offset of version {VERSION}, found {offset!r}")
        for broker, phy_offset in stores.items():
            if type(phy_offset) is not int or not 0 <= phy_offset <= LONG_MAX:
                raise ValueError(
                    f"stream offset of store {broker!r} is {phy_offset!r}, expected a CommitLog offset"
                )
        try:
            queues = queue_offsets_of(offset.get("queues", {}))
        except (AttributeError, TypeError, ValueError):
            raise ValueError(
                f"queues of a stream offset are {offset['queues']!r}, expected {{topic: {{broker: {{queue id: queue offset}}}}}}"
            ) from None
        return cls(
            dict(stores),
            queues,
            _texts_of(offset, "paths", "path"),
            _texts_of(offset, "seals", "sha256"),
        )


def _texts_of(offset: Mapping[str, Any], key: str, value: str) -> dict[str, str]:
    """Return a part of an offset that has a text for each store; empty in earlier versions."""
    found = offset.get(key, {})
    if not isinstance(found, Mapping) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError(f"{key} of a stream offset are {found!r}, expected {{broker: {value}}}")
    return dict(found)
