"""What filesystems say of files, each in its own words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rmqcore.offline.remote.entries import NS, RemoteEntry, _below, _fsspec_entry

AT = datetime(2026, 11, 25, 12, 0, 0, 500_000, UTC)
AT_NS = int(AT.timestamp() * 1000) * (NS // 1000)


def entry(size: int = 5, mtime_ns: int | None = AT_NS, etag: str = "") -> RemoteEntry:
    return RemoteEntry("name", is_dir=False, size=size, mtime_ns=mtime_ns, etag=etag)


@pytest.mark.parametrize(
    ("now", "listed", "is_other"),
    [
        (entry(), entry(), False),
        (entry(6), entry(), True),
        (entry(mtime_ns=AT_NS - NS // 2), entry(), False),
        (entry(mtime_ns=AT_NS - NS), entry(), True),
        (entry(mtime_ns=AT_NS + 2 * NS), entry(), True),
        (entry(mtime_ns=None), entry(), False),
        (entry(etag="a"), entry(etag="a"), False),
        (entry(etag="a"), entry(etag="b"), True),
        (entry(etag=""), entry(etag="b"), False),
    ],
)
def test_whether_a_file_is_another(now: RemoteEntry, listed: RemoteEntry, is_other: bool) -> None:
    """MinIO lists milliseconds, and of a single file its header tells seconds."""
    assert now.is_other_than(listed) == is_other


@pytest.mark.parametrize(
    "info",
    [
        {"LastModified": AT, "ETag": '"x"'},
        {"mtime": AT.timestamp()},
        {"updated": "2026-11-25T12:00:00.500Z", "etag": "x"},
        {"modificationTime": int(AT.timestamp() * 1000)},
        {"created": AT},
        {"mtime": AT, "created": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
)
def test_times_of_fsspec(info: dict[str, Any]) -> None:
    """The memory filesystem lists numbers and tells objects of a single file."""
    found = _fsspec_entry("name", {"type": "file", "size": 5, **info})
    assert found.mtime_ns is not None
    assert abs(found.mtime_ns - AT_NS) < 1000
    assert bool(found.etag) == bool({"ETag", "etag"} & info.keys())


def test_what_fsspec_does_not_tell() -> None:
    assert _fsspec_entry("a", {"type": "file", "size": 5}) == RemoteEntry("a", False, 5)
    assert _fsspec_entry("a", {"type": "file", "size": None, "mtime": "tomorrow"}) == RemoteEntry(
        "a", False, 0
    )
    assert _fsspec_entry("a", {"type": "directory", "size": 5, "mtime": 1}) == RemoteEntry(
        "a", True, 0
    )


@pytest.mark.parametrize(
    ("directory", "path", "name"),
    [
        ("bucket/store", "bucket/store/commitlog/0", "commitlog/0"),
        ("/store", "/store/index", "index"),
        ("/store", "hdfs://namenode:8020/store/index", "index"),
        ("", "/store/index", "store/index"),
        ("/", "store", "store"),
        ("/stores", "/stores", ""),
        ("/stores", "/stores/", ""),
    ],
)
def test_paths_below_a_directory(directory: str, path: str, name: str) -> None:
    assert _below(directory, path) == name
