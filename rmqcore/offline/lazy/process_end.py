"""Scans that go on in threads of a query engine, while the process ends."""

from __future__ import annotations

import atexit
import os
from collections.abc import Generator
from contextlib import closing
from threading import Condition
from typing import TypeVar

Item = TypeVar("Item")

LONGEST_WAIT = 30.0
"""Seconds. A scan asks about once a mebibyte whether it should end; a filesystem that does not answer may take any time."""


class ProcessEndsError(Exception):
    """A scan that nobody waits for was told to end."""


class Scans:
    """Scans running in threads of a query engine; when the process exits they are stopped and awaited.

    Polars answers ``head`` while its thread asks for the next batch, and forgets the thread. A thread that comes back to a Python
    which is going away is ended by force, in the middle of Rust or C++, and that aborts the process: a script that had printed
    its answer ended with SIGABRT.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Know of none: so it is in a new process, which has none of the threads of the one that it was forked from."""
        self._changed = Condition()
        self._going_on = 0
        self._ending = False

    def keep_on(self, _done: int, _total: int) -> None:
        """Ask whether to keep on; a `Progress`."""
        if self._ending:
            raise ProcessEndsError

    def watched(self, items: Generator[Item]) -> Generator[Item]:
        """Yield the items of a generator, until the process ends."""
        with closing(items):
            while self._begun():
                try:
                    item = next(items)
                except (StopIteration, ProcessEndsError):
                    return
                finally:
                    self._done()
                yield item

    def end(self) -> None:
        """Ask all to end, and wait until none is left."""
        with self._changed:
            self._ending = True
            self._changed.wait_for(lambda: self._going_on <= 0, LONGEST_WAIT)

    def _begun(self) -> bool:
        with self._changed:
            self._going_on += not self._ending
            return not self._ending

    def _done(self) -> None:
        with self._changed:
            self._going_on -= 1
            self._changed.notify_all()


SCANS = Scans()
atexit.register(SCANS.end)
os.register_at_fork(after_in_child=SCANS.begin)
