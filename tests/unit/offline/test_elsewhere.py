"""Topics whose messages lie where rmqcore does not read: the Python calls warn where they find none, as the command line does."""

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
def compacted(tmp_path: Path) -> Path:
    return kept_elsewhere.compacted(tmp_path)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_that_finds_nothing_warns(
    call: Callable[[StoreReader, str], Any], compacted: Path
) -> None:
    """Each gave an empty answer without a word."""
    reader = StoreReader(compacted)
    with pytest.warns(
        ElsewhereWarning, match="'Old': compaction/compactionLog/Old has the newest message"
    ):
        assert not call(reader, "Old")
    kept_elsewhere.tiered(compacted)
    with pytest.warns(ElsewhereWarning, match="'Gone': older messages may be in the tiered store"):
        assert not call(reader, "Gone")


def test_a_topic_with_messages_in_the_log_brings_no_warning(compacted: Path) -> None:
    kept_elsewhere.tiered(compacted)
    reader = StoreReader(compacted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(reader.messages(topics=["Compact"]))
        assert list(reader.messages())
        assert list(reader.batches(topics=["Compact"]))
        assert reader.get("Compact", 0, 0).messages
        assert reader.get("Compact", 0, 11).status.name == "OFFSET_OVERFLOW_ONE"


def test_one_of_several_topics(compacted: Path) -> None:
    with pytest.warns(ElsewhereWarning, match="'Old'") as told:
        assert list(StoreReader(compacted).messages(topics=["Compact", "Old"]))
    assert len(told) == 1


def test_spark_warns_on_the_driver(compacted: Path) -> None:
    options = SourceOptions.parse({"path": str(compacted), "topics": "Old"})
    with pytest.warns(ElsewhereWarning, match="topic 'Old': compaction/compactionLog/Old has"):
        MessagesRead(options, columns_of(options)).planned_parts()
    with pytest.warns(ElsewhereWarning, match="topic 'Old': compaction/compactionLog/Old has"):
        JobSource.open(str(compacted), {"topics": "Old"})
    options = SourceOptions.parse({"path": str(compacted)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MessagesRead(options, columns_of(options)).planned_parts()
