"""Limits connections to the descriptors of the process, and logs when these do not suffice."""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Any

from rmqcore.disk.descriptors import most_open_files
from rmqcore.errors import is_no_descriptor

OTHER_FILES = 128
"""Descriptors beside connections and queue files: log, index, checkpoint, config, locks, ports, name servers, the loop."""
COMING = 100
"""Connections of a port that one step of the loop accepts, 0.1 ms each; those that are too many are closed in the next."""
LEAST_CONNECTIONS = 8
SAY_AGAIN_S = 60.0
_LOG = logging.getLogger("rmqcore.broker")


def allowed_connections(ports: int, wanted: int) -> int:
    """Return the connections that each port may accept, at most `wanted`; a lower number is logged with a warning.

    The process's soft limit of descriptors is raised as needed, at most to its hard limit.

    Parameters
    ----------
    ports : int
        Ports of this process, which share its descriptors.
    wanted : int
        Connections of each port.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    # The store has computed its number of open queue files already, under the earlier soft limit.
    kept = most_open_files() + OTHER_FILES + ports * COMING
    needed = ports * wanted + kept
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft >= needed:
        return wanted
    allowed = max(LEAST_CONNECTIONS, (soft - kept) // ports)
    if allowed >= wanted:
        return wanted
    _LOG.warning(
        "--max-connections lowered to %d from %d: the limit of open files is %d (ulimit -n), "
        "needed are %d; %d of them for the store and the process itself",
        allowed,
        wanted,
        soft,
        needed,
        kept,
    )
    return allowed


class LoopErrors:
    """The exception handler of a loop: logs one line per minute for connections refused for lack of descriptors.

    `Listener` tries again each second, and reports each failure.
    """

    def __init__(self) -> None:
        self._said = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log one error of the loop."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and is_no_descriptor(error)):
            loop.default_exception_handler(context)
        elif loop.time() - self._said >= SAY_AGAIN_S:
            self._said = loop.time()
            _LOG.error(
                "cannot accept new connections: %s; they wait until descriptors are free", error
            )
