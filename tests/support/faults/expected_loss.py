"""What a damage takes from a log, worked out from the bytes before and after it, without any code that reads stores.

Each record carries a CRC of all its bytes (``__CRC32#``), and a salvage asks for it, so a record is lost exactly where one of its
bytes changed.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

Place = tuple[str, int]
HEADER = 88


@dataclass(frozen=True)
class Known:
    """A record of the sound store; `queue` is None for one without a place in a queue."""

    phy_offset: int
    msg_size: int
    queue: Place | None
    queue_offset: int

    @property
    def end(self) -> int:
        return self.phy_offset + self.msg_size


@dataclass
class Loss:
    """What is lost.

    `ranges`: bytes of the log before `end`, none of them next to each other; behind it is the torn end of the log, in which a
    record that is whole but for its CRC may be told as lost or not. `queues`: the queue offsets that lack for certain, and all
    that may be missed because of what happened to the queue's own files.
    """

    kept: list[Known] = field(default_factory=list)
    lost: list[Known] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    queues: dict[Place, tuple[set[int], set[int]]] = field(default_factory=dict)


def expected_loss(sound: Path, damaged: Path, records: list[Known], file_size: int) -> Loss:
    """Compare two copies of a store, one of which was damaged."""
    logs = {int(p.name): p.read_bytes() for p in (sound / "commitlog").iterdir()}
    after = {
        int(p.name): p.read_bytes() for p in (damaged / "commitlog").iterdir() if p.stat().st_size
    }
    loss = Loss()
    first = min(after)
    for record in records:
        start = record.phy_offset // file_size * file_size
        place = slice(record.phy_offset - start, record.end - start)
        same = after.get(start, b"")[place] == logs[start][place]
        (loss.kept if same else loss.lost).append(record)
    loss.ranges = _ranges(logs, after, loss, file_size)
    _queues(sound, damaged, loss, first)
    return loss


def _ranges(
    logs: dict[int, bytes], after: dict[int, bytes], loss: Loss, file_size: int
) -> list[tuple[int, int]]:
    first, last = min(after), max(after)
    sound = max((one.end for one in loss.kept if one.phy_offset >= first), default=first)
    # The log ends in the last file that holds anything in its first bytes; what nothing follows there is its torn end.
    tail = max((start for start in after if after[start][:HEADER].strip(b"\0")), default=first)
    records = sorted((*loss.kept, *loss.lost), key=lambda one: one.phy_offset)
    parts = [(one.phy_offset, one.end) for one in loss.lost]
    for start in range(first, last, file_size):
        if start not in after:
            parts.append((start, start + file_size))
            continue
        ends = [one.end for one in records if start <= one.phy_offset < start + file_size]
        follows = any(one.phy_offset >= start + file_size for one in records)
        if (
            ends and follows
        ):  # a BLANK ends the file, and what lies behind its 8 bytes means nothing
            at = ends[-1] - start
            found, wanted = after[start][at : at + 8], logs[start][at : at + 8]
            nothing_lost = start + at >= sound and found[4:] == wanted[4:]
            short = len(after[start]) < file_size
            if (found != wanted or short) and not nothing_lost:
                parts.append((start + at, start + file_size))
    loss.end = max(sound, tail)
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(parts):
        if not first <= begin < loss.end:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def _queues(sound: Path, damaged: Path, loss: Loss, first: int) -> None:
    lost: dict[Place, set[int]] = defaultdict(set)
    for one in loss.lost:
        if one.queue is not None and one.phy_offset >= first:
            lost[one.queue].add(one.queue_offset)
    kept: dict[Place, set[int]] = defaultdict(set)
    for one in loss.kept:
        if one.queue is not None and one.phy_offset >= first:
            kept[one.queue].add(one.queue_offset)
    for place, offsets in lost.items():
        low = min(kept[place], default=1 << 62)
        high = max(kept[place], default=-1)
        inner = {offset for offset in offsets if low < offset < high}
        outer = offsets - inner
        told = {
            offset
            for offset in outer
            if _entry(sound, place, offset) == _entry(damaged, place, offset)
        }
        certain = inner | told
        if (
            kept[place] and told
        ):  # what lies between a lost message that is known and those that are there was there, too
            certain |= {o for o in outer if o > high and any(t >= o for t in told)}
            certain |= {o for o in outer if o < low and any(t <= o for t in told)}
        loss.queues[place] = certain, offsets


def _entry(root: Path, place: Place, offset: int) -> bytes:
    for path in sorted((root / "consumequeue" / place[0] / str(place[1])).glob("*")):
        at = 20 * offset - int(path.name)
        if 0 <= at < path.stat().st_size:
            data = path.read_bytes()[at : at + 20]
            if struct.unpack(">qiq", data.ljust(20, b"\0"))[1] > 0:
                return data
    return b""
