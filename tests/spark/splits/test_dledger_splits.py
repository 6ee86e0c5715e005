"""The splits of a DLedger log together give what one walk over it gives: each begins behind a head, or at one."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from support.doses import dose
from support.stores.dledger_store import HEAD, REAL_MESSAGES, DLedgerLog, unpack_real
from support.stores.split_runs import assert_same, plan_parts, read_splits, read_whole

from rmqcore import Message
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.walk import LogWalk
from rmqcore.spark.reading.split_start import ask_boundary
from rmqcore.spark.splits.sizing import SplitMode
from rmqcore.spark.storage.locations import find_stores
from rmqcore.spark.storage.store_location import StoreLocation

FILE_SIZE = 1 << 20
MAX_RECORD = 4200
PARTS = (1, 2, 7, 50, 300)
MODES: tuple[SplitMode, ...] = ("resync", "walk", "auto")


def random_log(seed: int, size: int = 5 * FILE_SIZE // 2) -> DLedgerLog:
    log, rng = DLedgerLog(FILE_SIZE), Random(seed)
    while len(log.data) < size:
        if rng.random() < 0.02:
            log.no_op()
        log.put(Message("T", rng.randbytes(rng.choice([3, 50, 900, 4000]))), len(log.places))
    return log


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    random_log(1).write(root)
    return root


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("mode", MODES)
def test_a_sound_log_is_read_once(sound: Path, parts: int, mode: SplitMode) -> None:
    plan = plan_parts(sound, parts, MAX_RECORD, mode=mode)
    if parts >= 7:
        assert len(plan.splits) > 1.8 * parts
    whole = read_whole(sound)
    assert whole.damage == []
    assert_same(read_splits(plan), whole)


def test_every_boundary_in_sound_bytes_tells_where_the_walk_arrives(sound: Path) -> None:
    """Heads and records both: a walk that stops before a record has passed its head."""
    log = random_log(1)
    (store,) = find_stores(str(sound))
    files = store.log_files()
    visited = sorted([*(place - HEAD for place in log.places), *log.places])
    for boundary in range(200_000, 212_000, 7):
        answer = ask_boundary(files[0], store.log_shape(files), boundary, MAX_RECORD)
        first = next(place for place in visited if place >= boundary)
        assert not answer.is_none
        # The head of a no-op may lie before it.
        assert answer.phy_offset is not None
        assert boundary <= answer.phy_offset <= first


@pytest.mark.parametrize(
    "seed", range(dose("RMQCORE_DLEDGER_SPLITS", test=8, verify=40, night=400))
)
def test_a_damaged_log_is_read_once(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    log = random_log(seed)
    for _ in range(rng.randint(1, 40)):
        at = rng.choice(
            [rng.randrange(len(log.data)), rng.choice(log.places) - rng.randrange(HEAD)]
        )
        size = rng.choice([1, 4, 40, 3000])
        log.data[at : at + size] = rng.randbytes(len(log.data[at : at + size]))
    log.write(tmp_path)
    whole = read_whole(tmp_path)
    for parts in (2, 7, 50):
        for mode in MODES:
            assert_same(read_splits(plan_parts(tmp_path, parts, MAX_RECORD, mode=mode)), whole)


def test_the_log_of_a_real_broker_is_cut_at_records(tmp_path: Path) -> None:
    real = unpack_real(tmp_path)
    whole = read_whole(real)
    assert_same(read_splits(plan_parts(real, 5, 4096, mode="walk")), whole)
    assert (len(whole.rows), whole.damage) == (REAL_MESSAGES, [])


def test_the_files_behind_a_url_are_known_as_those_of_dledger(tmp_path: Path) -> None:
    real = unpack_real(tmp_path)
    for root, log in ((real, "commitlog"), (real / "dledger-n0", "data")):
        files = StoreLocation("broker", f"file://{root}", log=log).log_files()
        assert [file.dledger for file in files] == [True] * 8
        damage: list[DamageRange] = []
        walk = LogWalk(files, ColumnScan(["phy_offset"]), damage)
        assert sum(len(batch) for batch in walk.run() if isinstance(batch, Batch)) == REAL_MESSAGES
        assert damage == []
