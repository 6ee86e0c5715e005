"""Files of sound entries are taken without looking at each in NumPy; all others as ever, and the answers are the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.stores.index_batches import quick_folder

from rmqcore._native.format.cq import pack_cq, rising_prefix
from rmqcore._native.format.cq_arrays import unpack_cq_entries
from rmqcore.disk import queue_shape
from rmqcore.disk.queue_files import QueueFile
from rmqcore.disk.queue_shape import QueueShape, Suspect, judge

LOG_END = 1 << 33
FILLER = (0, 0x7FFFFFFF, 0)
Entry = tuple[int, int, int]

sizes = st.integers(91, 400)
odd = st.sampled_from(
    [
        FILLER,
        (0, 0x7FFFFFFF, 5),
        (0, 0, 0),
        (-1, 100, 0),
        (5, -1, 0),
        (LOG_END, 1, 0),
        (LOG_END - 1, 1, 0),
        (2**63 - 1, 2**31 - 1, 0),
        (0, 100, 7),
    ]
)


@st.composite
def queues(draw: st.DrawFn) -> list[Entry]:
    """Entries of messages that follow each other, and some odd ones in their places."""
    entries: list[Entry] = []
    at = draw(st.integers(0, 1000))
    for size in draw(st.lists(sizes, max_size=30)):
        at += draw(st.sampled_from([0, 0, 0, 7, 500]))
        entries.append((at, size, draw(st.integers(-(2**63), 2**63 - 1))))
        at += size
    for place, entry in draw(st.lists(st.tuples(st.integers(0, 29), odd), max_size=3)):
        if place < len(entries):
            entries[place] = entry
    return entries


def packed(entries: list[Entry]) -> bytes:
    return b"".join(pack_cq(*entry) for entry in entries)


@given(queues(), st.integers(0, 2000))
def test_the_sound_beginning_is_what_judge_says(entries: list[Entry], last_end: int) -> None:
    data = packed(entries)
    count, end = rising_prefix(data, LOG_END, last_end)
    judged = judge(unpack_cq_entries(data[: 20 * count]), LOG_END, last_end)
    assert judged.sound.all()
    assert end == (judged.upper[-1] if count else last_end)
    if count < len(entries):
        assert not judge(unpack_cq_entries(data[: 20 * (count + 1)]), LOG_END, last_end).sound.all()


def test_sums_that_leave_64_bits() -> None:
    last = 2**63 - 1
    data = packed([(5, 100, 0), (last - 2, 2, 0), (last, 2**31 - 1, 0)])
    assert rising_prefix(data, last, 0) == (2, last)
    assert rising_prefix(data, last, 6) == (0, 6)
    assert rising_prefix(data, -1, 0) == (0, 0)
    assert rising_prefix(data[:19], last, 0) == (0, 0)


@examples(3)
@given(queues(), st.integers(1, 12), st.integers(0, 40), st.sets(st.integers(0, 5)), st.booleans())
def test_suspects_are_the_same_with_arrays_of_all_entries(
    entries: list[Entry], a_file: int, end: int, lost: set[int], stale: bool
) -> None:
    with quick_folder() as folder:
        files = []
        for number, first in enumerate(range(0, len(entries), a_file)):
            path = Path(folder, f"{20 * first:020d}")
            data = packed(entries[first : first + a_file])
            path.write_bytes(data if number in lost else data.ljust(20 * a_file, b"\0"))
            if number + 1 not in lost:
                files.append(QueueFile(str(path), 20 * first, path.stat().st_size, a_file))
        with_arrays, without = (suspects(files, end, stale, fast) for fast in (False, True))
    assert with_arrays == without


def suspects(
    files: list[QueueFile], end: int, stale: bool, fast: bool
) -> tuple[int, list[Suspect]]:
    if not files:
        return -1, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_shape, "ENTRIES_READ", 5)
        if not fast:
            patch.setattr(QueueShape, "_take_rising", lambda *_: False)
        return QueueShape(files, 0, LOG_END, LOG_END).suspects(thorough=True, end=end, stale=stale)
