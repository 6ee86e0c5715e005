"""CommitLog files of a store behind a URL: read by ranges, never copied, and only as they were when they were listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rmqcore.offline.log.log_files import LogBytes, LogFile
from rmqcore.offline.log.remote_file import RemoteBytes, RemoteLogFile
from rmqcore.offline.remote.listed_file import ListedFile, OpenFiles
from rmqcore.offline.remote.remote_paths import RemotePaths


@dataclass(frozen=True)
class ListedLogFile(RemoteLogFile):
    """A CommitLog file that must still be what was listed; a broker that cuts or deletes files is far away.

    Attributes
    ----------
    source : ListedFile
    open_files : OpenFiles
        Of the store: a reader of many small parts opens the file once.
    """

    source: ListedFile = field(kw_only=True)
    open_files: OpenFiles = field(kw_only=True, compare=False, repr=False)

    def open(
        self, unreadable: Callable[[int, int, OSError], None]
    ) -> AbstractContextManager[LogBytes]:
        """Open for positional reads; the server is asked with the first of them, and looked at again after many.

        Never calls `unreadable`.

        Raises
        ------
        RemoteChangedError
            From a read, and at the end: the file was deleted or is another by now.
        RemoteStorageError
            From a read: the server cannot be reached, or refuses.
        """
        return _open(self, unreadable)

    def exists(self) -> bool:
        """True: where the file is gone every read of it is an error."""
        return True


@contextmanager
def _open(
    file: ListedLogFile, unreadable: Callable[[int, int, OSError], None]
) -> Iterator[LogBytes]:
    source = ListedBytes(file, unreadable)
    try:
        yield source
        source.check_end()
    finally:
        source.close()


class ListedBytes(RemoteBytes):
    """Positional reads of a `ListedLogFile`.

    Notes
    -----
    Thread safety: safe to share; readers wait for each other.
    """

    def __init__(
        self, file: ListedLogFile, unreadable: Callable[[int, int, OSError], None]
    ) -> None:
        super().__init__(file, None, file.size, unreadable)
        self._source = file.source
        self._open_files = file.open_files
        self._requests = 0

    def check_end(self) -> None:
        """Look whether all that was read is of one version of the file; one range always is."""
        if self._requests > 1:
            self._source.check()

    def _fetch(self, pos: int, wanted: int) -> bytes:
        count = min(wanted, self._size - pos)
        if count <= 0:
            return b""
        self._requests += 1
        return self._source.read(self._open_files.get(self._source), pos, count)


def listed_log_file(paths: RemotePaths, file: LogFile) -> ListedLogFile:
    """The remote file behind a CommitLog file of a skeleton."""
    source = paths.skeleton.source_of(str(file.path))
    return ListedLogFile(
        PurePosixPath(source.path),
        file.file_from_offset,
        file.size,
        dledger=file.dledger,
        filesystem=source.filesystem,
        source=source,
        open_files=paths.skeleton.open_files,
    )
