"""Copies the parts of a store besides log, queues and index, so that a broker keeps its topics, groups and timers."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from rmqcore.disk.config_files import what_is_wrong
from rmqcore.disk.data_extents import data_ranges
from rmqcore.disk.inside.folder import MOST_DEEP, Folder
from rmqcore.disk.inside.opened import naming, write_all
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError

KEPT = (
    "batchconsumequeue",
    "compaction",
    "config",
    "epochFileCheckpoint",
    "rocksdbstore",
    "timerlog",
    "timerwheel",
)
"""Names in the root: what refers to the log does so by physical offsets, which stay."""
MADE = ("checkpoint", "commitlog", "consumequeue", "index")
OF_A_RUN = ("abort", "abort.bak", "lock")
PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """A file of ``config/`` that a broker cannot read.

    Attributes
    ----------
    path : str
        Relative to the store.
    problem : str
        What is wrong, and whether its ``.bak`` is sound.
    """

    path: str
    problem: str


class OtherParts:
    """Copies the parts of a store that are kept as they are.

    Parameters
    ----------
    source, target : Folder
        Root of the store, and the folder that gets the parts.
    made : collection of str
        Further names in the root whose contents the new store has: the directories of the log.

    Attributes
    ----------
    copied, left_behind : list of str
        Names in the root.
    problems : list of ConfigProblem
    """

    def __init__(self, source: Folder, target: Folder, made: Collection[str] = ()) -> None:
        self.copied: list[str] = []
        self.left_behind: list[str] = []
        self.problems: list[ConfigProblem] = []
        self._source, self._target = source, target
        self._not_left = {*MADE, *OF_A_RUN, *made}

    def copy(self) -> None:
        """Copy them.

        Raises
        ------
        OSError
            A file cannot be read or written.
        StoreError
            Folders lie too deep in each other.
        """
        for name in self._source.names():
            if name in KEPT and self._copy(self._source, self._target, name, 0):
                self.copied.append(name)
            elif name not in self._not_left:
                self.left_behind.append(name)
        if "config" in self.copied:
            self.problems += _torn(self._target.path)

    def _copy(self, source: Folder, target: Folder, name: str, depth: int) -> bool:
        """Copy a file, or a folder with all below it; answer whether it is one of these: a link or a FIFO is not copied."""
        if depth > MOST_DEEP:
            raise StoreError(f"{source.path / name}: more than {MOST_DEEP} nested directories")
        status = source.status(name)
        if status is None:
            return False  # deleted meanwhile
        if stat.S_ISDIR(status.st_mode):
            target.make(name)
            with source.folder(name) as inside, target.folder(name) as made:
                for entry in inside.names():
                    self._copy(inside, made, entry, depth + 1)
            return True
        if not stat.S_ISREG(status.st_mode):
            return False
        _copy_file(source, target, name)
        return True


def _copy_file(source: Folder, target: Folder, name: str) -> None:
    opened = source.open_file(name, os.O_RDONLY)
    made = target.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        fd, size = opened.fileno(), os.fstat(opened.fileno()).st_size
        with naming(target.path / name):
            os.ftruncate(made.fileno(), size)
            for first, last in data_ranges(fd, 0, size):
                for at in range(first, last, PIECE):
                    write_all(made.fileno(), os.pread(fd, min(PIECE, last - at), at), at)
    finally:
        made.close()
        opened.close()


def _torn(root: Path) -> Iterator[ConfigProblem]:
    paths = StorePaths(root)
    with Folder(paths.config) as config:
        for name in config.names():
            place = f"config/{name}"
            why = what_is_wrong(paths, place) if name.endswith(".json") else None
            if why is None:
                continue
            backup = f"{place}.bak"
            if config.status(f"{name}.bak") is None or what_is_wrong(paths, backup) is not None:
                after = "it has no sound .bak, so a broker starts without it"
            else:
                after = f"a broker reads the older {name}.bak instead"
            yield ConfigProblem(place, f"{why}: {after}")
