"""Records that are in no queue: another record has their place, or no queue can have it."""

from __future__ import annotations

from dataclasses import dataclass

TAKEN = "another record has its queue offset"
IMPOSSIBLE = "its queue offset is impossible"
NAMES_NO_QUEUE = "its topic or queue id is invalid"


@dataclass(frozen=True, slots=True)
class SetAside:
    """Records that no queue accepts: they stay in the log, without a place in a queue.

    Attributes
    ----------
    topic : str
    queue_id : int
    first_queue_offset, last_queue_offset : int
        Queue offsets that they name.
    first_phy_offset, last_phy_offset : int
        CommitLog offsets between which they lie.
    why : str
    """

    topic: str
    queue_id: int
    first_queue_offset: int
    last_queue_offset: int
    first_phy_offset: int
    last_phy_offset: int
    why: str

    def is_followed_by(self, other: SetAside) -> bool:
        """Return True if the other records are the next ones of the same queue, with the same reason."""
        return (
            (self.topic, self.queue_id, self.why) == (other.topic, other.queue_id, other.why)
            and self.last_queue_offset + 1 == other.first_queue_offset
            and self.last_phy_offset < other.first_phy_offset
        )
