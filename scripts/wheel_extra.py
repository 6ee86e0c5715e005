"""Uses what an extra of the wheel brings, where nothing else is installed: python wheel_extra.py EXTRA[,EXTRA...] FOLDER."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import rmqcore
from rmqcore import Message, codec, sysflag

MESSAGES = 100


def make_store(folder: Path) -> Path:
    """A store of `MESSAGES` messages, which the core alone can write."""
    with rmqcore.open(folder / "store", mapped_file_size_commit_log=1 << 20) as store:
        for number in range(MESSAGES):
            store.put(Message("Orders", b"body", keys=(f"K{number}",))).raise_for_status()
        assert store.wait_dispatched(60)
    return folder / "store"


def command(*words: str | Path) -> str:
    """What the installed command says; it must succeed."""
    program = Path(sys.executable).parent / "rmqcore"
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def arrow(store: Path, folder: Path) -> None:
    """A Parquet file of the store, and a table put."""
    import pyarrow as pa
    from pyarrow import parquet

    rmqcore.export(store, folder / "parquet", file_format="parquet")
    files = [*(folder / "parquet").rglob("*.parquet")]
    assert sum(parquet.read_metadata(file).num_rows for file in files) == MESSAGES
    with rmqcore.open(folder / "other", mapped_file_size_commit_log=1 << 20) as other:
        other.put_arrow(pa.table({"topic": ["T"], "body": [b"b"]}))
        assert other.lookup(0) is not None


def compress(store: Path, folder: Path) -> None:
    """Bodies that a producer has packed with LZ4 and ZSTD."""
    import zstandard
    from lz4 import frame

    packed = {
        sysflag.COMPRESSION_LZ4: frame.compress(b"body"),
        sysflag.COMPRESSION_ZSTD: zstandard.compress(b"body"),
    }
    for flag, body in packed.items():
        message = Message("Orders", body, sys_flag=sysflag.COMPRESSED | flag)
        record = codec.encode(message, phy_offset=0, queue_offset=0, store_timestamp_ms=1)
        assert codec.decode(record).decompress() == b"body"


def cli(store: Path, folder: Path) -> None:
    """The command and its verbs."""
    assert command("--version").split()[-1] == rmqcore.__version__
    assert "Orders" in command("info", store)
    assert len(command("cat", store).splitlines()) == MESSAGES
    command("fsck", store)


def plot(store: Path, folder: Path) -> None:
    """A picture of the statistics."""
    command("stats", store, "--plot", folder / "stats.svg")
    assert (folder / "stats.svg").stat().st_size > 1000


def broker(store: Path, folder: Path) -> None:
    """A broker on uvloop that takes and gives a message."""
    import uvloop

    from rmqcore.client import Producer
    from rmqcore.testing.served_broker import ServedBroker

    assert issubclass(uvloop.Loop, asyncio.AbstractEventLoop)
    (folder / "broker").mkdir()
    with ServedBroker(folder / "broker") as served:
        served.create_topic("Orders")
        with Producer(served.namesrv) as producer:
            producer.send("Orders", b"body")
        assert [view.body for view in served.messages("Orders")] == [b"body"]


def polars(store: Path, folder: Path) -> None:
    """A LazyFrame of the store, and a frame."""
    import polars as pl

    keys = rmqcore.scan(store).filter(pl.col("keys").list.contains("K7"))
    assert keys.select(pl.len()).collect().item() == 1
    assert rmqcore.read(store).to_polars().height == MESSAGES


def duckdb(store: Path, folder: Path) -> None:
    """A view of the store."""
    import duckdb

    view = rmqcore.duckdb_view(duckdb.connect(), "store", store)
    assert view.filter("topic = 'Orders'").aggregate("count(*)").fetchall() == [(MESSAGES,)]


def pandas(store: Path, folder: Path) -> None:
    """A frame of the store."""
    assert str(rmqcore.read(store).to_pandas().dtypes["store_timestamp"]) == "datetime64[ms, UTC]"


def spark(store: Path, folder: Path) -> None:
    """The store counted by Spark."""
    import rmqcore.spark

    session = rmqcore.spark.session()
    assert session.read.format("rmqstore").load(str(store)).count() == MESSAGES
    session.stop()


def delta(store: Path, folder: Path) -> None:
    """A Delta table of the store."""
    from deltalake import DeltaTable

    table(store, folder, "delta")
    assert (
        sum(DeltaTable(folder / "delta").get_add_actions().column("num_records").to_pylist())
        == MESSAGES
    )


def iceberg(store: Path, folder: Path) -> None:
    """An Iceberg table of the store."""
    table(store, folder, "iceberg")


def rocksdb(store: Path, folder: Path) -> None:
    """The queues of a database, which has none."""
    from rocksdict import Options, Rdict

    copy = Path(shutil.copytree(store, folder / "rocksdb"))
    shutil.rmtree(copy / "consumequeue")
    database = Rdict(str(copy / "consumequeue"), Options(raw_mode=True))
    database.create_column_family("offset", Options(raw_mode=True))
    database.close()
    with rmqcore.read(copy) as reader:
        assert reader.queues() == []
        assert [kind.name for kind in reader.info().kinds] == ["rocksdb_queues"]


def table(store: Path, folder: Path, name: Literal["delta", "iceberg"]) -> None:
    """A table that grows with the log, once."""
    import rmqcore.spark

    session = rmqcore.spark.session()
    report = rmqcore.spark.export_table(session, f"a={store}", folder / name, format=name)
    assert report.rows == MESSAGES
    session.stop()


CHECKS: dict[str, Callable[[Path, Path], None]] = {
    check.__name__: check
    for check in (
        arrow,
        broker,
        cli,
        compress,
        delta,
        duckdb,
        iceberg,
        pandas,
        plot,
        polars,
        rocksdb,
        spark,
    )
}


def main() -> None:
    """Check the extras that are named."""
    extras, folder = sys.argv[1].split(","), Path(sys.argv[2])
    store = make_store(folder)
    for extra in extras:
        CHECKS[extra](store, folder)


if __name__ == "__main__":
    main()
