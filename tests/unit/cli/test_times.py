"""Times in every spelling, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("typer")

from rmqcore.cli.common.times import format_time
from rmqcore.vocabulary.times import parse_time


@pytest.fixture(params=["UTC", "Asia/Shanghai", "America/New_York"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("0", 0),
        ("1700086400018", 1700086400018),
        ("9223372036854775807", 2**63 - 1),
        ("2023-11-15T22:13:20.018Z", 1700086400018),
        ("2023-11-16T06:13:20.018+08:00", 1700086400018),
        ("2023-11-15 22:13:20+00:00", 1700086400000),
        (" 1700086400018 ", 1700086400018),
    ],
)
def test_times_with_a_zone(zone: str, text: str, timestamp_ms: int) -> None:
    assert parse_time(text) == timestamp_ms


@pytest.mark.parametrize(
    "text", ["2023-11-15#22:13:20:018", "2023-11-15T22:13:20.018", "2023-11-15 22:13:20.018"]
)
def test_times_without_a_zone_are_local(zone: str, text: str) -> None:
    hours = {"UTC": 0, "Asia/Shanghai": 8, "America/New_York": -5}[zone]
    assert parse_time(text) == 1700086400018 - hours * 3_600_000


def test_a_zone_for_times_that_name_none(zone: str) -> None:
    assert parse_time("2023-11-15T22:13:20.018", UTC) == 1700086400018
    assert parse_time("2023-11-16T06:13:20.018+08:00", UTC) == 1700086400018
    assert parse_time("2023-11-15", UTC) == 1700006400000


@pytest.mark.parametrize(
    ("part", "ms"),
    [
        (".018", 18),
        (".0180", 18),
        (".0180001", 19),
        (".018000001", 19),
        (".0184", 19),
        (".9999", 1000),
    ],
)
def test_a_part_of_a_millisecond_is_rounded_up(part: str, ms: int) -> None:
    """Rounded to the nearest, a message stored at .018 was taken for one stored at or after .0184."""
    assert parse_time(f"2023-11-15T22:13:20{part}Z") == 1700086400000 + ms
    assert parse_time(f"1969-12-31T23:59:59{part}Z") == -1000 + ms


def test_a_day(zone: str) -> None:
    assert parse_time("2023-11-15") == parse_time("2023-11-15#00:00:00:000")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "-1",
        "9223372036854775808",
        "2023-13-01",
        "2023-11-15#22:13:20:0189",
        "2023-11-15#",
        "1e3",
        "١٢٣",
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="epoch milliseconds"):
        parse_time(text)


NOW = datetime(2023, 11, 15, 22, 13, 20, 18_000, UTC)
NOW_MS = 1700086400018


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("24:00", "hour must be in 0..23"),
        ("25:00", "hour must be in 0..23"),
        ("09:60", "minute must be in 0..59"),
        ("2023-02-30", "day "),
    ],
)
def test_a_time_that_no_clock_has_is_told_once(text: str, said: str) -> None:
    """For 25:00 the error was "'25:00' is not a time ('2023-11-15T25:00' is not a time (...; times are ...); times are ...".

    A day that was made up stood in it, and two lists of what times are.
    """
    with pytest.raises(ValueError, match="is not a time") as refused:
        parse_time(text, now=NOW)
    told = str(refused.value)
    assert told.startswith(f"{text!r} is not a time ({said}")
    assert [told.count(words) for words in ("is not a time", "; expected ", "ISO 8601")] == [
        1,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("text", "ago_ms"),
    [
        ("now", 0),
        ("0s", 0),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        ("2d ago", 172_800_000),
        ("99999999w", NOW_MS),
    ],
)
def test_times_ago(zone: str, text: str, ago_ms: int) -> None:
    assert parse_time(text, now=NOW) == NOW_MS - ago_ms


def test_days_and_clocks_are_those_of_here(zone: str) -> None:
    here = NOW.astimezone()
    for text, want in [
        ("today", here.strftime("%Y-%m-%d")),
        ("yesterday", (here - timedelta(days=1)).strftime("%Y-%m-%d")),
        ("09:30", here.strftime("%Y-%m-%dT09:30")),
        ("09:30:01.5", here.strftime("%Y-%m-%dT09:30:01.5")),
    ]:
        assert parse_time(text, now=NOW) == parse_time(want)
        assert parse_time(text, UTC, now=NOW) == parse_time(_in_utc(text), UTC)


def _in_utc(text: str) -> str:
    days = {"today": "2023-11-15", "yesterday": "2023-11-14"}
    return days.get(text, f"2023-11-15T{text}")


def test_yesterday_begins_at_midnight_when_the_clock_was_turned_back() -> None:
    """New York, 2023-11-05: the day has 25 hours, so midnight is not 24 hours before the next one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        now = datetime(2023, 11, 6, 15, 0, tzinfo=UTC)
        assert parse_time("yesterday", now=now) == parse_time("2023-11-05T04:00:00Z")
        assert parse_time("today", now=now) == parse_time("2023-11-06T05:00:00Z")
    time.tzset()


@pytest.mark.parametrize(
    "text", ["24:00", "1y", "1.5h", "h", "-1h", "1h 30m", "", "tomorrow", "09:60"]
)
def test_what_is_no_time_with_a_clock_either(text: str) -> None:
    with pytest.raises(ValueError, match=r"30s 5m 1h 2d 1w.*epoch milliseconds"):
        parse_time(text, now=NOW)


def test_a_word_that_is_nearly_one() -> None:
    with pytest.raises(ValueError, match=r"did you mean yesterday\?"):
        parse_time("yestreday", now=NOW)


@pytest.mark.parametrize("timestamp_ms", [0, 1, 1700086400018, 253402300799999])
def test_what_is_shown_can_be_typed(zone: str, timestamp_ms: int) -> None:
    assert parse_time(format_time(timestamp_ms)) == timestamp_ms
    assert parse_time(format_time(timestamp_ms, zone=False)) == timestamp_ms


def test_times_that_no_calendar_has() -> None:
    assert format_time(2**62) == str(2**62)
    assert format_time(-(2**62)) == str(-(2**62))
    assert format_time(None) == "-"
