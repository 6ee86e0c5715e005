"""Releases the pages of index files while they are written."""

from __future__ import annotations

from rmqcore._native.format.layout import INDEX_ENTRY_SIZE
from rmqcore.engine.index.index_service import IndexService

MOST_BYTES = 40 << 20
"""Bytes of entries and of new files that are written before all files are mapped anew."""


class IndexPages:
    """Keeps the memory of an index service bounded, however many files it has written.

    Parameters
    ----------
    service : IndexService
        One thread puts, and no query runs.
    """

    def __init__(self, service: IndexService) -> None:
        self._service = service
        self._known = 0  # bytes of full files, and of the entries in the last one

    def after_put(self) -> None:
        """Map the files again if the pages written since the last time are many."""
        files = self._service.files
        if not files:
            return
        last = files[-1]
        written = (len(files) - 1) * last.file_size + last.native.index_count * INDEX_ENTRY_SIZE
        if (
            written - self._known >= MOST_BYTES
        ):  # not for each new file: there may be thousands of small ones
            self._service.map_anew()
            self._known = written
