"""A stream over a DLedger log: what lies between two records is the head of the second, and no part of a record."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.stores.dledger_store import DLedgerLog, numbered

from rmqcore import Message
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.log.log_files import LogFile, list_log_files
from rmqcore.spark.options.source_options import SourceOptions, texts_of
from rmqcore.spark.rows.schema import columns_of, spark_schema
from rmqcore.spark.stream.shipped import ShippedStreamReader, stream_reader
from rmqcore.spark.stream.tail import SoundWalk

FILE = 4096


def files_of(root: Path) -> list[LogFile]:
    return list_log_files(StorePaths(root, commitlog=root / "dledger-n0" / "data"))


def ends_of(walk: SoundWalk) -> list[int]:
    return [int(end) for ends in walk.run() for end in ends]


def test_each_file_is_walked_to_its_end(tmp_path: Path) -> None:
    log = DLedgerLog(FILE)
    for number in range(100):
        for _ in range(number % 3):
            log.no_op()
        log.put(Message("T", b"body%d" % number), number)
    log.write(tmp_path)
    ends = [place + size for place, size in zip(log.places, log.sizes, strict=True)]
    files = files_of(tmp_path)
    for file in files:
        walk = SoundWalk(file, file.file_from_offset)
        found = ends_of(walk)
        assert found == [end for end in ends if file.file_from_offset < end <= file.end_offset]
        assert (walk.at_blank, walk.unfinished) == (file is not files[-1], False)


def test_a_failing_record_at_the_end_is_not_taken(tmp_path: Path) -> None:
    log = numbered(10, FILE)
    for number in (-3, -1):
        log.data[log.at(log.places[number]) + 90] ^= 1
    log.write(tmp_path)
    walk = SoundWalk(files_of(tmp_path)[-1], 0)
    assert ends_of(walk)[-1] == log.places[-2] + log.sizes[-2]
    assert walk.unfinished


@pytest.mark.parametrize("per_batch", [1, 7, 1000])
def test_batches_have_every_message_once(tmp_path: Path, per_batch: int) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource")
    log = numbered(60, FILE)
    log.write(tmp_path)
    given = {"path": str(tmp_path), "maxRecordsPerTrigger": per_batch}
    options = SourceOptions.parse(texts_of(given))
    stream = stream_reader(spark_schema(columns_of(options)), options)
    start, found = stream.initialOffset(), []
    while True:
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        if end == start:
            break
        found += rows_of(stream, start, end)
        start = end
    assert found == list(range(60))


def rows_of(stream: ShippedStreamReader, start: Any, end: Any) -> list[int]:
    found = []
    for partition in stream.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end))):
        task = pickle.loads(pickle.dumps(stream))
        for batch in task.read(pickle.loads(pickle.dumps(partition))):
            found += batch.column("queue_offset").to_pylist()
    return found
