"""Pages of a log file that the disk does not give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from rmqcore.offline.log.log_files import LogBytes, LogFile
from rmqcore.vocabulary.units import PAGE


class BadSectors:
    """Pages, by position in a file; reads of them fail until `pages` is cleared."""

    def __init__(self, pages: Iterable[int] = ()) -> None:
        self.pages = set(pages)

    def of(self, monkeypatch: pytest.MonkeyPatch, *, file_from_offset: int) -> None:
        """Let the file that begins at a CommitLog offset have them."""
        real = LogFile.open

        @contextmanager
        def bad(
            file: LogFile, unreadable: Callable[[int, int, OSError], None]
        ) -> Iterator[LogBytes]:
            with real(file, unreadable) as source:
                if file.file_from_offset == file_from_offset:
                    source.read_into = lambda buf, pos: self._read_into(source, buf, pos)  # type: ignore[method-assign]
                yield source

        monkeypatch.setattr(LogFile, "open", bad)

    def _read_into(self, source: LogBytes, buf: memoryview, pos: int) -> int:
        got = LogBytes.read_into(source, buf, pos)
        for page in self.pages:
            begin, end = max(page, pos), min(page + PAGE, pos + got)
            if begin < end:
                buf[begin - pos : end - pos] = bytes(end - begin)
                source._unreadable(begin, end, OSError(5, "Input/output error"))
        return got
