"""Dispatch that follows an open log: native sessions for plain messages, the dispatcher's windows for all others."""

from __future__ import annotations

from rmqcore._native.dispatch.session import END, IDLE, LEFT
from rmqcore._native.scan.scan import ColumnScan
from rmqcore._native.threads.bell import Bell
from rmqcore.engine.dispatch.dispatcher import FAR_BEHIND, Dispatcher, Window
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues


class Follower:
    """Dispatches the new messages of an open store.

    A producer in Python keeps the GIL until another thread requests it, and each request costs it about 20
    microseconds: a session requests it a few times per second, the windows of a dispatcher as often as Python switches
    threads.

    Parameters
    ----------
    dispatcher : Dispatcher
        The dispatcher of `log`, `queues` and `index`.
    log : CommitLog
    queues : ConsumeQueues
    index : IndexService

    Notes
    -----
    One thread at a time.
    """

    def __init__(
        self, dispatcher: Dispatcher, log: CommitLog, queues: ConsumeQueues, index: IndexService
    ) -> None:
        self._dispatcher = dispatcher
        self._log = log
        self._queues = queues
        self._index = index

    def step(self, end_offset: int, bell: Bell | None, heard: frozenset[str]) -> bool:
        """Dispatch the records below `end_offset`; return True if more records may be ready now.

        Parameters
        ----------
        end_offset : int
            The end of a record.
        bell : Bell, optional
            Follow the log from there, until no record arrives (False), the bell rings, or 0.1 s have passed.
        heard : frozenset of str
            Topics whose messages end a session, and are noted for listeners.

        Raises
        ------
        CorruptMessageError, OSError
            As `Dispatcher.dispatch_once`.
        """
        begin = self._dispatcher.reput_from_offset

        def run(scan: ColumnScan, window: Window, covered_from: int) -> int | None:
            return self._run(scan, window, covered_from, end_offset, bell, heard)

        ended = self._dispatcher.session(end_offset, run)
        if ended in (None, LEFT):
            end = end_offset if bell is None else self._log.max_offset
            if self._dispatcher.dispatch_once(end):
                return True
        elif ended == IDLE:
            return False
        elif ended != END:
            return True
        return self._dispatcher.reput_from_offset > begin

    def _run(
        self,
        scan: ColumnScan,
        window: Window,
        covered_from: int,
        end_offset: int,
        bell: Bell | None,
        heard: frozenset[str],
    ) -> int | None:
        table = self._queues.known_table(scan)
        if table is None:
            return None
        index, alarm = None, 0
        if self._index.writing:
            place = self._index.place_to_put()
            if place is None:
                return None
            index, alarm = place
        return self._dispatcher.done.run(
            scan,
            window,
            table,
            covered_from,
            index,
            alarm,
            log=None if bell is None else self._log.appender,
            bell=bell,
            end_offset=end_offset,
            far_behind=FAR_BEHIND,
            heard=heard,
        )
