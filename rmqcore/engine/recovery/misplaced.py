"""Records whose only fault is in a field that Java's recovery does not check.

After a clean exit Java checks neither PHYSICALOFFSET nor the BODYCRC of an empty body: a bit that flipped there costs
only that message. Java checks neither after a crash, unless `checkCommitLogOffsetOnRecover` is on.

Recovery passes over the record if the bytes behind it prove that the log continues, or if a queue entry's message ends
behind it. Otherwise the record is the rest of an earlier log: behind the last message, a record with another place's
offset is not a message.

Source: RocketMQ 5.5.0 CommitLog#recoverNormally, #checkMessageAndReturnSize.
"""

from __future__ import annotations

from rmqcore._native.format.codec import MessageView
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.scan import ViewScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.log_window import LogWindow, WholeFile

ASKED_BY_OURS_ALONE = (places.PHYSICALOFFSET, places.BODYCRC)


class Misplaced:
    """Finds the ends of runs of records whose only fault Java's recovery does not check.

    Parameters
    ----------
    config : MessageStoreConfig
        ``check_crc_on_recover``, ``force_verify_prop_crc``: further checks of a record.
    known_to : int
        CommitLog offset up to which queues have messages.
    """

    def __init__(self, config: MessageStoreConfig, known_to: int) -> None:
        self._check_place = config.check_commit_log_offset_on_recover
        self._check_prop_crc = config.check_crc_on_recover and config.force_verify_prop_crc
        self._check_crc = config.check_crc_on_recover and not config.force_verify_prop_crc
        self._known_to = known_to

    def end_of_run(self, source: WholeFile, file_from_offset: int, place: Place) -> int | None:
        """Return the end of the run that starts at a place, positions in the file; None if the log ends at the place.

        Raises
        ------
        OSError
            The file cannot be read.
        """
        if place.code not in ASKED_BY_OURS_ALONE:
            return None
        window = source.window(file_from_offset, check_place=False)
        at, known = place.pos, None
        while True:
            view, other = _view_at(window, at)
            if view is None or not self._passes(view):
                fills_up = other is not None and other.code == places.BLANK
                return at if fills_up and at > place.pos else known
            if self._is_sound(view, file_from_offset + at):
                return at
            at += view.msg_size
            if file_from_offset + at <= self._known_to:
                known = at

    def _passes(self, view: MessageView) -> bool:
        """Return True if a record passes Java's checks."""
        if self._check_prop_crc:
            return view.prop_crc_ok() is True
        return not self._check_crc or view.body_size == 0 or view.crc_ok()

    def _is_sound(self, view: MessageView, phy_offset: int) -> bool:
        """Return True if a record that passes Java's checks passes this store's too."""
        placed = not self._check_place or view.phy_offset == phy_offset
        return placed and (not self._check_crc or view.crc_ok())


def _view_at(window: LogWindow, pos: int) -> tuple[MessageView | None, Place | None]:
    """Return the record at a position, checked by its lengths alone, or the place without a record."""
    views = ViewScan(batch_views=1)
    while True:
        place = window.feed(views.feed, pos, check_place=False, check_crc=False)
        found = views.take()
        if found:
            return found[0], None
        if place.code != scan.END:
            return None, place
