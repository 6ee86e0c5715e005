"""Every golden store behind a URL: each answer is that of the same store on a disk."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest
from support.remote.memory_stores import MemoryStores
from support.stores.golden_stores import CLEAN, CRASHED

import rmqcore
from rmqcore.offline.log.walk import Blank
from rmqcore.offline.missing_log import LOG_MISSING
from rmqcore.offline.reader import StoreReader

SIZES = ("commitlog_bytes", "consumequeue_bytes", "index_bytes", "disk_bytes")
"""What files occupy: blocks of a disk, sizes behind a URL."""


OF_EACH_RUN = ("basic", "compressed", "crash_flipped", "crash_no_index", "crash_torn")
CASES = [
    pytest.param(case, marks=[] if case in OF_EACH_RUN else [pytest.mark.large])
    for case in (*CLEAN, *CRASHED)
]


def stores(golden: Path) -> list[Path]:
    return sorted(path.parent for path in golden.glob("*/*/commitlog"))


def plain(report: Any, *left_out: str) -> dict[str, Any]:
    return {
        name: value for name, value in report.as_dict().items() if name not in {*SIZES, *left_out}
    }


def answers(reader: StoreReader) -> dict[str, Any]:
    """All that a reader tells of a store."""
    found: dict[str, Any] = {"messages": [bytes(view.raw) for view in reader.messages()]}
    # What queues know of a log that has files is not asked behind a URL.
    found["damage"] = [one.as_dict() for one in reader.damage if one.kind != LOG_MISSING]
    found["blanks"] = [item for item in reader.messages(blanks=True) if isinstance(item, Blank)]
    found["info"] = plain(reader.info(), "path")
    queues = reader.queues()
    found["queues"] = [plain(queue) for queue in queues]
    found["topics"] = reader.topics()
    found["index"] = [file.as_dict() for file in reader.index_files()]
    found["checkpoint"] = reader.checkpoint()
    for queue in queues:
        got = reader.get(queue.topic, queue.queue_id, queue.min_offset)
        raw = [bytes(view.raw) for view in got.messages]
        found[f"get {queue.topic} {queue.queue_id}"] = got.status, got.next_begin_offset, raw
        at = reader.offset_by_time(queue.topic, queue.queue_id, 1_700_086_500_000)
        found[f"time {queue.topic} {queue.queue_id}"] = at
    for view in islice(reader.messages(), 0, 400, 40):
        for key in view.keys[:1]:
            with (
                catch_warnings()
            ):  # a reader of a directory also says what an index of Java's lacks after a crash
                simplefilter("ignore", rmqcore.DamageWarning)
                asked = reader.query(view.topic, key)
            found[f"query {key}"] = [bytes(one.raw) for one in asked]
        again = reader.message_at(view.phy_offset)
        found[f"at {view.phy_offset}"] = None if again is None else bytes(again.raw)
        if view.msg_id:
            by_id = reader.lookup_id(view.msg_id)
            found[f"id {view.msg_id}"] = None if by_id is None else bytes(by_id.raw)
    return found


def test_the_cases_are_those_that_there_are(golden: Path) -> None:
    assert {path.parent.name for path in stores(golden)} >= {*CLEAN, *CRASHED}


@pytest.mark.parametrize("case", CASES)
def test_a_reader_answers_what_it_answers_of_a_directory(
    golden: Path, memory: MemoryStores, case: str
) -> None:
    for root in stores(golden):
        if root.parent.name != case:
            continue
        url = memory.put(root, f"{case}-{root.name}")
        with rmqcore.read(url) as remote:
            assert (str(remote.path), remote.info().path) == (url, url)
            assert answers(remote) == answers(rmqcore.read(root)), root


@pytest.mark.parametrize("case", CASES)
def test_fsck_finds_the_same(golden: Path, memory: MemoryStores, case: str) -> None:
    for root in stores(golden):
        if root.parent.name != case:
            continue
        url = memory.put(root, f"{case}-{root.name}")
        report, local = rmqcore.fsck(url), rmqcore.fsck(root)
        assert report.path == url
        assert plain(report, "path", "seconds") == plain(local, "path", "seconds"), root


@pytest.mark.parametrize("case", ["basic", "compressed", "crash_flipped", "crash_torn"])
def test_exports_are_the_same_files(
    golden: Path, memory: MemoryStores, tmp_path: Path, case: str
) -> None:
    (root, *_) = [path for path in stores(golden) if path.parent.name == case]
    url = memory.put(root)
    for kind in ("jsonl", "csv", "parquet"):
        if kind == "parquet":
            pytest.importorskip("pyarrow")
        outs = [tmp_path / f"{kind}-{where}" for where in ("remote", "local")]
        reports = [
            rmqcore.export(store, out, file_format=kind)  # type: ignore[arg-type]
            for store, out in zip((url, root), outs, strict=True)
        ]
        assert reports[0].path == url
        left_out = ("path", "out", "seconds")
        assert plain(reports[0], *left_out) == plain(reports[1], *left_out)
        files = [
            {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
            for out in outs
        ]
        assert files[0] == files[1]


@pytest.mark.parametrize("case", ["basic", "crash_flipped", "crash_no_cq"])
def test_stats_are_the_same(golden: Path, memory: MemoryStores, case: str) -> None:
    (root, *_) = [path for path in stores(golden) if path.parent.name == case]
    url = memory.put(root)
    remote, local = (
        rmqcore.stats(url, by=["hour", "queue"]),
        rmqcore.stats(root, by=["hour", "queue"]),
    )
    assert remote.path == url
    assert plain(remote, "path", "seconds") == plain(local, "path", "seconds")
