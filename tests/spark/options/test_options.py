"""Options of the data source: every one has a default that its text gives, and what is wrong is said on the spot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from rmqcore.spark.options.source_options import SourceOptions, parse_value, texts_of
from rmqcore.spark.options.table import OPTIONS, Option


@pytest.fixture(params=["UTC", "Asia/Shanghai"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """The time zone of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


DEFAULTS = {field.name: field.default for field in fields(SourceOptions)}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_default_in_the_table_is_that_of_the_options(option: Option) -> None:
    if option.default:
        assert parse_value(option, option.default) == DEFAULTS[option.field]
    else:
        assert DEFAULTS[option.field] in (None, ())


def test_every_field_has_its_option() -> None:
    assert [option.field for option in OPTIONS] + ["storage"] == list(DEFAULTS)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_described(option: Option) -> None:
    assert option.doc.endswith(".") and option.tables


def test_case_of_a_name_does_not_count() -> None:
    assert SourceOptions.parse({"MAXpartitionBYTES": "64k"}).max_partition_bytes == 65536


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": "a"}, r"^unknown option topic; did you mean topics( or \w+){0,2}\? docs/spark.md#options lists all options$"),
        ({"queue_ids": "1"}, "unknown option queue_ids; did you mean queueIds"),
        ({"maxOffsetPerTrigger": "1"}, "did you mean maxRecordsPerTrigger or max"),
        ({"qqqq": "1"}, "^unknown option qqqq; docs/spark.md#options lists all options$"),
        ({"mode": "STRICT"}, "option mode: 'STRICT' is invalid, expected one of PERMISSIVE, FAILFAST, DROPMALFORMED"),
        ({"table": "message"}, "option table: 'message' is invalid, expected one of messages, consumequeue"),
        ({"maxPartitionBytes": "lots"}, "option maxPartitionBytes: 'lots' is invalid, expected a number of bytes"),
        ({"maxPartitionBytes": "0"}, "expected a number of bytes in 1"),
        ({"batchRows": "0"}, r"option batchRows: '0' is invalid, expected a whole number in 1\.\.16777216"),
        ({"minPartitions": "many"}, "option minPartitions: 'many' is invalid, expected a whole number"),
        ({"failOnDataLoss": "yes"}, "option failOnDataLoss: 'yes' is invalid, expected true or false"),
        ({"queueIds": "a,b"}, "option queueIds: 'a,b' is invalid, expected queue ids"),
        ({"queueIds": "-1"}, "expected queue ids"),
        ({"topics": "[1]"}, "option topics: .* expected texts separated by commas, or a JSON list"),
        ({"topicsPattern": "("}, r"option topicsPattern: '\(' is invalid, expected a regular expression"),
        ({"startingOffsets": "{}}"}, "option startingOffsets: .* expected earliest, latest, or JSON"),
        ({"endingOffsets": '{"t": {"b": {"0": -3}}}'}, "option endingOffsets"),
        ({"startingPhyOffset": "-1"}, "option startingPhyOffset: '-1' is invalid, expected a CommitLog offset"),
        ({"endingPhyOffset": '{"b": "x"}'}, "option endingPhyOffset"),
        ({"startingTimestamp": "today"}, r"option startingTimestamp: 'today' is invalid, expected milliseconds .*\+08:00"),
        ({"endingTimestamp": "2026-02-30"}, r"option endingTimestamp: '2026-02-30' is invalid, expected milliseconds "),
        ({"endingTimestamp": ""}, r"expected milliseconds since 1970, or "),
        ({"table": "index", "topics": "a"}, "option topics does not apply to table=index, only to messages"),
        ({"table": "segments", "mode": "FAILFAST"}, "option mode does not apply to table=segments"),
        ({"startingTimestamp": str(1 << 63)}, "expected milliseconds since 1970"),
        ({"endingTimestamp": str(-(1 << 63) - 1)}, "expected milliseconds since 1970"),
        ({"queueIds": "[0.5]"}, "expected queue ids"),
        ({"queueIds": "[true]"}, "expected queue ids"),
        ({"startingOffsets": '{"t": {"b": {"-1": 5}}}'}, "option startingOffsets"),
        ({"startingOffsets": '{"t": {"b": {"4294967296": 5}}}'}, "option startingOffsets"),
        ({"startingOffsets": '{"t": {"b": {"0": -1.0}}}'}, "option startingOffsets"),
        ({"topics": "a", "topicsPattern": "b"}, "exclude each other"),
        ({"maxRecordsPerTrigger": "1", "maxOffsetsPerTrigger": "2"}, "given twice, once as maxOffsetsPerTrigger"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_options(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SourceOptions.parse(given)


@pytest.mark.parametrize(
    ("text", "byte_count"),
    [
        ("65536", 65536),
        ("64k", 65536),
        ("64KiB", 65536),
        ("64 kb", 65536),
        ("128m", 1 << 27),
        ("1G", 1 << 30),
    ],
)
def test_sizes(text: str, byte_count: int) -> None:
    assert SourceOptions.parse({"maxPartitionBytes": text}).max_partition_bytes == byte_count


def test_lists_are_between_commas_or_json() -> None:
    assert SourceOptions.parse({"topics": "a, b,"}).topics == ("a", "b")
    assert SourceOptions.parse({"topics": '["a,b", "c"]'}).topics == ("a,b", "c")
    assert SourceOptions.parse({"queueIds": "[1, 2]"}).queue_ids == (1, 2)


@pytest.mark.parametrize("name", ["topics", "tags", "keys"])
@pytest.mark.parametrize("text", ["", "  ", ","])
def test_a_text_without_a_word_is_no_filter_for_nothing(name: str, text: str) -> None:
    """``--topics "$TOPICS"`` with the variable not set read no row, and said nothing."""
    with pytest.raises(ValueError, match=rf"option {name}: .* expected texts separated by commas"):
        SourceOptions.parse({name: text})
    assert getattr(SourceOptions.parse({name: "[]"}), name) == ()


def test_queue_offsets() -> None:
    text = '{"t": {"b": {"0": 7, "1": -2}}}'
    assert SourceOptions.parse({"startingOffsets": text}).starting_offsets == {
        "t": {"b": {0: 7, 1: -2}}
    }
    assert SourceOptions.parse({"startingOffsets": "Latest"}).starting_offsets == "latest"


def test_phy_offsets_are_for_all_stores_or_one_each() -> None:
    options = SourceOptions.parse({"startingPhyOffset": '{"a": 4096}', "endingPhyOffset": "8192"})
    assert options.span("a").start_phy_offset == 4096
    assert options.span("b").start_phy_offset is None
    assert options.span("b").end_phy_offset == 8192


def test_paths_as_spark_passes_them() -> None:
    assert SourceOptions.parse({"path": "/a"}).path == ("/a",)
    assert SourceOptions.parse({"paths": '["/a", "/b"]'}).path == ("/a", "/b")


def test_secrets_are_not_in_the_repr() -> None:
    options = SourceOptions.parse({"storage.secret_key": "hush"})
    assert options.storage == (("secret_key", "hush"),)
    assert "hush" not in repr(options)


def test_python_values_become_texts() -> None:
    given = {"a": True, "b": 7, "c": ["x", "y"], "d": {"q": 1}, "e": None, "f": "text"}
    assert texts_of(given) == {
        "a": "true",
        "b": "7",
        "c": '["x", "y"]',
        "d": '{"q": 1}',
        "f": "text",
    }
    with pytest.raises(TypeError, match=r"option topics: expected a text, number.* got bytes"):
        texts_of({"topics": b"a"})


# ---- times --------------------------------------------------------------------------------------

EIGHT_UTC = 1_795_507_200_000


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1795507200000", EIGHT_UTC),
        ("-1", -1),
        ("2026-11-24T08:00", EIGHT_UTC),
        ("2026-11-24T08:00:00Z", EIGHT_UTC),
        ("2026-11-24 16:00:00.001+08:00", EIGHT_UTC + 1),
        ("2026-11-24", EIGHT_UTC - 8 * 3_600_000),
        ("2026-11-24 08:00:00.001500", EIGHT_UTC + 2),
    ],
)
def test_times(zone: str, text: str, timestamp_ms: int) -> None:
    """Only milliseconds were taken. Without an offset a time is UTC, whatever the zone of the process that plans."""
    given = {"startingTimestamp": text, "endingTimestamp": text}
    options = SourceOptions.parse(given)
    assert options.starting_timestamp == options.ending_timestamp == timestamp_ms


def test_python_times(zone: str) -> None:
    eight = datetime(2026, 11, 24, 8, tzinfo=UTC)
    shanghai = timezone(timedelta(hours=8))
    texts = texts_of(
        {"startingTimestamp": eight.astimezone(shanghai), "endingTimestamp": date(2026, 11, 24)}
    )
    assert texts == {"startingTimestamp": str(EIGHT_UTC), "endingTimestamp": "2026-11-24"}
    assert texts_of({"STARTINGTIMESTAMP": eight + timedelta(microseconds=1)}) == {
        "STARTINGTIMESTAMP": str(EIGHT_UTC + 1)
    }
    with pytest.raises(TypeError, match="option topics: expected a text"):
        texts_of({"topics": eight})


def test_a_datetime_without_a_zone(zone: str) -> None:
    """As a text it is UTC, for Python and in the rows of `collect()` it is local: it is taken where both are the same."""
    naive = datetime(2026, 11, 24, 8)  # noqa: DTZ001 - the subject
    if zone == "UTC":
        assert texts_of({"startingTimestamp": naive}) == {"startingTimestamp": str(EIGHT_UTC)}
        return
    with pytest.raises(
        ValueError, match=r"option startingTimestamp: .* has no time zone: pass tzinfo"
    ):
        texts_of({"startingTimestamp": naive})
