"""CommitLog files whose bodies are made to deceive whoever starts to read in the middle, and stores of them."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from support.oracle import records as oracle
from support.oracle.records import Record

FILE_SIZE = 1 << 20
MAX_BODY = 7000
MAX_RECORD = MAX_BODY + 1000
HEADER = 88
TOPIC, PROPERTIES = b"topic", b"TAGS\1TagA\2KEYS\1one two\2"
SUFFIX = 1 + len(TOPIC) + 2 + len(PROPERTIES)
MAGIC = struct.pack(">i", oracle.V1)


def record(body: bytes, at: int) -> bytes:
    return oracle.encode_record(Record(TOPIC, body, PROPERTIES, phy_offset=at))


@dataclass
class SplitLog:
    """One file in memory: its bytes, and the positions of its records."""

    base: int = 0
    data: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=list)

    def append(self, body: Callable[[int], bytes]) -> bool:
        """Add a record whose body is made for the CommitLog offset at which it will lie; False when there is no room."""
        at = self.base + len(self.data)
        raw = record(body(at + HEADER), at)
        if len(self.data) + len(raw) + 8 > FILE_SIZE:
            return False
        self.starts.append(len(self.data))
        self.data += raw
        return True

    def close(self) -> None:
        """The BLANK at the end."""
        room = FILE_SIZE - len(self.data)
        self.data += oracle.blank(room) + bytes(room - 8)

    def start_at(self, pos: int) -> int | None:
        """The first record at or after a position."""
        at = bisect_left(self.starts, pos)
        return self.starts[at] if at < len(self.starts) else None


class Bodies:
    """Makers of bodies, by name; each takes the CommitLog offset at which the body will lie."""

    KINDS = ("plain", "magic", "copy", "copyhdr", "near", "forged", "forged-merge")
    HARMLESS = KINDS[:4]
    """What the rule tells without a walk: nothing in these bodies says that it lies where it lies."""

    def __init__(self, log: SplitLog, rng: Random) -> None:
        self.log, self.rng = log, rng

    def make(self, kind: str, at: int) -> bytes:
        body: bytes = getattr(self, "_" + kind.replace("-", "_"))(at)
        return body[:MAX_BODY] if kind != "forged-merge" else body

    def _plain(self, at: int) -> bytes:
        return self.rng.randbytes(self.rng.randrange(4000))

    def _magic(self, at: int) -> bytes:
        return MAGIC * self.rng.randrange(1000)

    def _copy(self, at: int) -> bytes:
        starts = self.log.starts[-3:]
        return bytes(self.log.data[starts[0] :]) if starts else b""

    def _copyhdr(self, at: int) -> bytes:
        wrong = [at + self.rng.randrange(1, 1 << 40) for _ in range(20)]
        return b"".join(record(self.rng.randbytes(40), offset) for offset in wrong)

    def _near(self, at: int) -> bytes:
        """The right place and MAGIC, but a length or the CRC does not fit."""
        body = b""
        for _ in range(self.rng.randrange(1, 12)):
            fake = bytearray(record(self.rng.randbytes(self.rng.randrange(1, 500)), at + len(body)))
            fake[self.rng.choice([3, 10, HEADER, HEADER - 1])] ^= 1 << self.rng.randrange(5)
            body += fake
        return body

    def _fakes(self, at: int) -> bytes:
        body = b""
        for _ in range(self.rng.randrange(1, 12)):
            body += record(self.rng.randbytes(self.rng.randrange(500)), at + len(body))
        return body

    def _forged(self, at: int) -> bytes:
        return self._fakes(at) + self.rng.randbytes(self.rng.randrange(200))

    def _forged_merge(self, at: int) -> bytes:
        """The last fake ends where the record around it does, with its topic and properties."""
        body = self._fakes(at)
        last = record(self.rng.randbytes(self.rng.randrange(1, 300)), at + len(body))
        return body + last[:-SUFFIX]


def split_log(kinds: tuple[str, ...], seed: int, base: int = 0) -> SplitLog:
    """A full file with bodies of these kinds."""
    log, rng = SplitLog(base), Random(seed)
    bodies = Bodies(log, rng)
    while log.append(lambda at: bodies.make(rng.choice(kinds), at)):
        pass
    log.close()
    return log


def stale(kinds: tuple[str, ...], seed: int, live_bytes: int, base: int = 0) -> SplitLog:
    """A file with an earlier life: new records over its beginning, the old ones behind them, all in their place."""
    old = split_log(kinds, seed, base)
    log, rng = SplitLog(base), Random(seed + 1)
    bodies = Bodies(log, rng)
    while len(log.data) < live_bytes:
        log.append(lambda at: bodies.make(rng.choice(kinds), at))
    log.data += old.data[len(log.data) :]
    return log


def stale_under_blank(
    kinds: tuple[str, ...], seed: int, live_bytes: int, base: int = 0
) -> SplitLog:
    """The same, closed by a BLANK over all of the old records."""
    log = stale(kinds, seed, live_bytes, base)
    end = log.starts[-1] + struct.unpack_from(">i", log.data, log.starts[-1])[0]
    log.data[end : end + 8] = oracle.blank(FILE_SIZE - end)
    return log


def write_store(root: Path, logs: list[SplitLog]) -> Path:
    """A store of these files."""
    (root / "commitlog").mkdir(parents=True)
    for log in logs:
        assert len(log.data) == FILE_SIZE
        (root / "commitlog" / f"{log.base:020}").write_bytes(log.data)
    return root


# ---- the usual way, which is wrong ------------------------------------------------------------------


class NaiveSearch:
    """The next MAGIC whose PHYSICALOFFSET, lengths and CRC fit, with some sound records behind it."""

    def __init__(self, log: SplitLog) -> None:
        self.log, self.data = log, bytes(log.data)
        self._sizes: dict[int, int] = {}

    def size(self, pos: int) -> int:
        """Of the sound record at a position, 0 for a BLANK and the file's end, -1 for anything else."""
        if pos not in self._sizes:
            self._sizes[pos] = self._check(pos)
        return self._sizes[pos]

    def _check(self, pos: int) -> int:
        if pos == FILE_SIZE:
            return 0
        try:
            found = oracle.decode_record(self.data, pos)
            if isinstance(found, oracle.Blank):
                return 0
            sound = found.phy_offset == self.log.base + pos
            return oracle.check_record(self.data, pos) if sound else -1
        except oracle.Refused:
            return -1

    def start(self, boundary: int, chain: int) -> int | None:
        pos = boundary
        while (hit := self.data.find(MAGIC, pos + 4)) >= 0:
            pos = hit - 4
            if self._holds(pos, chain):
                return pos
            pos += 1
        return None

    def _holds(self, pos: int, chain: int) -> bool:
        for _ in range(chain):
            size = self.size(pos)
            if size <= 0:
                return size == 0
            pos += size
        return True
