"""Amount of a store that a recovery reads, after a clean exit, after a crash and by the caller's choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.engine.recovery.index.signs import LOOK_BYTES
from rmqcore.engine.recovery.scan import Progress

MODES = ("normal", "deep")


@dataclass(frozen=True, slots=True)
class RecoverMode:
    """How thoroughly an open compares, as requested by the caller.

    Attributes
    ----------
    deep : bool
        Compare all queues and all index files with the whole log, even after a clean exit.
    progress : callable, optional
        Called with (bytes done, bytes in all) of each part of the work.
    approve : callable, optional
        Called with the `RecoveryPlan` before the first change; an exception that it raises ends the open.
    ends_at : int, optional
        CommitLog offset at which the log shall end, behind a record: the store is opened as after a crash, and the
        bytes behind it are kept in ``cut/``, like all bytes that a recovery cuts.
    """

    deep: bool = False
    progress: Progress | None = None
    approve: Callable[[Any], object] | None = None
    ends_at: int | None = None

    @classmethod
    def named(cls, name: str, progress: Progress | None = None) -> RecoverMode:
        """Return the mode with a name.

        Raises
        ------
        ValueError
            The name is neither "normal" nor "deep".
        """
        if name not in MODES:
            raise ValueError(f"recover: expected one of {', '.join(MODES)}, got {name!r}")
        return cls(name == "deep", progress)

    def trusts(self, *, clean_exit: bool) -> bool:
        """Return whether log and queues count as cleanly closed; always False in a deep recovery."""
        return clean_exit and not self.deep

    def compared_bytes(self, config: MessageStoreConfig) -> int:
        """Return the number of log bytes to compare with the queues."""
        return MAX_OFFSET if self.deep else config.recover_check_bytes

    def index(self, config: MessageStoreConfig, *, clean_exit: bool) -> IndexThoroughness:
        """Return the amount of the index to read."""
        if self.deep:
            return IndexThoroughness(True, MAX_OFFSET, MAX_OFFSET, resumes=True)
        if clean_exit:
            return IndexThoroughness(False, 0, LOOK_BYTES, resumes=False)
        most = config.recover_check_bytes
        return IndexThoroughness(True, most, max(most, LOOK_BYTES), resumes=True)


NORMAL = RecoverMode()


@dataclass(frozen=True, slots=True)
class IndexThoroughness:
    """Amount of the index to check.

    Attributes
    ----------
    chains : bool
        Check every entry and slot, not only the signs of shape.
    compared_bytes : int
        Number of the newest bytes of the indexed log to compare.
    searched_bytes : int
        Bytes of log to search for a message with a key between files that do not follow each other.
    resumes : bool
        Put the keys of the newest messages again, even if none is missing.
    """

    chains: bool
    compared_bytes: int
    searched_bytes: int
    resumes: bool
