"""Checks that the master of a Spark cluster can be reached: Spark itself tries for a minute without a message."""

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
    """Make sure that a master of a standalone cluster takes connections, before Spark starts.

    Parameters
    ----------
    master : str
        ``spark://host:7077``, or several, ``spark://a:7077,b:7077``, of which one must answer. Nothing is asked of others: a
        local Spark, YARN, Kubernetes.
    timeout_s : float
        How long to wait for all of them together.

    Raises
    ------
    SparkMasterError
        None of them takes a connection; the message has each with the cause.
    """
    found = _STANDALONE.fullmatch(master.strip())
    if found is None:
        return
    addresses = [
        match for part in found[1].split(",") if (match := _ADDRESS.fullmatch(part.strip()))
    ]
    if len(addresses) <= found[1].count(","):
        return  # Spark says what is wrong with the form of a URL
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
    """Return an empty text when a connection is made, else why not."""
    try:
        socket.create_connection(address, timeout_s).close()
        answers.put((number, ""))
    except TimeoutError:
        answers.put((number, f"does not answer within {timeout_s:g} s"))
    except (OSError, OverflowError) as error:  # OverflowError: there is no such port
        answers.put((number, (getattr(error, "strerror", None) or str(error)).lower()))
