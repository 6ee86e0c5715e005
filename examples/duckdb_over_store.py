"""SQL over a RocketMQ store, without a broker and without a copy: DuckDB reads the Arrow stream.

    pip install rmqcore duckdb
    python duckdb_over_store.py /data/store

DuckDB pulls batch after batch, so a store of any size needs a few megabytes of memory. Only the columns named in
`batches` are built. Each query over the registered name reads the store anew; `create table ... as` keeps the rows.
"""

from __future__ import annotations

import sys

import duckdb

import rmqcore

SQL = """
    select topic, count(*) as messages, sum(msg_size) as bytes, count(distinct tags) as tags,
           to_timestamp(min(store_timestamp_ms) / 1000) at time zone 'UTC' as first_stored
    from store
    group by topic
    order by bytes desc, topic
"""


def main(path: str) -> None:
    """Print a line for each topic."""
    reader = rmqcore.read(path)
    columns = ["topic", "msg_size", "tags", "store_timestamp_ms"]
    connection = duckdb.connect()
    connection.register("store", reader.batches(columns))
    print(connection.sql(SQL))
    for damage in reader.damage:
        print(damage, file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python duckdb_over_store.py STORE")
    main(sys.argv[1])
