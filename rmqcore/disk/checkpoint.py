"""The ``checkpoint`` file: how far each part of a store was known to be on disk."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rmqcore._native.format.checkpoint import decode_checkpoint, encode_checkpoint
from rmqcore._native.format.layout import CHECKPOINT_FILE_SIZE, CHECKPOINT_USED_SIZE
from rmqcore._native.threads.mutex import Mutex
from rmqcore.disk.durable import write_durable
from rmqcore.disk.inside.files import open_file
from rmqcore.disk.inside.opened import sync_data, write_all
from rmqcore.disk.inside.skeletons import shown_path
from rmqcore.errors import CorruptionError
from rmqcore.shown.report import Report

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class StoreCheckpoint(Report):
    """Six longs, big-endian, at the start of a 4096-byte file of zeros.

    Attributes
    ----------
    physic_msg_timestamp_ms : int
        Store time of the newest message known to be on disk in the CommitLog.
    logics_msg_timestamp_ms : int
        Store time of the newest message known to be on disk in the ConsumeQueues.
    index_msg_timestamp_ms : int
        End timestamp of the newest *full* IndexFile.
    master_flushed_offset : int
        CommitLog bytes that the master had flushed.
    confirm_phy_offset : int
        After a recovery: the start of the last valid message, not its end.
    logics_physical_offset : int
        Start of the newest message known to be on disk in the ConsumeQueues; decides where an abnormal recovery starts.
        0 in stores before 5.4.

    Notes
    -----
    Source: RocketMQ 5.5.0 StoreCheckpoint.
    """

    physic_msg_timestamp_ms: int = 0
    logics_msg_timestamp_ms: int = 0
    index_msg_timestamp_ms: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0
    logics_physical_offset: int = 0

    @property
    def newest_known_phy_offset(self) -> int:
        """CommitLog offset of a byte that the log had: every record known to be on disk starts before it or there."""
        return max(self.logics_physical_offset, self.confirm_phy_offset - 1)

    def closed_with(self, phy_offset: int, store_timestamp_ms: int) -> bool:
        """Return True if this message was the log's last one when the store was cleanly closed."""
        return (
            self.logics_physical_offset == phy_offset
            and self.physic_msg_timestamp_ms == store_timestamp_ms
        )

    @classmethod
    def decode(cls, buf: Buffer) -> StoreCheckpoint:
        """Decode the file's bytes; bytes behind the six longs are not looked at.

        Raises
        ------
        ValueError
            Fewer than 48 bytes.
        """
        return cls(*decode_checkpoint(buf))

    def encode(self) -> bytes:
        """Encode the 4096 bytes of the file.

        Raises
        ------
        OverflowError
            A value does not fit a Java long.
        """
        return encode_checkpoint(astuple(self))


def read_checkpoint(path: str | os.PathLike[str]) -> StoreCheckpoint | None:
    """Read a checkpoint file; None if there is no file (Java then uses 0 for all values).

    Raises
    ------
    CorruptionError
        The file is shorter than its six longs.
    StoreFormatError
        The path is a FIFO, device or link.
    OSError
        The file cannot be read.
    """
    data = _read(path)
    if data is None:
        return None
    try:
        return StoreCheckpoint.decode(data)
    except ValueError:
        expected = f"at least {CHECKPOINT_USED_SIZE} bytes"
        raise CorruptionError(
            shown_path(path), len(data), "file size", expected, f"{len(data)} bytes"
        ) from None


class CheckpointFile:
    """The checkpoint of a store that is open for writing: values in memory, written by `flush`.

    Parameters
    ----------
    path : path-like

    Notes
    -----
    **Order.** A value must never be ahead of its data, or a recovery starts too late. So a caller reads the new value
    before the sync of that data starts, and passes it to `update` after the sync has returned.

    **Durability.** `flush` writes the six longs with one `pwrite`. They lie in the file's first 48 bytes and so in one
    sector of the disk, which is written whole or not at all, so old and new values never mix. A new file gets its name
    only when it is complete.

    Thread safety: all methods may run at the same time.

    Source: RocketMQ 5.5.0 StoreCheckpoint.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = Mutex()
        self._values = _load(self.path)
        self._written: StoreCheckpoint | None = None

    @property
    def values(self) -> StoreCheckpoint:
        """All six values as they are now, on disk or not yet."""
        return self._values

    def update(self, **values: int) -> None:
        """Set some of the six values by their names in `StoreCheckpoint`; they are on disk after the next `flush`."""
        self._lock.run(self._update, values)

    def _update(self, values: dict[str, int]) -> None:
        self._values = replace(self._values, **values)

    def flush(self) -> None:
        """Write the values and wait until they are on disk; return at once if they are.

        Raises
        ------
        OSError
            The values may not be on disk; the next call tries again.
        """
        self._lock.run(self._flush)

    def _flush(self) -> None:
        values = self._values
        if values == self._written:
            return
        self._written = None
        data = values.encode()
        try:
            file = open_file(self.path, os.O_RDWR)
        except FileNotFoundError:
            write_durable(self.path, data)
        else:
            fd = file.fileno()
            try:
                if os.fstat(fd).st_size < CHECKPOINT_FILE_SIZE:
                    os.ftruncate(fd, CHECKPOINT_FILE_SIZE)
                write_all(fd, data, 0)
                sync_data(fd)
            finally:
                file.close()
        self._written = values

    def __repr__(self) -> str:
        return f"<CheckpointFile {str(self.path)!r} {self._values}>"


def _load(path: Path) -> StoreCheckpoint:
    """Return the file's values; 0 for those behind its end, as in Java, where the mapping adds zeros to the file."""
    data = _read(path)
    if data is None:
        return StoreCheckpoint()
    return StoreCheckpoint.decode(data.ljust(CHECKPOINT_FILE_SIZE, b"\0"))


def _read(path: str | os.PathLike[str]) -> bytes | None:
    """Return the first bytes of the file, as many as a checkpoint has; None if the file is missing."""
    try:
        file = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return os.pread(file.fileno(), CHECKPOINT_FILE_SIZE, 0)
    finally:
        file.close()
