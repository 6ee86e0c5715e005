"""An exception of a signal handler between any two steps of a dispatch: the index is as if there had been none."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.doses import dose
from support.stores.index_batches import quick_folder
from support.stores.keyed_store import SETTINGS, RisingClock, contents, index_findings, keys_of

import rmqcore
from rmqcore import Message
from rmqcore.engine.store.store import MessageStore

COUNT = 60
PARTS = 4
STRIDE = dose("RMQCORE_INDEX_INTERRUPTS", test=4, verify=1, night=1)
"""Through the lines that an exception comes before."""
WATCHED = ("/rmqcore/engine/index/", "/rmqcore/engine/dispatch/")


class Interrupted(BaseException):
    """What the handler of a signal raises."""


@contextmanager
def interrupt(after: int) -> Iterator[list[int]]:
    """Raise once, before the line with this number that is run in the index or in the dispatcher; answer how many were run."""
    lines = [0]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in WATCHED):
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        # A handler of a signal does not run between the end of a with block and its exit, where a trace has the line once more.
        if event == "line" and not line.startswith("with "):
            lines[0] += 1
            if lines[0] == after:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def opened(root: Path) -> MessageStore:
    """A store with messages of which none is dispatched."""
    store = rmqcore.open(root, services=False, clock=RisingClock(), **SETTINGS)
    for number in range(COUNT):
        store.put(
            Message("T", f"body {number}".encode(), keys=keys_of(number), queue_id=number % 3)
        )
    return store


def index_of(root: Path) -> list[bytes]:
    return list(contents(root / "index").values())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_interrupted_before_any_line(tmp_path: Path, part: int) -> None:
    """Ctrl-C while messages were indexed left a file that the next dispatch met: EEXIST, and the store failed.

    Or the same messages were scanned twice, and each of their keys was there twice.
    """
    with interrupt(0) as lines, opened(tmp_path / "whole") as store:
        store.wait_dispatched()
    wanted = index_of(tmp_path / "whole")
    assert len(wanted) > 3
    assert index_findings(tmp_path / "whole") == []
    for after in range(1 + part * STRIDE, lines[0], PARTS * STRIDE):
        with quick_folder() as name:
            root = Path(name) / "store"
            store = opened(root)
            try:
                with interrupt(after):
                    store.wait_dispatched()
            except Interrupted:
                pass
            store.wait_dispatched()
            store.close()
            assert index_of(root) == wanted, f"line {after}"
