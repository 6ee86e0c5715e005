"""The ``checkpoint`` file: how far each part of a store was known to be on disk."""

from __future__ import annotations

import os
import threading
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rmqcore._native import index as _index
from rmqcore.engine.durable import CLOEXEC, sync_data, write_all, write_durable
from rmqcore.errors import CorruptionError

if TYPE_CHECKING:
    from typing_extensions import Buffer

CHECKPOINT_FILE_SIZE = _index.CHECKPOINT_FILE_SIZE


@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """Six longs, big-endian, at the start of a 4096-byte file of zeros.

    Attributes
    ----------
    physic_msg_timestamp_ms : int
        Store time of the newest message known to be on disk in the CommitLog.
    logics_msg_timestamp_ms : int
        The same of the ConsumeQueues.
    index_msg_timestamp_ms : int
        The end of the newest *full* IndexFile.
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

    @classmethod
    def decode(cls, buf: Buffer) -> StoreCheckpoint:
        """Decode the file's bytes; what follows the six longs is not looked at.

        Raises
        ------
        ValueError
            Fewer than 48 bytes.
        """
        return cls(*_index.decode_checkpoint(buf))

    def encode(self) -> bytes:
        """Encode the 4096 bytes of the file.

        Raises
        ------
        OverflowError
            A value that is no Java long.
        """
        return _index.encode_checkpoint(astuple(self))


def read_checkpoint(path: str | os.PathLike[str]) -> StoreCheckpoint | None:
    """Read a checkpoint file; None when there is none (Java then counts all values as 0).

    Raises
    ------
    CorruptionError
        The file is shorter than its six longs.
    OSError
        It cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(CHECKPOINT_FILE_SIZE)
    except FileNotFoundError:
        return None
    try:
        return StoreCheckpoint.decode(data)
    except ValueError:
        expected = f"at least {_index.CHECKPOINT_USED_SIZE} bytes"
        raise CorruptionError(
            os.fspath(path), len(data), "file size", expected, f"{len(data)} bytes"
        ) from None


class CheckpointFile:
    """The checkpoint of a store that is open for writing: values in memory, written by `flush`.

    Parameters
    ----------
    path : path-like

    Notes
    -----
    **Order.** A value may never lead the data it speaks of, or a recovery begins too late. So whoever moves one takes it
    before the sync of that data begins, and gives it to `update` after the sync has returned.

    **Durability.** `flush` writes the six longs with one `pwrite`. They lie in the file's first 48 bytes and so in one sector
    of the disk, which is written whole or not at all: there is no mixture of an old value and a new one. A new file takes
    its name only when it is complete.

    Thread safety: all methods may run at once.

    Source: RocketMQ 5.5.0 StoreCheckpoint.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._values = _load(self.path)
        self._written: StoreCheckpoint | None = None

    @property
    def values(self) -> StoreCheckpoint:
        """All six as they are now, on disk or not yet."""
        return self._values

    def update(self, **values: int) -> None:
        """Set some of the six by their names in `StoreCheckpoint`; on disk after the next `flush`."""
        with self._lock:
            self._values = replace(self._values, **values)

    def flush(self) -> None:
        """Write the values and wait until they are on disk; nothing to do when they are there already.

        Raises
        ------
        OSError
            The values are not known to be on disk; the next call tries again.
        """
        with self._lock:
            values = self._values
            if values == self._written:
                return
            self._written = None
            data = values.encode()
            try:
                fd = os.open(self.path, os.O_RDWR | CLOEXEC)
            except FileNotFoundError:
                write_durable(self.path, data)
            else:
                try:
                    if os.fstat(fd).st_size < CHECKPOINT_FILE_SIZE:
                        os.ftruncate(fd, CHECKPOINT_FILE_SIZE)
                    write_all(fd, data, 0)
                    sync_data(fd)
                finally:
                    os.close(fd)
            self._written = values

    def __repr__(self) -> str:
        return f"<CheckpointFile {str(self.path)!r} {self._values}>"


def _load(path: Path) -> StoreCheckpoint:
    """The file's values; 0 for what it has not, as Java reads it: mapping the file lengthens it with zeros."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return StoreCheckpoint()
    return StoreCheckpoint.decode(data[:CHECKPOINT_FILE_SIZE].ljust(CHECKPOINT_FILE_SIZE, b"\0"))
