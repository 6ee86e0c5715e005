"""Stores in a real S3 server, through ``s3://``: the same rows and damage as on a disk, and errors that say what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rmqcore
from rmqcore._native.scan import ColumnScan, ViewScan
from rmqcore.errors import NotAStoreError, RemoteStorageError
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.walk import Blank, LogWalk
from rmqcore.spark.locations import StoreLocation, find_stores
from rmqcore.spark.planning import Sizing, plan_store
from rmqcore.spark.split_scan import SplitScan, stop_offset
from s3_server import BUCKET, S3Server, s3_server
from store_maker import make_store, sample_records

KIB = 1024
SECRET = "the-secret-key"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several files of several windows each, so that every one of them is read by more than one range."""
    made = make_store(sample_records(40_000), log_file_size=5 * KIB * KIB, cq_file_entries=10_000)
    return made.write(tmp_path_factory.mktemp("big") / "broker-a")


def located(server: S3Server, uri: str) -> StoreLocation:
    (store,) = find_stores(uri, server.storage)
    return store


def by_splits(store: StoreLocation, sizing: Sizing) -> tuple[list[bytes], list[DamageRange], int]:
    plan = plan_store(store, sizing)
    rows, damage = [], list(plan.gaps)
    for split in plan.splits:
        scan = SplitScan(split, ViewScan(stop_offset=stop_offset(split)))
        rows += [bytes(view.raw) for views in scan.run() for view in views]
        damage += scan.damage
    return rows, sorted(damage, key=lambda found: found.start_phy_offset), len(plan.splits)


def on_disk(root: Path) -> tuple[list[bytes], list[DamageRange]]:
    reader = rmqcore.read(root)
    return [bytes(view.raw) for view in reader.messages()], reader.damage


def test_golden_stores(server: S3Server, golden: Path) -> None:
    for case in ("basic", "batch"):
        root = golden / case / "store"
        store = located(server, server.put(root, f"golden/{case}"))
        rows, damage, _ = by_splits(store, Sizing())
        assert (rows, damage) == on_disk(root)


@pytest.mark.parametrize("mode", ["auto", "walk"])
def test_many_files_in_many_splits(server: S3Server, big: Path, mode: str) -> None:
    store = located(server, server.put(big, f"big-{mode}"))
    sizing = Sizing(max_partition_bytes=KIB * KIB, max_record_size=64 * KIB, split_mode=mode)  # type: ignore[arg-type]
    rows, damage, splits = by_splits(store, sizing)
    assert (rows, damage) == on_disk(big)
    assert splits > 2 * len(store.log_files())


def test_globs_and_names(server: S3Server, golden: Path) -> None:
    for broker in ("broker-a", "broker-b"):
        server.put(golden / "basic" / "store", f"cluster/{broker}/store")
    server.put_bytes("cluster/README", b"a file is no store")
    found = find_stores(f"s3://{BUCKET}/cluster/*/store", server.storage)
    assert {store.broker: store.root for store in found} == {
        broker: f"s3://{BUCKET}/cluster/{broker}/store" for broker in ("broker-a", "broker-b")
    }
    (log,) = find_stores(f"x=s3a://{BUCKET}/cluster/broker-?/store/commitlog", server.storage)[:1] or [None]
    assert log is not None
