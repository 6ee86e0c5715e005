"""Stores that lie in the repository as archives."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(path: Path, folder: Path) -> Path:
    """Unpack an archive of this repository into a folder, and return the folder."""
    with tarfile.open(path) as archive:
        # The filter is None where Python is too old to have it (Debian's 3.11.2).
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder
