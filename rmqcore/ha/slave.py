"""A slave's side: appending frames to its log, and reporting the offset.

Source: RocketMQ 5.5.0 DefaultHAClient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqcore.config import MessageStoreConfig
from rmqcore.errors import CorruptMessageError, HaProtocolError, LogsPartedError
from rmqcore.ha.frames import FrameReader, encode_report

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

OVERLAP = 64 << 10
"""Bytes before the end of its log that a slave asks for again, and compares: logs that have parted are found before anything is
appended. A Java slave appends."""
FIRST_ASKED = 1
"""The first CommitLog offset that a log with records is asked for from: a request from 0 on means that the slave has nothing, and
gets the master's last file."""


def first_difference(one: memoryview, other: memoryview) -> int:
    """Return the position of the first byte in which two pieces of equal length differ."""
    return int(np.argmax(np.frombuffer(one, np.uint8) != np.frombuffer(other, np.uint8)))


class Question:
    """A connection that only compares: it keeps the master's bytes from an offset on until `take`, and reports none.

    Parameters
    ----------
    phy_offset : int
        CommitLog offset that is requested, and reported again as a heartbeat, so that no byte behind it counts as held.
    config : MessageStoreConfig
    now : float
        Seconds of a monotonic clock.
    """

    def __init__(self, phy_offset: int, config: MessageStoreConfig, now: float) -> None:
        self._report = encode_report(phy_offset)
        self._frames = FrameReader()
        self._pieces: list[tuple[int, memoryview]] = []
        self._heartbeat_s = config.ha_send_heartbeat_interval / 1000
        self._housekeeping_s = config.ha_housekeeping_interval / 1000
        self._heard_at = self._written_at = now

    def first_report(self) -> bytes:
        """Return the report that names the first byte wanted."""
        return self._report

    def data_received(self, data: memoryview, now: float) -> None:
        """Read bytes from the master.

        Raises
        ------
        HaProtocolError
            A header is invalid.
        """
        pieces = [(place, piece) for place, piece in self._frames.feed(data) if piece]
        self._pieces += pieces
        if pieces:  # a heartbeat has no bytes to compare
            self._heard_at = now

    def take(self) -> list[tuple[int, memoryview]]:
        """Return the CommitLog offset and the bytes of each new piece; the next read overwrites the bytes."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def report(self, now: float) -> bytes:
        """Return the heartbeat if one is due, else empty bytes."""
        if now - self._written_at <= self._heartbeat_s:
            return b""
        self._written_at = now
        return self._report

    def is_silent(self, now: float) -> bool:
        """Return whether the master has sent no byte of its log for more than `ha_housekeeping_interval`."""
        return now - self._heard_at > self._housekeeping_s


class Slave:
    """One connection of a slave to its master. Used by one thread only.

    Created by `at_end`, which may wait for the disk.

    Parameters
    ----------
    store : MessageStore
        The slave's store.
    begin : int or None
        CommitLog offset to ask the master for; None if the log is empty: then the master chooses.
    overlap : bytes
        The bytes of the log from `begin` on.
    now : float
        Seconds of a monotonic clock.

    Attributes
    ----------
    is_alike : bool
        The bytes before the end of this log match the master's.
    has_read : bool
        The master has sent bytes.
    """

    def __init__(self, store: MessageStore, begin: int | None, overlap: bytes, now: float) -> None:
        config = store.config
        self.has_read = False
        self.is_alike = not overlap
        self._store = store
        self._place = begin  # CommitLog offset that the next byte from the master must have
        self._own_end = -1 if begin is None else begin + len(overlap)
        self._overlap = memoryview(overlap)
        self._frames = FrameReader()
        self._reported = 0 if begin is None else begin
        self._heartbeat_s = config.ha_send_heartbeat_interval / 1000
        self._housekeeping_s = config.ha_housekeeping_interval / 1000
        self._heard_at = self._written_at = now

    @classmethod
    def at_end(
        cls, store: MessageStore, master_first: int | None, now: float, *, from_first: bool = False
    ) -> Slave:
        """Return a slave that starts at the end of the log, which is synced before.

        Parameters
        ----------
        store : MessageStore
        master_first : int or None
            CommitLog offset where the master's log starts; None if it is not known.
        now : float
        from_first : bool
            An empty log starts where the master's does, if that is above 0: a slave that asks for 0 gets the last file.
        """
        first, end = store.min_phy_offset, store.max_phy_offset
        if first == end:
            begin = master_first if from_first and master_first else None
            return cls(store, begin, b"", now)
        store.flush()
        size = store.config.mapped_file_size_commit_log
        last_file = (end - 1) // size * size
        begin = max(end - OVERLAP, last_file, first, min(master_first or 0, end), FIRST_ASKED)
        return cls(store, begin, bytes(store.read_range(begin, end - begin)), now)

    def first_report(self) -> bytes:
        """Return the report that names the first byte wanted."""
        return encode_report(self._reported)

    def data_received(self, data: memoryview, now: float) -> None:
        """Read bytes from the master: compare them with the end of this log, then append the rest.

        Raises
        ------
        HaProtocolError
            A frame is invalid, or does not continue the one before.
        LogsPartedError
            The master's bytes differ from this log's at the same offset.
        StoreError
            As for `append_raw`.
        """
        self._heard_at = now
        self.has_read = True
        for phy_offset, piece in self._frames.feed(data):
            if phy_offset != self._place:
                self._check_place(phy_offset)
            if piece:
                self._take(phy_offset, piece)

    def _check_place(self, phy_offset: int) -> None:
        if self._place is None:
            size = self._store.config.mapped_file_size_commit_log
            if phy_offset < 0 or phy_offset % size:
                expected = f"the start of a file of {size} bytes"
                raise HaProtocolError("frame", "phy_offset", expected, phy_offset)
            self._place = phy_offset
        else:
            raise HaProtocolError("frame", "phy_offset", self._place, phy_offset)

    def _take(self, phy_offset: int, piece: memoryview) -> None:
        self._place = phy_offset + len(piece)
        if self._overlap:
            piece = self._compare(phy_offset, piece)
        if piece:
            try:
                self._store.append_raw(self._place - len(piece), piece)
            except CorruptMessageError as error:
                if error.phy_offset == self._own_end:
                    self._parted(
                        self._own_end, f"the master has no record that starts there ({error})"
                    )
                raise

    def _compare(self, phy_offset: int, piece: memoryview) -> memoryview:
        """Compare the part of a piece that this log has; return the part that it lacks."""
        same = min(len(self._overlap), len(piece))
        if piece[:same] != self._overlap[:same]:
            differs = phy_offset + first_difference(piece[:same], self._overlap[:same])
            self._parted(differs, "the bytes there differ")
        self._overlap = self._overlap[same:]
        self.is_alike = not self._overlap
        return piece[same:]

    def _parted(self, phy_offset: int, reason: str) -> None:
        raise LogsPartedError(phy_offset, self._store.max_phy_offset, -1, reason)

    # ---- reports

    def report(self, now: float) -> bytes:
        """Return a report if one is due, because the log has grown or the last report is old; else empty bytes.

        Under SYNC_FLUSH the report names the offset up to which the log is on disk.
        """
        if self.is_alike:
            end = self._store.confirm_offset
            if end > self._reported:
                return self._say(end, now)
        if now - self._written_at > self._heartbeat_s:
            return self._say(self._reported, now)
        return b""

    def _say(self, phy_offset: int, now: float) -> bytes:
        self._reported = phy_offset
        self._written_at = now
        return encode_report(phy_offset)

    def is_silent(self, now: float) -> bool:
        """Return whether the master has been silent for more than `ha_housekeeping_interval`."""
        return now - self._heard_at > self._housekeeping_s
