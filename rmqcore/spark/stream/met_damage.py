"""The damage that a stream has met in the newest files: its warnings, each logged once, and its part of the progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rmqcore.errors import DamagedStreamError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.spark.stream.cursor import StoreCursor
from rmqcore.spark.stream.files import warn_once
from rmqcore.spark.stream.tail import Search


class MetDamage:
    """Notes of one planner, by store. A new planner begins without them, and the stream has the same rows.

    Attributes
    ----------
    waiting : dict of str to DamageRange
        Damage at which the stream waits, although the log continues behind it.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, DamageRange] = {}
        self._stands: dict[str, tuple[int, int]] = {}
        self._unfinished: dict[str, int] = {}
        self._ranges: dict[str, int] = {}
        self._bytes: dict[str, int] = {}

    def search(self, broker: str, start: int) -> Search:
        """Return the search for the planning of the next batch.

        At a log that ends in zeros, each batch would search the rest of the file again. So only the first batch of a
        store searches there, and the batches that find nothing new for the 1st, 2nd, 4th, 8th ... time.
        """
        if broker not in self._stands:
            return Search()
        position, looks = self._stands[broker]
        if position != start:
            return self.known(broker, start)
        if looks & (looks - 1) == 0:
            return Search()
        return replace(self.known(broker, start), known=position)

    def known(self, broker: str, start: int) -> Search:
        """Return the search for a look after an earlier search."""
        del start
        return Search(behind_zeros=False, damage=self.waiting.get(broker))

    def note_batch(self, broker: str, cursor: StoreCursor) -> None:
        """Note the damage that the planning of a batch has met."""
        position, looks = self._stands.get(broker, (-1, 0))
        self._stands[broker] = (cursor.position, looks + 1 if cursor.position == position else 1)
        self.note_end(broker, cursor)
        self._note_unfinished(broker, cursor)
        passed = cursor.passed_damage()
        self._count(broker, passed)
        if passed:
            warn_once(
                f"store {broker}: the stream skips damage in the newest file, {len(passed)} ranges "
                f"with {sum(found.byte_count for found in passed)} bytes, the first {passed[0]}"
            )

    def note_end(self, broker: str, cursor: StoreCursor) -> None:
        """Note the damage that a look at the end of a log has met."""
        known, found = self.waiting.get(broker), cursor.damage
        if found is None:
            if known and (cursor.searched or cursor.position > known.start_phy_offset):
                del self.waiting[broker]
            return
        self.waiting[broker] = found
        if known is None or known.start_phy_offset != found.start_phy_offset:
            self._count(broker, [found])
            warn_once(
                f"store {broker}: the stream waits at damage in the newest file, {found}; the log "
                f"continues behind it, at CommitLog offset {found.end_phy_offset}. The stream "
                "continues once the log has another file; onDamage=skip continues now, "
                "onDamage=fail fails the query"
            )

    def note_last_end(self, broker: str, cursor: StoreCursor) -> None:
        """Warn if the query ends in front of an incomplete record, which may become whole after the query."""
        if cursor.unfinished and cursor.damage is None:
            warn_once(
                f"store {broker}: the query ends at CommitLog offset {cursor.position}, in front "
                "of an incomplete record; there is no sound record behind it"
            )

    def _note_unfinished(self, broker: str, cursor: StoreCursor) -> None:
        """Warn once if two looks find the stream at the same unfinished record: its writer died, or it is damaged."""
        here = cursor.position
        if not cursor.unfinished or broker in self.waiting:
            self._unfinished.pop(broker, None)
        elif self._unfinished.get(broker) != here:
            self._unfinished[broker] = here
        else:
            warn_once(
                f"store {broker}: the record at CommitLog offset {here} is incomplete; the stream "
                "waits there until it is complete, or the log continues in another file"
            )

    def check(self, ends: Mapping[str, int]) -> None:
        """Raise if a batch ends at damage.

        Raises
        ------
        DamagedStreamError
        """
        for broker, damage in sorted(self.waiting.items()):
            if ends.get(broker) == damage.start_phy_offset:
                raise DamagedStreamError(
                    broker,
                    damage.path,
                    damage.start_phy_offset,
                    damage.field,
                    damage.expected,
                    damage.found,
                    damage.end_phy_offset,
                )

    def report(self) -> dict[str, dict[str, Any]]:
        """Return by store: ranges and bytes met in newest files since the query began, and the damage where it waits."""
        return {
            broker: {"ranges": ranges, "bytes": self._bytes[broker]}
            | ({"waiting": str(self.waiting[broker])} if broker in self.waiting else {})
            for broker, ranges in sorted(self._ranges.items())
        }

    def _count(self, broker: str, found: Iterable[DamageRange]) -> None:
        for one in found:
            self._ranges[broker] = self._ranges.get(broker, 0) + one.range_count
            self._bytes[broker] = self._bytes.get(broker, 0) + one.byte_count
