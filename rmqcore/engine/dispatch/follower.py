"""Dispatch that goes along with an open log: native sessions where all is plain, the dispatcher's windows where it is not."""

from __future__ import annotations

from rmqcore._native.dispatch.session import END, IDLE, LEFT
from rmqcore._native.scan.scan import ColumnScan
from rmqcore._native.threads.bell import Bell
from rmqcore.engine.dispatch.dispatcher import FAR_BEHIND, Dispatcher, Window
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues


class Follower:
    """Dispatches what comes, of an open store.

    A producer in Python keeps the GIL until another thread asks for it, and pays some twenty microseconds for each time: a
    session asks a few times a second, the windows of a dispatcher as often as Python switches.

    Parameters
    ----------
    dispatcher : Dispatcher
        Of this log, these queues and this index.
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
        """Dispatch what lies below `end_offset`; answer whether there may be more at once.

        Parameters
        ----------
        end_offset : int
            The end of a record.
        bell : Bell, optional
            Go along with the log from there, until nothing comes any more (False), the bell rings, or a tenth of a second is
            over.
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
