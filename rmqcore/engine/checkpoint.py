"""The ``checkpoint`` file: how far each part of a store was known to be on disk."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmqcore._native import index as _index
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
