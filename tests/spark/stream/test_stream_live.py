"""Where a stream stops in a live log, what damage does to it, and what it says when something is gone."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.spark.followed_stores import SMALL, FollowedStores
from support.stores.live_log import BLANK_MAGIC, START_MS, LiveLog

import rmqcore
from rmqcore import Message
from rmqcore.errors import DataLossError
from rmqcore.spark.stream.cursor import StreamRules
from rmqcore.spark.stream.files import StreamFiles, warn_once
from rmqcore.spark.stream.limits import Allowance
from rmqcore.spark.stream.start import StreamStart

TOLERANT = StreamRules(fail_on_data_loss=False)


@pytest.fixture(autouse=True)
def forget_warnings() -> None:
    warn_once.cache_clear()


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    log = LiveLog(tmp_path / "broker-a")
    log.allocate(0)
    return log


def followed(log: LiveLog, *args: Any, **kwargs: Any) -> FollowedStores:
    return FollowedStores(log.root, *args, **kwargs)


def offsets(rows: list[tuple[str, int]]) -> list[int]:
    return [phy_offset for _, phy_offset in rows]


def read_all(log: LiveLog) -> list[int]:
    return [view.phy_offset for view in rmqcore.read(log.root).messages()]


# ---- the end of the log -----------------------------------------------------------------------------


def test_any_part_of_a_record_is_waited_for(log: LiveLog) -> None:
    first = log.append(tags="TagA")
    stream = followed(log)
    assert offsets(stream.batch()) == [first]
    raw = log.record(body=b"", tags="TagB")
    for written in range(len(raw)):
        log.write(log.end, raw[:written])
        assert stream.batch() == []
    log.write(log.end, raw)
    assert offsets(stream.batch()) == [log.finish(raw)]


def test_the_newest_record_must_have_its_crc(log: LiveLog) -> None:
    log.append()
    stream = followed(log)
    stream.batch()
    bad = log.append(body=b"y" * 100)
    log.write(bad + 100, b"Z")
    assert stream.batch() == []
    good = log.append()
    # Another record follows, so nobody writes the bad record any more: it is a row, and its column corrupt_reason says why.
    assert offsets(stream.batch()) == [bad, good]


def test_the_newest_records_all_fail_their_crcs(log: LiveLog) -> None:
    stream = followed(log)
    bad = [log.append(body=b"y" * 100) for _ in range(3)]
    for at in bad:
        log.write(at + 100, b"Z")
    assert stream.batch() == []
    good = log.append()
    assert offsets(stream.batch()) == [*bad, good]


def test_damage_in_the_live_file_is_never_passed_before_the_file_is_full(log: LiveLog) -> None:
    """Behind a half-written record lay sound records of an earlier life of the file, in their right places.

    A reader that looks for the next sound record finds those, and has passed the half-written record when it is finished.
    """
    for _ in range(3):
        log.append(body=b"o" * 100)
    stale = log.path(0).read_bytes()
    log.end, log.count = 0, 0
    log.path(0).write_bytes(
        stale[:4] + bytes(4) + stale[8:]
    )  # the first record is being written: MAGIC is not there yet
    stream = followed(log)
    assert stream.batch() == []
    log.path(0).write_bytes(bytes(log.file_size))
    at = log.append(body=b"new")
    assert offsets(stream.batch()) == [at]


def test_damage_is_passed_when_the_log_goes_on_in_another_file(log: LiveLog) -> None:
    stream = followed(log)
    starts = [log.append(body=b"d" * 100) for _ in range(5)]
    log.write(starts[2], b"\xff" * 50)
    assert offsets(stream.drain()) == starts[:2]
    while log.end < log.file_size:
        log.append()
    assert stream.drain() == [("broker-a", at) for at in read_all(log)[2:]]
    assert starts[2] not in offsets(stream.rows)
    assert starts[3] in offsets(stream.rows)


def test_a_place_where_the_stream_waits_is_said_once(
    log: LiveLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.append()
    log.write(log.end, b"\xff" * 50)
    stream = followed(log)
    with caplog.at_level(logging.WARNING):
        stream.batch()
        assert not caplog.messages  # a writer may still be writing it
        for _ in range(3):
            stream.batch()
    (said,) = caplog.messages
    assert said.startswith(
        f"store broker-a: the record at CommitLog offset {log.end} is incomplete"
    )


def test_without_a_guard_a_store_at_rest_is_read_as_any_reader_does(log: LiveLog) -> None:
    starts = [log.append(body=b"d" * 100) for _ in range(60)]
    log.write(starts[-3], b"\xff" * 50)
    stream = followed(log, StreamRules("none"))
    assert offsets(stream.drain(records=7)) == read_all(log)
    assert starts[-1] in offsets(stream.rows)
    assert starts[-3] not in offsets(stream.rows)


def test_up_to_what_the_queues_hold(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=16 * 1024) as store:
        stream = FollowedStores(root, StreamRules("consumequeue"))
        put = [
            store.put(Message("Orders", b"x" * 1000, queue_id=n % 3)).phy_offset for n in range(50)
        ]
        assert stream.drain() == []
        store.dispatch_once()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
        put_later = store.put(Message("Orders", b"later")).phy_offset
        assert offsets(stream.drain(records=8)) == put
        store.dispatch_once()
        assert offsets(stream.drain()) == [put_later]


# ---- files that roll, and files that are gone -------------------------------------------------------


@pytest.mark.parametrize("limit", [{"records": 1}, {"byte_count": 1}, {}])
def test_a_consumed_file_may_go_with_its_blank(log: LiveLog, limit: dict[str, int]) -> None:
    """A batch that ended with the last record of a file left the stream at the BLANK behind it.

    The cleaner took the file, and the stream reported a loss of bytes that held no record.
    """
    while log.end < log.file_size:
        log.append(body=b"x" * 300)
    in_first = [at for at in read_all(log) if at < log.file_size]
    stream = followed(log)
    while len(stream.rows) < len(in_first):
        stream.batch(**limit)
    assert stream.at["broker-a"] >= log.file_size
    log.path(0).unlink()
    stream.restart()
    stream.drain()
    assert len(stream.rows) == log.count


def test_a_blank_without_a_next_file_is_not_passed(log: LiveLog) -> None:
    """A crash came between BLANK and the next file; recovery may take the BLANK away and write records in its place."""
    first = log.append()
    stream = followed(log)
    room = log.file_size - log.end
    log.write(log.end, room.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big", signed=True))
    assert offsets(stream.drain()) == [first]
    assert stream.at["broker-a"] == log.end
    second = log.append()
    assert offsets(stream.drain()) == [second]


def test_a_file_in_the_middle_that_is_not_there(log: LiveLog) -> None:
    fill(log, 4)
    first_file = [at for at in read_all(log) if at < log.file_size]
    stream = followed(log)
    start, end = stream.at, stream.follower.latest(stream.at, Allowance())
    log.path(log.file_size).unlink()
    for limit in ({"records": 20}, {}):
        with pytest.raises(
            DataLossError,
            match="offset 4096 cannot be read, the first one available is offset 8192",
        ):
            stream.batch(**limit)
    with pytest.raises(
        DataLossError, match="offset 4096 cannot be read, the first one available is offset 8192"
    ):
        stream.read(start, end)
    stream.rules = TOLERANT
    stream.restart()
    assert offsets(stream.drain(records=7)) == read_all(log)
    assert offsets(stream.rows)[: len(first_file)] == first_file


def fill(log: LiveLog, files: int) -> None:
    while log.end < files * log.file_size:
        log.append(body=b"x" * 300)


def test_a_start_that_was_cleaned_away_is_an_error(log: LiveLog) -> None:
    fill(log, 3)
    stream = followed(log)
    stream.batch(records=3)
    log.path(0).unlink()
    with pytest.raises(DataLossError) as caught:
        stream.batch()
    error = caught.value
    assert (error.broker, error.wanted, error.available) == (
        "broker-a",
        stream.at["broker-a"],
        4096,
    )
    assert "its file was deleted" in str(error)


def test_or_a_warning(log: LiveLog, caplog: pytest.LogCaptureFixture) -> None:
    fill(log, 3)
    stream = followed(log, TOLERANT)
    before = stream.batch(records=3)
    log.path(0).unlink()
    assert stream.drain(records=5) == [("broker-a", at) for at in read_all(log)]
    assert stream.rows[: len(before)] == before
    assert "available is offset 4096" in caplog.messages[0]


def test_a_file_that_goes_between_offset_and_plan(log: LiveLog) -> None:
    fill(log, 4)
    stream = followed(log)
    start, end = stream.at, stream.follower.latest(stream.at, Allowance())
    log.path(0).unlink()
    with pytest.raises(
        DataLossError, match="offset 0 cannot be read, the first one available is offset 4096"
    ):
        stream.read(start, end)
    log.path(log.file_size).rename(log.root / "away")
    stream.rules = TOLERANT
    stream.restart()
    assert stream.read(start, end) == [("broker-a", at) for at in read_all(log)]


def test_a_file_in_the_middle_that_goes_while_it_is_walked(
    log: LiveLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 4)
    stream = followed(log)
    listed = StreamFiles.refresh

    def refresh(self: StreamFiles) -> None:
        listed(self)
        log.path(0).unlink(missing_ok=True)

    monkeypatch.setattr(StreamFiles, "refresh", refresh)
    with pytest.raises(DataLossError, match="available is offset 4096"):
        stream.batch(records=5)


def test_a_file_that_is_listed_and_not_there(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of an object store may be late; the stream listed the file again and again and never came to an end."""
    fill(log, 4)
    files = rmqcore.read(log.root).log_files()
    log.path(0).unlink()
    monkeypatch.setattr(
        "rmqcore.spark.storage.store_location.StoreLocation.log_files", lambda self: files
    )
    stream = followed(log)
    with pytest.raises(
        DataLossError, match="offset 0 cannot be read, the first one available is offset 4096"
    ):
        stream.batch(records=5)
    monkeypatch.undo()
    stream.rules = TOLERANT
    stream.restart()
    assert offsets(stream.drain(records=5)) == read_all(log)


def test_a_log_that_was_cut_and_written_anew_is_told(log: LiveLog) -> None:
    """After a power cut the broker's log was shorter than what had been read; a stream went on in the middle of a record."""
    for _ in range(6):
        log.append(body=b"x" * 200)
    stream = followed(log)
    stream.drain()
    log.path(0).write_bytes(bytes(log.file_size))
    log.end = log.count = 0
    for _ in range(4):
        log.append(body=b"y" * 333)
    stream.restart()
    with pytest.raises(DataLossError, match="the log was cut"):
        stream.batch()
    stream.rules = TOLERANT
    stream.restart()
    stream.batch()
    at = log.append()
    assert offsets(stream.batch()) == [at]


def test_a_log_that_ends_before_the_stream(log: LiveLog) -> None:
    fill(log, 3)
    stream = followed(log)
    stream.drain()
    for path in sorted(log.path(0).parent.iterdir())[1:]:
        path.unlink()
    with pytest.raises(DataLossError, match=r"available is offset 4096 \(the log ends before it\)"):
        stream.batch()


def test_a_log_that_ends_before_the_stream_is_followed_from_its_end(log: LiveLog) -> None:
    """With failOnDataLoss=false a stream waited until the log was as long as before, and never gave what came till then."""
    fill(log, 3)
    stream = followed(log, TOLERANT)
    stream.drain()
    before = len(stream.rows)
    cut = read_all(log)[5]
    for path in sorted(log.path(0).parent.iterdir())[1:]:
        path.unlink()
    log.write(cut, bytes(log.file_size - cut))
    log.end = cut
    for restarts in (False, True):
        if restarts:
            stream.restart()
        stream.batch()
        assert stream.at == {"broker-a": log.end}
        at = log.append()
        assert offsets(stream.batch()) == [at]
    assert len(stream.rows) == before + 2


def test_available_now_looks_at_a_log_that_was_cut(log: LiveLog) -> None:
    """The nightly query stopped at the end of a log that was shorter than its offset, and so had nothing to do, every night."""
    fill(log, 3)
    stream = followed(log)
    stream.drain()
    for path in sorted(log.path(0).parent.iterdir())[1:]:
        path.unlink()
    stream.restart()
    stream.follower.stop_at_present_end()
    with pytest.raises(DataLossError, match="the log ends before it"):
        stream.batch()


def test_a_batch_that_is_read_again_from_a_log_that_was_written_anew(log: LiveLog) -> None:
    """Spark reads a planned batch again without asking for an offset: it began in the middle of a record, and left it out."""
    for _ in range(8):
        log.append(body=b"x" * 200)
    stream = followed(log)
    stream.batch(records=3)
    start, end = stream.at, stream.follower.latest(stream.at, Allowance(3))
    stream.restart()
    assert len(stream.read(start, end)) == 3
    log.path(0).write_bytes(bytes(log.file_size))
    log.end = log.count = 0
    for _ in range(8):
        log.append(body=b"y" * 333)
    stream.restart()
    with pytest.raises(DataLossError, match="so the log was cut"):
        stream.read(start, end)


# ---- stores -----------------------------------------------------------------------------------------


def test_a_store_that_appears_is_read_from_its_beginning(tmp_path: Path, log: LiveLog) -> None:
    stream = FollowedStores(tmp_path / "broker-*", start=StreamStart(latest=True))
    at = log.append()
    other = LiveLog(tmp_path / "broker-b")
    there = other.append()
    stream.batch()
    # The beginning of the store is in an offset before any of its rows: a replay after a restart must know it.
    assert stream.at["broker-b"] == 0
    stream.drain()
    assert stream.rows == [("broker-a", at), ("broker-b", there)]


def test_a_store_that_disappears(tmp_path: Path, log: LiveLog) -> None:
    other = LiveLog(tmp_path / "broker-b")
    other.append()
    stream = FollowedStores(tmp_path / "broker-*")
    stream.drain()
    shutil.move(other.root, tmp_path / "elsewhere")
    log.append()
    with pytest.raises(DataLossError, match=r"store broker-b: .*the store was deleted"):
        stream.batch()
    stream.rules = TOLERANT
    stream.restart()
    assert len(stream.batch()) == 1
    shutil.move(tmp_path / "elsewhere", other.root)
    later = other.append()
    # The stream has kept the store's offset.
    assert stream.drain() == [("broker-b", later)]


def test_a_store_without_files_begins_with_its_first_one(tmp_path: Path) -> None:
    (tmp_path / "broker-a" / "commitlog").mkdir(parents=True)
    stream = FollowedStores(tmp_path / "broker-a")
    assert stream.at == {}
    assert stream.batch() == []
    log = LiveLog(tmp_path / "broker-a")
    log.end = 3 * log.file_size  # a slave that begins where its master is
    at = log.append()
    assert offsets(stream.drain()) == [at]


# ---- where a stream begins --------------------------------------------------------------------------


@pytest.fixture
def many(log: LiveLog) -> LiveLog:
    fill(log, 3)
    log.append()
    return log


@pytest.mark.parametrize("index", [0, 1, 7, 12, -1])
def test_by_time(many: LiveLog, index: int) -> None:
    starts = read_all(many)
    index %= len(starts)
    start = StreamStart(timestamp_ms=START_MS + 1000 * index - 999)
    assert offsets(followed(many, start=start).drain()) == starts[index:]


def test_by_a_time_to_come(many: LiveLog) -> None:
    stream = followed(many, start=StreamStart(timestamp_ms=START_MS + 10**9))
    assert stream.drain() == []
    at = many.append()
    assert offsets(stream.drain()) == [at]


@pytest.mark.parametrize("behind", [0, 1, 50])
def test_by_offset(many: LiveLog, behind: int) -> None:
    starts = read_all(many)
    for index in (0, 5, 11, len(starts) - 2):
        wanted = starts[index] + behind
        stream = followed(many, start=StreamStart(phy_offset={"broker-a": wanted}))
        assert offsets(stream.drain()) == [at for at in starts if at >= wanted]


def test_by_an_offset_that_is_not_there(many: LiveLog) -> None:
    with pytest.raises(DataLossError, match="the log ends before it"):
        followed(many, start=StreamStart(phy_offset=many.end + 1))
    assert followed(many, start=StreamStart(phy_offset=many.end)).drain() == []
    many.path(0).unlink()
    with pytest.raises(DataLossError, match="available is offset 4096"):
        followed(many, start=StreamStart(phy_offset=0))
    stream = followed(many, TOLERANT, start=StreamStart(phy_offset=0))
    assert offsets(stream.drain()) == read_all(many)


# ---- splits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_partition_bytes", [1, 300, 4000, 1 << 20])
def test_any_number_of_splits(tmp_path: Path, max_partition_bytes: int) -> None:
    log = LiveLog(tmp_path / "broker-a", file_size=1 << 15)
    while log.end < 3 * log.file_size:
        log.append(body=b"x" * (log.count % 900))
    sizing = replace(SMALL, max_partition_bytes=max_partition_bytes)
    stream = followed(log, sizing=sizing)
    for records in (1, 17, 70, None):
        stream.batch(records)
    assert offsets(stream.rows) == read_all(log)


def test_a_task_that_sees_less_than_the_planner_fails(log: LiveLog) -> None:
    """On a network filesystem a task read the last page of the log as it was before: its rows were lost."""
    for _ in range(3):
        log.append()
    stream = followed(log)
    start, end = stream.at, stream.follower.latest(stream.at, Allowance())
    last = read_all(log)[-1]
    log.write(last, bytes(log.end - last))
    with pytest.raises(DataLossError, match=f"extended to {log.end} when the batch was planned"):
        stream.read(start, end)
