"""A client of Spark Connect whose server runs in its own Java: says what it found, as JSON. Arguments: two stores, a folder."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import rmqcore.spark


def main(store: str, damaged: str, folder: Path) -> dict[str, Any]:
    """What a program may do with a store through Spark Connect."""
    spark = rmqcore.spark.session(conf={"spark.remote": "local[2]"})
    rmqcore.spark.register(spark)  # again
    found: dict[str, Any] = {"session": type(spark).__module__}
    named = rmqcore.spark.read(spark, store, columns=["queue_id"], where="topic = 'TopicBasicA'")
    found["read"] = named.count()
    spark.sql(f"CREATE TABLE t USING rmqstore OPTIONS (path '{store}', topics 'TopicBasicA')")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found["table"] = rmqcore.spark.sql(spark, "SELECT count(*) n FROM t").collect()[0].n
    found["warnings"] = [str(one.message) for one in told if one.category is UserWarning]
    found["damage"] = [row.kind for row in rmqcore.spark.audit(spark, damaged).collect()]
    found["export"] = rmqcore.spark.export_parquet(spark, store, str(folder / "export")).rows
    out = str(folder / "out")
    rows = spark.table("t").select("topic", "body")
    rows.write.format("rmqstore").mode("append").option("mappedFileSizeCommitLog", "1m").save(out)
    found["written"] = rmqcore.spark.read(spark, out, columns=["topic"]).count()
    try:
        rmqcore.spark.read(spark, damaged, mode="FAILFAST").count()
    except Exception as error:  # noqa: BLE001 - told
        found["error"] = str(error)
    spark.stop()
    return found


if __name__ == "__main__":
    sys.stdout.write("told " + json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
