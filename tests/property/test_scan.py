"""codec.scan: records in columns against the oracle's scan of the same bytes, whole and damaged."""

from __future__ import annotations

import resource
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.oracle.strategies import Sample, damaged, log_of, samples
from support.oracle.views import fields_of

from rmqcore import Message, codec
from rmqcore._native.format.codec import describe
from rmqcore._native.scan.batch import COLUMNS, PUBLIC_COLUMNS

REASONS = {oracle.Reason.ZERO: "zero", None: "end"}


def compare(data: bytes, base_offset: int, *, verify_crc: bool) -> None:
    expected = oracle.scan(data, check_crc=verify_crc)
    found = codec.scan(data, base_offset=base_offset, verify_crc=verify_crc)
    assert found.end_pos == expected.end_pos
    assert found.num_rows == len(found) == len(expected.records)
    batch = pa.record_batch(found)
    batch.validate(full=True)
    assert batch.column_names == list(PUBLIC_COLUMNS)
    for found_row, record in zip(batch.to_pylist(), expected.records, strict=True):
        # Names that are different bytes and the same text after U+FFFD stay apart in the column, not in a map.
        pairs = dict(found_row["properties"])
        assert pairs == record.property_map
        assert {**found_row, "properties": list(pairs.items())} == fields_of(record)
    if isinstance(expected.stop, oracle.Blank):
        assert (found.stop_reason, found.error) == ("blank", None)
        return
    assert found.stop_reason == REASONS.get(expected.stop, "error")
    assert (found.error is None) == (found.stop_reason != "error")
    if found.error is not None:
        assert expected.stop is not None
        assert found.error.phy_offset == base_offset + expected.end_pos
        assert found.error.field == describe(expected.stop, 0, 0)[0]


logs = st.lists(samples(), max_size=4)


@given(logs, st.booleans())
def test_records_end_to_end(sampled: list[Sample], verify_crc: bool) -> None:
    data = b"".join(sample.expected for sample in sampled)
    compare(data, 0, verify_crc=verify_crc)
    assert codec.scan(data).stop_reason == "end"


@given(logs, st.sampled_from([b"", bytes(7), bytes(500), oracle.blank(8), oracle.blank(4096)]))
def test_what_lies_behind_the_records_is_named(sampled: list[Sample], tail: bytes) -> None:
    compare(log_of(sampled, 1 << 40) + tail, 1 << 40, verify_crc=True)


@given(st.data(), logs, samples(), logs, st.booleans(), st.binary(max_size=100))
def test_damaged_records_stop_a_scan_where_they_stop_the_oracle(
    data: st.DataObject,
    before: list[Sample],
    sample: Sample,
    after: list[Sample],
    verify_crc: bool,
    garbage: bytes,
) -> None:
    mutated = data.draw(damaged(sample.expected))
    compare(log_of(before, 0) + mutated + log_of(after, 7) + garbage, 0, verify_crc=verify_crc)


@given(st.binary(max_size=400))
def test_arbitrary_bytes(noise: bytes) -> None:
    compare(noise, 0, verify_crc=False)


@given(logs, st.lists(st.sampled_from(sorted(COLUMNS)), unique=True))
def test_chosen_columns_come_in_their_order(sampled: list[Sample], columns: list[str]) -> None:
    columns = [name for name in columns if name not in {"topic_id", "key_hashes", "tag_id"}]
    data = log_of(sampled, 0)
    whole = pa.record_batch(codec.scan(data, columns=[*PUBLIC_COLUMNS, "raw"]))
    some = codec.scan(data, columns=columns)
    assert some.column_names == tuple(columns)
    assert some.num_rows == len(sampled)
    if columns:
        assert pa.record_batch(some).equals(whole.select(columns))
    assert b"".join(whole.column("raw").to_pylist()) == data


@given(
    st.data(),
    logs,
    samples(),
    logs,
    st.booleans(),
    st.sampled_from([b"", bytes(7), bytes(500), oracle.blank(8), b"\xda"]),
    st.integers(1, 5),
    st.integers(1, 2000),
)
def test_batches_are_the_whole_scan_in_parts(
    data: st.DataObject,
    before: list[Sample],
    sample: Sample,
    after: list[Sample],
    verify_crc: bool,
    tail: bytes,
    batch_rows: int,
    batch_bytes: int,
) -> None:
    """A scan in batches has to end where the whole scan ends, for the same reason, also right behind a full batch."""
    log = log_of(before, 0) + data.draw(damaged(sample.expected)) + log_of(after, 7) + tail
    if data.draw(st.booleans()):
        log = log_of(before, 0) + tail
    whole = codec.scan(log, base_offset=9, verify_crc=verify_crc)
    parts = codec.scan_batches(
        log, base_offset=9, verify_crc=verify_crc, batch_rows=batch_rows, batch_bytes=batch_bytes
    )
    assert parts.column_names == whole.column_names
    batches = [pa.record_batch(batch) for batch in parts]
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    for batch in batches:  # while all are held: no memory of a held batch is used again
        batch.validate(full=True)
    expected = pa.Table.from_batches([pa.record_batch(whole)])
    assert pa.Table.from_batches(batches, expected.schema).equals(expected)
    assert (parts.end_pos, parts.stop_reason) == (whole.end_pos, whole.stop_reason)
    assert str(parts.error) == str(whole.error)
    assert next(parts, None) is None


@given(st.lists(samples(), min_size=1, max_size=6), st.integers(1, 3))
def test_batches_that_are_let_go_of_leave_the_others_as_they_are(
    sampled: list[Sample], batch_rows: int
) -> None:
    log = log_of(sampled, 0)
    expected = pa.record_batch(codec.scan(log)).to_pylist()
    rows = []
    for batch in codec.scan_batches(log, batch_rows=batch_rows):
        rows += pa.record_batch(batch).to_pylist()
        del batch  # the next one is made in its memory
    assert rows == expected
    stream = pa.RecordBatchReader.from_stream(codec.scan_batches(log, batch_rows=batch_rows))
    assert stream.read_all().to_pylist() == expected


def test_a_long_buffer_takes_the_memory_of_a_batch_or_two() -> None:
    """Fresh memory for each batch is what made a scan of a whole buffer slow: most of its time went into page faults."""
    record = codec.encode(
        Message("T", b"x" * 300), phy_offset=0, queue_offset=0, store_timestamp_ms=1
    )
    log = record * ((32 << 20) // len(record))
    faults = []
    for scan in (lambda: [codec.scan(log)], lambda: codec.scan_batches(log)):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        rows = sum(batch.num_rows for batch in scan())
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        assert rows == len(log) // len(record)
    assert faults[1] < faults[0] / 3


def test_batches_hold_the_buffer_until_they_end() -> None:
    """A bytearray cannot grow while a scan may still look into it."""
    record = codec.encode(Message("T", b"x"), phy_offset=0, queue_offset=0, store_timestamp_ms=1)
    log = bytearray(record * 3)
    with codec.scan_batches(log, batch_rows=1) as batches:
        first = next(batches)
        with pytest.raises(BufferError):
            log.append(0)
    log.append(0)
    assert (batches.stop_reason, batches.end_pos) == (None, len(record))
    assert list(batches) == []
    assert pa.record_batch(first).column("body").to_pylist() == [b"x"]
    batches = codec.scan_batches(log, batch_rows=1)
    assert len(list(batches)) == 3
    log.append(0)
    assert (batches.stop_reason, batches.end_pos) == ("error", 3 * len(record))


@pytest.mark.parametrize("columns", [["nothing"], ["topic", "topic"]])
def test_columns_that_cannot_be_are_refused(columns: list[str]) -> None:
    with pytest.raises(ValueError, match="columns"):
        codec.scan(b"", columns=columns)
    with pytest.raises(TypeError):
        codec.scan(b"", columns="topic")
    with pytest.raises(ValueError, match="-1"):
        codec.scan(b"", base_offset=-1)


@pytest.mark.parametrize(
    "wrong", [{"base_offset": -1}, {"batch_rows": 0}, {"batch_bytes": 0}, {"columns": ["nothing"]}]
)
def test_batches_refuse_at_once_what_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"-1|batch_|nothing"):
        codec.scan_batches(b"", **wrong)
