"""What PySpark finds; see the package."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):  # type: ignore[misc, unused-ignore]
    """The name of the source, and the source itself when Spark makes one.

    The two are apart so that a program that reads no store loads nothing of rmqcore, and sees none of its errors.
    """

    def __new__(cls, options: dict[str, str]) -> DataSource:  # type: ignore[misc]
        """Make the source."""
        from rmqcore.spark.source.datasource import RmqStoreDataSource

        return RmqStoreDataSource(options)

    @classmethod
    def name(cls) -> str:
        """The name that ``spark.read.format`` takes."""
        return "rmqstore"
