"""The scrub of an open store: compares log, queues and index in repeated rounds, and reports problems."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from rmqcore._native.threads.mutex import Mutex
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.recovery.scrub_round import scrub_round
from rmqcore.engine.store.dispatch import Dispatch
from rmqcore.engine.store.parts import StoreParts
from rmqcore.engine.store.state import StoreState
from rmqcore.errors import is_no_descriptor

MOST_PROBLEMS = 100


class Problems:
    """Problems found by the scrub.

    Attributes
    ----------
    found : dict
        The first `MOST_PROBLEMS`. Keys, in the order of their first time, are a path in the store, a CommitLog offset
        (None if unknown) and the problem there.
    count : int
        Number of problems in all rounds; a problem that stays counts in each round.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, int | None, str], None] = {}
        self.count = 0

    def note(self, path: str, phy_offset: int | None, what: str) -> None:
        """Remember a problem."""
        self.count += 1
        if len(self.found) < MOST_PROBLEMS:
            self.found[path, phy_offset, what] = None


def _note(
    problems: Problems,
    log: CommitLog,
    min_offset: int,
    path: str,
    phy_offset: int | None,
    what: str,
) -> None:
    """Remember a problem, unless its messages were deleted since the round started."""
    if log.min_offset != min_offset and (phy_offset is None or phy_offset < log.min_offset):
        return
    problems.note(path, phy_offset, what)


class Scrub:
    """Run the steps of the scrub, and remember their problems."""

    def __init__(
        self,
        parts: StoreParts,
        config: MessageStoreConfig,
        state: StoreState,
        dispatch: Dispatch,
    ) -> None:
        # A round refers only to this object, so a store that is dropped in the middle of a round is released at once.
        self._problems = Problems()
        self._parts = parts
        self._config = config
        self._state = state
        self._dispatch = dispatch
        self._rounds = 0
        self._checked_bytes = 0
        self._phy_offset = 0
        self._min_offset = 0  # of the log, at the start of the round
        self._round: Iterator[tuple[int, int]] | None = None
        self._lock = Mutex()

    def once(self) -> int:
        """Compare the next piece; return its bytes, 0 at the end of a round."""
        self._state.raise_if_closed()
        return self._lock.run(self._once)

    def _once(self) -> int:
        parts = self._parts
        if self._round is None:
            end = self._dispatch.reput_from_offset
            self._min_offset = parts.log.min_offset
            self._round = scrub_round(
                parts.paths,
                self._config,
                parts.log,
                parts.queues,
                parts.index,
                end,
                partial(_note, self._problems, parts.log, parts.log.min_offset),
            )
        try:
            step = next(self._round, None)
        except OSError as error:
            if is_no_descriptor(
                error
            ):  # a limit of the process, not a fault of the file: the round starts again
                self._round = None
                self._state.repeat_or_fail_by(error, pause=False)
            if not isinstance(error, FileNotFoundError) or parts.log.min_offset == self._min_offset:
                self._problems.note(str(error.filename or parts.paths.root), None, str(error))
            step = None
        except BaseException:
            self._round = None
            raise
        if step is None:
            self._round = None
            self._rounds += 1
            return 0
        size, self._phy_offset = step
        self._checked_bytes += size
        return size

    def release(self) -> None:
        """Close the files of a running round, then the store's parts."""
        try:
            self._lock.run(self._stop)
        finally:
            self._parts.release()

    def _stop(self) -> None:
        self._round = None

    def stats(self) -> dict[str, Any]:
        """Return the bytes read, and the problems found."""
        return {
            "rounds": self._rounds,
            "checked_bytes": self._checked_bytes,
            "phy_offset": self._phy_offset,
            "problem_count": self._problems.count,
            "problems": [
                {"path": path, "phy_offset": phy_offset, "what": what}
                for path, phy_offset, what in list(self._problems.found)
            ],
        }
