"""The folder in which tasks note the damage that they met, and the counter that reads it.

Spark has no metrics for a Python source, and an accumulator counts twice what a repeated task does twice. A damaged
range lies at one place of one store, so notes of different tasks and attempts are recognized as the same range.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rmqcore.disk.inside.files import make_folder
from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreError, StoreFormatError, TargetNotEmptyError
from rmqcore.offline.log.damage import DamageList, DamageRange, damage_of_fields
from rmqcore.spark.output.job_folder import local_folder

SUFFIX = ".damage.json"


@dataclass(frozen=True)
class DamageTotals:
    """How much damage reads have met.

    Attributes
    ----------
    ranges, damaged_bytes : int
        Damaged ranges of the CommitLogs, and the bytes in them.
    failed_crcs : int
        Number of these ranges that are a message whose body fails its CRC.
    """

    ranges: int = 0
    damaged_bytes: int = 0
    failed_crcs: int = 0


class DamageCounter:
    """Counts the damage that batch reads of messages meet while they run, each range once.

    Hand its folder to the reads: ``rmqcore.spark.read(spark, path, damageFolder=counter.folder)``.

    Parameters
    ----------
    folder : str or path-like
        A missing or empty folder on a local disk, or mounted by the driver and all workers at the same place.

    Attributes
    ----------
    folder : str

    Raises
    ------
    ValueError
        `folder` is empty, or the URI of another filesystem.
    TargetNotEmptyError
        Something lies in the folder.

    Notes
    -----
    A task notes its damage when it has read its part to the end. Each range counts once, also if a task runs again, a
    frame is read several times, or several frames read the same stores. A part that ``limit`` did not need is not
    counted.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = local_folder(folder)
        make_folder(path, exist_ok=True)
        if os.listdir(path):
            raise TargetNotEmptyError(f"{path} is not empty: a counter needs an empty directory")
        self.folder = str(path)

    def damage(self) -> list[tuple[str, DamageRange]]:
        """The ranges, each with the name of its store, by store and offset.

        Raises
        ------
        StoreFormatError
            A file in the folder was not written by a task.
        """
        found: set[tuple[str, DamageRange]] = set()
        with Folder(self.folder) as folder:
            for name in folder.names():
                if name.endswith(SUFFIX) and not name.startswith("."):
                    found |= _noted(folder, name)
        return sorted(found, key=lambda pair: (pair[0], pair[1].start_phy_offset, pair[1].kind))

    def totals(self) -> DamageTotals:
        """The sums of all ranges so far."""
        ranges = [damage for _, damage in self.damage()]
        return DamageTotals(
            sum(damage.range_count for damage in ranges),
            sum(damage.byte_count for damage in ranges),
            sum(damage.kind == "crc" for damage in ranges),
        )


def note_damage(folder: str, broker: str, damage: Iterable[DamageRange]) -> None:
    """Note damage of a store in the folder of a counter, in a file that appears as a whole; without damage write no file.

    Ranges beyond 100,000 become one `MoreDamage`.

    Raises
    ------
    StoreError
        The folder does not exist on this machine.
    """
    kept = DamageList()
    kept += damage
    if not kept:
        return
    if not Path(folder).is_dir():
        raise StoreError(
            f"damageFolder {folder} is missing: the driver and all workers must share it"
        )
    noted = {"broker": broker, "damage": [found.as_dict() for found in kept]}
    with Folder(folder) as here:
        here.write(f"{uuid.uuid4().hex}{SUFFIX}", json.dumps(noted).encode())


def _noted(folder: Folder, name: str) -> set[tuple[str, DamageRange]]:
    try:
        noted = json.loads(folder.read(name))
        return {(noted["broker"], damage_of_fields(fields)) for fields in noted["damage"]}
    except (KeyError, TypeError, ValueError) as error:
        raise StoreFormatError(
            f"{Path(folder.path) / name} was not written by a task: {error}"
        ) from error
