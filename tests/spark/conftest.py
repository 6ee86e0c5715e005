"""One real Spark session for all tests that need one: it takes five seconds to start, and four more for its first Python task."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from rmqcore.spark.runtime.versions import pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What makes runs alike and short: two cores, no code compiled twice, plans that do not change while they run.
CONF = {
    "spark.sql.shuffle.partitions": 2,
    "spark.default.parallelism": 2,
    "spark.sql.adaptive.enabled": False,
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the session: ``pytest -m "not spark"`` runs the others."""
    for item in items:
        if "spark" not in getattr(item, "fixturenames", ()):
            continue
        item.add_marker(pytest.mark.spark)
        if pyspark_version() < (
            4,
            2,
        ):  # it leaves the socket by which rows come to the garbage collector
            unclosed = "ignore:unclosed <socket.socket:ResourceWarning"
            item.add_marker(pytest.mark.filterwarnings(unclosed))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores in this process."""
    from rmqcore.spark import session

    folder = tmp_path_factory.mktemp("spark")
    before = {name: os.environ.get(name) for name in ("TZ", "JAVA_HOME", "SPARK_LOCAL_DIRS")}
    os.environ["TZ"] = "UTC"
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    time.tzset()
    running = session(
        "local[2]", conf=CONF | {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    )
    yield running
    running.stop()
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    time.tzset()
