"""First files of a log cut to no bytes: a new stream began behind them and said nothing; a batch of a remote store too."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.remote.memory_stores import MemoryStores, memory_stores
from support.spark.followed_stores import FollowedStores

import rmqcore
from rmqcore import Message
from rmqcore.cli import main
from rmqcore.errors import DataLossError
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.stream.cursor import StreamRules
from rmqcore.spark.stream.files import warn_once
from rmqcore.spark.stream.start import StreamStart

FILE_SIZE = 8192
PAST = StreamStart(timestamp_ms=1)
LENIENT = StreamRules(fail_on_data_loss=False)


@pytest.fixture
def memory() -> Iterator[MemoryStores]:
    with memory_stores() as found:
        yield found


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, tmp_path: Path, memory: MemoryStores) -> str:
    """A store whose first two files have no bytes."""
    warn_once.cache_clear()
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=FILE_SIZE) as store:
        for _ in range(100):
            store.put(Message("T", b"x" * 200)).raise_for_status()
    for number in range(2):
        os.truncate(root / "commitlog" / f"{number * FILE_SIZE:020}", 0)
    return str(root) if request.param == "local" else memory.put(root)


@pytest.mark.parametrize("start", [StreamStart(), PAST, StreamStart(phy_offset=0)])
def test_a_stream_from_the_first_message_fails(place: str, start: StreamStart) -> None:
    with pytest.raises(DataLossError, match=r"store|0 bytes|deleted"):
        FollowedStores(place, start=start)


def test_a_stream_from_the_end_has_lost_nothing(place: str) -> None:
    assert FollowedStores(place, start=StreamStart(latest=True)).at


def test_without_fail_on_data_loss_it_warns(place: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        stream = FollowedStores(place, LENIENT)
    assert "its file has 0 bytes" in caplog.text
    assert set(stream.at.values()) == {2 * FILE_SIZE}


def test_a_batch_has_the_ranges(place: str) -> None:
    (plan,) = JobSource.open(place, {}).plans()
    assert [(gap.kind, gap.start_phy_offset, gap.end_phy_offset) for gap in plan.gaps] == [
        ("missing_file", 0, FILE_SIZE),
        ("missing_file", FILE_SIZE, 2 * FILE_SIZE),
    ]
    options = {"startingPhyOffset": str(2 * FILE_SIZE)}
    (plan,) = JobSource.open(place, options).plans()
    assert plan.gaps == []


@pytest.mark.parametrize(
    "words",
    [["cat"], ["tail", "-n", "500"], ["stats"], ["info"], ["fsck"], ["lookup", "0"]],
    ids=lambda words: words[0],
)
def test_commands_end_with_2(place: str, words: list[str]) -> None:
    if words[0] != "tail" or "://" not in place:  # tail reads local stores alone
        assert main([words[0], place, *words[1:]]) == 2
