"""The places of an export's files: partitions by topic and day. Files are written in a working folder, then moved.

Spark, pyarrow, DuckDB and Polars read this layout as partitions:
``topic_dir=NAME/day=YYYY-MM-DD/part-00000.parquet``. Files have a column ``topic``. Days are UTC days of the store timestamp.
"""

from __future__ import annotations

import errno
import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Self

from rmqcore.disk.inside.files import remove_empty
from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreError, TargetNotEmptyError

LAST_DAY = 2_932_896  # 9999-12-31
UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
WORK_PREFIX = ".rmqcore-export-"
PART_SUFFIXES = (".parquet", ".csv", ".jsonl")
TOPIC_KEY = "topic_dir"
"""Key of the topics' folders. Files have a column ``topic`` with the exact name, also if the folder's name had to be escaped.
Readers of partitions guess types for the texts of folders: 7 for ``007``."""
EARLIER_KEY = "topic"
"""Key of the topics' folders in exports by earlier versions, whose Parquet files had no column ``topic``."""
MAX_FILE_NAME = 255

# What Spark and Hive escape in partition names; other characters stay readable.
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{}[]^ <>|") | {chr(code) for code in range(32)}


@lru_cache(maxsize=65536)
def partition_folder(topic: str, day: int) -> str:
    """Return the folder of a topic and a day (days since 1970-01-01, UTC), relative to the export.

    Characters with a meaning in paths are written ``%XX``. A topic too long for a file name is cut and
    gets a hash, and so does an empty one. A day outside of the calendar, from a damaged timestamp, becomes Hive's
    name for "unknown".
    """
    name = "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in topic) or UNKNOWN
    most = MAX_FILE_NAME - len(f"{TOPIC_KEY}=")
    # A reader that finds only "unknown" in folders guesses no type.
    if name == UNKNOWN or len(name.encode("utf-8", "surrogatepass")) > most:
        digest = hashlib.sha256(topic.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{_cut(name, most - 17)}~{digest}"
    date = UNKNOWN
    if 0 <= day <= LAST_DAY:
        date = datetime.fromtimestamp(day * 86400, UTC).strftime("%Y-%m-%d")
    return f"{TOPIC_KEY}={name}/day={date}"


def _cut(name: str, size: int) -> str:
    """Cut a name to at most `size` bytes, between characters and not inside ``%XX``."""
    head = name.encode()[:size].decode("utf-8", "ignore")
    percent = head.rfind("%")
    return head[:percent] if percent > len(head) - 3 and percent >= 0 else head


class ExportTarget:
    """The folder of an export: no file appears in it under its final name before all files are written.

    Use it as a context manager: files are made below `work`, `publish` moves them to their places, and the exit removes
    `work` with the files that were not published.

    Parameters
    ----------
    folder : Path
        Made if it is missing.
    overwrite : bool
        Replace the part files of an earlier export. Other files are left alone.

    Raises
    ------
    TargetNotEmptyError
        The folder is not empty and `overwrite` is off.
    LinkError
        From `publish`: a partition is a link. Nothing is deleted or moved then.
    """

    def __init__(self, folder: Path, *, overwrite: bool) -> None:
        self.folder = folder
        self._overwrite = overwrite
        self._made = False
        self.work = folder

    def __enter__(self) -> Self:
        self._made = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._inside = Folder(self.folder)
        if not self._overwrite:
            self._refuse_content()
        self.work = Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, StoreError):  # the error that ended the export is the one to report
            self._inside.remove(self.work.name)
            if self._made and not self._inside.names():
                remove_empty(self.folder)
        self._inside.close()

    def _refuse_content(self) -> None:
        found = self._inside.names()
        if not found:
            return
        if all(name.startswith(WORK_PREFIX) for name in found):
            what = f"has {found[0]} of an export that was killed or is still running"
        else:
            what = f"is not empty: it has {found[0]}" + (
                f" and {len(found) - 1} more" if found[1:] else ""
            )
        raise TargetNotEmptyError(f"{self.folder} {what}")

    def publish(self, places: Iterable[tuple[Path, str]]) -> None:
        """Move finished files to their places below the folder, after removing the files of an earlier export."""
        if self._overwrite:
            self._remove_earlier()
        for part, place in places:
            self._inside.make(place.rpartition("/")[0], exist_ok=True)
            self._inside.take(part, place)

    def _remove_earlier(self) -> None:
        parts = [
            part for part in part_places(self._inside) if part.endswith(PART_SUFFIXES)
        ]  # before anything is deleted: a link among the folders ends the export here
        for name in self._inside.names():
            if name.startswith(WORK_PREFIX) and name != self.work.name:
                self._inside.remove(name)
        for part in parts:
            self._inside.delete(part, missing_ok=True)
            remove_empty_above(self._inside, part)


def part_places(folder: Folder) -> Iterator[str]:
    """Yield the places ``topic=*/day=*/part-*`` and ``topic_dir=*/day=*/part-*`` of the files in a folder.

    Raises
    ------
    LinkError
        A topic or a day is a link.
    """
    for topic in folder.names():
        if topic.startswith((f"{TOPIC_KEY}=", f"{EARLIER_KEY}=")) and folder.is_folder(topic):
            days = folder.folder(topic)
            for day in days.names():
                if day.startswith("day=") and days.is_folder(day):
                    names = days.folder(day).names()
                    yield from (f"{topic}/{day}/{name}" for name in names if name[:5] == "part-")


def remove_empty_above(folder: Folder, place: str) -> None:
    """Remove the folders above a place that are empty, the lowest first."""
    while "/" in place:
        place = place.rpartition("/")[0]
        try:
            folder.remove_empty(place)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return
            if error.errno != errno.ENOENT:  # removed already: the folder above may be empty too
                raise
