"""In a child under the shim: entries are put and synced again and again, and each time one more system call fails.

What counts afterwards is what is on disk: an open that comes after finds the same ends, and putting everything once more
completes the queues without a gap.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

from support.oracle import records as oracle
from support.stores.index_batches import lay_out
from support.stores.queue_batches import open_queues, put_records, queue_files, record

from rmqcore.testing.fault_shim import Shim, tell

PER_FILE = 4


def some_records() -> list[oracle.Record]:
    """Two queues that fill files, one of which begins behind a gap."""
    places = [("A", 0, i) for i in range(6)] + [("B", 1, i) for i in range(7, 15)]
    return lay_out(record(*place, 0) for place in places)


def ends(root: Path) -> dict[tuple[str, int], int]:
    queues = open_queues(root, PER_FILE)
    found = {}
    for place in queues.queues():
        queue = queues.find(*place)
        assert queue is not None
        found[place] = queue.max_offset
    queues.close()
    return found


def failure_of(action: Callable[[], object]) -> OSError | None:
    try:
        action()
    except OSError as problem:
        return problem
    return None


def each_call(folder: str, call: str, error: int = errno.ENOSPC) -> None:
    """Fail the first, second, ... call of a kind until a run needs none."""
    shim, number = Shim(), 0
    records = some_records()
    while True:
        number += 1
        root = Path(folder) / f"{call}{number}"
        root.mkdir()
        queues = open_queues(root, PER_FILE)
        shim.watch(root)
        shim.fail(call, number, error=error)
        failures = [
            problem
            for problem in (
                failure_of(lambda: put_records(queues, records, rows=5)),  # noqa: B023
                failure_of(queues.flush),
            )
            if problem is not None
        ]
        assert all(problem.errno == error for problem in failures), failures
        assert all(str(root) in str(problem.filename) for problem in failures), failures
        fired = shim.fired
        shim.watch(None)
        assert len(failures) == fired, (failures, fired)
        counted = {p: q.max_offset for p in queues.queues() if (q := queues.find(*p))}
        for place, end in ends(root).items():
            assert counted[place] == end, (number, place, counted, end)
        files = queue_files(root)
        assert all(len(data) == 20 * PER_FILE for part in files.values() for data in part.values())
        put_records(queues, records, rows=5)
        queues.flush()
        queues.close()
        assert ends(root) == {("A", 0): 6, ("B", 1): 15}
        assert queues.gaps == 0
        shutil.rmtree(root)
        if not fired:
            break
    tell(f"{number - 1} {call} calls failed")
