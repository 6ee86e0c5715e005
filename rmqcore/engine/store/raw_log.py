"""The log as bytes: read by a master for its slaves, and appended by a slave."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

import numpy as np

from rmqcore._native.format.layout import REC_HEADER_SIZE
from rmqcore._native.put.raw_append import append_raw
from rmqcore._native.scan import places
from rmqcore._native.scan.scan import ColumnScan
from rmqcore._native.threads.mutex import Mutex
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.store.dispatch import Dispatch
from rmqcore.engine.store.parts import StoreParts
from rmqcore.engine.store.state import StoreState
from rmqcore.errors import CorruptMessageError
from rmqcore.errors.arguments import check_ints, named, wrong_type

if TYPE_CHECKING:
    from typing_extensions import Buffer

TIME = "store_timestamp_ms"


class RawLog:
    """Read bytes of a log, and append those of a master.

    The log of a slave ends with a whole record, like any log: readers, dispatch and recovery rely on that. The bytes of
    an incomplete record are kept here until its rest arrives.
    """

    def __init__(
        self,
        parts: StoreParts,
        config: MessageStoreConfig,
        state: StoreState,
        dispatch: Dispatch,
    ) -> None:
        self._log = parts.log
        self._state = state
        self._dispatch = dispatch
        self._role = config.broker_role
        self._takes = config.takes_no_puts
        self._check_crc = config.check_crc_on_recover
        self._scan = ColumnScan((TIME,))
        # An incomplete record, and its offset; invalid when the log ends elsewhere.
        self._begun: tuple[int, bytes] = 0, b""
        self._lock = Mutex(state.calls)

    def read(self, phy_offset: int, max_bytes: int) -> memoryview:
        """Return bytes of one file, from an offset on."""
        self._state.raise_if_closed()
        check_ints(phy_offset=phy_offset, max_bytes=max_bytes)
        phy_offset, max_bytes = index(phy_offset), index(max_bytes)
        first, end = self._log.min_offset, self._dispatch.confirm_offset
        if max_bytes < 1:
            raise ValueError(f"max_bytes is {max_bytes}, expected at least 1")
        if not first <= phy_offset <= end:
            raise ValueError(f"phy_offset is {phy_offset}, expected {first} to {end}")
        if phy_offset == end:
            return memoryview(b"")
        window = self._log.window(phy_offset)
        if window is None:
            raise ValueError(f"phy_offset is {phy_offset}: no file of the log holds it")
        view, start, file_end = window
        return view[phy_offset - start : min(phy_offset + max_bytes, file_end, end) - start]

    # ---- appends of a slave

    def append(self, phy_offset: int, data: Buffer) -> int:
        """Append the whole records of `data`; return the end of the log."""
        self._state.raise_if_closed()
        if not self._takes:
            raise ValueError(
                f"append_raw: broker_role is {self._role}; only a SLAVE appends bytes of another "
                "log"
            )
        check_ints(phy_offset=phy_offset)
        try:
            view = memoryview(data).cast("B")
        except TypeError as error:
            raise named(error, _check_buffer, data) from None
        return self._lock.run(self._append, index(phy_offset), view)

    def _append(self, phy_offset: int, data: memoryview) -> int:
        self._state.raise_unless_writable()
        begin = self._log.max_offset
        begun_at, begun = self._begun
        if begun_at != begin:
            begun = b""
        if phy_offset != begin and phy_offset % self._log.file_size == 0 and self._is_new():
            self._begin_at(phy_offset)
            begin, begun = phy_offset, b""
        if begun and phy_offset == begin + len(begun):
            data = memoryview(begun + data)
        elif phy_offset != begin:
            more = f", or {begin + len(begun)}, behind the incomplete record" if begun else ""
            raise ValueError(
                f"append_raw: the bytes start at phy_offset {phy_offset}, expected {begin}, the "
                f"end of the log{more}"
            )
        pos = 0
        while pos < len(data):
            taken = self._take(data, pos, begin + pos)
            if not taken:
                break
            pos += taken
        self._begun = begin + pos, bytes(data[pos:])
        return self._log.max_offset

    def _is_new(self) -> bool:
        return self._log.holds_nothing and not self._begun[1]

    def _begin_at(self, phy_offset: int) -> None:
        try:
            self._log.begin_at(phy_offset)
        except OSError as error:
            self._state.repeat_or_fail_by(error, pause=False)

    def _take(self, data: memoryview, pos: int, at: int) -> int:
        """Append the whole records of `data` from `pos` on, at offset `at`; return their bytes, 0 if none is whole."""
        file = self._log.files.find_file(at)
        file_end = (at if file is None else file.file_from_offset) + self._log.file_size
        length = min(len(data), pos + file_end - at)
        if self._scan.pending_rows:
            self._scan.take()  # rows of an interrupted call
        place = self._scan.feed(
            data, length, pos, at - pos, file_end, check_place=True, check_crc=self._check_crc
        )
        size = place.pos - pos
        if size:
            if at + size + REC_HEADER_SIZE > file_end:
                most = f"at most up to {file_end - REC_HEADER_SIZE}, to leave room for a BLANK"
                raise CorruptMessageError("append_raw", at, "TOTALSIZE", most, at + size)
            times = np.frombuffer(self._scan.take().buffer(TIME), np.int64)
            self._store(data, pos, place.pos, at, int(times[-1]))
            return size
        if place.code == places.BLANK and length - pos == file_end - at:
            self._store(data, pos, length, at, 0)
            return length - pos
        if place.code not in (places.SHORT, places.BLANK):
            raise CorruptMessageError("append_raw", at, *place.describe())
        return 0

    def _store(self, data: memoryview, begin: int, end: int, at: int, time_ms: int) -> None:
        if append_raw(self._log.appender, data, begin, end, at, time_ms):
            return
        self._state.raise_unless_writable()
        raise self._state.refused_for_now(f"no room for {end - begin} bytes at phy_offset {at}")


def _check_buffer(data: object) -> None:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise wrong_type("data", "bytes or another buffer", data)
