"""A master's side: the bytes to send to a slave next, and the offset up to which each slave holds the log.

Source: RocketMQ 5.5.0 DefaultHAConnection, DefaultHAService, GroupTransferService.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rmqcore.config import MessageStoreConfig
from rmqcore.errors import HaProtocolError, LogGapError, LogsPartedError
from rmqcore.ha.frames import MOST_BODY, ReportReader, encode_header

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

FIRST_REPORT = 0
"""A slave that has nothing reports it, and is sent the log from its last file on."""
_NOT_YET = -1  # Java's requests and acknowledgements before the first report


class Follower:
    """A connected slave, as its master sees it. Used by one thread only.

    Parameters
    ----------
    store : MessageStore
        The master's store.
    peer : str
        ``host:port``.
    now : float
        Seconds of a monotonic clock, as everywhere in this module.

    Attributes
    ----------
    peer : str
    host : str
        The slave's address without the port, which differs at each connection.
    ack : int
        CommitLog offset up to which the slave holds the log, by its last report; -1 before the first one.
    sent_to : int
        CommitLog offset behind the last bytes sent to it; -1 before the first report.
    sent_bytes : int
        Bytes of bodies sent to it.
    caught_up_at : float
        Time at which it last held all of the log.
    asked_from : int
        CommitLog offset of its first report; -1 before that report.
    """

    def __init__(self, store: MessageStore, peer: str, now: float) -> None:
        config: MessageStoreConfig = store.config
        self.peer = peer
        self.host = peer.rpartition(":")[0]
        self.ack = _NOT_YET
        self.sent_to = self.asked_from = _NOT_YET
        self.sent_bytes = 0
        self.caught_up_at = now
        self._store = store
        self._reports = ReportReader()
        self._batch = min(config.ha_transfer_batch_size, MOST_BODY)
        self._heartbeat_s = config.ha_send_heartbeat_interval / 1000
        self._housekeeping_s = config.ha_housekeeping_interval / 1000
        self._heard_at = self._written_at = now

    def data_received(self, data: bytes, now: float) -> bool:
        """Read bytes from the slave; return whether they complete a report.

        Raises
        ------
        HaProtocolError
            A reported offset is negative.
        LogsPartedError
            The slave's log is longer than this one: the additional bytes were never here, or are lost.
        """
        self._heard_at = now
        phy_offset = self._reports.feed(data)
        if phy_offset is None or (phy_offset == _NOT_YET == self.sent_to):
            return False
        if phy_offset < 0:
            raise HaProtocolError("report", "phy_offset", "0 or more", phy_offset)
        end = self._store.max_phy_offset
        if phy_offset > end:
            raise LogsPartedError(end, phy_offset, end, "the slave's is longer than its master's")
        if self.sent_to == _NOT_YET:
            self.sent_to = self._begin(phy_offset)
            self.asked_from = phy_offset
        self.ack = phy_offset
        if phy_offset == end:
            self.caught_up_at = now
        return True

    def _begin(self, phy_offset: int) -> int:
        """Return the offset from which to serve a slave that asks for `phy_offset`."""
        if phy_offset == FIRST_REPORT:
            size = self._store.config.mapped_file_size_commit_log
            end = self._store.confirm_offset
            return max(self._store.min_phy_offset, end - end % size)
        return phy_offset

    # ---- sending

    @property
    def lacks(self) -> bool:
        """True if the slave lacks bytes of the log."""
        return 0 <= self.sent_to < self._store.confirm_offset

    def next_body(self) -> memoryview:
        """Return the bytes to send next; empty at the end of the log. The read may wait for the disk.

        Raises
        ------
        LogGapError
            The file with these bytes is deleted.
        """
        first = self._store.min_phy_offset
        if self.sent_to < first:
            raise LogGapError(self.sent_to, first)
        if not self.lacks:
            return memoryview(b"")
        return self._store.read_range(self.sent_to, self._batch)

    def frame(self, body: memoryview, now: float) -> bytes:
        """Return the header of a frame for the body that `next_body` returned; the body counts as sent."""
        header = encode_header(self.sent_to, len(body))
        self.sent_to += len(body)
        self.sent_bytes += len(body)
        self._written_at = now
        return header

    def heartbeat(self, now: float) -> bytes:
        """Return an empty frame if a heartbeat is due, else empty bytes."""
        if self.sent_to == _NOT_YET or now - self._written_at <= self._heartbeat_s:
            return b""
        return self.frame(memoryview(b""), now)

    # ---- state

    @property
    def follows(self) -> bool:
        """True if it has reported an offset behind its first one: its log matches this one, and grows."""
        return self.ack > self.asked_from

    @property
    def held(self) -> int:
        """CommitLog offset up to which the slave is known to hold this log; -1 before it follows.

        The first report names the offset from which the slave wants bytes. Only the slave can tell whether the bytes
        before are this log's, once it has compared them: a log that has parted reports an offset too, which would
        confirm a put that the slave never received.
        """
        return self.ack if self.follows else _NOT_YET

    def is_silent(self, now: float) -> bool:
        """Return whether the slave has been silent for more than `ha_housekeeping_interval`."""
        return now - self._heard_at > self._housekeeping_s

    def is_in_sync(self, end: int) -> bool:
        """Return whether the slave lacks fewer bytes than `ha_max_gap_not_in_sync`.

        Source: RocketMQ 5.5.0 DefaultHAService#inSyncReplicasNums.
        """
        return end - self.ack < self._store.config.ha_max_gap_not_in_sync


class Pace:
    """Limit of the bytes per second to all slaves (`haFlowControlEnable`); it counts bodies, unlike Java.

    Parameters
    ----------
    bytes_per_second : int or None
        None: no limit.
    now : float
    """

    def __init__(self, bytes_per_second: int | None, now: float) -> None:
        self._most = bytes_per_second
        self._left = float(bytes_per_second or 0)
        self._at = now

    def wait(self, now: float) -> float:
        """Return the seconds until more bytes may be sent; 0 if they may be sent now."""
        if self._most is None:
            return 0.0
        self._left = min(self._left + (now - self._at) * self._most, float(self._most))
        self._at = now
        return 0.0 if self._left > 0 else -self._left / self._most + 1 / self._most

    def sent(self, count: int) -> None:
        """Count bytes that were sent."""
        if self._most is not None:
            self._left -= count


def held_by(followers: Iterable[Follower], replicas: int) -> int:
    """Return the CommitLog offset up to which `replicas` replicas hold the log, counting the master; -1 if fewer are connected.

    Two connections of one host count as one replica, so that a slave that reconnects is not counted twice; connections
    of this machine count each.

    Source: RocketMQ 5.5.0 GroupTransferService#doWaitTransfer.
    """
    acks: dict[str, int] = {}
    for follower in followers:
        key = follower.peer if follower.host in ("127.0.0.1", "[::1]") else follower.host
        acks[key] = max(acks.get(key, _NOT_YET), follower.held)
    needed = replicas - 1
    if needed < 1:
        raise ValueError(
            f"replicas is {replicas}, expected at least 2, because the master counts as one"
        )
    return sorted(acks.values(), reverse=True)[needed - 1] if len(acks) >= needed else _NOT_YET
