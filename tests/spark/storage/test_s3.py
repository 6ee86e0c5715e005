"""Stores in a real S3 server, through ``s3://``: the same rows and damage as on a disk, and errors that say what is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.remote.s3_server import BUCKET, S3Server, s3_server
from support.stores.store_maker import make_store, sample_records

import rmqcore
from rmqcore._native.scan.scan import ViewScan
from rmqcore.errors import NotAStoreError, RemoteStorageError
from rmqcore.offline.index.index_files import list_index_files
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.queues.queues import list_queues
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.splits.planning import plan_store
from rmqcore.spark.splits.sizing import Sizing
from rmqcore.spark.storage.locations import StoreLocation, find_stores

KIB = 1024
SECRET = "the-secret-key"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several files of several windows each, so that every one of them is read by more than one range."""
    made = make_store(
        sample_records(40_000),
        log_file_size=5 * KIB * KIB,
        cq_file_entries=10_000,
        index_capacity=200_000,
    )
    return made.write(tmp_path_factory.mktemp("big") / "broker-a")


def located(server: S3Server, uri: str) -> StoreLocation:
    (store,) = find_stores(uri, server.storage)
    return store


def by_splits(store: StoreLocation, sizing: Sizing) -> tuple[list[bytes], list[DamageRange], int]:
    plan = plan_store(store, sizing)
    rows, damage = [], list(plan.gaps)
    for split in plan.splits:
        settled = settle(split)
        scan = SplitScan(settled, ViewScan(stop_offset=settled.stop_offset()))
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


def test_a_broken_store(server: S3Server, golden: Path) -> None:
    root = golden / "crash_flipped" / "input"
    rows, damage, _ = by_splits(located(server, server.put(root, "flipped")), Sizing())
    assert (rows, damage) == on_disk(root)
    assert damage


def test_globs_and_names(server: S3Server, golden: Path) -> None:
    for broker in ("broker-a", "broker-b"):
        server.put(golden / "basic" / "store", f"cluster/{broker}/store")
    server.put_bytes("cluster/README", b"a file is no store")
    roots = {broker: f"s3://{BUCKET}/cluster/{broker}/store" for broker in ("broker-a", "broker-b")}
    for glob in ("cluster/*/store", "cluster/broker-?/store", "clust*/*"):
        if glob == "clust*/*":
            with pytest.raises(NotAStoreError, match="but 1 of its directories have"):
                find_stores(f"s3://{BUCKET}/{glob}", server.storage)
            continue
        found = find_stores(f"s3://{BUCKET}/{glob}", server.storage)
        assert {store.broker: store.root for store in found} == roots
    pairs = f"x=s3a://{BUCKET}/cluster/broker-a/store/commitlog,y={roots['broker-b']}/"
    named = {store.broker: store.root for store in find_stores(pairs, server.storage)}
    assert named == {"x": roots["broker-a"], "y": roots["broker-b"]}


def test_credentials_in_the_uri_become_options(server: S3Server, golden: Path) -> None:
    server.put(golden / "basic" / "store", "by-uri")
    keys = f"{server.storage['access_key']}:{SECRET}"
    query = f"scheme=http&endpoint_override={server.endpoint}&region=us-east-1"
    (store,) = find_stores(f"s3://{keys}@{BUCKET}/by-uri?{query}")
    assert (store.broker, store.root) == ("by-uri", f"s3://{BUCKET}/by-uri")
    assert store.log_files()
    assert SECRET not in repr((store, store.log_files(), plan_store(store)))


def test_queues_and_index_files_by_copies(server: S3Server, golden: Path) -> None:
    root = golden / "basic" / "store"
    store = located(server, server.put(root, "derived"))
    local = rmqcore.read(root)
    assert store.names("consumequeue") == {
        path.name: True for path in sorted(local.paths.consumequeue.iterdir())
    }
    info = local.info()
    with store.local_copy("consumequeue", "index") as paths:
        queues = list_queues(paths, info.min_phy_offset, info.max_phy_offset)
        assert [{**queue.as_dict(), "disk_bytes": 0} for queue in queues] == [
            {**queue.as_dict(), "disk_bytes": 0} for queue in local.queues()
        ]
        assert list_index_files(paths) == local.index_files()


# ---- errors -------------------------------------------------------------------------------------


def test_no_such_store(server: S3Server, golden: Path) -> None:
    server.put(golden / "basic" / "store", "several/a")
    with pytest.raises(FileNotFoundError, match=f"s3://{BUCKET}/nowhere"):
        find_stores(f"s3://{BUCKET}/nowhere", server.storage)
    with pytest.raises(
        NotAStoreError, match=rf"1 of its directories have \(a\): use s3://{BUCKET}/several/\*"
    ):
        find_stores(f"s3://{BUCKET}/several", server.storage)
    with pytest.raises(
        RemoteStorageError, match=r"s3://no-such-bucket/a cannot be listed.*NO_SUCH_BUCKET"
    ):
        find_stores("s3://no-such-bucket/a", server.storage)


def test_keys_that_the_server_does_not_know(server: S3Server, golden: Path) -> None:
    store = located(server, server.put(golden / "basic" / "store", "refused"))
    split = plan_store(store).splits[0]
    with server.refusing_keys():
        with pytest.raises(RemoteStorageError, match=r"refused.*INVALID_ACCESS_KEY") as caught:
            find_stores(store.root, server.storage)
        assert SECRET not in str(caught.value)
        with pytest.raises(RemoteStorageError, match="refused"):
            list(SplitScan(settle(split), ViewScan()).run())


def test_a_server_that_is_not_there(server: S3Server) -> None:
    nobody = server.storage | {"endpoint_override": "127.0.0.1:1"}
    with pytest.raises(RemoteStorageError, match="NETWORK_CONNECTION"):
        find_stores(f"s3://{BUCKET}/a", nobody)


def test_a_file_that_is_deleted_after_the_plan(server: S3Server, golden: Path) -> None:
    store = located(server, server.put(golden / "basic" / "store", "deleted"))
    split = plan_store(store).splits[0]
    server.delete(f"deleted/{split.file.name}")
    said = pytest.raises(FileNotFoundError, match=f"s3://{BUCKET}/deleted/commitlog/0")
    with said, split.file.open(lambda start, end, error: None):
        pass
    scan = SplitScan(settle(split), ViewScan())
    assert list(scan.run()) == []
    assert [found.kind for found in scan.damage] == ["missing_file"]


def test_a_file_that_is_cut_after_the_plan(server: S3Server, big: Path, tmp_path: Path) -> None:
    """The same findings as on a disk, where the file is cut between the listing and the walk too."""
    copy = tmp_path / "copy"
    shutil.copytree(big, copy)
    store = located(server, server.put(big, "cut"))
    remote, local = store.log_files(), rmqcore.read(copy).log_files()
    kept = (big / "commitlog" / local[0].path.name).read_bytes()[: 3 * KIB * KIB + 17]
    server.put_bytes(f"cut/{remote[0].name}", kept)
    (copy / "commitlog" / local[0].path.name).write_bytes(kept)
    damages: list[list[DamageRange]] = [[], []]
    rows = [
        [
            bytes(view.raw)
            for views in LogWalk(files, ViewScan(), damage).run()
            if not isinstance(views, Blank)
            for view in views
        ]
        for files, damage in zip((remote, local), damages, strict=True)
    ]
    assert rows[0] == rows[1]
    assert damages[0] == damages[1]
    assert [found.kind for found in damages[0]] == ["short_file"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"acess_key": "x"},
            r"storage\.acess_key is not an option of s3://: did you mean storage\.access_key\?",
        ),
        ({"anonymous": "perhaps"}, r"storage\.anonymous has the wrong type: true or false"),
        ({"filesystem": "boto"}, "expected fsspec"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_options_are_checked_before_anybody_is_asked(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_stores(f"s3://{BUCKET}/a", options)
