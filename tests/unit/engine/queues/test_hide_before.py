"""Where a queue begins when the messages before a place in the log are hidden: compared with looking at every entry."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore.engine.queues.queue_places import hide_before


class FakeQueue:
    """Entries in order; those of 0 are fillers, and those of None are in a file that is missing."""

    def __init__(self, entries: list[int | None], start: int) -> None:
        self._entries = entries
        self.min_offset = start
        self.max_offset = len(entries)

    def get_entry(self, queue_offset: int) -> tuple[int, int, int] | None:
        found = self._entries[queue_offset]
        if found is None:
            return None
        return found, 100 if found else CQ_FILLER_SIZE, 0

    def set_min(self, queue_offset: int) -> None:
        assert queue_offset > self.min_offset
        self.min_offset = queue_offset


def visible(queue: FakeQueue, entries: list[int | None]) -> list[int]:
    return [entry for entry in entries[queue.min_offset :] if entry]


@given(st.data())
def test_exactly_the_messages_before_are_hidden(data: Any) -> None:
    places = sorted(data.draw(st.sets(st.integers(1, 60), max_size=20)))
    entries: list[int | None] = []
    for place in places:
        entries += [0] * data.draw(st.integers(0, 2)) + [place]
    start = data.draw(st.integers(0, len(entries)))
    phy_offset = data.draw(st.integers(0, 70))
    queue = FakeQueue(entries, start)
    hide_before(queue, phy_offset)  # type: ignore[arg-type]
    expected = [one for one in entries[start:] if one and one >= phy_offset]
    assert visible(queue, entries) == expected


def test_what_cannot_be_read_hides_no_message_behind_it() -> None:
    entries: list[int | None] = [10, 20, None, None, None, 60, 70]
    queue = FakeQueue(entries, 0)
    hide_before(queue, 50)  # type: ignore[arg-type]
    assert [60, 70] == visible(queue, entries)[-2:]


def test_a_queue_without_a_message_behind_the_place_is_empty() -> None:
    queue = FakeQueue([10, 20, 0, 30], 0)
    hide_before(queue, 31)  # type: ignore[arg-type]
    assert queue.min_offset == 4
    hide_before(queue, 0)  # type: ignore[arg-type]
    assert queue.min_offset == 4
