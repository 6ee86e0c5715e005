"""A folder of stores that Spark has written: its manifest lists the stores that count.

The stores lie in the folder itself, ``part-000000-00000`` and so on; beside them ``_rmqstore`` holds ``manifest.json``. A store
that the manifest does not name was not committed. `rmqcore.spark.sink` writes such folders.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Self

from rmqcore.errors import StoreFormatError

SINK = "_rmqstore"
MANIFEST = f"{SINK}/manifest.json"
VERSION = 1
_PART = re.compile(r"part-\d{6,}-\d{5,}")


@dataclass(frozen=True)
class SinkManifest:
    """Stores committed to a folder.

    Attributes
    ----------
    commits : int
        Number of committed writes. The names of the next write's stores begin with this number.
    parts : tuple of dict
        The stores that count: ``part`` (the name), ``messages``, ``log_bytes``.
    batches : dict
        Id of a streaming query -> its newest committed batch.
    writes : tuple of str
        The option ``writeId`` of each batch write that had one.
    removed : tuple of str
        Stores that the newest commit replaced, and that may still be there.
    """

    commits: int = 0
    parts: tuple[dict[str, Any], ...] = ()
    batches: dict[str, int] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @classmethod
    def parse(cls, data: bytes, shown: str) -> Self:
        """Parse a manifest, which another program may have written.

        Raises
        ------
        StoreFormatError
            The data is not a manifest, or names a store outside of the folder; the message has `shown` as its path.
        """
        try:
            found = json.loads(data)
            version = found.pop("version")
            for name in ("parts", "writes", "removed"):
                found[name] = tuple(found[name])
            manifest = cls(**found)
            names = [*(part["part"] for part in manifest.parts), *manifest.removed]
            if version == VERSION and manifest.commits >= 0 and all(map(_PART.fullmatch, names)):
                return manifest
        except (AttributeError, KeyError, TypeError, ValueError):
            pass  # the error below describes it
        raise StoreFormatError(
            f"{shown} is not a version {VERSION} manifest of stores written by Spark: restore it; "
            "nothing was changed"
        )

    def encode(self) -> bytes:
        """Return the manifest as the file's content."""
        return json.dumps({"version": VERSION, **vars(self)}, indent=1).encode() + b"\n"

    @property
    def names(self) -> list[str]:
        """Return the names of the stores that count."""
        return [part["part"] for part in self.parts]


def part_name(commit: int, number: int) -> str:
    """Return the name of a store of a commit."""
    return f"part-{commit:06d}-{number:05d}"
