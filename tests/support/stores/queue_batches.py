"""What the tests of consume queues share: batches as a dispatcher hands them on and the files on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from support.oracle import records as oracle
from support.oracle.queue import ENTRY

from rmqcore._native.queues.queue_table import COLUMNS
from rmqcore._native.scan import scan
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.queues.consume_queues import ConsumeQueues

MOST = 1 << 62
PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC


def column_scan(rows: int = 8192) -> ColumnScan:
    return ColumnScan(COLUMNS, batch_rows=rows)


def batches(columns: ColumnScan, records: Iterable[oracle.Record]) -> Iterator[Batch]:
    """Batches of records that say themselves where they lie; what one numbers as topic 0 is topic 0 in the next."""
    data, pos = b"".join(oracle.encode_record(record) for record in records), 0
    while pos < len(data):
        place = columns.feed(data, len(data), pos, 0, MOST, check_place=False)
        pos, code = place.pos, place.code
        assert code in (scan.FULL, scan.END), code
        yield columns.take()


def put_records(
    queues: ConsumeQueues,
    records: Iterable[oracle.Record],
    *,
    rows: int = 8192,
    from_phy_offset: int = 0,
    columns: ColumnScan | None = None,
) -> None:
    columns = column_scan(rows) if columns is None else columns
    for batch in batches(columns, records):
        assert queues.put_batch(columns, batch, from_phy_offset) is None


def record(
    topic: str | bytes,
    queue_id: int,
    queue_offset: int,
    phy_offset: int,
    *,
    tags: str | None = None,
    sys_flag: int = 0,
    body: bytes = b"",
) -> oracle.Record:
    properties = {} if tags is None else {"TAGS": tags}
    return oracle.Record(
        topic.encode() if isinstance(topic, str) else topic,
        body,
        oracle.encode_properties(properties),
        queue_id=queue_id,
        queue_offset=queue_offset,
        phy_offset=phy_offset,
        sys_flag=sys_flag,
        store_timestamp_ms=1_700_000_000_000 + phy_offset,
    )


def open_queues(root: Path, entries_per_file: int = 8, *, recover: bool = True) -> ConsumeQueues:
    config = MessageStoreConfig(mapped_file_size_consume_queue=ENTRY * entries_per_file)
    queues = ConsumeQueues(StorePaths(root), config)
    queues.load()
    if recover:
        queues.recover()
    return queues


def queue_files(root: Path) -> dict[tuple[str, int], dict[int, bytes]]:
    """Bytes of all queue files by topic, queue id and start."""
    found: dict[tuple[str, int], dict[int, bytes]] = {}
    for path in sorted((root / "consumequeue").glob("*/*/*")):
        place = (path.parent.parent.name, int(path.parent.name))
        found.setdefault(place, {})[int(path.name)] = path.read_bytes()
    return found


def entries_of(data: bytes) -> list[tuple[int, int, int]]:
    """Entries up to the first that is none."""
    found = oracle.unpack_cq(data[: len(data) - len(data) % ENTRY])
    end = next((i for i, (phy, size, _) in enumerate(found) if phy < 0 or size <= 0), len(found))
    return found[:end]
