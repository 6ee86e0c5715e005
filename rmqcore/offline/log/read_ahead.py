"""The block behind a window, read by a second thread while the first one decodes.

Copying out of the page cache takes as long as decoding small records does, and neither holds the GIL.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor

from rmqcore.offline.log.log_files import LogBytes

CARRY = 256 * 1024
"""Bytes kept free in front of a block for the record that the window's end cuts; longer ones are read again."""


class ReadAhead:
    """Reads one block of a file ahead of its reader.

    Parameters
    ----------
    source : LogBytes
    block : int
        Bytes read at once.
    size : int
        Bytes of the file; nothing is read behind them.

    Notes
    -----
    Belongs to one thread; only the read itself happens in another. `close` waits for it, so that no file is closed and no
    buffer is used again under a read. A forked child has no such thread: there nothing is read ahead any more.
    """

    def __init__(self, source: LogBytes, block: int, size: int) -> None:
        self._source = source
        self._block = block
        self._size = size
        self._spare = bytearray(CARRY + block)
        self._pos = 0
        self._pending: Future[int] | None = None
        self._process = os.getpid()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rmqcore-read-ahead")

    def start(self, pos: int) -> None:
        """Begin to read the block at byte `pos` of the file."""
        if pos < self._size and os.getpid() == self._process:
            self._pos = pos
            wanted = min(self._block, self._size - pos)
            self._pending = self._thread.submit(
                self._source.read_plain, self._spare, CARRY, CARRY + wanted, pos
            )

    def take(self, pos: int, old: bytearray) -> tuple[bytearray, int] | None:
        """Return the buffer with the block at `pos`, which lies from CARRY on, and its bytes; None if it was not read.

        `old` is used for the next block, unless it had to grow for a large record.
        """
        got = self._wait()
        if self._pos != pos or got <= 0:
            return None
        taken = self._spare
        self._spare = old if len(old) == len(taken) else bytearray(len(taken))
        return taken, got

    def _wait(self) -> int:
        pending, self._pending = self._pending, None
        if pending is None or os.getpid() != self._process:
            return 0
        try:
            return pending.result()
        except OSError:
            return 0  # read again in the open, where bad sectors are dealt with

    def close(self) -> None:
        """Wait for a read under way and end the thread."""
        if os.getpid() == self._process:
            self._thread.shutdown(wait=True)
