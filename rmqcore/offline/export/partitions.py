"""Where an export puts its files: partitions by topic and day, first in a working folder, then moved to their place.

Spark, pyarrow, DuckDB and Polars read this layout as partitions:
``topic=NAME/day=YYYY-MM-DD/part-00000.parquet``. Days are UTC days of the store timestamp.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Self

from rmqcore.errors import TargetNotEmptyError

DAY_MS = 86_400_000
LAST_DAY = 2_932_896  # 9999-12-31
UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
WORK_PREFIX = ".rmqcore-export-"
PART_SUFFIXES = (".parquet", ".csv", ".jsonl")
MAX_NAME_BYTES = 255 - len("topic=")

# What Spark and Hive escape in partition names; other characters stay readable.
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{}[]^ <>|") | {chr(code) for code in range(32)}


@lru_cache(maxsize=65536)
def partition_folder(topic: str, day: int) -> str:
    """Name the folder of a topic and a day (days since 1970-01-01, UTC), relative to the export.

    Characters with a meaning in paths are written ``%XX``. A topic too long for a file name is cut and
    gets a hash. A day that no calendar has, from a damaged timestamp, and an empty topic become Hive's
    name for "unknown".
    """
    name = "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in topic) or UNKNOWN
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        digest = hashlib.sha256(topic.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{_cut(name, MAX_NAME_BYTES - 17)}~{digest}"
    date = UNKNOWN
    if 0 <= day <= LAST_DAY:
        date = datetime.fromtimestamp(day * 86400, UTC).strftime("%Y-%m-%d")
    return f"topic={name}/day={date}"


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
        It is made when it is missing.
    overwrite : bool
        Replace the part files of an earlier export. Files that no export made are left alone.

    Raises
    ------
    TargetNotEmptyError
        The folder is not empty and `overwrite` is off.
    """

    def __init__(self, folder: Path, *, overwrite: bool) -> None:
        self.folder = folder
        self._overwrite = overwrite
        self._made = False
        self.work = folder

    def __enter__(self) -> Self:
        self._made = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._overwrite:
            self._refuse_content()
        self.work = Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        if self._made and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _refuse_content(self) -> None:
        found = sorted(entry.name for entry in self.folder.iterdir())
        if not found:
            return
        if all(name.startswith(WORK_PREFIX) for name in found):
            what = f"holds {found[0]}, left by an export that was killed or is still running"
        else:
            what = f"is not empty: it holds {found[0]}" + (
                f" and {len(found) - 1} more" if found[1:] else ""
            )
        raise TargetNotEmptyError(f"{self.folder} {what}")

    def publish(self, places: Iterable[tuple[Path, str]]) -> None:
        """Move finished files to their places below the folder, after removing the files of an earlier export."""
        if self._overwrite:
            self._remove_earlier()
        for part, place in places:
            target = self.folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            part.rename(target)

    def _remove_earlier(self) -> None:
        for leftover in self.folder.glob(f"{WORK_PREFIX}*"):
            if leftover != self.work:
                shutil.rmtree(leftover)
        for part in list(self.folder.glob("topic=*/day=*/part-*")):
            if part.suffix in PART_SUFFIXES:
                part.unlink()
                for folder in (part.parent, part.parent.parent):
                    if not any(folder.iterdir()):
                        folder.rmdir()
