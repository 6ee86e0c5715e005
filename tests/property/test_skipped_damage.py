"""Damage that a scan steps over by itself, and a walk that is asked at each damaged place: the same ranges, reasons and records.

A log with a damaged place for each record cost 25 to 40 microseconds of Python for each.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores.hostile_logs import BODY_POS, header, record

from rmqcore._native.format.layout import MAGIC_BLANK, MAGIC_V1
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan, ViewScan
from rmqcore.disk import log_window
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.log import walk as walk_module
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.log.store_times import HeaderScan
from rmqcore.offline.log.walk import LogWalk
from rmqcore.offline.log.window import SearchWindow

FILE = 24_000


def part(rng: random.Random, pos: int, left: int) -> bytes:
    """Something sound, damaged or forged for byte `pos` of a log."""
    kind = rng.randrange(13)
    body = rng.randbytes(rng.choice([0, 3, 40, 700]))
    whole = bytearray(record(pos, body))
    if kind == 0:
        whole[rng.choice([0, 1, 2, 3, 4, 20, 36, 37, 84, 87, 88, len(whole) - 1])] ^= (
            1 << rng.randrange(8)
        )
    elif kind == 1:
        whole[BODY_POS - 1 if not body else BODY_POS] ^= 1
    elif kind == 2:
        return rng.choice(
            [b"\xff", bytes(rng.randrange(1, 200)), rng.randbytes(rng.randrange(1, 90))]
        )
    elif kind == 3:
        size = rng.choice([91, 200, 2000, 9000, left, left + 1, 2**31 - 1])
        length = rng.choice([-1, 0, size - 91, 5000])
        return header(pos, size) + bytes(44) + struct.pack(">i", length) + bytes(rng.randrange(9))
    elif kind == 4:
        return struct.pack(">ii", rng.choice([8, left, left - 8, 1 << 30]), MAGIC_BLANK)
    elif kind == 5:
        return struct.pack(">i", MAGIC_V1) * rng.randrange(1, 12)
    elif kind == 6:
        return record(pos + 1, body)
    elif kind == 7:  # inner records that lie where they say: the damaged one's end goes before them
        inner = b"".join(record(pos + BODY_POS + 91 * n) for n in range(3))
        whole = bytearray(record(pos, inner))
        whole[rng.choice([3, 12, 40])] ^= 4
    elif kind == 8:
        return bytes(whole[: rng.randrange(1, len(whole))])
    return bytes(whole)


def log_file(rng: random.Random, begin: int) -> bytes:
    data = bytearray()
    while len(data) < FILE:
        data += part(rng, begin + len(data), FILE - len(data))
    del data[FILE:]
    if rng.randrange(3) == 0:
        data[-rng.randrange(1, 3000) :] = b""
    return bytes(data).ljust(FILE, b"\0")


def walked(root: Path, sink: Any, *, skips: bool, verify_crc: bool = False) -> tuple[Any, Any, int]:
    damage: list[DamageRange] = []
    walk: LogWalk[Any] = LogWalk(
        list_log_files(StorePaths(root)),
        sink,
        damage,
        verify_crc=verify_crc,
        skips=skips,
        blanks=True,
    )
    rows: list[Any] = []
    for found in walk.run():
        if isinstance(found, list):
            rows += [
                (view.phy_offset, view.msg_size, view.crc_ok(), bytes(view.body)) for view in found
            ]
        elif isinstance(found, Batch):
            places = np.frombuffer(found.buffer("phy_offset"), np.int64)[: found.num_rows]
            rows += [int(place) for place in places]
        else:
            rows.append(found)
    return rows, damage, walk.end_phy_offset


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a walk asked for the next place itself."""
    count = [0]
    next_proven = SearchWindow.next_proven

    def counted(self: SearchWindow, pos: int, *, after_zeros: bool) -> Any:
        count[0] += 1
        return next_proven(self, pos, after_zeros=after_zeros)

    monkeypatch.setattr(SearchWindow, "next_proven", counted)
    return count


@pytest.mark.parametrize("room", [256, 1500, 1 << 20])
@pytest.mark.parametrize("free", [-(1 << 40), 2000, 1 << 24])
def test_it_is_what_the_walk_would_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int], room: int, free: int
) -> None:
    monkeypatch.setattr(walk_module, "SearchWindow", partial(SearchWindow, room=room))
    monkeypatch.setattr(log_window, "FREE_BYTES", free)
    counts = {True: 0, False: 0}
    for seed in range(25):
        rng = random.Random(f"{room} {free} {seed}")
        log = tmp_path / str(seed) / "commitlog"
        log.mkdir(parents=True)
        for number in range(rng.randrange(1, 3)):
            (log / f"{number * FILE:020}").write_bytes(log_file(rng, number * FILE))
        sinks: list[tuple[Callable[[], Any], bool]] = [
            (ViewScan, False),
            (ViewScan, True),
            (partial(ViewScan, batch_views=2, stop_offset=FILE // 2), True),
            (partial(ColumnScan, ["phy_offset"], batch_rows=3), False),
            (partial(HeaderScan, 1000), False),
        ]
        for make, verify_crc in sinks:
            answers = {}
            for skips in (False, True):
                asked[0] = 0
                answers[skips] = walked(log.parent, make(), skips=skips, verify_crc=verify_crc)
                counts[skips] += asked[0]
            assert answers[True] == answers[False], (seed, make, verify_crc)
    assert counts[True] < counts[False] * (0.3 if room == 1 << 20 else 1)
