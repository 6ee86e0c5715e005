"""Closes the stores that are still open when the interpreter ends: their threads would keep it from ending."""

from __future__ import annotations

import os
import threading
import traceback
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore


_open: set[weakref.ref[MessageStore]] = set()


def close_at_exit(store: weakref.ref[MessageStore]) -> None:
    """Close the store when the interpreter ends, if it still exists and is open."""
    for reference in tuple(_open):
        if reference() is None:
            _open.discard(reference)
    _open.add(store)


def _close_all() -> None:
    interrupt: BaseException | None = None
    for reference in tuple(_open):
        store = reference()
        if store is not None:
            try:
                store.close()
            except Exception as error:  # noqa: BLE001 the other stores must be closed too
                traceback.print_exception(error)
            except BaseException as error:  # noqa: BLE001 likewise
                interrupt = error
    if interrupt is not None:
        raise interrupt


# An `atexit` function would run too late: the interpreter first waits for all non-daemon threads. concurrent.futures
# uses this private hook for the same purpose; Python has no public one.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # noqa: SLF001
# A forked child has neither the threads nor the right to write.
os.register_at_fork(after_in_child=_open.clear)
