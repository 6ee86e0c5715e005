"""A progress bar with rate and time left, on stderr, for people only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rmqcore.cli.common.shown import ReportConsole, printable

Progress = Callable[[int, int], None]

REFRESH_SECONDS = 0.1


def wanted(no_progress: bool) -> bool:
    """Whether to show a bar: stderr is a terminal, and neither ``--no-progress`` nor ``NO_COLOR`` says otherwise."""
    return (
        not no_progress
        and not os.environ.get("NO_COLOR")
        and sys.stderr is not None
        and sys.stderr.isatty()
    )


@contextmanager
def progress_bar(
    what: str, *, no_progress: bool, over_output: bool = False
) -> Iterator[Progress | None]:
    """Give a callable that takes (bytes done, bytes in all), or None when no bar is wanted.

    Parameters
    ----------
    what : str
        The text before the bar.
    over_output : bool
        Rows go to stdout meanwhile: there is no bar when stdout is a terminal too.
    """
    if not wanted(no_progress) or (over_output and sys.stdout is not None and sys.stdout.isatty()):
        yield None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=ReportConsole(stderr=True),
        transient=True,
        auto_refresh=False,
    )
    shown = 0.0

    def advance(done_bytes: int, total_bytes: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= REFRESH_SECONDS or done_bytes >= total_bytes:
            shown = now
            bars.update(task, completed=done_bytes, total=total_bytes)
            bars.refresh()

    with bars:
        task = bars.add_task(printable(what), total=None)
        yield advance
