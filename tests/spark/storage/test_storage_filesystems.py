"""Filesystems that are not S3: one of fsspec, and what is said of filesystems that are not there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

import rmqcore
from rmqcore._native.scan.scan import ViewScan
from rmqcore.errors import RemoteStorageError
from rmqcore.offline.remote.filesystem import split_uri
from rmqcore.offline.remote.filesystem_options import parse_options, redact
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.splits.planning import plan_store
from rmqcore.spark.storage.locations import NoStoreWarning, find_stores

FSSPEC = {"filesystem": "fsspec"}


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs.clear()


@pytest.mark.parametrize("options", [FSSPEC, {}], ids=["asked", "found"])
def test_a_store_on_an_fsspec_filesystem(
    memory: fsspec.AbstractFileSystem, golden: Path, options: dict[str, str]
) -> None:
    root = golden / "basic" / "store"
    memory.put(str(root / "commitlog"), "/stores/broker-a/commitlog", recursive=True)
    (store,) = find_stores("memory:///stores/*", options)
    assert store.broker == "broker-a"
    rows = [
        bytes(view.raw)
        for split in plan_store(store).splits
        for views in SplitScan(settle(split), ViewScan()).run()
        for view in views
    ]
    assert rows == [bytes(view.raw) for view in rmqcore.read(root).messages()]
    memory.rm("/stores/broker-a/commitlog", recursive=True)
    with pytest.raises(FileNotFoundError):
        find_stores("memory:///stores/broker-b", options)


def test_globs_and_names_on_an_fsspec_filesystem(memory: fsspec.AbstractFileSystem) -> None:
    """There was no ``{a,b}``, and a folder beside the stores failed the read of a glob."""
    for path in ("a/store/commitlog/0", "b/store/commitlog/0", "{x,y}/commitlog/0", "c/z/0"):
        memory.pipe(f"/stores/{path}", b"")
    base = "memory:///stores"
    with pytest.warns(NoStoreWarning, match="stores/d does not exist; memory:///stores/c has no "):
        found = find_stores(f"{base}/{{{{a,[b]}}/store,c,d}},{base}/{{x,y}}", FSSPEC)
    assert {store.broker: store.root for store in found} == {
        "a": f"{base}/a/store",
        "b": f"{base}/b/store",
        "{x,y}": f"{base}/{{x,y}}",
    }


def test_fsspec_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(RemoteStorageError, match="pip install fsspec"):
        find_stores("memory://elsewhere/a", FSSPEC)


def test_hdfs_without_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "HADOOP_HOME", "CLASSPATH", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        RemoteStorageError, match=r"^hdfs://namenode:8020/a cannot be listed: .*"
    ) as caught:
        find_stores("hdfs://namenode:8020/a")
    assert "CLASSPATH" in caught.value.hint
    assert "\n" not in str(caught.value), "one line of the hundred that the loader tries"


def test_a_scheme_that_nobody_knows() -> None:
    """One that pyarrow does not know is asked of fsspec, without being told to."""
    for options in ({}, {"x": "1"}):
        with pytest.raises(
            RemoteStorageError, match="cannot be listed: Protocol not known: gopher"
        ):
            find_stores("gopher://host/a", options)


@pytest.mark.parametrize(
    ("uri", "base", "path"),
    [
        ("s3://bucket/a/b/", "s3://bucket", "/a/b"),
        ("s3a://bucket", "s3://bucket", ""),
        ("S3://bucket/store", "s3://bucket", "/store"),
        ("s3://bucket/broker-?/st re%20", "s3://bucket", "/broker-?/st re%20"),
        ("gcs://bucket/a", "gs://bucket", "/a"),
        ("hdfs://nn:8020/a", "hdfs://nn:8020", "/a"),
        ("hdfs:///a", "hdfs://", "/a"),
        ("abfss://box@account.dfs.core.windows.net/a", "abfs://box@account.dfs.core.windows.net", "/a"),
    ],
    ids=str,
)  # fmt: skip
def test_uris(uri: str, base: str, path: str) -> None:
    filesystem, inner = split_uri(uri, ())
    assert (filesystem.base, inner) == (base, path)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3:///a", "lacks the bucket"),
        ("abfs://box:hush@account/a", "not in the URI"),
        ("s3://bucket/a?nope=1", r"storage\.nope is not an option"),
        ("1://hush", "is not a URI"),
    ],
)
def test_uris_that_cannot_be(uri: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        split_uri(uri, ())
    assert "box:hush" not in str(caught.value)


def test_options_get_their_types() -> None:
    options = {"anonymous": "TRUE", "connect_timeout": "2.5", "load_frequency": "60", "region": "1"}
    assert parse_options("s3a", tuple(options.items())) == {
        "anonymous": True,
        "connect_timeout": 2.5,
        "load_frequency": 60,
        "region": "1",
    }
    assert parse_options("hdfs", (("extra_conf", '{"a": "b"}'),)) == {"extra_conf": {"a": "b"}}
    for bad in ("[1]", "{"):
        with pytest.raises(ValueError, match=r"storage\.extra_conf has the wrong type"):
            parse_options("hdfs", (("extra_conf", bad),))


@pytest.mark.skipif(
    int(pa.__version__.partition(".")[0]) < 26, reason="an older pyarrow has fewer parameters"
)
def test_every_parameter_is_one_of_pyarrow() -> None:
    """The table is ours, since pyarrow's classes do not tell their parameters but in the first line of their documentation."""
    from pyarrow import fs

    from rmqcore.offline.remote.filesystem_options import PARAMETERS

    classes = {
        "s3": fs.S3FileSystem,
        "gs": fs.GcsFileSystem,
        "hdfs": fs.HadoopFileSystem,
        "abfs": fs.AzureFileSystem,
    }
    for scheme, known in PARAMETERS.items():
        signature = classes[scheme].__doc__.partition("\n")[0]
        assert [name for name in known if name not in signature] == []


def test_secrets_are_cut_out_of_what_a_server_says() -> None:
    options = (
        ("access_key", "AK"),
        ("secret_key", "AK-hush"),
        ("region", "eu-1"),
        ("session_token", ""),
    )
    assert redact("AK and AK-hush in eu-1", options) == "*** and *** in eu-1"
