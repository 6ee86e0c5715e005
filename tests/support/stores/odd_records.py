"""A small store of records as no producer makes them, beside ordinary ones: answers must be exact whatever lies there."""

from __future__ import annotations

from pathlib import Path

from support.oracle import records as oracle
from support.stores.store_maker import make_store, sample_records

from rmqcore.offline.frames.columns import FIRST_MS, LAST_MS

TIMES_MS = [0, -1, 1, FIRST_MS, FIRST_MS - 1, LAST_MS, LAST_MS + 1, 2**63 - 1, -(2**63), 2**53]
"""Store times of damaged records."""
TOPICS = [b"Top\xffic", "Top�ic".encode(), b'it\'s "q"\\', b"a b", b"%like_", b"T\0T", b"topic"]
PROPERTIES = [
    b"TAGS\x01\x02",
    b"TAGS\x01Tag\xff\x02",
    "TAGS\x01Tag�\x02".encode(),
    b"TAGS\x01TagA\x02TAGS\x01TagB\x02",
    b"KEYS\x01 a  b \x02",
    b"KEYS\x01a b\x02UNIQ_KEY\x01b\x02",
    b"UNIQ_KEY\x01a\x02TAGS\x01TagA\x02",
    b"broken",
]
QUEUE_IDS = [0, 1, -1, 2**31 - 1, -(2**31), 7]


def odd_records() -> list[oracle.Record]:
    """The same ones every time."""
    count = 2 * len(TIMES_MS)
    return [
        oracle.Record(
            TOPICS[i % len(TOPICS)],
            b"b" * i,
            PROPERTIES[i % len(PROPERTIES)],
            queue_id=QUEUE_IDS[i % len(QUEUE_IDS)],
            born_timestamp_ms=TIMES_MS[(3 * i) % len(TIMES_MS)],
            store_timestamp_ms=TIMES_MS[i % len(TIMES_MS)],
        )
        for i in range(count)
    ]


def write_odd_store(root: Path) -> Path:
    """Write the log of the odd records among ordinary ones; queues and index are not needed to read it."""
    ordinary = sample_records(40)
    store = make_store([*ordinary[:20], *odd_records(), *ordinary[20:]])
    store.files = {name: data for name, data in store.files.items() if "commitlog" in name}
    return store.write(root)
