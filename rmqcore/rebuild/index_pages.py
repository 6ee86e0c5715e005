"""The pages of index files that are written, given back as the files grow."""

from __future__ import annotations

from rmqcore.engine.index.index_service import IndexService

MOST_ENTRIES = 1 << 21
"""Entries that are put before all files are mapped anew: 40 MiB of pages, beside those of the slots."""


class IndexPages:
    """Keeps the memory of an index service bounded, however many files it has written.

    Parameters
    ----------
    service : IndexService
        One thread puts, and nobody queries.
    """

    def __init__(self, service: IndexService) -> None:
        self._service = service
        self._files = self._entries = 0

    def after_put(self) -> None:
        """Look at what was put; map the files anew where their pages became many."""
        files = self._service.files
        if not files:
            return
        entries = files[-1].native.index_count
        if len(files) > self._files or entries - self._entries >= MOST_ENTRIES:
            self._service.map_anew()
            self._files, self._entries = len(files), entries
