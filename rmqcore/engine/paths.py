"""Names of the files and directories of a store."""

from __future__ import annotations

import os
from pathlib import Path

FILE_NAME_DIGITS = 20
MAX_OFFSET = (1 << 63) - 1


class StorePaths:
    """Where the parts of a store lie under its root (storePathRootDir).

    Parameters
    ----------
    root : path-like
    commitlog : path-like, optional
        storePathCommitLog, when the CommitLog lies elsewhere.
    """

    def __init__(
        self, root: str | os.PathLike[str], *, commitlog: str | os.PathLike[str] | None = None
    ) -> None:
        self.root = Path(root)
        self.commitlog = self.root / "commitlog" if commitlog is None else Path(commitlog)
        self.consumequeue = self.root / "consumequeue"
        self.consumequeue_ext = self.root / "consumequeue_ext"
        self.batchconsumequeue = self.root / "batchconsumequeue"
        self.index = self.root / "index"
        self.config = self.root / "config"
        self.checkpoint = self.root / "checkpoint"
        self.abort = self.root / "abort"
        self.lock = self.root / "lock"

    def queue(self, topic: str, queue_id: int) -> Path:
        """Give the directory of one queue's files.

        Raises
        ------
        ValueError
            The topic is no name for a directory (empty, a dot name, a separator or NUL in it).
        """
        if topic in ("", ".", "..") or "/" in topic or os.sep in topic or "\0" in topic:
            raise ValueError(f"topic {topic!r} is no name for a directory")
        return self.consumequeue / topic / str(queue_id)

    def __repr__(self) -> str:
        return f"StorePaths({str(self.root)!r})"


def file_name(file_from_offset: int) -> str:
    """Name the mapped file that starts at an offset: 20 digits, zero-padded.

    The offset counts bytes, also in a ConsumeQueue: its second file of the default size is ``00000000000006000000``.

    Raises
    ------
    ValueError
        The offset is negative or not a Java long.

    Notes
    -----
    Source: RocketMQ 5.5.0 UtilAll#offset2FileName.
    """
    if not 0 <= file_from_offset <= MAX_OFFSET:
        raise ValueError(f"file offset {file_from_offset} is not between 0 and {MAX_OFFSET}")
    return f"{file_from_offset:0{FILE_NAME_DIGITS}d}"


def parse_file_name(name: str) -> int | None:
    """Give the offset that a mapped file's name says; None for any other name."""
    if len(name) != FILE_NAME_DIGITS or not (name.isascii() and name.isdigit()):
        return None
    offset = int(name)
    return offset if offset <= MAX_OFFSET else None
