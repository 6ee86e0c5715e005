"""Raises at the n-th place at which Python could run a signal handler inside rmqcore, and at more places than it really would."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import rmqcore

PACKAGE = str(Path(rmqcore.__file__).parent)


class Interrupted(KeyboardInterrupt):
    """What the injector raises at every odd place: Ctrl-C."""


class TimedOut(TimeoutError):
    """What it raises at every even place: the exception of an alarm's handler, which is an OSError of no system call."""


class Injector:
    """Counts the events of a call inside the package's Python code and raises at one of them.

    Events are each line, each bytecode, and each border between Python and C: before a C function is called, and after it has
    returned. Callbacks that native code calls are inside too.

    Parameters
    ----------
    at : int
        The number of the event at which to raise; 0: never, only count.
    handler : callable, optional
        Called at the event, as a signal handler is; without it an exception is raised.

    Attributes
    ----------
    events : int
        Events so far.
    place : str
        Where it raised.
    """

    def __init__(self, at: int = 0, handler: Callable[[], None] | None = None) -> None:
        self.at = at
        self.handler = handler
        self.events = 0
        self.place = ""

    def run(self, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Call ``function(*args, **more)``; Interrupted or TimedOut when the event came."""
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
        try:
            return function(*args, **more)
        finally:
            sys.setprofile(None)
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event in ("line", "opcode", "call"):
            self._event(frame, event)
        return self._trace

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        if event in ("c_call", "c_return") and frame.f_code.co_filename.startswith(PACKAGE):
            self._event(frame, f"{event} {getattr(called, '__name__', called)}")

    def _event(self, frame: FrameType, event: str) -> None:
        self.events += 1
        if self.events == self.at:
            sys.setprofile(None)
            sys.settrace(None)
            name = frame.f_code.co_filename.removeprefix(PACKAGE)
            self.place = f"{name}:{frame.f_lineno} {frame.f_code.co_name} {event}"
            if self.handler is None:
                raise (Interrupted if self.at % 2 else TimedOut)(self.place)
            self.handler()
