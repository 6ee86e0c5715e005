"""A store as a Polars frame: which messages are largest, and how long they waited for the broker.

    pip install 'rmqcore[polars]'
    python polars_over_store.py /data/store

`rmqcore.scan` gives a LazyFrame: it builds the columns that the query names, and tests what it can before it builds a row.
"""

from __future__ import annotations

import sys

import polars as pl

import rmqcore


def main(path: str) -> None:
    """Print the largest messages that have a tag."""
    store = rmqcore.scan(path)
    print(f"{store.select(pl.len()).collect().item()} messages")
    largest = (
        store.filter(pl.col("tags").is_not_null())
        .with_columns(waited=pl.col("store_timestamp") - pl.col("born_timestamp"))
        .select("topic", "queue_id", "queue_offset", "tags", "msg_size", "waited")
        .sort("msg_size", descending=True)
        .head(5)
    )
    print(largest.collect())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python polars_over_store.py STORE")
    main(sys.argv[1])
