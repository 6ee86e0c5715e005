"""Events of a client for metrics: one for each finished or failed operation."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_LOG = logging.getLogger("rmqcore.client")


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """An operation of a client that succeeded or failed.

    Attributes
    ----------
    kind : str
        ``send``, ``pull``, ``poll``, ``handle``, ``commit``, ``rebalance``, ``connect`` or ``call``; docs/client.md has a table.
    name : str
        The topic; for ``connect`` the address, for ``call`` the administrator's method.
    count : int
        Number of messages; for ``rebalance`` of queues that are read now, for ``connect`` of connections to the address
        so far.
    seconds : float
        Duration; 0 if the operation waited for nothing.
    error : BaseException or None
        The error of a failed operation.
    """

    kind: str
    name: str
    count: int = 1
    seconds: float = 0.0
    error: BaseException | None = None


OnEvent = Callable[[ClientEvent], object]
"""Called in the thread of the client's event loop; it must return at once. What it raises is logged once, and nothing else."""


class Events:
    """Reports events to a program's function.

    Parameters
    ----------
    on_event : callable, optional
    """

    def __init__(self, on_event: OnEvent | None = None) -> None:
        self._on_event = on_event
        self._has_raised = False

    def tell(
        self,
        kind: str,
        name: str,
        count: int = 1,
        seconds: float = 0.0,
        error: BaseException | None = None,
    ) -> None:
        """Report an event."""
        if self._on_event is None:
            return
        try:
            self._on_event(ClientEvent(kind, name, count, seconds, error))
        except Exception:  # noqa: BLE001 an error in the program's metrics must not lose a message
            if not self._has_raised:
                self._has_raised = True
                _LOG.exception("on_event raised; later exceptions from it are not logged")

    @contextmanager
    def timed(self, kind: str, name: str, count: int = 1) -> Iterator[None]:
        """Report the body of a ``with`` block at its end, with its exception."""
        begin = time.monotonic()
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.tell(kind, name, count, time.monotonic() - begin, error)
