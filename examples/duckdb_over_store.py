"""SQL over a RocketMQ store, without a broker and without a copy: DuckDB asks the store for what a query needs.

    pip install 'rmqcore[duckdb]'
    python duckdb_over_store.py /data/store

DuckDB takes batch after batch, so a store of any size needs a few megabytes of memory. Only the columns that a query names
are built, and a condition on topic, queue, tags or time is tested before a row is. Each query reads the store anew;
`create table ... as` keeps the rows.
"""

from __future__ import annotations

import sys

import duckdb

import rmqcore

SQL = """
    select topic, count(*) as messages, sum(msg_size) as bytes, count(distinct tags) as tags,
           min(store_timestamp) at time zone 'UTC' as first_stored
    from store
    group by topic
    order by bytes desc, topic
"""


def main(path: str) -> None:
    """Print a line for each topic."""
    connection = duckdb.connect()
    rmqcore.duckdb_view(connection, "store", path)
    print(connection.sql(SQL))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python duckdb_over_store.py STORE")
    main(sys.argv[1])
