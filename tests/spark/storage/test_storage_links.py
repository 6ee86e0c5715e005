"""Links in the stores that Spark reads: followed only where the option says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.errors import LinkError
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.storage.locations import find_stores


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=1 << 16) as opened:
        opened.put(Message("T", b"x")).raise_for_status()
        while opened.dispatch_once():
            pass
        opened.flush()
    return root


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index", "checkpoint"])
def test_a_part_that_is_a_link(store: Path, tmp_path: Path, part: str) -> None:
    """A store that somebody sent had a link for its commitlog; Spark read what it led to without being asked."""
    (store / "index").mkdir(exist_ok=True)
    elsewhere = tmp_path / "elsewhere"
    (store / part).rename(elsewhere)
    (store / part).symlink_to(elsewhere)
    for path in (str(store), str(tmp_path / "st*"), f"a={store}"):
        with pytest.raises(LinkError) as caught:
            find_stores(path)
        assert caught.value.filename == str(store / part)
        assert ("followLinks" in str(caught.value)) == (part != "checkpoint")
    if part != "checkpoint":
        source = JobSource.open(str(store), {"followLinks": True})
        assert [file.size for file in source.stores[0].log_files()] == [1 << 16]
        assert source.stores[0].names("consumequeue") == {"T": True}
        assert len(source.splits()) == 1
    else:
        with pytest.raises(LinkError):
            find_stores(str(store), follow_links=True)


def test_a_root_that_is_a_link_and_a_log_that_is_named(store: Path, tmp_path: Path) -> None:
    """The user has named both."""
    (tmp_path / "root").symlink_to(store)
    assert len(find_stores(str(tmp_path / "root"))[0].log_files()) == 1
    disk = tmp_path / "disk"
    (store / "commitlog").rename(disk)
    (tmp_path / "log").symlink_to(disk)
    assert len(find_stores(str(tmp_path / "log"))[0].log_files()) == 1


def test_a_topic_that_is_a_link(store: Path, tmp_path: Path) -> None:
    (store / "consumequeue" / "T").rename(tmp_path / "topic")
    (store / "consumequeue" / "T").symlink_to(tmp_path / "topic")
    for follow_links in (False, True):
        (found,) = find_stores(str(store), follow_links=follow_links)
        with pytest.raises(LinkError, match="consumequeue/T: a link"):
            found.names("consumequeue")


def test_the_option() -> None:
    assert not SourceOptions.parse({"path": "/s"}).follow_links
    assert SourceOptions.parse({"path": "/s", "FOLLOWLINKS": "true"}).follow_links
    with pytest.raises(ValueError, match="followLinks"):
        SourceOptions.parse({"path": "/s", "followLinks": "sometimes"})
