"""Log lines that peers cause: each is written once, and no peer can fill the memory or the log with new ones.

Source: rmqcore's own; RocketMQ writes a line for each request.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable

from rmqcore.remoting.command import RemotingCommand, code_name
from rmqcore.vocabulary.units import HOUR_MS

MOST_SAID = 256
"""Different lines of one kind per `AGAIN_AFTER_MS`."""
AGAIN_AFTER_MS = HOUR_MS


class SaidOnce:
    """Messages that were already logged. Not thread-safe.

    Parameters
    ----------
    log : logging.Logger
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: set[Hashable] = set()
        self._since_ms = 0

    def warn(self, now_ms: int, what: Hashable, text: str, *values: object) -> None:
        """Write a warning about `what`, unless it was written already.

        After `MOST_SAID` different warnings one line says that others are left out, until `AGAIN_AFTER_MS` have
        passed; then all may be written again.
        """
        if what in self._said:
            return
        if len(self._said) >= MOST_SAID:
            if now_ms - self._since_ms < AGAIN_AFTER_MS:
                return
            self._said.clear()
        if not self._said:
            self._since_ms = now_ms
        self._said.add(what)
        self._log.warning(text, *values)
        if len(self._said) == MOST_SAID:
            minutes = AGAIN_AFTER_MS // 60_000
            self._log.warning(
                "further warnings of this kind are not logged for %d minutes", minutes
            )


def warn_unserved(
    said: SaidOnce, now_ms: int, server: str, peer: str, request: RemotingCommand
) -> None:
    """Write one warning per host and request code about a request that `server` does not serve.

    Parameters
    ----------
    said : SaidOnce
    now_ms : int
    server : str
        "broker" or "name server".
    peer : str
        ``ip:port`` of the client; each of its connections has another port.
    request : RemotingCommand
    """
    host = peer.rpartition(":")[0] or peer
    said.warn(
        now_ms,
        (host, request.code),
        "%s client %s: this %s does not support request %s; the response code is 3",
        request.language.name,
        host,
        server,
        code_name(request.code),
    )
