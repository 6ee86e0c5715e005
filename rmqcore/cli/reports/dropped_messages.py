"""Messages lost by `recover`: those behind the end of the log, by queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqcore.cli.common.output import counted
from rmqcore.cli.common.shown import printable
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.plan import RecoveryPlan
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.reader import StoreReader

SHOWN = 10
"""Most queues to print on a terminal; JSON has all."""


@dataclass(frozen=True)
class DroppedMessages:
    """Messages behind the end that recovery sets for the log.

    Messages whose body fails its CRC are among them, because consumers get them before the recovery but not after it.

    Attributes
    ----------
    queues : mapping of (topic, queue id) to list
        Number of a queue's messages, and their lowest and highest queue offset.
    """

    queues: Mapping[tuple[str, int], list[int]] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """Number of these messages."""
        return sum(count for count, _, _ in self.queues.values())

    def as_dict(self) -> dict[str, Any]:
        """Return fields for a JSON object."""
        return {
            "dropped_messages": self.messages,
            "dropped_queues": [
                {
                    "topic": topic,
                    "queue_id": queue_id,
                    "messages": count,
                    "first_queue_offset": first,
                    "last_queue_offset": last,
                }
                for (topic, queue_id), (count, first, last) in sorted(self.queues.items())
            ],
        }

    def summary(self) -> str:
        """Return ``21 messages of 4 queues``."""
        return f"{counted(self.messages, 'message')} of {counted(len(self.queues), 'queue')}"

    def text(self) -> str:
        """Return the summary, and a line for each of the first queues."""
        lines = [self.summary()]
        for (topic, queue_id), (count, first, last) in sorted(self.queues.items())[:SHOWN]:
            offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
            lines.append(f"{printable(topic)} queue {queue_id}: {count:,}, {offsets}")
        if len(self.queues) > SHOWN:
            lines.append(f"and {len(self.queues) - SHOWN:,} more queues: --json lists them")
        return "\n".join(lines)


def dropped_messages(
    paths: StorePaths, plan: RecoveryPlan, progress: Progress | None = None
) -> DroppedMessages:
    """Read the part of the log that a recovery cuts, and count the messages in it."""
    if plan.cut.tail is None and not plan.cut.later:
        return DroppedMessages()
    reader = StoreReader(paths.root, commitlog=[*paths.commitlogs], follow_links=paths.follow_links)
    queues: dict[tuple[str, int], list[int]] = {}
    behind = reader.messages(start_phy_offset=plan.end_phy_offset, most_body=0, progress=progress)
    for view in behind:
        at = view.queue_offset
        seen = queues.setdefault((view.topic, view.queue_id), [0, at, at])
        seen[:] = seen[0] + 1, min(seen[1], at), max(seen[2], at)
    return DroppedMessages(queues)
