"""The Spark session of one command: its options, started without Spark's own messages, stopped at the end."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from rmqcore.cli.spark_progress import task_bar
from rmqcore.errors import SparkJobError, StoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqcore.spark.options import Table

Stores = Annotated[
    list[str],
    typer.Argument(
        metavar="STORE...",
        help="Stores: directories, globs, NAME=PATH, or URIs such as s3://bucket/store.",
        show_default=False,
    ),
]
Master = Annotated[
    str,
    typer.Option(
        "--master", metavar="URL", help="Where Spark runs: local[4], spark://host:7077, yarn, ..."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; several times."),
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the data source (docs/spark.md), such as maxPartitionBytes=64m; several times.",
    ),
]
Out = Annotated[
    str,
    typer.Option(
        "-o",
        "--out",
        metavar="DIR",
        help="A new or empty folder that all workers see.",
        show_default=False,
    ),
]
Log = Annotated[
    Path | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="Add Spark's own messages to this file.",
        dir_okay=False,
        show_default="nowhere",
    ),
]


_TELLING = [
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:Exception in thread .*?)?((?:[\w$]+\.)+[\w$]*(?:Exception|Error): .*)$",
        r"^\S+ \S+ ERROR [^:]+: (.*)$",
        r"^(?:Error: )?(Invalid .*)$",  # what Java says of its own options
        r"^(?:Error: )(.*)$",
    )
]
"""Lines of Spark's messages that say why it does not start, the most telling first."""


def pairs(given: Sequence[str] | None, name: str) -> dict[str, str]:
    """``KEY=VALUE`` texts of an option as a dict.

    Raises
    ------
    typer.BadParameter
        One without ``=``.
    """
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=name)
        found[key] = value
    return found


def source_options(
    given: Sequence[str] | None,
    stores: Sequence[str],
    *,
    topics: Sequence[str] | None = None,
    table: Table = "messages",
) -> dict[str, Any]:
    """Give the options of the data source; what is wrong with them or the paths is said before Spark starts, which takes seconds.

    Parameters
    ----------
    given : sequence of str, optional
        ``NAME=VALUE``.
    stores : sequence of str
    topics : sequence of str, optional
        Instead of the option of that name.
    table : str
        Of which the job takes options.

    Raises
    ------
    ValueError, OSError, StoreError
        See `rmqcore.spark.job_splits.JobSource.open`.
    typer.BadParameter
        An option without ``=``.
    """
    from rmqcore.spark.job_splits import JobSource

    options: dict[str, Any] = {**pairs(given, "--option")}
    if topics:
        options["topics"] = topics
    JobSource.open(stores, options, table)
    return options


@contextmanager
def spark_session(
    master: str, conf: Sequence[str] | None, log: Path | None, *, what: str, no_progress: bool
) -> Iterator[SparkSession]:
    """Give a session, with a bar of its tasks on stderr; stopped at the end unless it ran before.

    Raises
    ------
    SparkMissingError, JavaMissingError
        What Spark needs is not installed.
    SparkJobError
        Spark does not start, or a task of it failed.
    typer.BadParameter
        A setting without ``=``.
    """
    settings = pairs(conf, "--conf")
    running = _running()
    spark = running or _start(master, settings, log)
    try:
        with task_bar(spark, what, no_progress=no_progress), _spark_errors():
            yield spark
    finally:
        if running is None:
            # PySpark's threads print tracebacks when a task is cut off, as Ctrl-C does.
            with redirect_stderr(io.StringIO()):
                spark.stop()


def _running() -> Any:
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _start(master: str, settings: dict[str, str], log: Path | None) -> SparkSession:
    from rmqcore.spark import session

    with _messages(log) as messages:
        try:
            with _stderr_to(messages):
                return session(master, conf=settings)
        except StoreError:
            raise
        except Exception as error:
            raise SparkJobError(f"Spark does not start: {_reason(error, messages)}") from error


@contextmanager
def _messages(log: Path | None) -> Iterator[BinaryIO]:
    """A file for what Spark writes on stderr: a dozen lines at every start, and a page of Java for each error."""
    with ExitStack() as stack:
        if log is not None:
            yield stack.enter_context(log.open("a+b"))
        else:
            yield stack.enter_context(tempfile.TemporaryFile())


@contextmanager
def _stderr_to(file: BinaryIO) -> Iterator[None]:
    """Let processes that are started meanwhile, Java and its workers, write their stderr into a file."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _reason(error: Exception, messages: BinaryIO) -> str:
    """What Spark said, else what PySpark says about it."""
    messages.seek(0)
    said = messages.read().decode("utf-8", "replace")
    for telling in _TELLING:
        found = telling.search(said)
        if found is not None:
            return found[1].strip()
    return str(error).splitlines()[0] if str(error) else type(error).__name__


@contextmanager
def _spark_errors() -> Iterator[None]:
    """Errors of Spark as ours: one line, not a page of Java."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from rmqcore.spark.jobs import job_error

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise job_error(str(error)) from error
