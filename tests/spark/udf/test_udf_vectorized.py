"""The UDFs of PySpark before 4.1, which are pandas UDFs around the same kernels; without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from rmqcore import Message, codec, sysflag

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyspark")
udf_arrow = pytest.importorskip("rmqcore.spark.udf.kernels")
udf_columns = pytest.importorskip("rmqcore.spark.udf.records")
udf_records = pytest.importorskip("rmqcore.spark.udf.records")
udf_vectorized = pytest.importorskip("rmqcore.spark.udf.vectorized")

FAR = 2**60 + 1  # a float has no room for it


def record(n: int) -> bytes:
    return codec.encode(
        Message("T", b"%d" % n, tags="A"), phy_offset=FAR, queue_offset=n, store_timestamp_ms=n
    )


def test_numbers_stay_exact_beside_nulls() -> None:
    """A column of int64 with a null became float64 in pandas, and phy offsets above 2**53 came back rounded."""
    fields = udf_columns.chosen(["phy_offset", "properties"])

    def kernel(raw: Any) -> Any:
        return udf_records.decode(raw, fields, "PERMISSIVE", verify_crc=False)

    frame = udf_vectorized.over_series(kernel)(pd.Series([record(1), None, b"bad", record(2)]))
    assert list(frame.columns) == ["phy_offset", "properties"]
    assert frame["phy_offset"].tolist() == [FAR, None, None, FAR]
    assert frame["properties"].tolist() == [{"TAGS": "A"}, None, None, {"TAGS": "A"}]


def test_series_of_plain_values() -> None:
    crc = udf_vectorized.over_series(udf_arrow.body_crc)
    assert crc(pd.Series([b"a", None])).tolist() == [codec.body_crc(b"a"), None]
    plain = udf_vectorized.over_series(udf_arrow.decompress_body)
    # What pandas makes of ints beside a null.
    flags = pd.Series([0.0, float("nan")])
    assert plain(pd.Series([b"a", b"b"]), flags).tolist() == [b"a", None]


def test_arguments_by_name() -> None:
    plain = udf_vectorized.over_series(udf_arrow.decompress_body)
    bodies, flags = pd.Series([b"no zlib"]), pd.Series([sysflag.COMPRESSED])
    assert plain(bodies, sys_flags=flags).tolist() == [None]
    with pytest.raises(udf_arrow.CompressionError):
        plain(bodies, flags, mode=pd.Series(["FAILFAST"]))


def test_without_arrow_udf_a_pandas_udf_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.pandas import functions

    made: list[tuple[str, str, dict[str, Any]]] = []

    def pandas_udf(function: Any, return_type: str) -> None:
        made.append((function.__name__, return_type, function.__annotations__))

    monkeypatch.delattr(functions, "arrow_udf", raising=False)
    monkeypatch.setattr(functions, "pandas_udf", pandas_udf)
    udf_vectorized.vectorized(udf_arrow.body_crc, "int")
    # Annotations would make PySpark guess what kind of UDF is meant.
    assert made == [("body_crc", "int", {})]
