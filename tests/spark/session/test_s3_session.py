"""Stores in a real S3 server, read by tasks of a real Spark session: what a store on a disk gives, and no secret in any text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.remote.s3_server import BUCKET, STORAGE, S3Server, s3_server
from support.stores.store_maker import make_store, sample_records

import rmqcore
import rmqcore.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KIB = 1024
SECRET = STORAGE["secret_key"]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of several splits each, queues and index files; the log's end is torn."""
    made = make_store(
        sample_records(15_000),
        log_file_size=2 * KIB * KIB,
        cq_file_entries=5_000,
        index_capacity=50_000,
    )
    folder = made.write(tmp_path_factory.mktemp("made") / "broker-a")
    first = folder / "commitlog" / f"{0:020}"
    data = bytearray(first.read_bytes())
    data[1_000_000:1_000_300] = b"\xff" * 300
    first.write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def uri(server: S3Server, root: Path) -> str:
    return server.put(root, "broker-a")


def loaded(spark: SparkSession, path: str, storage: dict[str, str], **options: Any) -> DataFrame:
    rmqcore.spark.register(spark)
    given = {f"storage.{name}": value for name, value in storage.items()} | options
    return spark.read.format("rmqstore").options(**given).load(path)


def test_messages_in_many_splits(
    spark: SparkSession, server: S3Server, root: Path, uri: str
) -> None:
    frame = loaded(
        spark,
        uri,
        server.storage,
        columns="phy_offset,body",
        maxPartitionBytes="512k",
        maxRecordSize="16k",
    )
    rows = [(row.phy_offset, bytes(row.body)) for row in frame.collect()]
    reader = rmqcore.read(root)
    expected = [(view.phy_offset, bytes(view.body)) for view in reader.messages()]
    assert sorted(rows) == expected
    assert frame.rdd.getNumPartitions() > 2 * len(reader.log_files())


@pytest.mark.parametrize("table", ["corrupt", "consumequeue", "queues", "index", "segments"])
def test_other_tables(
    spark: SparkSession, server: S3Server, root: Path, uri: str, table: str
) -> None:
    on_disk = loaded(spark, str(root), {}, table=table).collect()
    in_s3 = loaded(spark, uri, server.storage, table=table).collect()
    assert on_disk
    assert normal(in_s3, uri) == normal(on_disk, str(root))


def normal(rows: list[Any], root: str) -> list[tuple[tuple[str, str], ...]]:
    """Rows in a fixed order, without the allocated blocks, which a disk tells and S3 does not."""
    return sorted(
        tuple(
            (name, str(value).replace(root, "ROOT"))
            for name, value in row.asDict().items()
            if name != "disk_bytes"
        )
        for row in rows
    )


def test_secrets_are_in_no_text(spark: SparkSession, server: S3Server, uri: str) -> None:
    frame = loaded(spark, uri, server.storage, columns="phy_offset")
    texts = [str(frame), frame._jdf.queryExecution().toString()]
    with server.refusing_keys(), pytest.raises(Exception, match="INVALID_ACCESS_KEY") as caught:
        loaded(spark, uri, server.storage).count()
    texts += [str(caught.value), repr(caught.value)]
    assert [text for text in texts if SECRET in text] == []


def test_a_bucket_that_is_not_there_is_an_error_on_the_driver(
    spark: SparkSession, server: S3Server
) -> None:
    with pytest.raises(Exception, match=r"s3://no-such-bucket/a cannot be listed.*NO_SUCH_BUCKET"):
        loaded(spark, "s3://no-such-bucket/a", server.storage).count()
    with pytest.raises(Exception, match=f"No such file or directory.*s3://{BUCKET}/nowhere"):
        loaded(spark, f"s3://{BUCKET}/nowhere", server.storage).count()
