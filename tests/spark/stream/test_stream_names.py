"""A checkpoint keys its offsets by the names of stores: it goes on in the same stores, or says why it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.stores.live_log import LiveLog

from rmqcore.errors import DataLossError
from rmqcore.spark.options.source_options import SourceOptions, texts_of
from rmqcore.spark.rows.schema import columns_of
from rmqcore.spark.storage.locations import Paths, absolute_paths, find_stores
from rmqcore.spark.stream.limits import Allowance
from rmqcore.spark.stream.names import present_names
from rmqcore.spark.stream.offsets import StreamOffset
from rmqcore.spark.stream.stream_read import StreamRead


def stream(path: Paths, **given: Any) -> StreamRead:
    options = SourceOptions.parse(
        texts_of({"path": absolute_paths(path), "columns": "broker,queue_offset", **given})
    )
    return StreamRead(options, columns_of(options))


def batch(read: StreamRead, start: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """The end of the batch that begins at `start`, and its rows."""
    end = json.loads(json.dumps(read.latest(start, Allowance())))
    return end, rows(read, start, end)


def rows(read: StreamRead, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int]]:
    return [
        (row["broker"], row["queue_offset"])
        for part in read.parts(start, end)
        for found in read.read(part)
        for row in found.to_pylist()
    ]


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    log = LiveLog(tmp_path / "h1" / "mq" / "store")
    for _ in range(3):
        log.append()
    return log


def test_a_checkpoint_of_the_older_names_goes_on(log: LiveLog) -> None:
    """A store at h1/mq/store was `store`, and by the glob */mq/store `h1`: under its new name all was read a second time."""
    for path, former in ((log.root, "store"), (log.root.parents[2] / "*" / "mq" / "store", "h1")):
        end = log.end
        old = {"v": 1, "stores": {former: end}, "queues": {"TopicA": {former: {"0": 1}}}}
        log.append()
        new, found = batch(stream(str(path), failOnDataLoss=False), old)
        assert [broker for broker, _ in found] == ["mq"]
        assert new.pop("seals").keys() == {"mq"}
        assert new == {
            "v": 1,
            "stores": {"mq": log.end},
            "queues": {"TopicA": {"mq": {"0": 1}}},
            "paths": {"mq": str(log.root)},
        }
        # The batch that Spark runs again was planned by the earlier version: both ends have its names.
        assert rows(stream(str(path)), old, {"v": 1, "stores": {former: log.end}}) == found


def test_a_store_that_gets_a_longer_name_goes_on(log: LiveLog) -> None:
    """Beside h2/mq the store h1/mq has another name than alone; the same stream, a restarted one and one that ends now."""
    path = str(log.root.parents[2] / "*" / "mq" / "store")
    running = stream(path)
    start, found = batch(running, running.initial())
    assert found == [("mq", 0), ("mq", 1), ("mq", 2)]
    other = LiveLog(log.root.parents[2] / "h2" / "mq" / "store")
    other.append()
    log.append()
    begun, found = batch(running, start)
    assert found == [("mq", 3)]
    assert sorted(begun["stores"]) == ["h2/mq", "mq"], "the stream that runs keeps the name"
    restarted = stream(path)
    restarted.stop_at_present_end()
    middle, found = batch(restarted, start)
    assert found == [("h1/mq", 3)]
    end, found = batch(restarted, middle)
    assert found == [("h2/mq", 0)]
    assert end["paths"] == {"h1/mq": str(log.root), "h2/mq": str(other.root)}
    assert rows(restarted, start, begun) == [("h1/mq", 3)]


def test_another_store_of_the_name_is_refused(log: LiveLog) -> None:
    """h1 was not mounted, h2 was: under the name of h1 its messages before the offset of h1 would have been left out."""
    start, _ = batch(stream(log.root), stream(log.root).initial())
    other = LiveLog(log.root.parents[2] / "h2" / "mq" / "store")
    for _ in range(5):
        other.append()
    told = (
        f"the store mq at {log.root}, which is not read now, but {other.root} has that name: use "
        f"mq={other.root} if"
    )
    for strict in (True, False):
        with pytest.raises(ValueError, match=told):
            stream(other.root, failOnDataLoss=strict).latest(start, Allowance())
    _, found = batch(stream(f"mq={other.root}"), start)
    assert [at for _, at in found] == [3, 4], "the user says that it is the same store"
    with pytest.raises(DataLossError, match="the store was deleted"):
        stream(f"other={other.root}").latest(start, Allowance())


def test_names_that_may_mean_several_stores_are_refused(tmp_path: Path) -> None:
    logs = [LiveLog(tmp_path / name / "store") for name in ("a", "b")]
    for log in logs:
        log.append()
    read = stream([str(log.root) for log in logs])
    with pytest.raises(
        ValueError,
        match=r"the store store, which could be .*/a/store or .*/b/store: name it, as in store=",
    ):
        read.latest({"v": 1, "stores": {"store": 0}}, Allowance())
    with pytest.raises(
        ValueError,
        match=r"has a and store, and either could be the store a at .*/a/store: name the stores",
    ):
        stream(logs[0].root).latest({"v": 1, "stores": {"a": 0, "store": 0}}, Allowance())


def test_present_names(tmp_path: Path) -> None:
    for path in ("a/store", "x=y"):
        (tmp_path / path / "commitlog").mkdir(parents=True)
    stores = find_stores([f"{tmp_path}/a/store", f"given={tmp_path}/x=y"])
    root = f"{tmp_path}/a/store"
    assert present_names(["a", "given", "gone"], {}, stores) == {
        "a": "a",
        "given": "given",
        "gone": "gone",
    }
    assert present_names(["store"], {}, stores) == {"store": "a"}
    assert present_names(["b"], {"b": root}, stores) == {"b": "a"}
    assert present_names(["store"], {"store": "/gone"}, stores) == {"store": "store"}
    assert present_names(["given"], {"given": "/elsewhere"}, stores) == {"given": "given"}


def test_offsets_of_another_version_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"paths of a stream offset are \['x'\], expected \{broker: path\}"
    ):
        StreamOffset.parse({"v": 1, "stores": {}, "paths": ["x"]})
