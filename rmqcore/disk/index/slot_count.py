"""How many hash slots an IndexFile has, found from the file itself."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.layout import (
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    index_file_size,
)
from rmqcore._native.index.index_reader import INDEX_ENTRY_DTYPE, IndexHeader
from rmqcore.disk.data_extents import data_ranges
from rmqcore.disk.read_range import opened, read_range

CHUNK_ENTRIES = 200_000
MAX_CANDIDATES = 1_000
SAMPLE = 1_000
SLOT_SAMPLE = 64
LEAST_SCORE = 0.5
MAX_SEARCH_BYTES = 4 * 1024 * 1024 * 1024


def find_slot_count(path: Path, size: int, header: IndexHeader) -> int | None:
    """Find the number of slots; None if the file is empty or huge, or if more than one number fits.

    Entries follow the slots to the end of the file, so the number decides where each entry lies. A number fits when the
    last entry in use holds ENDPHYOFFSET and the first entry BEGINPHYOFFSET, offsets do not go down, each entry points
    at the next older entry of its slot, and each slot at an entry no older than those of the sample. The last three
    must hold only for most of a sample, so that the number is found in a file with some damage too.
    """
    scores = _scores(path, size, header)
    best = max(scores.values(), default=0.0)
    fitting = [slots for slots, score in scores.items() if score == best]
    return fitting[0] if best >= LEAST_SCORE and len(fitting) == 1 else None


def fits_any_slot_count(path: Path, size: int, header: IndexHeader) -> bool:
    """Return whether a file is an index file with any number of slots, even if more than one number fits."""
    return max(_scores(path, size, header).values(), default=0.0) >= LEAST_SCORE


def _scores(path: Path, size: int, header: IndexHeader) -> dict[int, float]:
    """Each number of slots that the file may have, with how well it fits."""
    count = header.index_count
    room = size - INDEX_HEADER_SIZE
    if count <= 1 or room < INDEX_SLOT_SIZE + INDEX_ENTRY_SIZE * count or size > MAX_SEARCH_BYTES:
        return {}
    return {slots: _score(path, slots, header) for slots in _candidates(path, room, header)}


def _candidates(path: Path, room: int, header: IndexHeader) -> list[int]:
    """Return the numbers of slots for which the last entry is well-formed and holds ENDPHYOFFSET."""
    last = header.index_count - 1
    # The entries fill the rest of the file, so numbers that fit are an entry, 20 bytes or 5 slots, apart.
    least = room % INDEX_ENTRY_SIZE // INDEX_SLOT_SIZE or INDEX_ENTRY_SIZE // INDEX_SLOT_SIZE
    if room % INDEX_SLOT_SIZE:
        return []
    most = (room - INDEX_ENTRY_SIZE * header.index_count) // INDEX_SLOT_SIZE
    found: list[int] = []
    step = INDEX_ENTRY_SIZE // INDEX_SLOT_SIZE
    origin = index_file_size(least, last)
    number = 0  # of the entry to look at, counted from `origin`
    with opened(path, os.O_RDONLY) as fd:
        # An entry of zeros alone does not fit: holes are passed over.
        for first, end in data_ranges(fd, origin, INDEX_HEADER_SIZE + room):
            number = max(number, (first - origin) // INDEX_ENTRY_SIZE)
            while number * INDEX_ENTRY_SIZE < end - origin:
                entries = _read_entries(
                    path,
                    origin + number * INDEX_ENTRY_SIZE,
                    min(CHUNK_ENTRIES, -(-(end - origin) // INDEX_ENTRY_SIZE) - number),
                )
                if not len(entries):
                    break
                numbers = least + step * (number + _fitting(entries, header, last))
                found += [int(slots) for slots in numbers if slots <= most]
                if len(found) > MAX_CANDIDATES:
                    return []
                number += len(entries)
    return found


def _fitting(entries: npt.NDArray[np.void], header: IndexHeader, last: int) -> npt.NDArray[np.intp]:
    """Return the entries that may be the last one in use."""
    fits = (
        (entries["phy_offset"] == header.end_phy_offset)
        & (entries["key_hash"] >= 0)
        & (entries["time_diff"] >= 0)
        & (entries["prev_index"] >= 0)
        & (entries["prev_index"] < last)
    )
    # If the last message lies at offset 0, any unwritten entry of zeros would fit.
    fits &= (entries["key_hash"] != 0) | (entries["phy_offset"] != 0)
    return np.flatnonzero(fits)


def _score(path: Path, slots: int, header: IndexHeader) -> float:
    """Return the share of a sample of entries and slots that is sound for this number of slots."""
    used = header.index_count - 1
    start = index_file_size(slots, 0)
    entries = _read_entries(path, start + INDEX_ENTRY_SIZE, min(used, SAMPLE))
    if not len(entries) or int(entries["phy_offset"][0]) != header.begin_phy_offset:
        return 0.0
    offsets = entries["phy_offset"].astype(np.int64)
    hashes = entries["key_hash"].astype(np.int64)
    sound = (hashes >= 0) & (entries["time_diff"] >= 0)
    sound[1:] &= offsets[1:] >= offsets[:-1]
    heads: dict[int, int] = {}
    for index, (slot, previous) in enumerate(
        zip((hashes % slots).tolist(), entries["prev_index"].tolist(), strict=True), start=1
    ):
        sound[index - 1] &= heads.get(slot, 0) == previous
        heads[slot] = index
    sample = list(heads.items())[-SLOT_SAMPLE:]
    good_heads = sum(index <= _head(path, slot) <= used for slot, index in sample)
    return min(float(sound.mean()), good_heads / len(sample))


def _head(path: Path, slot: int) -> int:
    data = read_range(path, INDEX_HEADER_SIZE + INDEX_SLOT_SIZE * slot, INDEX_SLOT_SIZE)
    return int.from_bytes(data, "big", signed=True)


def _read_entries(path: Path, pos: int, count: int) -> npt.NDArray[np.void]:
    data = read_range(path, pos, INDEX_ENTRY_SIZE * count)
    return np.frombuffer(data[: len(data) - len(data) % INDEX_ENTRY_SIZE], INDEX_ENTRY_DTYPE)
