"""The UDFs in a real Spark session, as functions and from SQL, over raw records of a golden store in Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rmqcore
from rmqcore import codec, sysflag
from rmqcore.spark.runtime.versions import pyspark_version

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
udf = pytest.importorskip("rmqcore.spark.udf")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BAD = [None, b"", b"no record", bytes(200)]
ARROW_UDFS = (4, 1)


@pytest.fixture(scope="module")
def records(golden: Path) -> list[bytes]:
    with rmqcore.read(golden / "basic" / "store") as reader:
        return [message.raw for message in reader.messages()]


@pytest.fixture(scope="module")
def raw(
    spark: SparkSession, records: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    """All records in two files, malformed values among them, under the name ``raw_records``."""
    folder = tmp_path_factory.mktemp("raw")
    broken = [*BAD, records[0] + records[1], records[2][:-1]]
    for number, part in enumerate((records[:1001] + broken, records[1001:])):
        pq.write_table(pa.table({"raw": pa.array(part, pa.binary())}), folder / f"{number}.parquet")
    frame = spark.read.parquet(str(folder))
    frame.createOrReplaceTempView("raw_records")
    udf.register(spark)
    return frame


def test_the_struct_holds_what_the_codec_gives(raw: DataFrame, records: list[bytes]) -> None:
    rows = raw.select(udf.decode_message("raw").alias("m")).collect()
    found = {row.m.phy_offset: row.m for row in rows if row.m and row.m.phy_offset is not None}
    assert len(rows) == len(records) + len(BAD) + 2
    assert len(found) == len(records)
    for record in records:
        view = codec.decode(record)
        row = found[view.phy_offset]
        for name in (
            "topic",
            "queue_id",
            "queue_offset",
            "body",
            "tags",
            "properties",
            "born_host",
        ):
            assert getattr(row, name) == getattr(view, name)
        assert row.keys == (" ".join(view.keys) or None)
        assert row.store_timestamp.timestamp() * 1000 == pytest.approx(view.store_timestamp_ms)


def test_one_call_decodes_for_all_fields_of_a_select(raw: DataFrame, capfd: Any) -> None:
    raw.select(udf.decode_message("raw").alias("m")).select("m.topic", "m.body", "m.tags").explain()
    assert capfd.readouterr().out.count("decode_message(raw") == 1


@pytest.mark.skipif(
    pyspark_version() < ARROW_UDFS, reason="UDFs through pandas give a struct of nulls"
)
def test_malformed_records_are_null_or_say_why(spark: SparkSession, raw: DataFrame) -> None:
    counted = spark.sql(
        "select count(*) as malformed, count(distinct rmq_corrupt_reason(raw)) as reasons from raw_records "
        "where raw is not null and rmq_decode_message(raw) is null"
    ).first()
    assert counted is not None
    assert (counted.malformed, counted.reasons) == (5, 5)
    decoded = udf.decode_message("raw", columns=["topic", "corrupt_reason"]).alias("m")
    rows = raw.select(decoded).where("m.corrupt_reason is not null").collect()
    assert len(rows) == 5
    assert {row.m.topic for row in rows} == {None}


def test_failfast_names_field_expected_and_found(spark: SparkSession, raw: DataFrame) -> None:
    from pyspark.errors import PythonException

    says = "CorruptMessageError: <row .* of the batch>@0: [A-Z]+ is .*, expected "
    with pytest.raises(PythonException, match=says):
        raw.select(udf.decode_message("raw", mode="FAILFAST")).collect()
    for call in (
        "rmq_decode_message(raw, 'FAILFAST')",
        "rmq_decode_message(raw, mode => 'failfast')",
    ):
        with pytest.raises(PythonException, match=says):
            spark.sql(f"select {call} from raw_records").collect()


def test_the_plain_functions_from_sql(spark: SparkSession, raw: DataFrame) -> None:
    wrong = spark.sql(
        "select count(*) as messages, count_if(rmq_body_crc(m.body) <> m.body_crc) as crcs, "
        "count_if(rmq_java_hash(m.tags) <> rmq_tags_code(m.tags)) as tags, "
        "count_if(rmq_decompress_body(m.body, m.sys_flag) is null) as bodies "
        "from (select rmq_decode_message(raw) as m from raw_records) where m.phy_offset is not null"
    ).first()
    assert wrong is not None
    assert tuple(wrong) == (2000, 0, 0, 0)
    odd = spark.sql(
        "select rmq_java_hash('Hello') as hash, rmq_tags_code(cast(null as string)) as no_tags, rmq_body_crc(null) as nothing, "
        f"rmq_decode_properties(X'61016202') as properties, rmq_decompress_body(X'6162', {sysflag.COMPRESSED}) as bad"
    ).first()
    assert odd is not None
    assert odd.asDict() == {
        "hash": 69609650,
        "no_tags": 0,
        "nothing": None,
        "properties": {"a": "b"},
        "bad": None,
    }


def test_an_ill_body_fails_the_query_if_asked(spark: SparkSession) -> None:
    from pyspark.errors import PythonException
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    frame = spark.range(1).select(F.lit(b"ab").alias("body"), F.lit(sysflag.COMPRESSED).alias("f"))
    plain = udf.decompress_body("body", "f")
    assert frame.select(plain.alias("plain")).first() == (None,)
    with pytest.raises(PythonException, match="CompressionError: row 0 of the batch"):
        frame.select(udf.decompress_body("body", "f", mode="FAILFAST")).collect()


def test_raw_records_of_the_data_source_decode_to_its_own_columns(
    spark: SparkSession, golden: Path
) -> None:
    import rmqcore.spark

    columns = ["topic", "queue_id", "phy_offset", "store_timestamp", "keys", "body", "sys_flag"]
    store = golden / "basic" / "store"
    frame = rmqcore.spark.read(spark, store, columns=[*columns, "raw"])
    frame = frame.withColumn("m", udf.decode_message("raw", columns=columns))
    same = " and ".join(f"m.{name} <=> {name}" for name in columns)
    assert frame.where(same).count() == 2000


def test_names_and_columns_of_choice(spark: SparkSession, raw: DataFrame) -> None:
    names = udf.register(spark, prefix="log_", columns=["topic", "raw"])
    assert names == [
        "log_" + name
        for name in (
            "decode_message",
            "body_crc",
            "java_hash",
            "tags_code",
            "decode_properties",
            "decompress_body",
            "corrupt_reason",
        )
    ]
    same = spark.sql(
        "select count_if(log_decode_message(raw).raw = raw) as n from raw_records"
    ).first()
    assert same is not None
    assert same.n == 2000


def test_what_cannot_be_is_said_on_the_driver(raw: DataFrame) -> None:
    with pytest.raises(ValueError, match="a raw record has no 'broker'"):
        udf.decode_message("raw", columns=["broker"])
    with pytest.raises(ValueError, match="neither PERMISSIVE nor FAILFAST"):
        udf.decode_message("raw", mode="DROPMALFORMED")
    with pytest.raises(ValueError, match="neither PERMISSIVE nor FAILFAST"):
        udf.decompress_body("raw", "raw", mode="lenient")
