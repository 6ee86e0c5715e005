"""Names of stores: paths, URLs, and options as users of fsspec know them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.remote.memory_stores import MemoryStores

import rmqcore
from rmqcore import MessageStoreConfig
from rmqcore.offline.remote.filesystem_options import parse_options
from rmqcore.offline.remote.given_options import given_options
from rmqcore.offline.remote.store_url import StoreUrl, file_path, store_place


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///data/store", "/data/store"),
        ("FILE:///data/a%20store", "/data/a store"),
        ("file://localhost/data", "/data"),
        ("file:/data", "/data"),
        ("/data/file:///x", "/data/file:///x"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("file:data", "file:data"),
    ],
)
def test_file_urls(text: str, path: str) -> None:
    assert file_path(text) == path


def test_a_place_is_a_path_or_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert store_place("store") == tmp_path / "store"
    assert store_place(Path("store")) == tmp_path / "store"
    assert store_place(f"file://{tmp_path}/store") == tmp_path / "store"
    found = store_place("s3a://key:hush@bucket/a/store/?region=eu-1")
    assert isinstance(found, StoreUrl)
    assert (str(found), found.name, str(found.parent)) == (
        "s3://bucket/a/store",
        "store",
        "s3://bucket/a",
    )
    assert "hush" not in repr(found)
    assert store_place(found) is found
    with pytest.raises(ValueError, match=r"storage_options does not apply to .*/store, a local"):
        store_place("store", {"region": "eu-1"})
    with pytest.raises(ValueError, match="path is empty"):
        store_place("")


S3 = {
    "access_key": "K",
    "secret_key": "S",
    "session_token": "T",
    "region": "r",
    "endpoint_override": "host:9000",
    "scheme": "http",
    "anonymous": False,
}


ENDPOINT = {"endpoint_url": "http://host:9000"}
OF_S3FS = {"key": "K", "secret": "S", "token": "T", "anon": False}
OF_BOTO = {"aws_access_key_id": "K", "aws_secret_access_key": "S", "aws_session_token": "T"}


@pytest.mark.parametrize(
    "given",
    [
        S3,
        OF_S3FS | {"endpoint_url": "http://host:9000/", "client_kwargs": {"region_name": "r"}},
        OF_S3FS
        | {"client_kwargs": ENDPOINT | {"region_name": "r"}, "use_ssl": False, "profile": None},
        OF_BOTO | {"aws_region": "r", "aws_endpoint_url": "http://host:9000", "anonymous": "false"},
    ],
    ids=["pyarrow", "s3fs", "client_kwargs", "boto"],
)
def test_names_of_s3_options(given: dict[str, Any]) -> None:
    assert parse_options("s3", given_options("s3", given)) == S3


FOR_HDFS = {"user": "u", "replication": 3, "extra_conf": {"a": "b"}}
FOR_S3FS = {"key": "K", "anon": True, "client_kwargs": {"a": [1]}, "port": 5}
FOR_MEMORY = {"skip_instance_cache": True, "n": 3, "text": "3"}


@pytest.mark.parametrize(
    ("scheme", "given", "parsed"),
    [
        ("gs", {"token": "anon", "project": "p"}, {"anonymous": True, "project_id": "p"}),
        ("gcs", {"access_token": "t"}, {"access_token": "t"}),
        ("hdfs", FOR_HDFS, FOR_HDFS),
        ("s3", {"connect_timeout": 2.5}, {"connect_timeout": 2.5}),
        ("s3", FOR_S3FS | {"filesystem": "fsspec"}, FOR_S3FS),
        ("memory", FOR_MEMORY, FOR_MEMORY),
    ],
)
def test_other_options(scheme: str, given: dict[str, Any], parsed: dict[str, Any]) -> None:
    assert parse_options(scheme, given_options(scheme, given)) == parsed


def test_options_that_cannot_be() -> None:
    with pytest.raises(
        ValueError, match=r"storage\.acess_key is not an option of s3://: did you mean"
    ):
        rmqcore.read("s3://bucket/a", storage_options={"acess_key": "x"})
    with pytest.raises(TypeError, match=r"storage_options\['key'\] is a object, expected a text"):
        rmqcore.read("s3://bucket/a", storage_options={"key": object()})
    with pytest.raises(ValueError, match="s3:// lacks the bucket"):
        rmqcore.read("s3:///a")


# ---- where the log is -------------------------------------------------------------------------------


def test_the_url_of_a_commitlog(golden: Path, memory: MemoryStores) -> None:
    """As of a directory: the queues beside it are the store's."""
    root = golden / "basic" / "store"
    url = memory.put(root)
    with rmqcore.read(f"{url}/commitlog") as remote:
        local = rmqcore.read(root / "commitlog")
        assert str(remote.path) == f"{url}/commitlog"
        assert [view.raw for view in remote.messages()] == [view.raw for view in local.messages()]
        assert remote.topics() == local.topics() != []
        assert remote.info().path == url


def test_a_log_elsewhere(golden: Path, memory: MemoryStores, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden / "basic" / "store", root)
    names = sorted(path.name for path in (root / "commitlog").iterdir())
    for disk, kept in (("a", names[::2]), ("b", names[1::2])):
        (tmp_path / disk / "commitlog").mkdir(parents=True)
        for name in kept:
            (root / "commitlog" / name).rename(tmp_path / disk / "commitlog" / name)
    (root / "commitlog").rmdir()
    url, logs = memory.put(root), [memory.put(tmp_path / disk, disk) for disk in "ab"]
    local = rmqcore.read(
        root, commitlog=[tmp_path / "a" / "commitlog", tmp_path / "b" / "commitlog"]
    )
    expected = [view.raw for view in local.messages()]
    assert len(expected) > 1000
    both = [f"{log}/commitlog" for log in logs]
    for given in (both, ",".join(both)):
        with rmqcore.read(url, commitlog=given) as remote:
            assert [view.raw for view in remote.messages()] == expected
            assert remote.damage == []
    report = rmqcore.fsck(url, commitlog=both)
    assert (report.exit_code, report.counts["records"]) == (0, len(expected))
    with rmqcore.read(url, commitlog=both[0]) as half:
        assert 0 < len([*half.messages()]) < len(expected)
    with pytest.raises(FileNotFoundError, match="memory:///stores/c"):
        rmqcore.read(url, commitlog="memory:///stores/c")
    with pytest.raises(ValueError, match="commitlog is '/data/log', expected a URL like that of"):
        rmqcore.read(url, commitlog="/data/log")


def test_a_config_that_names_a_log(golden: Path, memory: MemoryStores) -> None:
    """The `broker.conf` of the machine that the store comes from."""
    root = golden / "delay" / "store"
    url = memory.put(root)
    config = MessageStoreConfig(store_path_commit_log="/disk1/commitlog")
    with pytest.raises(
        ValueError, match="the config names the CommitLog /disk1/commitlog, but the"
    ):
        rmqcore.read(url, config=config)
    with rmqcore.read(url, config=config, commitlog=f"{url}/commitlog") as remote:
        local = rmqcore.read(root, config=MessageStoreConfig())
        assert [m.tags_code for m in remote.messages()] == [m.tags_code for m in local.messages()]
