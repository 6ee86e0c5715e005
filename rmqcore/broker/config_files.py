"""The JSON files in ``config/`` of a broker: read at its start, written by a thread of their own.

Source: RocketMQ 5.5.0 ConfigManager.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from rmqcore.broker.channel import Loop
from rmqcore.broker.long_work import uncollected
from rmqcore.broker.thens import call_each
from rmqcore.disk.config_files import read_config_file
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError, StoreFormatError

Snapshot = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
"""What a file is to hold, which nobody changes any more; a function makes it of a copy, and another thread calls it."""
Value = Mapping[str, Any] | Callable[[], Snapshot]
"""A function is called in the loop's thread when the file's turn comes: a burst of changes is copied once, as it is then."""
AGAIN_AFTER = 5.0
"""Seconds after which a write that failed is tried again."""
_FOLDER = "config"
_LOG = logging.getLogger("rmqcore.broker")
_T = TypeVar("_T")


class ConfigFiles:
    """The files of one broker. Its methods are called by the loop's thread only.

    A file is written under another name, synced, and renamed. The file before it becomes ``NAME.bak``, or
    ``NAME.damaged`` if it could not be read. Of the values that wait for the same file only the latest is written.

    Parameters
    ----------
    paths : StorePaths
    loop : Loop

    Attributes
    ----------
    problems : list of str
        What is wrong with the files that were read, one sentence for each.
    """

    def __init__(self, paths: StorePaths, loop: Loop) -> None:
        self._paths = paths
        self._loop = loop
        self._files: dict[str, _File] = {}
        self._damaged: set[str] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rmqcore-config")
        self._closed = False
        self.problems: list[str] = []

    # ---- reading ------------------------------------------------------------------------------------

    def load(self, name: str) -> dict[str, Any] | None:
        """Read a file as `load_as` does, and accept any object."""
        return self.load_as(name, lambda saved: saved)

    def load_as(self, name: str, parse: Callable[[dict[str, Any]], _T]) -> _T | None:
        """Read a file, for example ``topics.json``; return None if a broker has never written it.

        Parameters
        ----------
        name : str
        parse : callable
            Receives the object of the file. If it raises, the file counts as unreadable.

        Raises
        ------
        StoreFormatError
            The file exists, and neither it nor its ``.bak`` can be read: the broker would lose what it knew.

        Notes
        -----
        As in Java the ``.bak`` is read if the file is missing, empty or unreadable; `problems` and the log name it.
        Without a ``.bak`` Java starts without the contents of the file. An empty file without a ``.bak`` counts as
        missing: a crash in the first write of a Java broker leaves one.
        """
        found, wrong = self._read(name, parse)
        if found is not None:
            return found
        backup, wrong_backup = self._read(f"{name}.bak", parse)
        if wrong is not None:
            self._damaged.add(name)
        if backup is not None:
            why = wrong or f"{self._path(name)} is not there"
            self._tell(f"{why}; read {name}.bak instead: the last changes may be lost")
            return backup
        if wrong is None and wrong_backup is None:
            return None
        if wrong_backup is None and self._is_empty(name):
            self._tell(f"{wrong}; treating it as missing")
            return None
        why = "; ".join(filter(None, (wrong, wrong_backup)))
        raise StoreFormatError(
            f"{why}; replace it by a sound copy, or move it away to start without it"
        )

    def _read(
        self, name: str, parse: Callable[[dict[str, Any]], _T]
    ) -> tuple[_T | None, str | None]:
        """Return what a file holds, or why it cannot be read; neither if the file is missing."""
        try:
            saved = read_config_file(self._paths, f"{_FOLDER}/{name}")
            return None if saved is None else parse(saved), None
        except (StoreError, OSError, ValueError) as error:
            what, path = str(error), self._path(name)
            return None, what if path in what else f"{path}: {what}"

    def _is_empty(self, name: str) -> bool:
        with Folder(self._paths.root) as root:
            status = root.status(f"{_FOLDER}/{name}")
        return status is not None and status.st_size == 0

    def _path(self, name: str) -> str:
        return str(self._paths.config / name)

    def _tell(self, problem: str) -> None:
        _LOG.warning("%s", problem)
        self.problems.append(problem)

    def left_out(self, name: str, wrong: str) -> None:
        """Log a part of a file that is not used; `wrong` is a sentence."""
        self._tell(f"{name}: {wrong} It is skipped.")

    # ---- writing ------------------------------------------------------------------------------------

    def save(self, name: str, value: Value, then: Callable[[], object] | None = None) -> None:
        """Write a file, and call `then` when it is on disk, later, in the loop's thread.

        A write that fails is logged once and tried again after some seconds; `then` is called all the same, as in Java.

        Raises
        ------
        ValueError
            The files are closed.
        """
        if self._closed:
            raise ValueError(f"{name}: the broker's files are closed")
        file = self._files.setdefault(name, _File())
        file.waiting = value
        if then is not None:
            file.thens.append(then)
        if file.writing is None:
            self._begin(name, file)

    @property
    def is_awaited(self) -> bool:
        """Return True if a caller waits for a write."""
        return any(file.thens or file.told for file in self._files.values())

    def close(self) -> None:
        """Write all that waits, and end the thread; it waits for the disk. May be repeated."""
        self._closed = True
        for name, file in self._files.items():
            if file.writing is not None:
                self._end(name, file, file.writing)
            if file.waiting is not None:
                self._end(name, file, self._begin(name, file))
        self._thread.shutdown()

    def _begin(self, name: str, file: _File) -> Future[None]:
        """Pass the waiting value to the thread."""
        value = file.waiting
        assert value is not None
        snapshot = value() if callable(value) else value
        file.waiting = None
        file.value = value
        file.told = file.thens
        file.thens = []
        file.writing = writing = self._thread.submit(self._write, name, snapshot)
        writing.add_done_callback(
            lambda done: self._loop.call_soon_threadsafe(partial(self._written, name, file, done))
        )
        return writing

    def _written(self, name: str, file: _File, writing: Future[None]) -> None:
        """Continue with a file after a write, unless `close` already did."""
        if file.writing is not writing:
            return
        if not self._end(name, file, writing):
            self._loop.call_later(AGAIN_AFTER, partial(self._again, name, file))
        else:
            self._again(name, file)

    def _again(self, name: str, file: _File) -> None:
        if file.waiting is not None and file.writing is None and not self._closed:
            self._begin(name, file)

    def _end(self, name: str, file: _File, writing: Future[None]) -> bool:
        """Call the callbacks of a write; the value of a failed write waits again, unless a newer one waits."""
        error = writing.exception()
        if error is None and file.wrong is not None:
            _LOG.warning("%s can be written again", self._path(name))
        elif error is not None and str(error) != file.wrong:  # it is tried again every few seconds
            _LOG.error("%s could not be written: %s; trying again", self._path(name), error)
        file.wrong = None if error is None else str(error)
        if error is not None:
            file.waiting = file.waiting or file.value
        thens = file.told
        file.told = []
        file.value = None
        file.writing = None
        call_each(thens)
        return error is None

    def _write(self, name: str, snapshot: Snapshot) -> None:
        with uncollected():
            data = _encode(snapshot)
        with Folder(self._paths.root) as root, root.folder(_FOLDER, make=True) as folder:
            if name in self._damaged:
                with suppress(FileNotFoundError):
                    folder.move(name, f"{name}.damaged")
                self._damaged.discard(name)
            folder.write(name, data, backup=f"{name}.bak")


class _File:
    """The value that waits for a file, the one being written, and the callbacks of both."""

    __slots__ = ("thens", "told", "value", "waiting", "writing", "wrong")

    def __init__(self) -> None:
        self.waiting: Value | None = None
        self.thens: list[Callable[[], object]] = []
        self.writing: Future[None] | None = None
        self.value: Value | None = None
        self.told: list[Callable[[], object]] = []
        self.wrong: str | None = None
        """Why the last write failed."""


def _encode(snapshot: Snapshot) -> bytes:
    # With an indent it is json's encoder in Python, between whose steps other threads run.
    given = snapshot() if callable(snapshot) else snapshot
    return json.dumps(given, ensure_ascii=False, indent="\t", separators=(",", ":")).encode("utf-8")
