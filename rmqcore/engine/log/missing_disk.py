"""Check for a missing directory of the CommitLog: a new disk, or one that is not mounted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.errors import CommitLogMissingError


def check_no_disk_is_missing(
    made: Sequence[Path],
    files: Sequence[MappedFile],
    checkpoint: StoreCheckpoint,
    config: MessageStoreConfig,
) -> None:
    """Refuse to open a log if one of its directories was missing and files are missing.

    Without that disk the log would have holes or end earlier, and new messages would get the offsets of messages on it.

    Parameters
    ----------
    made : sequence of Path
        Directories of the log that did not exist before this open.
    files : sequence of MappedFile
        All files of the log that were found.
    checkpoint : StoreCheckpoint
    config : MessageStoreConfig
        ``recover_without_commit_log`` lets the open continue.

    Raises
    ------
    CommitLogMissingError
        Files are missing in the middle, or messages that the checkpoint knows lie behind the last file.
    """
    if not made or not files or config.recover_without_commit_log:
        return
    for one, other in pairwise(files):
        end = one.file_from_offset + one.file_size
        if end != other.file_from_offset:
            raise CommitLogMissingError(
                f"{made[0]} was missing, and the log has no file from {end} to "
                f"{other.file_from_offset}"
            )
    end = files[-1].file_from_offset + files[-1].file_size
    known = checkpoint.newest_known_phy_offset
    if known >= end:
        raise CommitLogMissingError(
            f"{made[0]} was missing, and the log ends at {end}, before the message at {known} that "
            "the checkpoint knows"
        )
