"""Links, FIFOs and sockets in a store: findings, and everything else is checked.

The first link that `fsck` met ended it, so a store that somebody sent showed nothing but that.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stores import hostile_logs

from rmqcore.errors import LinkError
from rmqcore.offline.fsck import fsck


@pytest.fixture
def store(golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden / "basic" / "store", tmp_path / "store", symlinks=True))


def odd_files(report_of: Path, **options: bool) -> list[tuple[str, object]]:
    report = fsck(report_of, **options)  # type: ignore[arg-type]
    found = [finding for finding in report.findings if finding.kind == "file_kind"]
    assert all(finding.severity == "error" for finding in found)
    return [(finding.path, finding.found) for finding in found]


def topic_of(store: Path) -> str:
    return min(path.name for path in (store / "consumequeue").iterdir())


@pytest.mark.parametrize(
    "place",
    [
        "lock",
        "abort",
        "checkpoint",
        "cut",
        "batchconsumequeue",
        "commitlog/00000000009999999488",
        "commitlog/odd",
        "consumequeue/other",
        "consumequeue/TOPIC/9",
        "consumequeue/TOPIC/0/00000000000060000000",
        "index/20990101000000000",
    ],
)
@pytest.mark.parametrize("target", ["nowhere", "/dev/zero", ".", "FILE"])
def test_a_link_is_a_finding_and_all_else_is_checked(store: Path, place: str, target: str) -> None:
    counts = fsck(store).counts
    place = place.replace("TOPIC", topic_of(store))
    at = store / place
    at.unlink(missing_ok=True)
    at.symlink_to(next((store / "commitlog").iterdir()) if target == "FILE" else target)
    assert odd_files(store) == [(place, "a link")]
    assert fsck(store).counts == counts


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(path.parent)  # a socket's path has 107 bytes at most
        try:
            made.bind(path.name)
        finally:
            os.chdir(before)


@pytest.mark.parametrize(("make", "kind"), [(fifo, "a FIFO"), (unix_socket, "a socket")])
def test_other_kinds(store: Path, make: Callable[[Path], None], kind: str) -> None:
    places = ["lock", "checkpoint", "commitlog/00000000009999999488", "consumequeue/x", "index/1"]
    for place in places:
        (store / place).unlink(missing_ok=True)
        make(store / place)
    assert odd_files(store) == [(place, kind) for place in sorted(places[:2])] + [
        (place, kind) for place in places[2:]
    ]


def test_parts_that_are_links_are_left_out_unless_they_are_followed(
    store: Path, tmp_path: Path
) -> None:
    counts = fsck(store).counts
    for part in ("consumequeue", "index"):
        (store / part).rename(tmp_path / part)
        (store / part).symlink_to(tmp_path / part)
    assert odd_files(store) == [("consumequeue", "a link"), ("index", "a link")]
    found = fsck(store)
    assert found.counts["records"] == counts["records"]
    assert found.counts["cq_entries"] == found.counts["index_entries"] == 0
    assert "cq_missing" not in found.totals
    assert odd_files(store, follow_links=True) == []
    assert fsck(store, follow_links=True).counts == counts


def test_a_log_that_is_a_link_ends_the_check_and_says_how_to_go_on(tmp_path: Path) -> None:
    hostile_logs.write_log(tmp_path / "disk", hostile_logs.sound(5000))
    (tmp_path / "store" / "index").mkdir(parents=True)
    (tmp_path / "store" / "commitlog").symlink_to(tmp_path / "disk" / "commitlog")
    with pytest.raises(LinkError, match=r"follow_links=True, --follow-links, .*, or --commitlog"):
        fsck(tmp_path / "store")
    assert fsck(tmp_path / "store", follow_links=True).counts["records"] == 4
