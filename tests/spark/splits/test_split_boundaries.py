"""Where a part of a CommitLog file begins, against bodies made to deceive: thousands of boundaries, each exact.

A producer learns the CommitLog offset of what it sends, so it can guess the next offset and send bodies full of records that are
sound in every way and lie where they say. The usual search for the next sound record is wrong on them, and has to be wrong in
this very test: else the test shows nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from support.stores.split_logs import (
    FILE_SIZE,
    MAX_RECORD,
    Bodies,
    NaiveSearch,
    SplitLog,
    split_log,
    stale,
    stale_under_blank,
    write_store,
)

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.walk import LogWalk
from rmqcore.spark.reading.split_start import SplitStart, find_split_start, walk_to
from rmqcore.spark.splits.split import last_boundary
from rmqcore.spark.storage.locations import find_stores

SEEDS = range(4)
MIXES = [
    *[(kind,) for kind in ("plain", "near")],
    *[(kind, "plain") for kind in Bodies.KINDS[1:]],
    Bodies.KINDS,
]
CHAINS = (1, 3, 10)
BASE = 5 * FILE_SIZE


def boundaries(log: SplitLog, rng: Random) -> list[int]:
    near = [start + step for start in rng.sample(log.starts, 20) for step in (-1, 0, 1)]
    return [max(pos, 0) for pos in near] + [rng.randrange(FILE_SIZE) for _ in range(150)]


def file_of(root: Path, log: SplitLog) -> tuple[LogFile, LogShape]:
    """The file, sealed: the log goes on behind it."""
    (file,) = find_stores(str(write_store(root, [log])))[0].log_files()
    return file, LogShape(FILE_SIZE, log.base + FILE_SIZE)


def test_every_boundary_is_exact_where_the_usual_search_is_wrong(tmp_path: Path) -> None:
    told: Counter[tuple[str, ...]] = Counter()
    asked: Counter[tuple[str, ...]] = Counter()
    wrong: Counter[tuple[tuple[str, ...], int]] = Counter()
    for number, (seed, kinds) in enumerate((seed, kinds) for seed in SEEDS for kinds in MIXES):
        log = split_log(kinds, seed, BASE)
        file, shape = file_of(tmp_path / str(number), log)
        naive = NaiveSearch(log)
        end = log.starts[-1] + naive.size(log.starts[-1])
        for pos in boundaries(log, Random(seed)):
            start = log.start_at(pos)
            walked = walk_to(file, shape, BASE + pos)
            if start is None:  # the BLANK, or nothing behind it
                expected = SplitStart(BASE + end if pos <= end else None, resynced=False)
                assert walked == expected, (kinds, seed, pos)
                continue
            assert walked == SplitStart(BASE + start, resynced=False), (kinds, seed, pos)
            found = find_split_start(file, shape, BASE + pos, MAX_RECORD)
            assert found in (None, walked), (kinds, seed, pos)
            if 0 < pos <= last_boundary(file, shape, MAX_RECORD) - BASE:
                asked[kinds] += 1
                told[kinds] += found is not None
            for chain in CHAINS:
                wrong[kinds, chain] += naive.start(pos, chain) != start
    assert len(SEEDS) * len(MIXES) * 210 > 5000
    for kinds in MIXES:
        if set(kinds) <= set(Bodies.HARMLESS):
            assert told[kinds] == asked[kinds], kinds
            assert not any(wrong[kinds, chain] for chain in CHAINS), kinds
        else:
            assert 0 < told[kinds] < asked[kinds], kinds
    for chain in CHAINS:
        assert wrong[("forged-merge", "plain"), chain] > 100
    assert wrong[("forged", "plain"), 1] > wrong[("forged", "plain"), 10] > 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tail", [True, False], ids=["stale tail", "stale under BLANK"])
def test_records_of_an_earlier_life_of_the_file_are_not_begun_with(
    tail: bool, seed: int, tmp_path: Path
) -> None:
    """Recovery cuts a log without zeroing, and a long BLANK covers what lay there: sound records in their place, but dead."""
    live = FILE_SIZE // 3 if tail else FILE_SIZE - 15 * MAX_RECORD
    make = stale if tail else stale_under_blank
    log = make(("plain", "forged"), seed, live, BASE)
    file, shape = file_of(tmp_path, log)
    if tail:
        shape = LogShape(FILE_SIZE, BASE)
    damage: list[DamageRange] = []
    places, end = walked_places(file, shape, damage)
    naive = NaiveSearch(log)
    wrong = 0
    rng = Random(seed)
    for pos in [live + 40 * n for n in range(60)] + [rng.randrange(FILE_SIZE) for _ in range(100)]:
        found = find_split_start(file, shape, BASE + pos, MAX_RECORD)
        walked = walk_to(file, shape, BASE + pos)
        assert walked.phy_offset == min((at for at in places if at >= BASE + pos), default=None)
        place = walked.phy_offset
        assert found in (None, walked), pos
        if BASE + pos > last_boundary(file, shape, MAX_RECORD):
            assert found is None
        guess = naive.start(pos, 3)
        wrong += guess is not None and BASE + guess != place
    assert wrong > 20
    assert bool(damage) == tail
    assert end == max(places)


def walked_places(
    file: LogFile, shape: LogShape, damage: list[DamageRange]
) -> tuple[set[int], int]:
    """The places that the walk over the whole file comes to: records, damage, the end."""
    sink = ColumnScan(["phy_offset"])
    walk = LogWalk([file], sink, damage, shape=shape)
    places: set[int] = set()
    for batch in walk.run():
        assert isinstance(batch, Batch)
        places.update(np.frombuffer(batch.buffer("phy_offset"), np.int64).tolist())
    places.update([*(found.start_phy_offset for found in damage), walk.end_phy_offset])
    return places, walk.end_phy_offset
