"""What a crash leaves of a directory: the files as they were, and damage to them, as bytes by path."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from support.oracle import records as oracle
from support.oracle.store import Image

# Damage that a power cut can do to what was not flushed, and what people do to a directory.
LOG_DAMAGE = [
    "torn",
    "flipped",
    "misplaced",
    "garbage_tail",
    "stale_tail",
    "zeros_between",
    "more_files",
]
QUEUE_DAMAGE = ["no_queues", "no_queue", "no_last_queue_file", "zero_entries", "wild_entry", "hole"]
INDEX_DAMAGE = ["no_index", "no_last_index_file", "empty_index_file"]
OTHER_DAMAGE = ["no_checkpoint", "zero_checkpoint", "old_checkpoint", "no_abort", "no_first_file"]
DAMAGE = [*LOG_DAMAGE, *QUEUE_DAMAGE, *INDEX_DAMAGE, *OTHER_DAMAGE]
NOT_MENDED = {*QUEUE_DAMAGE, "stale_tail", "no_first_file", "no_abort", "old_checkpoint"}


kinds = st.lists(st.sampled_from(DAMAGE), min_size=1, max_size=3, unique=True)

Draw = Callable[[st.SearchStrategy[Any]], Any]


def write_image(image: Image, root: Path) -> None:
    for name, data in image.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def paths(image: Image, folder: str) -> list[str]:
    return sorted(path for path in image if path.startswith(f"{folder}/"))


class Damage:
    """Changes an image. `flushed` and `end` are offsets of the log: only bytes between them may be lost in it.

    `next_queue_offset` is the one that the next message of queue 0 of "T" gets.
    """

    def __init__(
        self, image: Image, file_size: int, flushed: int, end: int, next_queue_offset: int
    ) -> None:
        self.image = image
        self.file_size = file_size
        self.flushed = flushed
        self.end = end
        self.next_queue_offset = next_queue_offset

    def do(self, kind: str, draw: Draw, old_checkpoint: bytes | None) -> None:
        if kind == "old_checkpoint":
            if old_checkpoint is not None:
                self.image["checkpoint"] = old_checkpoint
            return
        getattr(self, f"_{kind}")(draw)

    # ---- the log ------------------------------------------------------------------------------------

    def _write(self, at: int, data: bytes) -> None:
        """Overwrite bytes of the log, over file ends; what lies in no file is left out."""
        for offset, byte in enumerate(data, at):
            name = f"commitlog/{offset - offset % self.file_size:020}"
            if self.image.get(name):
                file = bytearray(self.image[name])
                file[offset % self.file_size] = byte
                self.image[name] = bytes(file)

    def _place(self, draw: Draw) -> int | None:
        return draw(st.integers(self.flushed, self.end - 1)) if self.flushed < self.end else None

    def _torn(self, draw: Draw) -> None:
        at = self._place(draw)
        if at is not None:
            self._write(at, bytes(self.end - at))

    def _flipped(self, draw: Draw) -> None:
        at = self._place(draw)
        name = f"commitlog/{(at or 0) // self.file_size * self.file_size:020}"
        if at is not None and name in self.image:
            old = self.image[name][at % self.file_size]
            self._write(at, bytes([old ^ 1 << draw(st.integers(0, 7))]))

    def _misplaced(self, draw: Draw) -> None:
        """A bit that flipped in PHYSICALOFFSET, or in the BODYCRC of an empty body: Java's recovery asks for neither."""
        found: list[tuple[int, oracle.Record]] = []
        at = self.flushed
        while at < self.end:
            start = at - at % self.file_size
            try:
                record = oracle.decode_record(
                    self.image.get(f"commitlog/{start:020}", b""), at - start
                )
            except oracle.Refused:
                break
            if isinstance(record, oracle.Record):
                found.append((at, record))
                at += record.msg_size or self.file_size
            else:
                at = start + self.file_size
        if found:
            place, record = draw(st.sampled_from(found))
            field = draw(st.integers(28, 35) if record.body else st.integers(28, 35) | st.just(8))
            name = f"commitlog/{place - place % self.file_size:020}"
            old = self.image[name][place % self.file_size + field]
            self._write(place + field, bytes([old ^ 1 << draw(st.integers(0, 7))]))

    def _zeros_between(self, draw: Draw) -> None:
        at = self._place(draw)
        if at is not None:
            self._write(at, bytes(min(draw(st.sampled_from([1, 4, 91, 512])), self.end - at)))

    def _garbage_tail(self, draw: Draw) -> None:
        self._write(self.end, draw(st.binary(min_size=1, max_size=60)))

    def _stale_tail(self, draw: Draw) -> None:
        """A sound record of another place behind the end; or a record of this very place, which a crash of the writer left."""
        there = draw(st.booleans())
        room = self.file_size - self.end % self.file_size
        record = oracle.Record(
            b"T",
            b"stale",
            b"",
            queue_offset=self.next_queue_offset if there else 0,
            phy_offset=self.end if there else 0,
        )
        raw = oracle.encode_record(record)
        if len(raw) + 8 <= room:
            self._write(self.end, raw)

    def _more_files(self, draw: Draw) -> None:
        names = [name for name in paths(self.image, "commitlog") if self.image[name]]
        following = int(names[-1][-20:]) + self.file_size if names else 0
        what = draw(st.sampled_from(["zeros", "empty", "data"]))
        sizes = {"zeros": self.file_size, "data": self.file_size, "empty": 0}
        data = bytearray(sizes[what])
        if what == "data":
            data[7] = 1
        self.image[f"commitlog/{following:020}"] = bytes(data)

    def _no_first_file(self, draw: Draw) -> None:
        for name in paths(self.image, "commitlog")[:-1][: draw(st.integers(1, 3))]:
            del self.image[name]

    # ---- queues -------------------------------------------------------------------------------------

    def _no_queues(self, draw: Draw) -> None:
        for name in paths(self.image, "consumequeue"):
            del self.image[name]

    def _queue(self, draw: Draw) -> list[str]:
        folders = sorted({name.rpartition("/")[0] for name in paths(self.image, "consumequeue")})
        return paths(self.image, draw(st.sampled_from(folders))) if folders else []

    def _no_queue(self, draw: Draw) -> None:
        for name in self._queue(draw):
            del self.image[name]

    def _no_last_queue_file(self, draw: Draw) -> None:
        for name in self._queue(draw)[-1:]:
            del self.image[name]

    def _hole(self, draw: Draw) -> None:
        """A file anywhere in the longest queue, or the end of one, did not get to the disk."""
        folders = {name.rpartition("/")[0] for name in paths(self.image, "consumequeue")}
        names = max((paths(self.image, folder) for folder in sorted(folders)), key=len, default=[])
        if names:
            name = draw(st.sampled_from(names))
            size = len(self.image[name])
            first = draw(st.integers(0, size // 20 - 1))
            self.image[name] = self.image[name][: 20 * first].ljust(size, b"\0")
            if draw(st.booleans()):
                del self.image[name]

    def _zero_entries(self, draw: Draw) -> None:
        for name in self._queue(draw)[-1:]:
            data = bytearray(self.image[name])
            used = sum(any(data[pos : pos + 20]) for pos in range(0, len(data), 20))
            first = draw(st.integers(0, max(used - 1, 0)))
            data[20 * first :] = bytes(len(data) - 20 * first)
            self.image[name] = bytes(data)

    def _wild_entry(self, draw: Draw) -> None:
        for name in self._queue(draw)[-1:]:
            data = bytearray(self.image[name])
            pos = 20 * draw(st.integers(0, len(data) // 20 - 1))
            phy, size = draw(
                st.sampled_from([(self.end, 100), (1 << 40, 1), (-1, 5), (0, 0), (5, -1)])
            )
            data[pos : pos + 20] = struct.pack(">qiq", phy, size, 0)
            self.image[name] = bytes(data)

    # ---- index and the rest -------------------------------------------------------------------------

    def _no_index(self, draw: Draw) -> None:
        for name in paths(self.image, "index"):
            del self.image[name]

    def _no_last_index_file(self, draw: Draw) -> None:
        for name in paths(self.image, "index")[-1:]:
            del self.image[name]

    def _empty_index_file(self, draw: Draw) -> None:
        self.image["index/29991231235959999"] = b""

    def _no_checkpoint(self, draw: Draw) -> None:
        self.image.pop("checkpoint", None)

    def _zero_checkpoint(self, draw: Draw) -> None:
        self.image["checkpoint"] = bytes(4096)

    def _no_abort(self, draw: Draw) -> None:
        """Somebody deletes the abort file: the next open takes the exit for a clean one."""
        self.image.pop("abort", None)
