"""Calls of a program's callbacks: their exceptions harm neither the store nor other callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rmqcore._native.threads.once import Once

NoteError = Callable[[str, BaseException], None]


def call(note_error: NoteError, name: str, once: Once, *args: object) -> None:
    """Run the callback and record its exception; exceptions before its start, and Ctrl-C at any time, propagate."""
    try:
        once(*args)
    except BaseException as error:
        if not once.called:
            raise
        note_error(name, error)
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and not isinstance(error, Exception):
            raise
