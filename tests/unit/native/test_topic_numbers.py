"""A scan whose numbers of topics and tags are bounded: batches end earlier, and numbers begin anew with the next one.

Each topic ever seen was kept for as long as a scan lived, 32 KiB of name with them in the newer format.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.oracle import records as oracle

from rmqcore._native.format.cq_arrays import CQ_DTYPE
from rmqcore._native.queues.queue_table import QueueTable
from rmqcore._native.scan.scan import END, FULL, ColumnScan
from rmqcore.engine.dispatch.dispatcher import QUEUE_COLUMNS


def log_of(topics: list[str]) -> tuple[bytes, list[int]]:
    data, places = bytearray(), [0]
    for number, topic in enumerate(topics):
        record = oracle.Record(topic.encode(), b"", b"", queue_offset=number, phy_offset=len(data))
        data += oracle.encode_record(record)
        places.append(len(data))
    return bytes(data), places


def batches(scan: ColumnScan, data: bytes, cuts: list[int]) -> list[tuple[int, list[str]]]:
    """For each batch how the scan numbers its topics, and the topics of its rows by name."""
    found = []

    def take() -> None:
        names, batch = scan.topics(), scan.take()
        ids = np.frombuffer(batch.buffer("topic_id"), np.int32)
        found.append((scan.numbering, [names[number] for number in ids.tolist()]))

    for begin, end in pairwise(cuts):
        pos = begin
        while (place := scan.feed(data, end, pos, 0, len(data) + 1)).code != END:
            assert place.code == FULL
            pos = place.pos
            take()
    take()
    return found


@pytest.mark.parametrize("columns", [["topic_id"], ["topic_id", "key_hashes"]])
@pytest.mark.parametrize("room", [1, 150, 1 << 20])
def test_rows_keep_their_topics(columns: list[str], room: int) -> None:
    topics = [f"topic{number % 7}" for number in range(50)]
    data, places = log_of(topics)
    cuts = [*places[::5], len(data)]
    found = batches(ColumnScan(columns, topic_room=room), data, cuts)
    assert [name for _, names in found for name in names] == topics
    if room == 1 << 20:
        assert [numbering for numbering, _ in found] == [0]
    else:
        assert [numbering for numbering, _ in found] == list(range(len(found)))


def test_without_a_limit_numbers_stay() -> None:
    data, places = log_of([f"t{number}" for number in range(300)])
    scan = ColumnScan(["topic_id"], batch_rows=7)
    found = batches(scan, data, [0, places[100], len(data)])
    assert {numbering for numbering, _ in found} == {0}
    assert scan.topics() == [f"t{number}" for number in range(300)]


def test_a_batch_that_is_ended() -> None:
    data, places = log_of(["T"] * 10)
    scan = ColumnScan(["topic_id"])
    scan.end_batch()  # it has no rows: nothing to end
    assert scan.feed(data, places[4], 0, 0, len(data)).code == END
    scan.end_batch()
    place = scan.feed(data, len(data), places[4], 0, len(data))
    assert (place.code, place.pos, scan.pending_rows) == (FULL, places[4], 4)
    assert scan.take().num_rows == 4
    scan.feed(data, len(data), places[4], 0, len(data))
    assert scan.take().num_rows == 6


def test_a_queue_table_follows(tmp_path: Path) -> None:
    topics = [f"t{number % 5}" for number in range(40)]
    data, places = log_of(topics)
    table = QueueTable(str(tmp_path), 2000, 4)
    scan = ColumnScan(QUEUE_COLUMNS, topic_room=1)
    for begin, end in pairwise(places[::4]):
        scan.feed(data, end, begin, 0, len(data) + 1)
        batch = scan.take()
        table.put_batch(scan, batch, 0)
    table.close_files()
    assert scan.numbering > 3
    for number in range(5):
        entries = np.fromfile(tmp_path / f"t{number}" / "0" / f"{0:020}", CQ_DTYPE)
        used = entries[(entries["msg_size"] > 0) & (entries["msg_size"] < 1 << 20)]
        assert used["phy_offset"].tolist() == places[number:40:5]
    assert table.file_counts == (5, 5)
    assert table.has("t1", 0)
    assert not any(table.has(*place) for place in (("t1", 1), ("t9", 0), ("a/b", 0)))


# ---- tags -------------------------------------------------------------------------------------------


def log_of_tags(tags: Sequence[bytes | None]) -> bytes:
    data = bytearray()
    for number, tag in enumerate(tags):
        properties = b"KEYS\x01k\x02" + (b"" if tag is None else b"TAGS\x01" + tag + b"\x02")
        record = oracle.Record(b"T", b"", properties, queue_offset=number, phy_offset=len(data))
        data += oracle.encode_record(record)
    return bytes(data)


COUNTED = [
    "phy_offset",
    "msg_size",
    "born_timestamp_ms",
    "store_timestamp_ms",
    "topic_id",
    "tag_id",
]


@pytest.mark.parametrize("columns", [["tag_id"], ["tag_id", "tags"], COUNTED])
def test_tags_have_numbers_of_their_own(columns: list[str]) -> None:
    """Hashes of tags are no numbers for them: Aa and BB have the same."""
    tags = [b"Aa", None, b"BB", b"Aa", b"", b"\xff\xfe", b"\xff\xfd", b"BB"]
    scan = ColumnScan(columns)
    data = log_of_tags(tags)
    scan.feed(data, len(data), 0, 0, len(data) + 1)
    ids = np.frombuffer(scan.take().buffer("tag_id"), np.int32).tolist()
    names = scan.tags()
    assert [number == -1 for number in ids] == [tag in (None, b"") for tag in tags]
    assert [names[number] for number in ids if number >= 0] == [
        tag.decode("utf-8", "replace") for tag in tags if tag
    ]
    assert ids[0] == ids[3] != ids[2] == ids[7]
    assert scan.tags(2) == names[2:]


@pytest.mark.parametrize("columns", [["tag_id"], ["topic_id", "tag_id"]])
def test_numbers_of_tags_begin_anew(columns: list[str]) -> None:
    tags = [b"%d" % number for number in range(100)]
    data = log_of_tags(tags)
    places = [len(log_of_tags(tags[:number])) for number in range(len(tags) + 1)]
    scan = ColumnScan(columns, topic_room=300)
    found: list[str] = []
    for begin, end in pairwise(places):
        if scan.feed(data, end, begin, 0, len(data) + 1).code == FULL:
            names = scan.tags()
            found += [names[i] for i in np.frombuffer(scan.take().buffer("tag_id"), np.int32)]
            assert scan.feed(data, end, begin, 0, len(data) + 1).code == END
    names = scan.tags()
    found += [names[i] for i in np.frombuffer(scan.take().buffer("tag_id"), np.int32)]
    assert found == [tag.decode() for tag in tags]
    assert scan.numbering > 5


def test_tags_without_their_column() -> None:
    with pytest.raises(ValueError, match="only with the column tag_id"):
        ColumnScan(["topic_id", "tags"]).tags()
    with pytest.raises(ValueError, match="only with the column topic_id"):
        ColumnScan(["tag_id"]).topics()
