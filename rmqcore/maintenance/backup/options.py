"""How a backup is made."""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore.offline.log.walk import Progress


@dataclass(frozen=True)
class Options:
    """Arguments of `backup` that say how; see there."""

    hard_links: bool = True
    keep_deleted: bool = False
    check: bool = True
    limit_bytes_per_second: int | None = None
    progress: Progress | None = None
