"""A RocksDB database as it is at one moment, opened through links in a temporary directory.

The library writes a file of its own and a log beside a database that it opens, also if it only reads. So rmqcore never
has it open a store's directory, but a directory of links to the files there. RocksDB does not lock a database that it
only reads.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
import weakref
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rmqcore.disk.file_kinds import kind_of
from rmqcore.disk.inside.folder import remove_made
from rmqcore.disk.read_range import entries_of, read_range
from rmqcore.errors import RocksdbError, RocksdbMissingError
from rmqcore.offline.rocksdb.damaged import rocksdb_error
from rmqcore.offline.rocksdb.log_format import check_manifest

CURRENT = "CURRENT"
MANIFEST = re.compile(r"MANIFEST-\d{6,20}")
_WANTED = re.compile(r"MANIFEST-\d{6,20}|\d{6,20}\.(?:sst|ldb|log|blob)")
MOST_FILES = 100_000
"""The most files of a database that is opened: brokers make files of 64 MB and more."""
MOST_LOG_BYTES = 4 << 30
"""The most bytes of write-ahead logs that are read: memory holds them all. A broker begins a new log at 1 GiB."""
OPEN_FILES = 256
"""Files that RocksDB holds open at once."""

Signature = tuple[tuple[str, int, int], ...]


class DatabaseView:
    """The database, open for reading; later writes to it are not visible.

    Parameters
    ----------
    place : Path
        The directory of the database.
    wanted : sequence of str
        Column families that are read.
    holds : str
        What the database holds, for the error of a missing package: ``"the queues are"``.

    Attributes
    ----------
    signature : tuple
        Names, sizes and times of the files that change with each write.
    families : dict
        The column families as `Rdict`, by name.
    process : int
        Id of the process that opened it.

    Raises
    ------
    RocksdbMissingError
        The package `rocksdict` is not installed.
    RocksdbError
        A file is missing or is not a regular file, or RocksDB cannot read the database.
    """

    def __init__(self, place: Path, wanted: Sequence[str], holds: str) -> None:
        if find_spec("rocksdict") is None:
            raise RocksdbMissingError(
                f"{place}: {holds} in RocksDB, but the package rocksdict is not installed"
            )
        self.process = os.getpid()
        files = _checked_files(place)
        self.signature = signature_of(files)
        self._folder = tempfile.mkdtemp(prefix="rmqcore-rocksdb-")
        self._held: list[Any] = []
        self._close = weakref.finalize(self, _close, self._held, self._folder, self.process)
        for name, (path, _) in files.items():
            Path(self._folder, name).symlink_to(path)
        with open(f"{self._folder}/{CURRENT}", "wb") as current:
            current.write(f"{_manifest_of(place, files)}\n".encode())
        self._place = place
        self.families = self._open(wanted)

    def _open(self, wanted: Sequence[str]) -> dict[str, Any]:
        from rocksdict import AccessType, Rdict

        with self.reading():
            found = Rdict.list_cf(self._folder, _options())
            for family in wanted:
                if family not in found:
                    raise rocksdb_error(
                        self._place, f"column families are {found}, expected {family!r} among them"
                    )
            database = Rdict(
                self._folder,
                options=_options(),
                column_families={family: _options() for family in wanted},
                access_type=AccessType.read_only(error_if_log_file_exist=False),
            )
            self._held.append(database)
            families = {family: database.get_column_family(family) for family in wanted}
            self._held += families.values()
            return families

    def reading(self) -> _Reading:
        """Turn what RocksDB raises in a ``with`` block into `RocksdbError`."""
        return _Reading(self._place, self._folder)

    def close(self) -> None:
        """Close the database and remove the links; may be repeated."""
        self._close()


class _Reading:
    """Converts errors: RocksDB raises only `Exception`, with a text that names the temporary directory."""

    def __init__(self, place: Path, folder: str) -> None:
        self._place = place
        self._folder = folder

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if error is None or isinstance(error, RocksdbError | KeyboardInterrupt | MemoryError):
            return
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            text = str(error).replace(self._folder, str(self._place))
            raise rocksdb_error(self._place, f"RocksDB cannot read it: {text}") from error


def database_files(place: Path) -> dict[str, tuple[str, os.stat_result]]:
    """Return path and status of each file that belongs to the database, by name; with `CURRENT` if it exists.

    Raises
    ------
    RocksdbError
        One of them is a link or another kind of file, or their number is too large.
    """
    found: dict[str, tuple[str, os.stat_result]] = {}
    for entry in entries_of(place):
        if entry.name != CURRENT and not _WANTED.fullmatch(entry.name):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # a compaction deleted it
        if not stat.S_ISREG(status.st_mode):
            raise rocksdb_error(
                entry.path, f"{kind_of(status.st_mode)}, expected a file of RocksDB"
            )
        found[entry.name] = entry.path, status
        if len(found) > MOST_FILES:
            raise rocksdb_error(place, f"more than {MOST_FILES} files, the limit")
    return found


def signature_of(files: dict[str, tuple[str, os.stat_result]]) -> Signature:
    """Return a value that changes with every write: the names of all files, and length and time of those that grow."""
    return tuple(
        (name, 0, 0)
        if name.endswith((".sst", ".ldb"))
        else (name, status.st_size, status.st_mtime_ns)
        for name, (_, status) in files.items()
    )


def _checked_files(place: Path) -> dict[str, tuple[str, os.stat_result]]:
    files = database_files(place)
    logs = sum(status.st_size for name, (_, status) in files.items() if name.endswith(".log"))
    if logs > MOST_LOG_BYTES:
        raise rocksdb_error(
            place, f"the write-ahead logs have {logs} bytes, expected at most {MOST_LOG_BYTES}"
        )
    manifest = _manifest_of(place, files)
    check_manifest(place / manifest, files[manifest][1].st_size)
    files.pop(CURRENT)
    return files


def _manifest_of(place: Path, files: dict[str, tuple[str, os.stat_result]]) -> str:
    """Return the name in `CURRENT`; raise if its file is missing."""
    current = place / CURRENT
    data = read_range(current, 0, 64)
    name = data.decode("ascii", "replace").rstrip("\n")
    if not data:
        raise rocksdb_error(current, "missing or empty, expected the name of a MANIFEST file")
    if not MANIFEST.fullmatch(name):
        raise rocksdb_error(current, f"holds {data!r}, expected the name of a MANIFEST file")
    if name not in files:
        raise rocksdb_error(place / name, f"missing, but {CURRENT} names it")
    return name


def _options() -> Any:
    from rocksdict import Options

    options = Options(raw_mode=True)
    options.set_max_open_files(OPEN_FILES)
    options.set_keep_log_file_num(1)
    return options


def _close(held: list[Any], folder: str, process: int) -> None:
    if os.getpid() != process:
        return  # a forked child: RocksDB's threads exist only in the parent
    for family in reversed(held):
        family.close()
    held.clear()
    remove_made(Path(folder))
