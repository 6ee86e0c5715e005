"""A progress bar with rate and time left, on stderr, for people only."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rmqcore.cli.common.output import human_bytes
from rmqcore.cli.common.shown import ReportConsole, printable

Progress = Callable[[int, int], None]

REFRESH_SECONDS = 0.1


def wanted(no_progress: bool) -> bool:
    """Return True if a progress bar is shown: stderr is a terminal, without ``--no-progress`` and ``NO_COLOR``."""
    return (
        not no_progress
        and not os.environ.get("NO_COLOR")
        and sys.stderr is not None
        and sys.stderr.isatty()
    )


def _rows_may_be_seen() -> bool:
    """Return True if stdout may be shown on the terminal: if it is not a file."""
    try:
        mode = os.fstat(sys.stdout.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # stdout is closed, or no file of the system
        return False
    return sys.stdout.isatty() or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


@contextmanager
def progress_bar(
    what: str, *, no_progress: bool, over_output: bool = False
) -> Iterator[Progress | None]:
    """Yield a callable that accepts (bytes done, bytes in all), or None if no bar is wanted.

    Parameters
    ----------
    what : str
        The text before the bar.
    over_output : bool
        Rows are written to stdout at the same time: no bar is shown if stdout is a terminal too, or a pipe, whose
        reader may write to the terminal.
    """
    if not wanted(no_progress) or (over_output and _rows_may_be_seen()):
        yield None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Speed(ProgressColumn):
        """Rich has MB/s of 1,000,000 bytes beside its MiB."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            text = "?" if speed is None else f"{human_bytes(round(speed))}/s"
            return Text(text, style="progress.data.speed")

    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        Speed(),
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
