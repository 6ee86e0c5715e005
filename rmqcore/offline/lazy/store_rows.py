"""`StoreRows`: the messages of a store, read anew by each query that asks for them."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from copy import copy
from functools import partial
from os import PathLike

from rmqcore._native.scan.batch import Batch
from rmqcore.offline.lazy.damage_warning import OnDamage, warn_of_damage
from rmqcore.offline.log.conditions import Conditions, Wanted
from rmqcore.offline.reader import StoreReader, read

BATCH_ROWS = 8192


class StoreRows:
    """The messages of a store that meet conditions.

    Parameters
    ----------
    store : path-like or StoreReader
    wanted : Wanted
        Conditions that hold for every query.
    verify_crc : bool
        Leave out messages whose body fails its CRC.
    on_damage : callable, optional
        Called with the damaged ranges behind each scan that met some; without it they are a `DamageWarning`.
    """

    def __init__(
        self,
        store: str | PathLike[str] | StoreReader,
        wanted: Wanted,
        *,
        verify_crc: bool,
        on_damage: OnDamage | None,
    ) -> None:
        self._reader = store if isinstance(store, StoreReader) else read(store)
        self._wanted = Conditions.of(**wanted)
        self._verify_crc = verify_crc
        self._on_damage = on_damage or partial(warn_of_damage, str(self._reader.path))

    def batches(
        self, columns: Iterable[str], narrowed: Conditions, *, batch_rows: int = BATCH_ROWS
    ) -> Generator[Batch]:
        """Give batches of columns of the messages that also meet `narrowed`.

        Several scans may go on at a time, each in a thread of its own.
        """
        reader = copy(self._reader)  # a list of damage for each scan
        wanted = self._wanted.and_also(narrowed)
        batches = reader.batches(
            columns, **wanted.keywords(), verify_crc=self._verify_crc, batch_rows=batch_rows
        )
        try:
            yield from batches
        finally:
            if reader.damage:
                self._on_damage(reader.damage)
