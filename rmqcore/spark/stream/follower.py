"""Several stores followed together: the offsets of batches, and the splits between two offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from rmqcore.errors import DataLossError, NotAStoreError
from rmqcore.offline.log.seal import Seal, broken_seal, seal_at
from rmqcore.spark.splits.sizing import Sizing
from rmqcore.spark.splits.split import Split
from rmqcore.spark.storage.locations import StoreLocation
from rmqcore.spark.stream.cursor import StoreCursor, StreamRules
from rmqcore.spark.stream.files import StreamFiles, log_cut_before, warn_once
from rmqcore.spark.stream.limits import Allowance, share_out, turn
from rmqcore.spark.stream.met_damage import MetDamage
from rmqcore.spark.stream.planning import plan_batch
from rmqcore.spark.stream.start import (
    StreamStart,
    end_cursor,
    is_record_boundary,
    log_end,
    start_position,
)
from rmqcore.spark.stream.tail import Search

Offsets = dict[str, int]
Seals = Mapping[str, str]
"""Store -> the hash of its log's bytes before an offset."""


class StreamFollower:
    """The planning side of a stream: exists as long as the query runs, and can be made anew at any time.

    Only the offsets passed to its methods decide on the rows. Its remembered state only saves work.

    Parameters
    ----------
    find : callable
        Returns the stores. It is called for each batch, so that a glob finds new stores.
    start : StreamStart
    rules : StreamRules

    Attributes
    ----------
    met : MetDamage
    seals : dict of str to str
        Seals of the offsets that `initial`, `latest` or `present` returned last.
    """

    def __init__(
        self,
        find: Callable[[], list[StoreLocation]],
        start: StreamStart | None = None,
        rules: StreamRules | None = None,
    ) -> None:
        self._find = find
        self._start = start or StreamStart()
        self._rules = rules or StreamRules()
        self._known: dict[str, StoreLocation] = {}
        self._known = self._by_name(find())
        self._caps: Offsets | None = None
        self._ends: Offsets = {}
        self._walked: dict[tuple[str, int, int], list[int]] = {}
        self._checked: set[str] = set()
        self._replayed: set[str] = set()
        self._proved: set[tuple[str, Seal]] = set()
        self.met = MetDamage()
        self.seals: dict[str, str] = {}

    # ---- offsets ------------------------------------------------------------------------------------

    def initial(self) -> Offsets:
        """Return where a new stream begins; a store without CommitLog files begins later, with its first file."""
        found = {
            broker: start_position(location, self._start, self._rules)
            for broker, location in self._stores().items()
        }
        starts = {broker: start for broker, start in found.items() if start is not None}
        self.seals = {}
        self._seal(starts, {})
        return starts

    def latest(
        self,
        start: Mapping[str, int],
        allowance: Allowance,
        *,
        once: bool = False,
        seals: Seals = MappingProxyType({}),
    ) -> Offsets:
        """Return where the batch that begins at `start` ends.

        Parameters
        ----------
        start : mapping of str to int
        allowance : Allowance
        once : bool
            The query reads only this batch.
        seals : mapping of str to str
            Seals of `start`, of the stores that have one.

        Raises
        ------
        DataLossError
            A part of a log from `start` on is missing, or the bytes before `start` are not those that were read.
        DamagedStreamError
            The batch ends at damage with sound records behind it, and onDamage is ``fail``; or it is ``wait``, the
            query ends with the present records, and no other record is left.
        """
        stores = self._stores()
        end = dict(start)
        cursors: dict[str, StoreCursor] = {}
        self._proved.clear()
        for broker, location in stores.items():
            stop = None if self._caps is None else self._caps.get(broker, 0)
            if broker not in start:
                # A new store. This batch ends at its beginning: thus an offset records the beginning for a replay.
                fails = self._rules.fail_on_data_loss
                first = StreamFiles(location, fail_on_data_loss=fails).begin()
                if first is not None and (stop is None or first < stop):
                    end[broker] = first
            elif stop is None or start[broker] < stop or broker not in self._checked:
                cursors[broker] = self._cursor(location, start[broker], stop, seals.get(broker))
        for broker in start.keys() - stores.keys():
            self._miss_store(broker, start[broker])
        if cursors:
            share_out(list(cursors.values()), allowance, turn(start))
        self._walked = {}
        for broker, cursor in cursors.items():
            end[broker] = cursor.position
            self._walked[broker, start[broker], cursor.position] = cursor.places
            self.met.note_batch(broker, cursor)
        rule = self._rules.at_damage
        is_last = (once or self._caps is not None) and end == dict(start)
        if rule == "fail" or (rule == "wait" and is_last):
            self.met.check(end)
        self._note_ends(stores, end, there_is_more=allowance.limited and allowance.spent)
        self.seals = dict(seals)
        if end != dict(start):  # else return the offset unchanged: Spark compares its text
            moved = {broker: at for broker, at in end.items() if at != start.get(broker)}
            self._seal(moved, cursors)
        return end

    def ends(self) -> Offsets:
        """Return where the logs ended at the last look, behind damage too if that end is known."""
        behind = {broker: found.end_phy_offset for broker, found in self.met.waiting.items()}
        return {broker: max(end, behind.get(broker, 0)) for broker, end in self._ends.items()}

    def present(self) -> Offsets:
        """Find where a batch with all present records ends.

        Raises
        ------
        DamagedStreamError
            The batch ends at damage, and onDamage is ``fail``.
        """
        looked = self._look(self.met.search)
        for broker, cursor in looked:
            self.met.note_batch(broker, cursor)
        if self._rules.at_damage == "fail":
            self.met.check(self._ends)
        self._proved.clear()
        self.seals = {}
        self._seal(self._ends, dict(looked))
        return dict(self._ends)

    def stop_at_present_end(self) -> None:
        """End all later batches at the present ends of the logs."""
        for broker, cursor in self._look(lambda broker, start: Search()):
            self.met.note_end(broker, cursor)
            self.met.note_last_end(broker, cursor)
        self._caps = dict(self._ends)

    def _look(self, search: Callable[[str, int], Search]) -> list[tuple[str, StoreCursor]]:
        found = []
        for broker, location in self._stores().items():
            start = self._ends.get(broker)
            cursor = end_cursor(
                location, self._rules, start, search(broker, -1 if start is None else start)
            )
            if cursor is not None:
                found.append((broker, cursor))
        self._ends = {broker: cursor.position for broker, cursor in found}
        return found

    # ---- splits -------------------------------------------------------------------------------------

    def splits(
        self,
        start: Mapping[str, int],
        end: Mapping[str, int],
        sizing: Sizing,
        *,
        seals: tuple[Seals, Seals] = (MappingProxyType({}), MappingProxyType({})),
    ) -> list[Split]:
        """Return the splits of a batch, new or planned by an earlier process; `seals` are those of both offsets.

        Raises
        ------
        DataLossError
            A file between the offsets was deleted, or the bytes before one of them are not those that were read.
        """
        stores = self._stores()
        parts = {}
        for broker, high in sorted(end.items()):
            low = start.get(broker)
            location = stores.get(broker)
            if location is None:
                if low != high:
                    self._miss_store(broker, low or 0)
                continue
            if low is None:
                low = StreamFiles(location).first_offset or 0
            if low < high:
                for at, sealed in zip((low, high), seals, strict=True):
                    self._check_seal(location, at, sealed.get(broker))
                self._check_replay(location, low)
                parts[broker] = (low, high)
        sizing = sizing.for_bytes(sum(high - low for low, high in parts.values()))
        found: list[Split] = []
        for broker, (low, high) in parts.items():
            found += plan_batch(
                stores[broker],
                low,
                high,
                sizing,
                fail_on_data_loss=self._rules.fail_on_data_loss,
                places=self._walked.get((broker, low, high), ()),
            )
        return found

    # ---- stores -------------------------------------------------------------------------------------

    def stores(self) -> dict[str, StoreLocation]:
        """Return the present stores by name; a store keeps its name while the stream runs."""
        return dict(self._stores())

    def _stores(self) -> dict[str, StoreLocation]:
        try:
            self._known = self._by_name(self._find())
        except (FileNotFoundError, NotADirectoryError, NotAStoreError) as error:
            # A broker is being set up, or a directory was removed. The check of the offsets finds lost messages.
            warn_once(f"the stream continues with the known stores: {error}")
        return self._known

    def _by_name(self, stores: list[StoreLocation]) -> dict[str, StoreLocation]:
        names = {store.root: name for name, store in self._known.items()}
        kept = [replace(store, broker=names.get(store.root, store.broker)) for store in stores]
        return {store.broker: store for store in sorted(kept, key=lambda store: store.broker)}

    def _miss_store(self, broker: str, wanted: int) -> None:
        error = DataLossError(broker, wanted, None, "the store was deleted")
        if self._rules.fail_on_data_loss:
            raise error
        warn_once(str(error))

    def _cursor(
        self, location: StoreLocation, start: int, stop: int | None, sealed: str | None
    ) -> StoreCursor:
        files = StreamFiles(location, fail_on_data_loss=self._rules.fail_on_data_loss)
        is_known = self._check_seal(location, start, sealed, files)
        if location.broker not in self._checked:
            self._check_cut(files, start)
        if not is_known or location.broker not in self._checked:
            start = self._sound_start(files, start)
            self._checked.add(location.broker)
        search = self.met.search if self._caps is None else self.met.known
        cursor = StoreCursor(
            location,
            start,
            self._rules,
            stop=stop,
            search=search(location.broker, start),
            files=files,
        )
        if cursor.files.end_before(start):
            # A recovery removed whole files. The broker's new files begin before the stream's offset.
            cursor.files.find(start)
            cursor.position = log_end(location, self._rules) or 0
        return cursor

    def _check_replay(self, location: StoreLocation, start: int) -> None:
        """Check the start of a batch that an earlier process planned: Spark reads it before it plans a new one."""
        known = self._checked | self._replayed
        if self._rules.fail_on_data_loss and location.broker not in known:
            files = StreamFiles(location, fail_on_data_loss=self._rules.fail_on_data_loss)
            self._sound_start(files, start)
            self._replayed.add(location.broker)

    def _sound_start(self, files: StreamFiles, start: int) -> int:
        """Return `start` if a record begins or ends there; else report a cut of the log, and return its present end."""
        if not files.location.is_local:
            return start
        place = files.find(start)
        if place is not None and not is_record_boundary(place.file, files.shape, place.phy_offset):
            end = log_end(files.location, self._rules)
            files.lost(start, end, "no record starts or ends there, so the log was cut")
            start = end or 0
        return start

    # ---- seals --------------------------------------------------------------------------------------

    def _seal(self, offsets: Mapping[str, int], cursors: Mapping[str, StoreCursor]) -> None:
        """Compute seals for new offsets, from the files that the cursors saw."""
        for broker, at in offsets.items():
            self.seals.pop(broker, None)
            location = self._known.get(broker)
            if location is None:
                continue
            cursor = cursors.get(broker)
            seal = seal_at(location.log_files() if cursor is None else cursor.files.files, at)
            if seal is not None:
                self.seals[broker] = seal.sha256
                self._proved.add((broker, seal))

    def _check_seal(
        self, location: StoreLocation, at: int, sealed: str | None, files: StreamFiles | None = None
    ) -> bool:
        """Return True if the bytes before an offset are those that were read; compares them once per batch."""
        if sealed is None or (location.broker, Seal(at, sealed)) in self._proved:
            return True
        if files is None:
            files = StreamFiles(location, fail_on_data_loss=self._rules.fail_on_data_loss)
        # The search for the offset's file finds deleted files.
        why = None if files.end_before(at) else broken_seal(files.files, Seal(at, sealed))
        if why is None:
            self._proved.add((location.broker, Seal(at, sealed)))
            return True
        reason = f"{why}: the log was cut and continued, or the store was replaced"
        files.lost(at, log_end(location, self._rules), reason)
        return False

    def _check_cut(self, files: StreamFiles, start: int) -> None:
        """Check that the log was not cut before an offset by a recovery that left the old bytes."""
        end = log_cut_before(files.location, files.files, start)
        if end is not None:
            files.lost(
                start, end, "the queues end there, and older records follow: the log was cut"
            )

    # ---- notes --------------------------------------------------------------------------------------

    def _note_ends(
        self, stores: Mapping[str, StoreLocation], end: Offsets, *, there_is_more: bool
    ) -> None:
        if self._caps is not None:
            return
        if there_is_more:
            for broker, cursor in self._look(self.met.known):
                self.met.note_end(broker, cursor)
        else:
            self._ends = {broker: end[broker] for broker in stores if broker in end}
