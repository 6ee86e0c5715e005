"""Times in every spelling, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC

import pytest

pytest.importorskip("typer")

from rmqcore.cli.common.times import format_time
from rmqcore.times import parse_time


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
    [(".018", 18), (".0180", 18), (".0180001", 19), (".018000001", 19), (".0184", 19), (".9999", 1000)],
)  # fmt: skip
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


@pytest.mark.parametrize("timestamp_ms", [0, 1, 1700086400018, 253402300799999])
def test_what_is_shown_can_be_typed(zone: str, timestamp_ms: int) -> None:
    assert parse_time(format_time(timestamp_ms)) == timestamp_ms
    assert parse_time(format_time(timestamp_ms, zone=False)) == timestamp_ms


def test_times_that_no_calendar_has() -> None:
    assert format_time(2**62) == str(2**62)
    assert format_time(-(2**62)) == str(-(2**62))
    assert format_time(None) == "-"
