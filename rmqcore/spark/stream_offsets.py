"""The offset of a stream: for each store, the CommitLog offset at which the next batch begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from rmqcore.spark.option_values import QueueOffsets, queue_offsets_of

VERSION = 1


@dataclass(frozen=True)
class StreamOffset:
    """What Spark writes into a checkpoint.

    Attributes
    ----------
    stores : dict of str to int
        CommitLog offsets by store: the beginning of a record, or the end of one.
    queues : dict
        Topic -> broker -> queue id -> queue offset before which nothing of the queue is a row: the startingOffsets that the
        stream began with. In the offset, because a stream that goes on asks no option where it begins.
    """

    stores: dict[str, int]
    queues: QueueOffsets = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values: ``{"v": 1, "stores": {"broker-a": 1073741824}}``."""
        offset: dict[str, Any] = {"v": VERSION, "stores": dict(sorted(self.stores.items()))}
        if self.queues:
            offset["queues"] = {
                topic: {
                    broker: {str(queue_id): at for queue_id, at in sorted(queues.items())}
                    for broker, queues in sorted(brokers.items())
                }
                for topic, brokers in sorted(self.queues.items())
            }
        return offset

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> Self:
        """From what `as_dict` gave.

        Raises
        ------
        ValueError
            It is no offset of this source, one of a later version, or not as it was written.
        """
        stores = offset.get("stores")
        if offset.get("v") != VERSION or not isinstance(stores, Mapping):
            raise ValueError(f"a stream offset of version {VERSION} was expected, found {offset!r}")
        for broker, phy_offset in stores.items():
            if type(phy_offset) is not int or not 0 <= phy_offset < 1 << 63:
                raise ValueError(
                    f"stream offset of store {broker!r} is {phy_offset!r}, expected a CommitLog offset"
                )
        try:
            queues = queue_offsets_of(offset.get("queues", {}))
        except (AttributeError, TypeError, ValueError):
            raise ValueError(
                f"queues of a stream offset are {offset['queues']!r}, expected {{topic: {{broker: {{queue id: queue offset}}}}}}"
            ) from None
        return cls(dict(stores), queues)
