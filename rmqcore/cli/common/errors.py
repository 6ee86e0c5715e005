"""Errors printed as one or two lines on stderr instead of a traceback, each with its exit code."""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable, Iterable
from typing import ParamSpec

import typer

from rmqcore.cli.common.shown import printable
from rmqcore.errors import StoreError
from rmqcore.errors.exit_codes import FAILED, INTERRUPTED, OK
from rmqcore.offline.log.damage import DamageRange, MoreDamage

MOST_LINES = 20
"""Most damaged ranges to print on a line each: JSON and fsck list all."""

RIGHTS = (
    "permission denied for this user; run the command as the owner of the file (`ls -ldn FILE` "
    "shows the owner)"
)
_EXTRAS = {
    "pyarrow": "arrow",
    "lz4": "compress",
    "zstandard": "compress",
    "matplotlib": "plot",
    "pyspark": "spark",
    "pandas": "spark",
}

Arguments = ParamSpec("Arguments")


def say(message: str, hint: str = "") -> None:
    """Print an error, and what to do about it, on stderr."""
    _print(f"Error: {message}")
    if hint:
        _print(f"Hint: {hint}")


def note(message: str) -> None:
    """Print a line beside the output, on stderr."""
    _print(message)


def report_damage(damage: Iterable[DamageRange]) -> None:
    """Print damaged ranges on stderr: the first 20 a line each, and one line for all others."""
    more = more_bytes = end = 0
    for number, found in enumerate(damage):
        if number >= MOST_LINES or isinstance(found, MoreDamage):
            more += found.range_count
            more_bytes += found.byte_count
            end = max(end, found.end_phy_offset)
            continue
        _print(
            f"damaged: {found.start_phy_offset}..{found.end_phy_offset} ({found.byte_count} bytes) {found.kind} in {found.path}: "
            f"{found.field} is {found.found}, expected {found.expected}"
        )
    if more:
        _print(f"damaged: {more} more ranges ({more_bytes} bytes), up to {end}")


def _print(text: str) -> None:
    try:
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()
    except (BrokenPipeError, ValueError, AttributeError):  # stderr is closed, or its reader is
        return


def explain(error: BaseException) -> int:
    """Print what an error means and return its exit code."""
    if isinstance(error, StoreError):
        say(str(error), error.hint)
        return error.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        say(
            f"this needs {error.name}, which is not installed",
            f"pip install 'rmqcore[{_EXTRAS[error.name]}]'",
        )
        return FAILED
    if isinstance(error, OSError):
        where = (
            f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        )
        rights = where and error.errno in (errno.EACCES, errno.EPERM)
        say(f"{where}{error.strerror or error}", RIGHTS if rights else "")
        return FAILED
    if isinstance(error, MemoryError):
        say("not enough memory")
        return FAILED
    say(str(error))
    return FAILED


def guarded(verb: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """Return the verb with an exit code for every error that is not a programming mistake."""

    @functools.wraps(verb)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        try:
            return verb(*args, **kwargs)
        except BrokenPipeError:
            silence_stdout()
            return OK  # the reader closed the pipe, as `| head` does
        except (KeyboardInterrupt, typer.Abort):  # the second at a question
            return INTERRUPTED
        except (StoreError, OSError, ValueError, ModuleNotFoundError, MemoryError) as error:
            return explain(error)

    return run


def silence_stdout() -> None:
    """Point stdout to the null device, because the pipe is closed and the interpreter will flush once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
