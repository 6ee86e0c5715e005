"""Damage in the newest file: a stream that waits says so, one that skips gives the rows of a batch, and one that fails names it.

An AvailableNow query ended with success at damage in the newest file: 71,492 rows where a batch gave 87,046, and the progress
said that latestOffset was endOffset.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.spark.followed_stores import SMALL, FollowedStores
from support.spark.spark_tables import read_table
from support.stores.live_log import LiveLog

import rmqcore
from rmqcore import Message
from rmqcore.errors import DamagedStreamError
from rmqcore.spark.stream.cursor import OnDamage, StreamRules
from rmqcore.spark.stream.files import warn_once

WAIT, SKIP, FAIL = (StreamRules(on_damage=rule) for rule in ("wait", "skip", "fail"))
Starts = list[int]


@pytest.fixture(autouse=True)
def forget_warnings() -> None:
    warn_once.cache_clear()


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    log = LiveLog(tmp_path / "broker-a", file_size=1 << 15)
    log.allocate(0)
    return log


@pytest.fixture
def starts(log: LiveLog) -> Starts:
    """Thirty records, of which the eleventh has lost its MAGIC."""
    starts = [log.append(body=b"d" * 100) for _ in range(30)]
    log.write(starts[10] + 4, b"\xff" * 4)
    return starts


def followed(log: LiveLog, rules: StreamRules = WAIT) -> FollowedStores:
    return FollowedStores(log.root, rules, sizing=SMALL)


def offsets(rows: list[tuple[str, int]]) -> list[int]:
    return [phy_offset for _, phy_offset in rows]


def batch(log: LiveLog) -> list[int]:
    """The rows of a batch read."""
    return [row["phy_offset"] for row in read_table(log.root, columns="phy_offset")]


def available_now(stream: FollowedStores, records: int | None = None) -> list[int]:
    """The rows of a query with Trigger.AvailableNow; what it raises comes after them."""
    before = len(stream.rows)
    stream.restart()
    stream.follower.stop_at_present_end()
    try:
        stream.drain(records)
    finally:
        stream.restart()
    return offsets(stream.rows[before:])


# ---- AvailableNow -----------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [None, 1, 4, 10])
def test_available_now_never_ends_well_at_damage(
    log: LiveLog, starts: Starts, records: int | None
) -> None:
    stream = followed(log)
    with pytest.raises(DamagedStreamError):
        available_now(stream, records)
    assert offsets(stream.rows) == starts[:10]
    with pytest.raises(DamagedStreamError) as caught:  # the next night
        available_now(stream, records)
    assert offsets(stream.rows) == starts[:10]
    error = caught.value
    assert (error.broker, error.path) == ("broker-a", f"commitlog/{0:020}")
    assert (error.phy_offset, error.next_phy_offset) == (starts[10], starts[11])
    assert (error.field, error.found) == ("MAGIC", "0xFFFFFFFF")
    assert "onDamage=skip" in str(error)
    # The offset is one with which another onDamage goes on.
    stream.rules = SKIP
    assert available_now(stream, records) == starts[11:]
    assert offsets(stream.rows) == batch(log)


@pytest.mark.parametrize("records", [None, 1, 4])
def test_available_now_goes_past(log: LiveLog, starts: Starts, records: int | None) -> None:
    stream = followed(log, SKIP)
    assert available_now(stream, records) == batch(log) == starts[:10] + starts[11:]


def test_available_now_fails(log: LiveLog, starts: Starts) -> None:
    stream = followed(log, FAIL)
    with pytest.raises(DamagedStreamError, match=f"@{starts[10]}: MAGIC is 0xFFFFFFFF"):
        available_now(stream)
    assert stream.rows == []
    # In smaller batches those before are given.
    with pytest.raises(DamagedStreamError):
        available_now(stream, 4)
    assert offsets(stream.rows) == starts[:8]


def test_what_is_sound_in_other_stores_comes_first(
    tmp_path: Path, log: LiveLog, starts: Starts
) -> None:
    other = LiveLog(tmp_path / "broker-b")
    for _ in range(25):
        other.append()
    stream = FollowedStores(tmp_path / "broker-*", WAIT)
    with pytest.raises(DamagedStreamError, match="store broker-a"):
        available_now(stream, 6)
    assert len(stream.rows) == 10 + 25


def test_damage_at_the_beginning_of_the_newest_file(log: LiveLog) -> None:
    """The search of the file before, which is full, stood for one of the newest file: the damage was forgotten."""
    first = 0
    while log.end < log.file_size:
        first = log.append(body=b"d" * 300)
    log.append()
    log.write(first, b"\xff")
    stream = followed(log)
    with pytest.raises(DamagedStreamError, match=f"@{first}"):
        available_now(stream, 7)
    assert offsets(stream.rows) == batch(log)[:-1]


def test_zeros_between_records_are_damage_too(log: LiveLog, starts: Starts) -> None:
    """A page that never came to the disk looks like the end of the log."""
    log.write(starts[20], bytes(starts[22] - starts[20]))
    log.write(starts[10] + 4, log.path(0).read_bytes()[starts[9] + 4 : starts[9] + 8])  # as it was
    stream = followed(log)
    with pytest.raises(DamagedStreamError, match=f"@{starts[20]}"):
        available_now(stream)
    assert offsets(stream.rows) == starts[:20]
    stream.rules = SKIP
    assert available_now(stream) == starts[22:]
    assert offsets(stream.rows) == batch(log)


@pytest.mark.parametrize("records", [None, 1, 7])
def test_a_record_that_looks_unfinished_before_damage(log: LiveLog, records: int | None) -> None:
    """Its properties ended in zeros, so it was waited for, and the query never came to the damage: it ended with success."""
    starts = [log.append(body=b"d" * 100, tags="TagA") for _ in range(9)]
    log.write(starts[5] - 1, bytes(starts[6] - starts[5] + 1))
    stream = followed(log)
    with pytest.raises(DamagedStreamError, match=f"@{starts[5]}"):
        available_now(stream, records)
    assert offsets(stream.rows) == starts[:5]
    assert available_now(followed(log, SKIP), records) == batch(log)
    stream = followed(log)
    for _ in range(12):
        stream.batch(records)
    assert offsets(stream.rows) == starts[:5]


def test_half_a_record_of_a_live_writer_is_no_damage(
    log: LiveLog, caplog: pytest.LogCaptureFixture
) -> None:
    first = log.append()
    raw = log.record(body=b"r" * 300, tags="TagA")
    for rules in (WAIT, SKIP, FAIL):
        for written in (1, 5, 40, 200, len(raw) - 1):
            log.write(log.end, raw[:written] + bytes(len(raw) - written))
            stream = followed(log, rules)
            assert available_now(stream) == [first]
            assert available_now(stream) == []
    (said,) = caplog.messages
    assert said.startswith(
        f"store broker-a: the query ends at CommitLog offset {log.end}, in front of an incomplete record"
    )
    log.write(log.end, raw)
    for rules in (WAIT, SKIP, FAIL):
        assert available_now(followed(log, rules)) == [first, log.end]


def test_the_newest_record_is_waited_for_until_it_has_its_crc(log: LiveLog) -> None:
    """A batch gives a record that fails its CRC. It may be one that is being written: no stream gives it as the newest one."""
    first, bad = log.append(), log.append(body=b"y" * 100)
    log.write(bad + 100, b"Z")
    for rules in (WAIT, SKIP, FAIL):
        assert available_now(followed(log, rules)) == [first]
    last = log.append()
    for rules in (WAIT, SKIP, FAIL):
        assert available_now(followed(log, rules)) == [first, bad, last] == batch(log)


def test_a_failing_crc_and_damage_behind_it(log: LiveLog, starts: Starts) -> None:
    log.write(starts[8] + 90, b"Z")
    log.write(starts[9] + 90, b"Z")
    stream = followed(log)
    with pytest.raises(DamagedStreamError, match=f"@{starts[8]}: BODYCRC") as caught:
        available_now(stream)
    assert caught.value.next_phy_offset == starts[11]
    assert offsets(stream.rows) == starts[:8]
    stream.rules = SKIP
    for records in (1, None):
        available_now(stream, records)
    assert offsets(stream.rows) == batch(log) == starts[:10] + starts[11:]


def test_a_log_that_goes_on_in_a_file_whose_beginning_is_gone(log: LiveLog) -> None:
    """The file looked as one that was allocated ahead: the stream took the file before it for the newest one."""
    last = 0
    while log.end < log.file_size:
        last = log.append(body=b"d" * 500)
    assert last >= log.file_size
    second = [last, *(log.append(body=b"d" * 100) for _ in range(5))]
    log.write(last, bytes(second[1] - last))
    for end in (None, 8):
        if end is not None:  # and the BLANK of the first file
            blank = max(at for at in batch(log) if at < log.file_size) + len(
                log.record(body=b"d" * 500)
            )
            log.write(blank, b"\xff" * end)
        stream = followed(log)
        with pytest.raises(DamagedStreamError) as caught:
            available_now(stream)
        assert caught.value.next_phy_offset == second[1]
        assert available_now(followed(log, SKIP)) == batch(log)
        stream.rules = SKIP
        available_now(stream, 3)
        assert offsets(stream.rows) == batch(log)
        assert offsets(stream.rows)[-5:] == second[1:]


# ---- triggers by time -------------------------------------------------------------------------------


def test_a_stream_that_waits_says_so_once(
    log: LiveLog, starts: Starts, caplog: pytest.LogCaptureFixture
) -> None:
    stream = followed(log)
    for _ in range(9):
        stream.batch()
    assert offsets(stream.rows) == starts[:10]
    (said,) = caplog.messages
    assert said.startswith(
        f"store broker-a: the stream waits at damage in the newest file, commitlog/{0:020}@{starts[10]}: record, "
        f"{starts[11] - starts[10]} bytes: MAGIC is 0xFFFFFFFF"
    )
    assert f"the log continues behind it, at CommitLog offset {starts[11]}." in said
    (row,) = read_table(log.root, table="corrupt")
    assert (row["kind"], row["start_phy_offset"], row["end_phy_offset"]) == (
        "record",
        starts[10],
        starts[11],
    )
    assert "onDamage=skip" in said


def test_progress_shows_that_the_log_goes_on(log: LiveLog, starts: Starts) -> None:
    stream = followed(log)
    stream.batch()
    assert stream.follower.ends() == {"broker-a": starts[11]}
    assert stream.at == {"broker-a": starts[10]}
    lost = starts[11] - starts[10]
    (met,) = stream.follower.met.report().values()
    assert (met["ranges"], met["bytes"]) == (1, lost)
    assert f"@{starts[10]}: record, {lost} bytes" in met["waiting"]
    stream.rules = SKIP
    stream.restart()
    stream.batch(records=3)
    assert stream.follower.met.report() == {"broker-a": {"ranges": 1, "bytes": lost}}
    stream.drain(records=3)
    assert stream.follower.met.report() == {"broker-a": {"ranges": 1, "bytes": lost}}
    assert stream.follower.ends() == {"broker-a": log.end}


def test_a_stream_that_skips_says_so(
    log: LiveLog, starts: Starts, caplog: pytest.LogCaptureFixture
) -> None:
    log.write(starts[20] + 4, b"\xff" * 4)
    stream = followed(log, SKIP)
    stream.drain(records=12)
    assert offsets(stream.rows) == batch(log)
    assert [re.sub(r" commitlog/.*", "", text) for text in caplog.messages] == [
        f"store broker-a: the stream skips damage in the newest file, 1 ranges with {size} bytes, "
        "the first"
        for size in (starts[11] - starts[10], starts[21] - starts[20])
    ]


def test_fail_by_time(log: LiveLog, starts: Starts) -> None:
    stream = followed(log, FAIL)
    stream.batch(records=9)
    for limit in (None, 1):
        with pytest.raises(DamagedStreamError, match=f"@{starts[10]}"):
            stream.batch(limit)
    assert offsets(stream.rows) == starts[:9]
    stream.rules = SKIP
    stream.restart()
    stream.drain()
    assert offsets(stream.rows) == batch(log)


@pytest.mark.parametrize("looks", range(1, 8))
def test_zeros_that_become_damage_while_the_stream_stands_there(log: LiveLog, looks: int) -> None:
    """The end of a log is searched when a stream first comes there, and now and then while it stands there."""
    first = log.append()
    streams = {rules.at_damage: followed(log, rules) for rules in (WAIT, SKIP, FAIL)}
    for stream in streams.values():
        for _ in range(looks):
            stream.batch()
        assert offsets(stream.rows) == [first]
    lost, *later = [log.append(body=b"d" * 100) for _ in range(4)]
    log.write(lost, bytes(later[0] - lost))
    for _ in range(looks + 1):  # within twice as many looks
        streams["wait"].batch()
        streams["skip"].batch()
    assert streams["wait"].follower.met.waiting["broker-a"].end_phy_offset == later[0]
    assert offsets(streams["skip"].rows) == [first, *later]
    with pytest.raises(DamagedStreamError, match=f"@{lost}"):
        [streams["fail"].batch() for _ in range(looks + 1)]


def test_what_was_waited_for_is_healed(log: LiveLog, starts: Starts) -> None:
    """The broker's page came to the disk after all."""
    sound = log.path(0).read_bytes()[starts[9] + 4 : starts[9] + 8]
    stream = followed(log)
    for _ in range(3):
        stream.batch()
    log.write(starts[10] + 4, sound)
    assert offsets(stream.batch()) == starts[10:]
    assert "waiting" not in stream.follower.met.report()["broker-a"]
    assert available_now(stream) == []


@pytest.mark.parametrize("rule", ["wait", "skip"])
def test_the_damage_is_passed_when_the_log_goes_on_in_another_file(
    log: LiveLog, starts: Starts, rule: OnDamage
) -> None:
    stream = followed(log, StreamRules(on_damage=rule))
    stream.batch()
    while log.end < 2 * log.file_size:
        log.append(body=b"d" * 100)
    stream.drain(records=50)
    assert offsets(stream.rows) == batch(log)
    assert starts[10] not in batch(log)
    assert not stream.follower.met.waiting


def test_damage_in_a_full_file_is_the_business_of_mode(log: LiveLog, starts: Starts) -> None:
    while log.end < log.file_size:
        log.append(body=b"d" * 100)
    for rules in (WAIT, SKIP, FAIL):
        stream = followed(log, rules)
        assert available_now(stream, 40) == batch(log)
        assert starts[10] not in offsets(stream.rows)


# ---- other guards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [None, "wait", "skip", "fail"])
def test_without_a_guard(log: LiveLog, starts: Starts, rule: OnDamage | None) -> None:
    stream = followed(log, StreamRules("none", on_damage=rule))
    if rule in (None, "skip"):
        assert available_now(stream, 4) == batch(log)
        return
    with pytest.raises(DamagedStreamError, match=f"@{starts[10]}"):
        available_now(stream, 5)
    assert offsets(stream.rows) == starts[: {"wait": 10, "fail": 5}[str(rule)]]


def test_with_queues_that_prove_what_was_written(tmp_path: Path) -> None:
    root = tmp_path / "broker-a"
    with rmqcore.open(root, services=False) as store:
        starts = [store.put(Message("Orders", b"x" * 100)).phy_offset for _ in range(20)]
        store.wait_dispatched()
        name = root / "commitlog" / f"{0:020}"
        with name.open("r+b") as file:
            file.seek(starts[5] + 4)
            file.write(b"\xff" * 4)
        stream = FollowedStores(root, StreamRules("consumequeue"))
        assert available_now(stream, 3) == starts[:5] + starts[6:]
        stream = FollowedStores(root, StreamRules("consumequeue", on_damage="wait"))
        with pytest.raises(DamagedStreamError, match=f"@{starts[5]}"):
            available_now(stream, 3)
        assert offsets(stream.rows) == starts[:5]
