"""What a master sends from an offset on, for a slave that only compares: a connection for each question."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator

from rmqcore.ha.frames import FrameReader, encode_report

CONNECT_TIMEOUT_S = 5.0
LOOK_S = 0.2
"""Seconds between two looks at the clock while nothing comes."""
READ_BYTES = 1 << 20


def frames_from(
    place: tuple[str, int],
    phy_offset: int,
    heartbeat_s: float,
    silent_s: float,
    is_ended: Callable[[], bool],
) -> Generator[tuple[int, memoryview], None, None]:
    """Connect to an HA port, and yield what it sends: where each piece lies in the log, and its bytes.

    Parameters
    ----------
    place : tuple of str and int
    phy_offset : int
        CommitLog offset that is asked for, and reported again as a heartbeat: nothing behind it is said to be held.
    heartbeat_s : float
    silent_s : float
        Seconds without a byte of the log after which the connection to the master ends.
    is_ended : callable
        Asked whenever nothing comes.

    Raises
    ------
    OSError
        There is no connection, it is lost, or the master sends nothing.
    HaProtocolError
        A header is invalid.
    """
    report = encode_report(phy_offset)
    frames, buffer = FrameReader(), memoryview(bytearray(READ_BYTES))
    with socket.create_connection(place, CONNECT_TIMEOUT_S) as line:
        line.settimeout(LOOK_S)
        line.sendall(report)
        reported = heard = time.monotonic()
        while True:
            try:
                count = line.recv_into(buffer)
            except TimeoutError:
                if is_ended():
                    raise ConnectionError("the comparison was cancelled") from None
            else:
                if not count:
                    raise ConnectionError(
                        "the master closed the connection that asked for the log from phy_offset "
                        f"{phy_offset} on"
                    )
                for at, piece in frames.feed(buffer[:count]):
                    if piece:
                        heard = time.monotonic()
                    yield at, piece
            now = time.monotonic()
            if now - heard > silent_s:
                raise ConnectionError(f"the master sends nothing from phy_offset {phy_offset} on")
            if now - reported > heartbeat_s:
                line.sendall(report)
                reported = now
