"""The ``abort`` file: it exists while a store is open for writing, so an open that finds it follows an unclean exit."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore.disk.durable import sync_directory, write_durable
from rmqcore.disk.inside.files import unlink


class AbortFile:
    """The file in a store's root whose mere presence says that a process has the store open, or died.

    Parameters
    ----------
    path : path-like

    Notes
    -----
    Its text is the process id, which proves nothing: the process may be gone, and its number taken by another.

    **Durability.** `create` returns once the name is on disk, so no message can be there without it. A `remove` that is lost in
    a power cut costs one recovery that finds nothing to do.

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
