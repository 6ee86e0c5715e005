"""ConsumeQueues over the golden stores of RocketMQ: the offsets it answered, and the queue files it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import StoreCopy
from support.stores.golden_stores import (
    CLEAN,
    CRASHED,
    WITHOUT_LIGHT_QUEUES,
    config_of,
    manifest_of,
)

from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.queues.queue_table import COLUMNS
from rmqcore._native.scan import scan
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.queues.consume_queues import ConsumeQueues


def offsets(queues: ConsumeQueues) -> dict[tuple[str, int], tuple[int, int, int]]:
    found = {}
    for place in queues.queues():
        queue = queues.find(*place)
        assert queue is not None
        found[place] = (queue.min_offset, queue.max_offset, queue.max_phy_offset)
    return found


def wanted(listed: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[int, int, int]]:
    return {
        (q["topic"], q["queueId"]): (q["minOffset"], q["maxOffset"], q["maxPhysicOffset"])
        for q in listed
    }


def test_the_cases_are_all(golden: Path) -> None:
    assert sorted([*CLEAN, *CRASHED]) == sorted(
        path.parent.name for path in golden.glob("*/manifest.json")
    )


@pytest.mark.parametrize("case", CLEAN)
def test_clean_stores(golden: Path, case: str) -> None:
    manifest = manifest_of(golden, case)
    queues = ConsumeQueues(StorePaths(golden / case / "store"), config_of(manifest))
    queues.load()
    queues.recover()
    queues.correct_min_offsets(manifest["minPhyOffset"])
    assert offsets(queues) == wanted(manifest["queues"])


@pytest.mark.parametrize("case", CRASHED)
def test_stores_that_java_recovered_and_opened_again(
    golden: Path, store_copy: StoreCopy, case: str
) -> None:
    """Java leaves what it cut in the files; opening again, it cuts once more."""
    manifest = manifest_of(golden, case)
    root = store_copy(case, "recovered")
    queues = ConsumeQueues(StorePaths(root), config_of(manifest))
    queues.load()
    queues.recover()
    queues.truncate(manifest["afterReopen"]["maxPhyOffset"])
    queues.correct_min_offsets(manifest["afterReopen"]["minPhyOffset"])
    assert offsets(queues) == wanted(manifest["afterReopen"]["queues"])
    queues.close()
    # Now the entries are gone for good.
    queues = ConsumeQueues(StorePaths(root), config_of(manifest))
    queues.load()
    queues.recover()
    queues.correct_min_offsets(manifest["afterReopen"]["minPhyOffset"])
    assert offsets(queues) == wanted(manifest["afterReopen"]["queues"])


@pytest.mark.parametrize("case", WITHOUT_LIGHT_QUEUES)
@pytest.mark.parametrize("rows", [3, 8192])
def test_routing_the_log_gives_the_same_files(
    golden: Path, tmp_path: Path, case: str, rows: int
) -> None:
    store = golden / case / "store"
    config = config_of(manifest_of(golden, case))
    queues = ConsumeQueues(StorePaths(tmp_path), config)
    columns = ColumnScan(COLUMNS, delay_levels=DelayLevels(config.delay_levels_ms), batch_rows=rows)
    for file in sorted((store / "commitlog").iterdir()):
        data, start, pos, code = file.read_bytes(), int(file.name), 0, scan.FULL
        while code == scan.FULL:
            place = columns.feed(data, len(data), pos, start, start + len(data))
            pos, code = place.pos, place.code
            queues.put_batch(columns, columns.take(), 0)
    queues.flush()
    assert files_of(tmp_path) == files_of(store)
    assert (queues.gaps, queues.refused) == (0, 0)


def files_of(root: Path) -> dict[str, bytes]:
    paths = (root / "consumequeue").rglob("*")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}
