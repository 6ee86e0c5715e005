"""Records that somebody else looks at while a scan takes them, among damage that the scan steps over by itself.

`fsck`, `rebuild` and Spark asked the walk at each damaged place: 50 to 100 microseconds of Python for each damaged record.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.oracle import records as oracle
from support.stores import hostile_logs

from rmqcore._native.scan import places
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Gaps
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.offline.fsck import fsck
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogShape, list_log_files
from rmqcore.offline.log.walk import LogWalk
from rmqcore.offline.log.watched_scan import WatchedScan
from rmqcore.offline.log.window import SearchWindow
from rmqcore.spark.reading.split_start import walk_to
from rmqcore.spark.splits import written
from rmqcore.spark.splits.written import record_starts

MULTI = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x013\x02"


def log_of(rng: random.Random, size: int) -> bytes:
    """Records with and without further queues and property CRCs; some are damaged, or have something behind them."""
    data = bytearray()
    while len(data) < size:
        properties = rng.choice([MULTI, b"", b"KEYS\x01k\x02"])
        own = oracle.Record(
            b"T", rng.randbytes(rng.choice([0, 9, 300])), properties, phy_offset=len(data)
        )
        whole = bytearray(oracle.encode_record(own, append_prop_crc=rng.random() < 0.6))
        if rng.random() < 0.2:
            whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        data += whole
        if rng.random() < 0.2:
            data += rng.randbytes(rng.randrange(1, 50))
    return bytes(data)


def watched(root: Path, *, skips: bool) -> tuple[Any, ...]:
    multi: list[int] = []
    failures: list[tuple[int, int, int]] = []
    rows: list[int] = []
    damage: list[DamageRange] = []
    checked = gaps_seen = 0

    def watch(buf: Any, begin: int, end: int, phy_offset: int, gaps: Gaps | None) -> None:
        nonlocal checked, gaps_seen
        found = places.multi_dispatch_records(buf, begin, end, gaps=gaps)
        multi.extend(phy_offset + pos for pos, _, _ in found)
        count, failed, first = places.prop_crc_failures(buf, begin, end, 10_000, gaps=gaps)
        assert failed == len(first)
        checked += count
        gaps_seen += 0 if gaps is None else len(gaps)
        failures.extend((phy_offset + pos, expected, was) for pos, expected, was in first)

    sink = WatchedScan(ColumnScan(["phy_offset"]), watch)
    walk: LogWalk[Batch] = LogWalk(list_log_files(StorePaths(root)), sink, damage, skips=skips)
    for batch in walk.run():
        assert isinstance(batch, Batch)
        rows += memoryview(batch.buffer("phy_offset")).cast("B").cast("q").tolist()
    return gaps_seen, (rows, multi, checked, failures, damage)


def test_what_is_seen_between_damage_is_what_a_walk_would_show(tmp_path: Path) -> None:
    """The properties of records that a scan takes behind damage are looked at, and the damage is not."""
    gaps = found = 0
    for seed in range(12):
        rng = random.Random(seed)
        root = tmp_path / str(seed)
        hostile_logs.write_log(root, log_of(rng, 60_000))
        gaps_seen, own = watched(root, skips=True)
        assert own == watched(root, skips=False)[1], seed
        gaps += gaps_seen
        found += len(own[3])
        assert own[1]
    assert gaps > 100
    assert found


@pytest.mark.parametrize("bounds", [[(0, 0)], [(30, 10)], [(0, 1 << 40)], [(-5, 3), (2, 2)]])
def test_gaps_that_no_scan_makes(bounds: list[tuple[int, int]]) -> None:
    data = b"".join(hostile_logs.record(pos) for pos in (0, 91))
    gaps = Gaps(bounds)
    assert len(gaps) == len(bounds)
    checked, _, first = places.prop_crc_failures(data, 0, len(data), 9, required=True, gaps=gaps)
    assert checked == 0
    assert len(first) <= 2
    assert places.multi_dispatch_records(data, 0, len(data), gaps=gaps) == []


def test_exact_cuts_look_at_each_damage_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`splitMode=walk` went over all damage of the file for each batch: 13 s for 64 MiB, 4 s for 32."""
    data = hostile_logs.bad_bytes(4 << 20)
    hostile_logs.write_log(
        tmp_path, data + hostile_logs.each(1 << 20, lambda pos: record_at_end(data, pos))
    )
    files = list_log_files(StorePaths(tmp_path))
    looks = [0]
    is_skipped = written.is_skipped

    def counted(one: DamageRange) -> bool:
        looks[0] += 1
        return is_skipped(one)

    monkeypatch.setattr(written, "is_skipped", counted)
    starts = record_starts(files[0], LogShape.of(files), 5)
    assert starts
    assert all(start > len(data) for start in starts)
    assert 40_000 < looks[0] < 60_000  # there are 45,000 damaged places


def record_at_end(data: bytes, pos: int) -> bytes:
    return hostile_logs.record(len(data) + pos, b"x" * 100)


def _fsck(root: Path) -> None:
    fsck(root, max_findings=5)


def _rebuild(root: Path) -> None:
    rebuild(StorePaths(root), root / "out")


def _walk_to(root: Path) -> None:
    files = list_log_files(StorePaths(root))
    walk_to(files[0], LogShape.of(files), files[0].size // 2)


def _record_starts(root: Path) -> None:
    files = list_log_files(StorePaths(root))
    record_starts(files[0], LogShape.of(files), 3)


@pytest.mark.parametrize("shape", ["bad_bytes", "failing_bodies", "lengths_that_disagree"])
@pytest.mark.parametrize("verb", [_fsck, _rebuild, _walk_to, _record_starts])
def test_a_damaged_place_costs_no_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Path], None], shape: str
) -> None:
    hostile_logs.write_log(tmp_path, hostile_logs.SHAPES[shape](1 << 20))
    asked = [0]
    for name in ("next_proven", "look_again"):
        method = getattr(SearchWindow, name)

        def counted(self: SearchWindow, *args: Any, method: Any = method, **options: Any) -> Any:
            asked[0] += 1
            return method(self, *args, **options)

        monkeypatch.setattr(SearchWindow, name, counted)
    verb(tmp_path)
    assert 0 < asked[0] < 300  # there are 5,000 to 11,000 damaged places
