"""The state of replication that a broker reports: its slaves, or its master.

Source: RocketMQ 5.5.0 HARuntimeInfo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaveInfo:
    """A slave that is connected.

    Attributes
    ----------
    peer : str
        ``ip:port``.
    ack : int
        CommitLog offset up to which the slave holds the log; -1 before its first report.
    sent_to : int
        CommitLog offset behind the last bytes sent to the slave; -1 before its first report.
    lag_bytes : int
        CommitLog bytes that the slave lacks.
    lag_s : float
        Seconds since the slave held all of the log; 0 while it holds all.
    bytes_per_second : int
        Bytes of the log sent to the slave in the last second.
    in_sync : bool
    """

    peer: str
    ack: int
    sent_to: int
    lag_bytes: int
    lag_s: float
    bytes_per_second: int
    in_sync: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterInfo:
    """The master that a slave follows.

    Attributes
    ----------
    ha_address : str
        ``host:port`` of the master's HA port; empty while unknown.
    address : str
        ``host:port`` of the master's broker; empty while unknown.
    connected : bool
        The HA connection is open.
    last_read_ms, last_write_ms : int
        Times of the last read from the master and of the last report to it, in milliseconds since the epoch; 0: never.
    bytes_per_second : int
        Bytes of the log received in the last second.
    master_end : int
        CommitLog offset where the master's log ended in its last answer; 0: unknown.
    lag_bytes : int
        CommitLog bytes up to `master_end` that the slave lacks.
    lag_s : float
        Seconds since the slave lacked none; 0 while it lacks none.
    error : str
        Why the slave does not follow the master; empty while it follows.
    """

    ha_address: str = ""
    address: str = ""
    connected: bool = False
    last_read_ms: int = 0
    last_write_ms: int = 0
    bytes_per_second: int = 0
    master_end: int = 0
    lag_bytes: int = 0
    lag_s: float = 0.0
    error: str = ""


def _no_slaves() -> list[SlaveInfo]:
    return []


def _no_master() -> MasterInfo | None:
    return None


@dataclass(slots=True)
class Replication:
    """State of the HA sockets for handlers; without sockets the broker has neither slaves nor a master.

    Attributes
    ----------
    ha_address : str or None
        ``host:port`` of the own HA port, as slaves receive it; None if nothing listens.
    slaves : callable
        Returns the slaves that are connected.
    master : callable
        Returns what a slave knows of its master; None for a master.
    """

    ha_address: str | None = None
    slaves: Callable[[], list[SlaveInfo]] = _no_slaves
    master: Callable[[], MasterInfo | None] = _no_master


class ByteRate:
    """The rate of a growing counter in bytes per second, computed from the values that `look` notes."""

    __slots__ = ("_at", "_before", "rate")

    def __init__(self, now: float) -> None:
        self._before, self._at = 0, now
        self.rate = 0

    def look(self, total: int, now: float) -> None:
        """Note the counter's value."""
        if now > self._at:
            self.rate = round((total - self._before) / (now - self._at))
            self._before, self._at = total, now
