"""How much of a store a recovery reads: what a clean exit, a crash and the caller ask for."""

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
        All queues and all index files are compared with the whole log, whatever the last exit was.
    progress : callable, optional
        Called with (bytes done, bytes in all) of each part of the work.
    approve : callable, optional
        Called with the `RecoveryPlan` before anything is changed; what it raises ends the open.
    ends_at : int, optional
        CommitLog offset at which the log is to end, behind a record: the store is opened as after a crash, and what lies behind
        is kept in ``cut/``, like all that a recovery cuts.
    """

    deep: bool = False
    progress: Progress | None = None
    approve: Callable[[Any], object] | None = None
    ends_at: int | None = None

    @classmethod
    def named(cls, name: str, progress: Progress | None = None) -> RecoverMode:
        """Return the mode of a name.

        Raises
        ------
        ValueError
            Another name than "normal" and "deep".
        """
        if name not in MODES:
            raise ValueError(f"recover: expected one of {', '.join(MODES)}, got {name!r}")
        return cls(name == "deep", progress)

    def trusts(self, *, clean_exit: bool) -> bool:
        """Return whether log and queues count as cleanly closed; in a deep recovery never."""
        return clean_exit and not self.deep

    def compared_bytes(self, config: MessageStoreConfig) -> int:
        """Return how many bytes of the log are compared with the queues."""
        return MAX_OFFSET if self.deep else config.recover_check_bytes

    def index(self, config: MessageStoreConfig, *, clean_exit: bool) -> IndexThoroughness:
        """Return how much of the index is read."""
        if self.deep:
            return IndexThoroughness(True, MAX_OFFSET, MAX_OFFSET, resumes=True)
        if clean_exit:
            return IndexThoroughness(False, 0, LOOK_BYTES, resumes=False)
        most = config.recover_check_bytes
        return IndexThoroughness(True, most, max(most, LOOK_BYTES), resumes=True)


NORMAL = RecoverMode()


@dataclass(frozen=True, slots=True)
class IndexThoroughness:
    """How much of the index is looked at.

    Attributes
    ----------
    chains : bool
        Every entry and slot, not only the signs of shape.
    compared_bytes : int
        So many of the newest bytes of the indexed log are compared.
    searched_bytes : int
        So many bytes of log are searched for a message with a key, where files do not follow each other.
    resumes : bool
        Keys of the newest messages are put again in any case.
    """

    chains: bool
    compared_bytes: int
    searched_bytes: int
    resumes: bool
