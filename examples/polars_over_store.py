"""A store as a Polars frame: which messages are largest, and how long they waited for the broker.

    pip install rmqcore polars
    python polars_over_store.py /data/store

Filters given to `batches` run in C, before a row is built; use them first, and Polars for the rest.
"""

from __future__ import annotations

import sys

import polars as pl

import rmqcore


def main(path: str) -> None:
    """Print the largest messages that have a tag."""
    reader = rmqcore.read(path)
    columns = [
        "topic",
        "queue_id",
        "queue_offset",
        "tags",
        "msg_size",
        "born_timestamp_ms",
        "store_timestamp_ms",
    ]
    frame = pl.DataFrame(reader.batches(columns))
    largest = (
        frame.lazy()
        .filter(pl.col("tags").is_not_null())
        .with_columns(waited_ms=pl.col("store_timestamp_ms") - pl.col("born_timestamp_ms"))
        .select("topic", "queue_id", "queue_offset", "tags", "msg_size", "waited_ms")
        .sort("msg_size", descending=True)
        .head(5)
        .collect()
    )
    print(f"{frame.height} messages")
    print(largest)
    for damage in reader.damage:
        print(damage, file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python polars_over_store.py STORE")
    main(sys.argv[1])
