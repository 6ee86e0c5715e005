"""Unique keys for messages that clients send without one.

Source: RocketMQ 5.5.0 MessageClientIDSetter.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from itertools import count

from rmqcore.codec.message import pack_host

_PORT_SIZE = 4


class UniqKeys:
    """Makes keys as Java's clients do, in hex: address, process, a number of this object, time in the month, a counter.

    Parameters
    ----------
    address : str
        ``ip:port`` of the broker.
    now_ms : callable
        The clock.
    """

    def __init__(self, address: str, now_ms: Callable[[], int]) -> None:
        process = (os.getpid() & 0xFFFF).to_bytes(2, "big")
        prefix = pack_host(address)[:-_PORT_SIZE] + process + secrets.token_bytes(4)
        self._prefix = prefix.hex().upper()
        self._now_ms = now_ms
        self._numbers = count()
        self._month_ms = (0, 0)

    def make(self) -> str:
        """Return a key that no other message has."""
        now_ms = self._now_ms()
        begin_ms, end_ms = self._month_ms
        if not begin_ms <= now_ms < end_ms:
            begin_ms, end_ms = self._month_ms = _month_of(now_ms)
        return f"{self._prefix}{now_ms - begin_ms:08X}{next(self._numbers) & 0xFFFF:04X}"


def _month_of(now_ms: int) -> tuple[int, int]:
    """Return start and end of the month in this machine's time zone: readers of a key count its time from the start."""
    now = time.localtime(now_ms // 1000)
    days = [
        (now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1),
        (now.tm_year, now.tm_mon + 1, 1, 0, 0, 0, 0, 0, -1),
    ]
    begin_ms, end_ms = (int(time.mktime(day)) * 1000 for day in days)
    return begin_ms, end_ms
