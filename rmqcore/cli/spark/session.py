"""The Spark session of one command: started without Spark's own messages, stopped at the end."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rmqcore.cli.spark.task_bar import task_bar
from rmqcore.errors import SparkJobError, StoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TELLING = [
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:Exception in thread .*?)?((?:[\w$]+\.)+[\w$]*(?:Exception|Error): .*)$",
        r"^\S+ \S+ ERROR [^:]+: (.*)$",
        r"^(?:Error: )?(Invalid .*)$",  # Java's complaint about its own options
        r"^(?:Error: )(.*)$",
    )
]
"""Lines of Spark's messages with the reason why it does not start, the most specific pattern first."""


@contextmanager
def spark_session(
    master: str, settings: dict[str, str], log: Path | None, *, what: str, no_progress: bool
) -> Iterator[SparkSession]:
    """Yield a session, with a bar of its tasks on stderr; stop it at the end unless it ran before.

    Raises
    ------
    SparkMissingError, JavaMissingError
        PySpark or Java is not installed.
    SparkJobError
        Spark does not start, or a task failed.
    """
    running = _running()
    spark = running or _start(master, settings, log)
    try:
        from rmqcore.spark.runtime.failures import short_errors  # as late as Spark's own modules

        with task_bar(spark, what, no_progress=no_progress), short_errors(every=True):
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
    """Yield a file for Spark's output on stderr: a dozen lines at every start, and a page of Java for each error."""
    with ExitStack() as stack:
        if log is not None:
            yield stack.enter_context(log.open("a+b"))
        else:
            yield stack.enter_context(tempfile.TemporaryFile())


@contextmanager
def _stderr_to(file: BinaryIO) -> Iterator[None]:
    """Send the stderr of processes started in the block, Java and its workers, into a file."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _reason(error: Exception, messages: BinaryIO) -> str:
    """Return the reason in Spark's own messages, else in PySpark's exception."""
    messages.seek(0)
    said = messages.read().decode("utf-8", "replace")
    for telling in _TELLING:
        found = telling.search(said)
        if found is not None:
            return found[1].strip()
    return str(error).splitlines()[0] if str(error) else type(error).__name__
