"""Statistics counted one message after the other, to compare with."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from rmqcore import MessageView
from rmqcore.offline.stats.report import GroupStats

HOUR_MS = 3_600_000
LIMIT_MS = 1 << 42
Key = tuple[str, int | None, int | None]


def latency(view: MessageView) -> int:
    return max(-LIMIT_MS, min(LIMIT_MS, view.store_timestamp_ms - view.born_timestamp_ms))


def grouped(views: Iterable[MessageView], by: Sequence[str]) -> dict[Key, list[MessageView]]:
    groups: dict[Key, list[MessageView]] = defaultdict(list)
    for view in views:
        hour = view.store_timestamp_ms // HOUR_MS * HOUR_MS if "hour" in by else None
        groups[view.topic, hour, view.queue_id if "queue" in by else None].append(view)
    return groups


def expected(views: Sequence[MessageView]) -> dict[str, Any]:
    """What is exact of a group."""
    sizes = [view.msg_size for view in views]
    latencies = [latency(view) for view in views]
    stored = [view.store_timestamp_ms for view in views]
    tags = Counter(view.tags for view in views if view.tags)
    seconds = max(1.0, (max(stored) - min(stored)) / 1000)
    return {
        "messages": len(views),
        "bytes": sum(sizes),
        "messages_per_second": len(views) / seconds,
        "bytes_per_second": sum(sizes) / seconds,
        "distinct_tags": len(tags),
        "top_tags": sorted(tags.items(), key=lambda item: (-item[1], item[0]))[:10],
        "msg_size_min": min(sizes),
        "msg_size_max": max(sizes),
        "latency_min_ms": min(latencies),
        "latency_max_ms": max(latencies),
        "first_store_timestamp_ms": min(stored),
        "last_store_timestamp_ms": max(stored),
    }


def check(found: GroupStats, views: Sequence[MessageView], all_bytes: int) -> None:
    """Compare a group with its messages."""
    for name, value in expected(views).items():
        own: Any = getattr(found, name)
        if name == "top_tags":
            own = [(count.tag, count.messages) for count in own]
        assert own == value, name
    assert found.share == found.bytes / all_bytes
    assert found.msg_size_mean == found.bytes / found.messages
    mean = sum(map(latency, views)) / len(views)
    assert math.isclose(found.latency_mean_ms, mean, rel_tol=1e-9, abs_tol=1e-6)
    assert found.all_tags_counted
    for values, names in (
        ([view.msg_size for view in views], "msg_size_p50 msg_size_p99"),
        ([latency(view) for view in views], "latency_p50_ms latency_p99_ms"),
    ):
        for share, name in zip((0.5, 0.99), names.split(), strict=True):
            exact = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
            assert abs(getattr(found, name) - exact) <= abs(exact) / 64 + 0.5, name
