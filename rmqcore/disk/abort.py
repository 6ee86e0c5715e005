"""The ``abort`` file: it exists while a store is open for writing, so an open that finds it follows an unclean exit."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore.disk.durable import sync_directory, write_durable
from rmqcore.disk.inside.files import unlink


class AbortFile:
    """The file in a store's root whose presence means that a process has the store open, or was killed.

    Parameters
    ----------
    path : path-like

    Notes
    -----
    Its text is the process id. The id proves nothing: the process may have ended, and another may have its id.

    **Durability.** `create` returns when the name is on disk, so a store with new messages always has it. If a power
    cut loses a `remove`, the next open runs one recovery without work.

    Source: RocketMQ 5.5.0 DefaultMessageStore#createTempFile, #isTempFileExist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        """True if the last exit was unclean, or a process has the store open."""
        return os.path.lexists(self.path)

    def create(self) -> None:
        """Write the file, with this process's id."""
        write_durable(self.path, str(os.getpid()).encode())

    def remove(self) -> None:
        """Mark the exit as clean: everything is on disk and dispatched."""
        unlink(self.path, missing_ok=True)
        sync_directory(self.path.parent)

    def __repr__(self) -> str:
        return f"<AbortFile {str(self.path)!r}{'' if self.exists else ' (missing)'}>"
