"""UNIQ_KEY: the id that a client gives a message before a broker has seen it.

Source: RocketMQ 5.5.0 MessageClientIDSetter.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable
from datetime import UTC, datetime

from rmqcore.vocabulary.clock import wall_clock_ms

_NEAR_MS = 1_000_000
"""How far a clock may have been set back without another id for it."""
_INT, _SHORT = 0xFFFFFFFF, 0xFFFF


class UniqueIds:
    """Makes ids: address, process, maker, milliseconds of the month and a counter, as 32 or 56 hexadecimal digits.

    Parameters
    ----------
    ip : str
        Address of this machine, as brokers see it.
    pid : int
    maker : int
        A number of 32 bits that differs between the makers of a process.
    now_ms : callable, optional
        The clock: milliseconds since the epoch.
    """

    def __init__(
        self, ip: str, pid: int, maker: int, now_ms: Callable[[], int] | None = None
    ) -> None:
        packed = ipaddress.ip_address(ip).packed
        fixed = packed + struct.pack(">HI", pid & _SHORT, maker & _INT)
        self._start = fixed.hex().upper()
        self._now_ms = now_ms or wall_clock_ms
        self._counter = 0
        self._month_start_ms = self._month_end_ms = 0
        # Milliseconds of the month: a clock may stand still, or be set back.
        self._latest_ms = self._least_ms = 0

    def next(self) -> str:
        """Make an id that this maker has not made."""
        now = self._now_ms()
        if not self._month_start_ms - _NEAR_MS < now < self._month_end_ms:
            self._month_start_ms, self._month_end_ms = _month_of(now)
            self._least_ms = self._latest_ms = 0
        self._counter = (self._counter + 1) & _SHORT
        if self._counter == 0:
            # The counter starts again: a millisecond that was used with it must not be used again.
            self._least_ms = self._latest_ms + 1
        milliseconds = max(self._least_ms, now - self._month_start_ms)
        self._latest_ms = max(self._latest_ms, milliseconds)
        return f"{self._start}{milliseconds:08X}{self._counter:04X}"


def _month_of(now_ms: int) -> tuple[int, int]:
    """Return start and end of the month, in the time zone of this process."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone()
    first = today.replace(day=1, hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    year, month = divmod(first.year * 12 + first.month, 12)
    following = first.replace(year=year, month=month + 1)
    return _milliseconds(first), _milliseconds(following)


def _milliseconds(local: datetime) -> int:
    return round(local.astimezone().timestamp() * 1000)
