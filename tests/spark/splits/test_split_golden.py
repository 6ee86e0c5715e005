"""The golden stores, clean and damaged, read in parts: what one walk gives, and what `rmqcore.read` gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stores.split_runs import (
    COLUMNS,
    Read,
    assert_same,
    in_log_order,
    plan_parts,
    read_splits,
    read_whole,
)

import rmqcore
from rmqcore.offline.missing_log import LOG_MISSING
from rmqcore.spark.splits.sizing import SplitMode

PARTS = (1, 2, 7, 50)


def stores(golden: Path) -> Iterator[Path]:
    for folder in sorted(golden.glob("*/*")):
        if (folder / "commitlog").is_dir():
            yield folder


@pytest.fixture(scope="module")
def read_once(golden: Path) -> dict[Path, Read]:
    return {root: read_whole(root) for root in stores(golden)}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("mode", ["resync", "walk", "auto"])
@pytest.mark.parametrize("pinned", [False, True], ids=["live", "pinned"])
def test_every_golden_store_in_parts(
    read_once: dict[Path, Read], parts: int, mode: SplitMode, pinned: bool
) -> None:
    cut = 0
    for root, whole in read_once.items():
        # Not less than the largest record of the store, and small beside its files, so that they are cut at all.
        largest = max((row[1] for row in whole.rows), default=1)
        plan = plan_parts(root, parts, largest, mode=mode, pinned=pinned)
        cut += sum(split.start > split.file.file_from_offset for split in plan.splits)
        assert_same(read_splits(plan), whole)
    assert len(read_once) > 40
    assert (cut > 0) == (parts > 1)


def test_one_walk_is_what_the_reader_gives(read_once: dict[Path, Read]) -> None:
    for root, whole in read_once.items():
        reader = rmqcore.read(root)
        rows = [tuple(getattr(view, name) for name in COLUMNS) for view in reader.messages()]
        assert rows == whole.rows
        damage = [one for one in reader.damage if one.kind != LOG_MISSING]
        assert sorted(damage, key=in_log_order) == sorted(whole.damage, key=in_log_order)
