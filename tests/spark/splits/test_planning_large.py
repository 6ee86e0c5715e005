"""An estate of 100 TB is planned in seconds and in bounded memory: 100,000 files of 1 GiB, sparse, none of them read."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.oracle import records as oracle

from rmqcore.offline.log.log_files import LogFile
from rmqcore.spark.splits.planning import plan_store
from rmqcore.spark.splits.sizing import MIB, Sizing
from rmqcore.spark.storage.locations import StoreLocation, find_stores

GIB = 1024 * MIB
FILES = 100_000
LINKS = 10_000
"""Names of one sparse file: file systems have a limit, and 100,000 files of their own take a minute to make."""


def make_estate(root: Path, files: int) -> StoreLocation:
    (root / "commitlog").mkdir()
    folder = os.open(root / "commitlog", os.O_RDONLY)
    try:
        for number in range(files - 1):
            name, first = (f"{n * GIB:020}" for n in (number, number // LINKS * LINKS))
            if name == first:
                with open(root / "commitlog" / name, "wb") as file:
                    file.truncate(GIB)
            else:
                os.link(first, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)
    last = (files - 1) * GIB
    with open(root / "commitlog" / f"{last:020}", "wb") as file:
        file.write(oracle.encode_record(oracle.Record(b"t", b"", b"", phy_offset=last)))
        file.truncate(GIB)
    (store,) = find_stores(str(root))
    return store


@pytest.mark.large
def test_100_tb_are_planned_from_one_directory_and_one_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    estate = make_estate(tmp_path, FILES)
    opened: list[int] = []
    real: Callable[..., object] = LogFile.open

    def noted(file: LogFile, *args: object) -> object:
        opened.append(file.file_from_offset)
        return real(file, *args)

    monkeypatch.setattr(LogFile, "open", noted)
    begin = time.perf_counter()
    plan = plan_store(estate, Sizing(max_partition_bytes=GIB))
    seconds = time.perf_counter() - begin
    assert len(plan.splits) == FILES
    assert (plan.gaps, plan.skipped_files) == ([], 0)
    assert opened == [(FILES - 1) * GIB]
    sent = len(pickle.dumps(plan.splits[FILES // 2]))
    assert sent < 600
    with capsys.disabled():
        sys.stdout.write(f"[{FILES} files in {seconds:.1f} s, {sent} bytes a split sent] ")


PEAK = """
import sys, tracemalloc
from rmqcore.spark.splits.planning import plan_store
from rmqcore.spark.splits.sizing import Sizing
from rmqcore.spark.storage.locations import find_stores
(store,) = find_stores(sys.argv[1])
tracemalloc.start()
plan = plan_store(store, Sizing(max_partition_bytes=int(sys.argv[2])))
print(len(plan.splits), tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.parametrize(("parts", "bytes_a_file"), [(1, 1400), (8, 1400 + 7 * 350)])
def test_a_plan_needs_little_memory(tmp_path: Path, parts: int, bytes_a_file: int) -> None:
    """100,000 files: 140 MB at most in one part each, which is what an estate is read in; splits of a file share it.

    Half of that is a path: one of Python 3.14 has twice the bytes of one of 3.11.

    In a process of its own: what Spark's threads did in the process of the tests was counted as well, 7 MB where a plan takes 3.
    """
    files = 5000
    make_estate(tmp_path, files)
    arguments = os.fspath(tmp_path), str(GIB // parts)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *arguments], capture_output=True, text=True, check=True
    )
    splits, peak = map(int, done.stdout.split())
    assert splits == (files - 1) * parts + 1
    assert peak < files * bytes_a_file
