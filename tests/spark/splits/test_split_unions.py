"""The splits of a store together give what one walk over it gives: the same rows, damage and marks, however it is cut."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores.split_logs import (
    FILE_SIZE,
    MAX_RECORD,
    SUFFIX,
    Bodies,
    SplitLog,
    record,
    split_log,
    stale,
    stale_under_blank,
    write_store,
)
from support.stores.split_runs import assert_same, plan_parts, read_splits, read_whole, scan_of
from support.stores.store_damage import Change, changes
from support.stores.store_maker import MadeStore, make_store, sample_records

from rmqcore.errors import SplitError
from rmqcore.offline.log.log_files import LogShape
from rmqcore.spark.reading.split_start import ask_boundary
from rmqcore.spark.splits.sizing import SplitMode
from rmqcore.spark.splits.split import Split
from rmqcore.spark.storage.locations import find_stores

PARTS = (1, 2, 7, 50, 300)
MODES: tuple[SplitMode, ...] = ("resync", "walk", "auto")


@pytest.fixture(scope="module")
def deceptive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kinds of bodies; a long BLANK over stale records; a tail with an earlier life."""
    logs = [split_log((kind, "plain"), 7, n * FILE_SIZE) for n, kind in enumerate(Bodies.KINDS)]
    n = len(logs)
    blank_from = FILE_SIZE - 15 * MAX_RECORD
    logs.append(stale_under_blank(Bodies.KINDS, 7, blank_from, n * FILE_SIZE))
    logs.append(stale(Bodies.KINDS, 7, FILE_SIZE // 3, (n + 1) * FILE_SIZE))
    return write_store(tmp_path_factory.mktemp("deceptive"), logs)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("mode", MODES)
def test_deceptive_bodies_are_read_once(deceptive: Path, parts: int, mode: SplitMode) -> None:
    plan = plan_parts(deceptive, parts, MAX_RECORD, mode=mode)
    if parts >= 7:
        assert len(plan.splits) > 6 * len(Bodies.KINDS)
    assert_same(read_splits(plan), read_whole(deceptive))


# ---- damage -----------------------------------------------------------------------------------------

SMALL_RECORD = 1024
STORES = [
    make_store(sample_records(900), log_file_size=1 << 16),
    make_store(sample_records(300), log_file_size=1 << 15, append_prop_crc=True, clean_exit=False),
]
at_log = st.tuples(st.integers(0, 1 << 20), st.integers(0, 255))


def damaged(
    made: MadeStore, damage: list[Change], flips: list[tuple[int, int]]
) -> dict[str, bytes]:
    files = {name: data for name, data in made.files.items() if name.startswith("commitlog")}
    for change in damage:
        change.apply(files)
    for at, value in flips:
        if names := sorted(files):
            name = names[at % len(names)]
            data = bytearray(files[name])
            if data:
                data[at // len(names) % len(data)] = value
            files[name] = bytes(data)
    return files


@given(
    number=st.integers(0, len(STORES) - 1),
    damage=st.lists(changes, max_size=3),
    flips=st.lists(at_log, max_size=12),
    parts=st.sampled_from(PARTS),
    mode=st.sampled_from(MODES),
    verify_crc=st.booleans(),
)
def test_damage_is_the_same_however_a_store_is_cut(
    number: int,
    damage: list[Change],
    flips: list[tuple[int, int]],
    parts: int,
    mode: SplitMode,
    verify_crc: bool,
) -> None:
    files = damaged(STORES[number], damage, flips)
    root = Path(tempfile.mkdtemp(prefix="rmqcore-"))
    try:
        (root / "commitlog").mkdir()
        MadeStore(files).write(root)
        whole = read_whole(root, verify_crc=verify_crc)
        plan = plan_parts(root, parts, SMALL_RECORD, mode=mode)
        try:
            read = read_splits(plan, verify_crc=verify_crc)
        except SplitError:
            # A damaged length happens to lead to another record: the read gives no answer rather than a wrong one.
            assert whole.damage and mode == "resync"
        else:
            assert_same(read, whole)
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("number", range(len(STORES)))
def test_a_sound_store_never_fails(
    number: int, parts: int, mode: SplitMode, tmp_path: Path
) -> None:
    root = STORES[number].write(tmp_path)
    plan = plan_parts(root, parts, SMALL_RECORD, mode=mode)
    assert_same(read_splits(plan), read_whole(root))
    assert read_whole(root).damage == []


# ---- what the rule cannot see -----------------------------------------------------------------------


STEP = 64
"""Bytes of a part, so that there is a boundary wherever one is wanted."""


@dataclass(frozen=True)
class Lie:
    """A log in which the largest record's body is sound forged records and nothing else, and a boundary in the last of them."""

    log: SplitLog
    record_size: int
    boundary: int

    @classmethod
    def tell(cls, *, merge: bool, hurt: bool) -> Lie:
        log, rng = SplitLog(), Random(3)

        def forged(at: int) -> bytes:
            body = b""
            while len(body) < 5000:
                body += record(rng.randbytes(400), at + len(body))
            return body[:-SUFFIX] if merge else body + bytes(10)

        while len(log.data) < FILE_SIZE // 2:
            log.append(lambda at: rng.randbytes(300))
        outer = len(log.data)
        log.append(forged)
        end = len(log.data)
        if hurt:
            log.data[outer + 30] ^= 1  # PHYSICALOFFSET: the walk still believes the lengths
        while log.append(lambda at: rng.randbytes(300)):
            pass
        log.close()
        return cls(log, end - outer, (end - SUFFIX - 100) // STEP * STEP)

    def cut(self, root: Path, max_record_size: int) -> list[Split]:
        tail = split_log(("plain",), 1, FILE_SIZE)
        store = find_stores(str(write_store(root, [self.log, tail])))[0]
        files = store.log_files()
        shape = LogShape.of(files)
        cuts = FILE_SIZE // STEP
        first = Split(
            "b", files[0], shape, 0, self.boundary, True, max_record_size, cuts, check_end=True
        )
        return [first, replace(first, start=self.boundary, end=None, aligned=False)]


@pytest.mark.parametrize(
    ("merge", "hurt"),
    [(False, True), (True, True), (False, False)],
    ids=["damaged", "damaged, with the right end", "a record longer than maxRecordSize"],
)
def test_lies_that_no_window_shows_end_in_an_error(merge: bool, hurt: bool, tmp_path: Path) -> None:
    """Forged records in a body tell one story, and the header that says otherwise is damaged or out of the window's reach."""
    lie = Lie.tell(merge=merge, hurt=hurt)
    most = lie.record_size if hurt else 2000
    first, second = lie.cut(tmp_path, most)
    told = ask_boundary(second.file, second.shape, second.start, most)
    assert told.phy_offset is not None
    scan = scan_of(first)
    with pytest.raises(SplitError, match="maxRecordSize") as raised:
        list(scan.run())
    assert raised.value.boundary == lie.boundary
    assert ("behind damage" in str(raised.value)) == hurt
    assert_same(read_splits(plan_parts(tmp_path, 50, most, walk=True)), read_whole(tmp_path))
