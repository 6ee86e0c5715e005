"""A sink that steps over damage by itself: a file with a damaged place for each record costs no Python for each of them."""

from __future__ import annotations

from collections.abc import Callable

from rmqcore._native.format.codec import describe
from rmqcore._native.scan import skips
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.skips import Skips
from rmqcore.offline.log.damage import DamageList, DamageRange
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.window import SearchWindow

LOOKED_AT = 3
"""So many damaged places of a window are read again one by one where somebody may be writing; then all that is left of it."""


class Skipping:
    """Feeds a sink from a window, and notes the damage that the sink has stepped over.

    The first damaged place of a file is always the walk's: sound files know nothing of this. What is noted, and where the
    sink goes on, is what the walk would have found (`rmqcore._native.scan.skips`).

    Parameters
    ----------
    window : SearchWindow
    file : LogFile
    damage : list of DamageRange
        Appended to, in order.
    live : bool
        The file is one whose owner may be writing to it.
    leave_out : bool
        Records that fail their CRC are left out.
    """

    def __init__(
        self,
        window: SearchWindow,
        file: LogFile,
        damage: list[DamageRange],
        *,
        live: bool,
        leave_out: bool,
    ) -> None:
        self._window = window
        self._path = file.name
        self._damage = damage
        self._live = live
        self._leave_out = leave_out
        self._skips: Skips | None = None
        # Of the bytes that are in the window now:
        self._buf: memoryview | None = None
        self._looked_at = 0
        self._settled = 0

    def feed(self, feed: Callable[..., Place], pos: int, *, trusted: int) -> Place:
        """As `SearchWindow.feed`."""
        window = self._window
        if self._skips is None:
            return window.feed(feed, pos, trusted=trusted)
        window.cover(pos)
        self._see(pos)
        self._skips.settled = max(0, self._settled - window.start)
        self._skips.bytes_in_vain = window.bytes_in_vain
        place = window.feed(feed, pos, trusted=trusted, skips=self._skips)
        window.bytes_in_vain = self._skips.bytes_in_vain
        return place

    def note(self) -> None:
        """Note what the sink has stepped over; raise what it met meanwhile, if that was an error."""
        found = self._skips
        if found is None:
            return
        if len(found):
            kept = self._damage
            if isinstance(kept, DamageList):
                notes, codes, damaged_bytes, start, end = found.take(kept.room, kept.wants)
                kept += ranges_of(self._path, notes)
                if codes:
                    kept.count_codes(self._path, codes, damaged_bytes, start, end)
            else:
                kept += ranges_of(self._path, found.take(skips.MOST_NOTES)[0])
        found.raise_error()

    def looked_at(self) -> None:
        """The walk has dealt with a damaged place."""
        self._looked_at += 1
        if self._skips is None:
            self._skips = self._window.skips(leave_out=self._leave_out)

    def _see(self, pos: int) -> None:
        """Find out how much of the window is there to stay."""
        window = self._window
        if window.buf is not self._buf:
            self._buf = window.buf
            self._settled = self._looked_at = 0
        if not self._live:
            self._settled = window.start + window.length
        elif self._settled == 0 and self._looked_at >= LOOKED_AT:
            # Once for these bytes, whatever comes of it.
            self._settled = max(1, window.unchanged_until(pos))


def ranges_of(path: str, notes: list[tuple[int, int, int, int, int]]) -> list[DamageRange]:
    """What `Skips.take` gives, as ranges of a file."""
    ranges = []
    for start, end, code, found, expected in notes:
        field, should_be, was = describe(code, found, expected)
        one = DamageRange.__new__(DamageRange)
        # All fields at once: that a frozen dataclass sets each by itself was half the time of these walks.
        one.__dict__.update(
            start_phy_offset=start,
            end_phy_offset=end,
            kind="crc" if code == skips.BODYCRC else "record",
            path=path,
            field=field,
            expected=should_be,
            found=was,
        )
        ranges.append(one)
    return ranges
