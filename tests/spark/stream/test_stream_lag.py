"""How far a query is behind: what `stream_lag` makes of a query's progress and the store, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.stores.live_log import LiveLog

import rmqcore
from rmqcore import Message
from rmqcore.spark import stream_lag
from rmqcore.spark.stream.offsets import StreamOffset


def progress_of(start: dict[str, int] | None, end: dict[str, int]) -> dict[str, Any]:
    """As Spark hands it to Python: offsets as texts."""
    first = None if start is None else json.dumps(StreamOffset(start).as_dict())
    ours = {"startOffset": first, "endOffset": json.dumps(StreamOffset(end).as_dict())}
    return {"sources": [{"startOffset": "0", "endOffset": "17"}, ours]}


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    log = LiveLog(tmp_path / "broker-a")
    log.allocate(0)
    return log


def starts_of(log: LiveLog) -> list[int]:
    return [view.phy_offset for view in rmqcore.read(log.root).messages()]


def test_every_offset_of_a_log(log: LiveLog) -> None:
    while log.end < 3 * log.file_size:
        log.append(body=b"x" * 300)
    starts = starts_of(log)
    for at, start in enumerate([*starts, log.end]):
        (lag,) = stream_lag(progress_of({"broker-a": 0}, {"broker-a": start}), log.root)
        unread = len(starts) - at
        assert (lag.broker, lag.phy_offset, lag.read_bytes) == ("broker-a", start, start)
        assert (lag.end_phy_offset, lag.lag_bytes) == (log.end, log.end - start)
        assert lag.lag_ms == 1000 * max(0, unread - 1)
        assert (lag.lag_records, lag.damage) == (None, ())


def test_records_by_the_queues(tmp_path: Path) -> None:
    root = tmp_path / "broker-a"
    with rmqcore.open(root, services=False, mapped_file_size_consume_queue=20 * 7) as store:
        starts = [store.put(Message("Orders", b"x", queue_id=n % 3)).phy_offset for n in range(50)]
        store.wait_dispatched()
        for at, start in enumerate(starts):
            (lag,) = stream_lag(progress_of(None, {"broker-a": start}), root)
            assert (lag.lag_records, lag.read_bytes) == (50 - at, None)
        end = {"broker-a": store.max_phy_offset}
        (lag,) = stream_lag(progress_of(end, end), root)
        assert (lag.lag_records, lag.lag_bytes, lag.lag_ms, lag.read_bytes) == (0, 0, 0, 0)


def test_damage_that_is_ahead(log: LiveLog) -> None:
    """A stream that waits at damage looked as if it had read all: latestOffset was endOffset."""
    starts = [log.append(body=b"d" * 100) for _ in range(9)]
    log.write(starts[4] + 4, b"\xff" * 4)
    (lag,) = stream_lag(progress_of(None, {"broker-a": starts[4]}), log.root)
    assert (lag.end_phy_offset, lag.lag_bytes) == (log.end, log.end - starts[4])
    assert lag.lag_ms == 3000  # the first unread one is the sixth
    (damage,) = lag.damage
    assert (damage.start_phy_offset, damage.end_phy_offset) == (starts[4], starts[5])
    (lag,) = stream_lag(progress_of(None, {"broker-a": starts[5]}), log.root)
    assert (lag.lag_bytes, lag.damage) == (log.end - starts[5], ())


def test_stores_that_the_progress_does_not_know(tmp_path: Path, log: LiveLog) -> None:
    log.append()
    LiveLog(tmp_path / "broker-b").append()
    found = stream_lag(progress_of(None, {"broker-b": 0, "broker-z": 5}), tmp_path / "broker-*")
    assert [lag.broker for lag in found] == ["broker-b"]


def test_what_is_no_progress_of_one_stream(log: LiveLog) -> None:
    ours = progress_of(None, {"broker-a": 0})
    twice = {"sources": [ours["sources"][1]] * 2}
    log.append()
    with pytest.raises(ValueError, match="expected one rmqstore source, found 2 among the 2"):
        stream_lag(twice, log.root)
    assert len(stream_lag(twice, log.root, source=1)) == 1
    with pytest.raises(ValueError, match="found 1 among the 2"):
        stream_lag(ours, log.root, source=0)
    with pytest.raises(ValueError, match="found 0 among the 0"):
        stream_lag({"sources": []}, log.root)

    class Query:
        lastProgress = None  # noqa: N815 - Spark's name

    with pytest.raises(ValueError, match="the query has made no progress yet"):
        stream_lag(Query(), log.root)
