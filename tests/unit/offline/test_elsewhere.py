"""Topics with messages outside of the log: the Python calls warn, as the command line does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.stores import kept_elsewhere

from rmqcore import ElsewhereWarning, StoreReader
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.schema import columns_of
from rmqcore.spark.tables.messages import MessagesRead

CALLS: dict[str, Callable[[StoreReader, str], Any]] = {
    "messages": lambda reader, topic: list(reader.messages(topics=[topic])),
    "batches": lambda reader, topic: [
        len(batch) for batch in reader.batches(["body"], topics=[topic])
    ],
    "get": lambda reader, topic: reader.get(topic, 0, 0).messages,
    "query": lambda reader, topic: reader.query(topic, "k1"),
}


@pytest.fixture
def cleaned(tmp_path: Path) -> Path:
    return kept_elsewhere.cleaned(tmp_path)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_that_finds_nothing_warns(
    call: Callable[[StoreReader, str], Any], cleaned: Path
) -> None:
    """Each gave an empty answer without a word."""
    kept_elsewhere.tiered(cleaned)
    with pytest.warns(ElsewhereWarning, match="'Gone': older messages may be in the tiered store"):
        assert not call(StoreReader(cleaned), "Gone")


@pytest.mark.parametrize("call", ["messages", "batches"])
def test_live_messages_that_the_log_has_deleted(call: str, cleaned: Path) -> None:
    """The others were the answer, without a word."""
    with pytest.warns(ElsewhereWarning, match="'Keys': 11 live messages are only in compaction/"):
        assert CALLS[call](StoreReader(cleaned), "Keys")


def test_a_topic_with_messages_in_the_log_brings_no_warning(cleaned: Path) -> None:
    kept_elsewhere.tiered(cleaned)
    reader = StoreReader(cleaned)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(reader.messages(topics=["Orders"]))
        assert list(reader.messages())
        assert list(reader.batches(topics=["Orders"]))
        assert reader.get("Keys", 0, 0).messages
        assert reader.get("Orders", 0, 75).status.name == "OFFSET_OVERFLOW_ONE"


def test_one_of_several_topics(cleaned: Path) -> None:
    with pytest.warns(ElsewhereWarning, match="'Keys'") as told:
        assert list(StoreReader(cleaned).messages(topics=["Keys", "Orders"]))
    assert len(told) == 1


def test_spark_warns_on_the_driver(cleaned: Path) -> None:
    options = SourceOptions.parse({"path": str(cleaned), "topics": "Keys"})
    with pytest.warns(ElsewhereWarning, match="topic 'Keys': compaction/compactionLog/Keys has"):
        MessagesRead(options, columns_of(options)).planned_parts()
    with pytest.warns(ElsewhereWarning, match="topic 'Keys': compaction/compactionLog/Keys has"):
        JobSource.open(str(cleaned), {"topics": "Keys"})
    options = SourceOptions.parse({"path": str(cleaned)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MessagesRead(options, columns_of(options)).planned_parts()
