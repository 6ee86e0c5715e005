"""How often each tag of a group was met, in bounded memory."""

from __future__ import annotations

from rmqcore.offline.stats.rules import MAX_TAGS

MOST_TAGS = 500_000
MOST_BYTES = 32 << 20
"""Bounds of all groups together: tags that are counted, and the letters in them."""


class TagCounts:
    """Counts of tags by group: exact for the first 10,000 different tags of a group, as long as there is memory.

    Attributes
    ----------
    left_out : set of int
        Groups with tags that are not counted.
    """

    def __init__(self) -> None:
        self.left_out: set[int] = set()
        self._of_group: dict[int, dict[str, int]] = {}
        self._tags = self._bytes = 0

    def add(self, group: int, tag: str, count: int) -> None:
        """Count messages of a group with a tag."""
        counts = self._of_group.setdefault(group, {})
        known = counts.get(tag)
        if known is not None:
            counts[tag] = known + count
        elif len(counts) >= MAX_TAGS or self._tags >= MOST_TAGS or self._bytes >= MOST_BYTES:
            self.left_out.add(group)
        else:
            counts[tag] = count
            self._tags += 1
            self._bytes += len(tag)

    def most_frequent(self, group: int, most: int) -> list[tuple[str, int]]:
        """Return the most frequent tags of a group with their counts; equally frequent ones are sorted by name."""
        counts = self._of_group.get(group, {})
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]

    def distinct(self, group: int) -> int:
        """Return the number of tags that are counted for a group."""
        return len(self._of_group.get(group, ()))
