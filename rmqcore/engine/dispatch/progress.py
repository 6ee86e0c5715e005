"""Progress of dispatch through the CommitLog, for queues and index, and its way back for a queue that lost files."""

from __future__ import annotations

from collections.abc import Sequence

from rmqcore._native.dispatch.session import Dispatched


class Progress:
    """The offsets of one dispatcher.

    Queues and index each go forward through the log, and the dispatcher reads on at the lower of the two. If a queue
    lacks entries, the queues go back and receive a part of the log a second time, up to `done.cq_from`::

        log   |-------------|=================|#################|------------->
                            covered_from      queues_from       done.cq_from
                            ^ they went back to here

              =  given in order since they went back        #  still to be given a second time

    As long as they have not gone back, `queues_from` is `done.cq_from`.

    Parameters
    ----------
    indexes : bool
        True if an index is brought up to date too.

    Attributes
    ----------
    done : Dispatched
        The queues received the records below `cq_from` once, the index those below `index_from`.
    covered_from : int
        The queues received the log in order from this offset up to `queues_from`; -1: from its start.
    """

    def __init__(self, *, indexes: bool) -> None:
        self.done = Dispatched()
        self.covered_from = -1
        self._covered_to = (
            -1
        )  # another offset than `queues_from` after a place was set from outside
        self._again_from: int | None = None
        self._went_back = 0  # bytes, the last time
        self._indexes = indexes

    @property
    def queues_from(self) -> int:
        """Offset of the next record for the queues."""
        return self.done.cq_from if self._again_from is None else self._again_from

    @property
    def read_from(self) -> int:
        """Offset at which the log is read next."""
        return min(self.queues_from, self.done.index_from) if self._indexes else self.queues_from

    @property
    def dispatched_to(self) -> int:
        """CommitLog offset below which queues and index received every record once."""
        return min(self.done.cq_from, self.done.index_from) if self._indexes else self.done.cq_from

    @property
    def is_level(self) -> bool:
        """Whether queues and index continue at the same offset."""
        return self.done.cq_from == self.queues_from == self.read_from == self.done.index_from

    def begin(self, first: int) -> None:
        """Start a call of the dispatcher; the log's first file starts at offset `first`."""
        if self._covered_to != self.queues_from:
            self.covered_from = -1 if self.queues_from <= first else self.queues_from
            self.note_covered()

    def note_covered(self) -> None:
        """Note that the queues received every record up to `queues_from`: a native session has moved `done`."""
        self._covered_to = self.queues_from

    def advance(self, offset: int) -> None:
        """Move queues and index forward to an offset, unless they are already past it."""
        covered = self._covered_to == self.queues_from
        if self._again_from is not None:
            again_from = max(self._again_from, offset)
            self._again_from = again_from if again_from < self.done.cq_from else None
        self.done.cq_from = max(self.done.cq_from, offset)
        self.done.index_from = max(self.done.index_from, offset)
        if covered:
            self.note_covered()

    def go_back(self, to: int, starts: Sequence[int]) -> None:
        """Go back to a file's start at or before an offset; the queues receive the log again from there.

        Each step back is at least twice as long as the one before: otherwise each of many queues that lost their files
        could cost another pass over the log.

        Parameters
        ----------
        to : int
        starts : sequence of int
            The offsets at which the files of the log start, ascending.
        """
        at = self.queues_from
        to = min(to, at - 2 * self._went_back)
        before = [start for start in starts if start <= to]
        again_from = before[-1] if before else starts[0]
        # The order matters: after an interrupt between two of these lines, `begin` sees a place that was set from
        # outside.
        self._again_from = again_from
        self.covered_from = again_from if before and before[-1] > starts[0] else -1
        self._covered_to = again_from
        self._went_back = at - again_from
