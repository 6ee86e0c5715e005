"""Part files of an export: their names, and the writer of text files.

Part numbers run through the whole export, so that two topics whose names are the same to a file system never share a
file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rmqcore.offline.export.message_rows import (
    CSV_HEADER,
    MAX_BODY,
    Body,
    body_encoder,
    csv_encoder,
    json_encoder,
)
from rmqcore.offline.export.partitions import LAST_DAY, partition_folder
from rmqcore.shown.body_text import Stored
from rmqcore.vocabulary.units import DAY_MS

if TYPE_CHECKING:
    from rmqcore.codec.message import MessageView

Partition = tuple[str, int]
"""Topic, and days since 1970-01-01 in UTC; -1 for a time outside of the calendar."""

PENDING_BYTES = 48 * 1024 * 1024


def day_of(store_timestamp_ms: int) -> int:
    """Return the day of a `Partition`."""
    day = store_timestamp_ms // DAY_MS
    return day if 0 <= day <= LAST_DAY else -1


class PartNames:
    """Names of part files: all are written in one folder, and each has a place in the export.

    Attributes
    ----------
    places : list of (Path, str)
        Each file, and its path below the folder of the export.
    """

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix
        self.places: list[tuple[Path, str]] = []

    def new(self, partition: Partition) -> Path:
        """Name a new part file of a partition."""
        name = f"part-{len(self.places):05}.{self._suffix}"
        path = self._folder / name
        self.places.append((path, f"{partition_folder(*partition)}/{name}"))
        return path


class TextParts:
    """CSV or JSON Lines, one file per partition, open only while rows are added.

    Rows wait in memory by partition; when all of them together pass `PENDING_BYTES`, the fullest
    partitions are written out.

    Parameters
    ----------
    folder : Path
    suffix : {"csv", "jsonl"}
    body : {"none", "text", "base64", "sha256"}
    max_body : int, optional
        Bytes of a longer body that text and base64 hold; None: all.
    on_shortened, stored : callable, optional
        As in `body_encoder`.
    csv_safe : bool
        No text in CSV begins like a spreadsheet formula.
    """

    def __init__(
        self,
        folder: Path,
        suffix: Literal["csv", "jsonl"],
        body: Body,
        *,
        max_body: int | None = MAX_BODY,
        on_shortened: Callable[[int], object] | None = None,
        stored: Stored | None = None,
        csv_safe: bool = False,
    ) -> None:
        shown = body_encoder(body, max_body=max_body, on_shortened=on_shortened, stored=stored)
        self.names = PartNames(folder, suffix)
        jsonl = suffix == "jsonl"
        self._encode = json_encoder(shown) if jsonl else csv_encoder(shown, csv_safe=csv_safe)
        self._header = b"" if jsonl else CSV_HEADER
        self._pending: dict[Partition, list[bytes]] = {}
        self._sizes: dict[Partition, int] = {}
        self._paths: dict[Partition, Path] = {}
        self._total = 0

    def write(self, view: MessageView) -> None:
        """Add one message."""
        line = self._encode(view)
        partition = (view.topic, day_of(view.store_timestamp_ms))
        self._pending.setdefault(partition, []).append(line)
        size = len(line) + 64  # bytes of a Python object beside its contents
        self._sizes[partition] = self._sizes.get(partition, 0) + size
        self._total += size
        if self._total > PENDING_BYTES:
            for fullest in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
                self._flush(fullest)
                if self._total <= PENDING_BYTES // 2:
                    break

    def _flush(self, partition: Partition) -> None:
        path = self._paths.get(partition)
        lines = self._pending.pop(partition)
        if path is None:
            path = self._paths[partition] = self.names.new(partition)
            lines.insert(0, self._header)
        with path.open("ab") as part:
            part.write(b"".join(lines))
        self._total -= self._sizes.pop(partition)

    def close(self) -> None:
        """Write the waiting rows."""
        for partition in list(self._pending):
            self._flush(partition)
