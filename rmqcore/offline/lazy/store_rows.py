"""`StoreRows`: the messages of a store, read anew by each query that asks for them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from os import PathLike

from rmqcore._native.scan.batch import Batch
from rmqcore.errors.near_names import with_the_meant
from rmqcore.offline.lazy.damage_warning import OnDamage, warn_of_damage
from rmqcore.offline.lazy.process_end import SCANS
from rmqcore.offline.log.conditions import Conditions, Wanted
from rmqcore.offline.reader import StoreReader, read

BATCH_ROWS = 8192
KEYWORDS = ("columns", "verify_crc", "on_damage", *Wanted.__annotations__)
"""What `rmqcore.scan` and `rmqcore.duckdb_view` take by name."""


class StoreRows:
    """The messages of a store that meet conditions.

    Parameters
    ----------
    store : str, path-like or StoreReader
        A path or URL is opened by each query anew; a reader is used as it is.
    wanted : Wanted
        Conditions that hold for every query.
    verify_crc : bool
        Leave out messages whose body fails its CRC.
    on_damage : callable, optional
        Called with the damaged ranges behind each scan that met some; without it they are a `DamageWarning`.

    Raises
    ------
    TypeError
        There is no such condition, or a value is of another type.
    """

    def __init__(
        self,
        store: str | PathLike[str] | StoreReader,
        wanted: Wanted,
        *,
        verify_crc: bool,
        on_damage: OnDamage | None,
    ) -> None:
        self._reader = store if isinstance(store, StoreReader) else None
        unknown = [name for name in wanted if name not in KEYWORDS]
        if unknown:
            raise TypeError(
                f"unexpected keyword argument {with_the_meant(unknown, KEYWORDS)}; known are "
                f"{', '.join(KEYWORDS)}"
            )
        self._wanted = Conditions.of(**wanted)
        self._verify_crc = verify_crc
        if isinstance(store, StoreReader):
            self._place = store.path
        else:
            with read(store) as reader:  # raises here, and not in the middle of a query
                self._place = reader.path
        self._on_damage = on_damage or partial(warn_of_damage, str(self._place))

    def batches(
        self, columns: Iterable[str], narrowed: Conditions, *, batch_rows: int = BATCH_ROWS
    ) -> Generator[Batch]:
        """Yield batches of columns of the messages that also meet `narrowed`.

        Several scans may go on at a time, each in a thread of its own; `SCANS` watches what is made of them.
        """
        wanted = self._wanted.and_also(narrowed)
        with self._opened() as reader:
            batches = reader.batches(
                columns,
                **wanted.keywords(),
                verify_crc=self._verify_crc,
                batch_rows=batch_rows,
                progress=SCANS.keep_on,
            )
            try:
                yield from batches
            finally:
                if reader.damage:
                    self._on_damage(reader.damage)

    @contextmanager
    def _opened(self) -> Iterator[StoreReader]:
        """A reader for one scan, with a list of damage of its own."""
        if self._reader is not None:
            yield copy(self._reader)
        else:
            with StoreReader(self._place) as reader:
                yield reader
