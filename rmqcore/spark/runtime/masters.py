"""Check that the master of a Spark cluster can be reached: Spark itself tries for one minute without a message."""

from __future__ import annotations

import queue
import re
import socket
import threading
import time

from rmqcore.errors import SparkMasterError

TIMEOUT_S = 4.0
_STANDALONE = re.compile(r"spark://(.+)", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:/\s]+)):(?P<port>\d{1,5})")


def check_master(master: str, timeout_s: float = TIMEOUT_S) -> None:
    """Make sure that a master of a standalone cluster accepts connections, before Spark starts.

    Parameters
    ----------
    master : str
        ``spark://host:7077``, or several, ``spark://a:7077,b:7077``: one of them must accept. Other masters (local,
        YARN, Kubernetes) are not checked.
    timeout_s : float
        How long to wait for all of them together.

    Raises
    ------
    SparkMasterError
        No master accepts a connection; the message lists each with the cause.
    """
    found = _STANDALONE.fullmatch(master.strip())
    if found is None:
        return
    addresses = [
        match for part in found[1].split(",") if (match := _ADDRESS.fullmatch(part.strip()))
    ]
    if len(addresses) <= found[1].count(","):
        return  # Spark reports a malformed URL itself
    answers: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    for number, address in enumerate(addresses):
        where = (address["six"] or address["host"], int(address["port"]))
        # In threads, because looking up a name has no timeout.
        threading.Thread(target=_ask, args=(number, where, timeout_s, answers), daemon=True).start()
    whys = [f"does not answer within {timeout_s:g} s"] * len(addresses)
    deadline = time.monotonic() + timeout_s
    for _ in addresses:
        try:
            number, why = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if not why:
            return
        whys[number] = why
    told = "; ".join(f"{address[0]}: {why}" for address, why in zip(addresses, whys, strict=True))
    raise SparkMasterError(f"cannot reach a master of {master}: {told}")


def _ask(
    number: int,
    address: tuple[str, int],
    timeout_s: float,
    answers: queue.SimpleQueue[tuple[int, str]],
) -> None:
    """Put the master's number and the cause of a failed connection into `answers`; an empty text if it succeeds."""
    try:
        socket.create_connection(address, timeout_s).close()
        answers.put((number, ""))
    except TimeoutError:
        answers.put((number, f"does not answer within {timeout_s:g} s"))
    except (OSError, OverflowError) as error:  # OverflowError: the port is out of range
        answers.put((number, (getattr(error, "strerror", None) or str(error)).lower()))
