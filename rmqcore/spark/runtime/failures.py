"""Our own error inside an error of Spark, which wraps it in tracebacks of Python and Java."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rmqcore import errors
from rmqcore.errors import SparkJobError, StoreError

_LAST_LINE = re.compile(
    r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception)): (.*)$", re.MULTILINE
)
_TRACEBACK = "Traceback (most recent call last):"


def job_error(text: str) -> StoreError:
    """Return the error that Python code raised in Spark, made from the traceback in Spark's message."""
    lines = _LAST_LINE.findall(text)
    name, message = lines[-1] if lines else ("", text.strip().splitlines()[0] if text else "")
    kind = getattr(errors, name.rpartition(".")[2], None)
    failed = SparkJobError(message if kind is not None or not name else f"{name}: {message}")
    if isinstance(kind, type) and issubclass(kind, StoreError):
        failed.hint, failed.exit_code = kind.hint, kind.exit_code
    return failed


def short_error(error: BaseException) -> BaseException:
    """Return the one line that matters in an error of Spark, below pages of tracebacks, as an error.

    Parameters
    ----------
    error : BaseException
        What ``collect()``, ``show()``, ``load()`` or a stream raised.

    Returns
    -------
    BaseException
        A `StoreError` with the message of the error that a task or the planning of a read raised; the given error if it
        has no Python error inside, for example for an unknown column.

    Examples
    --------
    >>> try:
    ...     frame.show()
    ... except Exception as error:
    ...     raise rmqcore.spark.short_error(error) from None
    """
    if isinstance(error, StoreError) or not _is_of_spark(error):
        return error
    text = str(error)
    return job_error(text) if _TRACEBACK in text else error


@contextmanager
def short_errors(*, every: bool = False) -> Iterator[None]:
    """Raise errors of Spark as `short_error` returns them; Spark's own error is in ``__context__``.

    Parameters
    ----------
    every : bool
        Convert errors without a Python error inside to `StoreError` too.
    """
    try:
        yield
    except Exception as error:
        if not _is_of_spark(error):
            raise
        short = job_error(str(error)) if every else short_error(error)
        if short is error:
            raise
        raise short from None


def _is_of_spark(error: BaseException) -> bool:
    """Return True for an error of Spark, recognized by name: a client of Spark Connect has no py4j."""
    return any(
        base.__module__.partition(".")[0] in ("pyspark", "py4j") for base in type(error).__mro__
    )
