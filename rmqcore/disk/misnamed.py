"""Queue entries whose records name another place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Misnamed:
    """An entry whose record names another place.

    Attributes
    ----------
    topic, queue_id, queue_offset : str, int, int
        Place of the entry.
    phy_offset : int
        CommitLog offset of the record.
    named_topic, named_queue_id, named_queue_offset : str, int, int
        Place that the record names.
    at_the_end : bool
        True if no entry of the queue's own records lies behind the entry.
    """

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    named_topic: str
    named_queue_id: int
    named_queue_offset: int
    at_the_end: bool = False

    @property
    def named(self) -> str:
        """The place that the record names, as text."""
        return self._difference[0]

    @property
    def _difference(self) -> tuple[str, str]:
        """Return the place that the record names, and the fields that differ."""
        if (self.named_topic, self.named_queue_id) != (self.topic, self.queue_id):
            return f"{self.named_topic} {self.named_queue_id}", "TOPIC or QUEUEID"
        if self.named_queue_offset != self.queue_offset:
            return f"queue offset {self.named_queue_offset}", "QUEUEOFFSET"
        return "no queue", "SYSFLAG"

    def __str__(self) -> str:
        named, fields = self._difference
        return (
            f"the entry of {self.topic} {self.queue_id} at queue offset {self.queue_offset} points "
            f"to CommitLog offset {self.phy_offset}, whose record names {named}: its {fields} is "
            "damaged"
        )
