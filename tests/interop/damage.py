"""Directories as crashes and bad disks leave them: each recipe changes a copy of a store."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import rmqcore
from rmqcore.codec import MessageView

CQ_ENTRY = 20


@dataclass
class Base:
    """A store that runs, one that was shut down, and how the running one's checkpoint was at half of the messages."""

    running: Path
    clean: Path
    old_checkpoint: bytes


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def queue_files(root: Path) -> list[Path]:
    """The files of the queue that has the most of them."""
    queues = [path for path in (root / "consumequeue").glob("*/*") if path.is_dir()]
    return sorted(max(queues, key=lambda path: (len(list(path.iterdir())), path)).iterdir())


def last_file_messages(root: Path) -> tuple[Path, int, list[MessageView]]:
    """The last CommitLog file that holds messages, its start, and they."""
    messages = list(rmqcore.read(root).messages())
    size = log_files(root)[0].stat().st_size
    start = messages[-1].phy_offset // size * size
    return (
        root / "commitlog" / f"{start:020}",
        start,
        [message for message in messages if message.phy_offset >= start],
    )


def overwrite(path: Path, pos: int, data: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(pos)
        stream.write(data[: path.stat().st_size - pos])


def old_checkpoint(root: Path, base: Base) -> None:
    """Written when half of the messages were there."""
    (root / "checkpoint").write_bytes(base.old_checkpoint)


def zero_checkpoint(root: Path, base: Base) -> None:
    (root / "checkpoint").write_bytes(bytes(4096))


def no_checkpoint(root: Path, base: Base) -> None:
    (root / "checkpoint").unlink()


def torn_tail(root: Path, base: Base) -> None:
    """Of the last record the second half never reached the disk."""
    path, start, messages = last_file_messages(root)
    pos, size = messages[-1].phy_offset - start, messages[-1].msg_size
    overwrite(path, pos + size // 2, bytes(size - size // 2))


def torn_header(root: Path, base: Base) -> None:
    """Of the last record only the first ten bytes reached the disk."""
    path, start, messages = last_file_messages(root)
    pos = messages[-1].phy_offset - start
    overwrite(path, pos + 10, bytes(messages[-1].msg_size - 10))


def flipped_bit(root: Path, base: Base) -> None:
    """In a body in the middle of the last file."""
    path, start, messages = last_file_messages(root)
    with_body = [message for message in messages if message.body and message.sys_flag & 0x30 == 0]
    victim = with_body[len(with_body) // 2]
    overwrite(path, victim.phy_offset - start + 88, bytes([victim.body[0] ^ 0x40]))


def garbage_tail(root: Path, base: Base) -> None:
    """Random bytes where the next record would come."""
    path, start, messages = last_file_messages(root)
    end = messages[-1].phy_offset + messages[-1].msg_size
    overwrite(path, end - start, random.Random(7).randbytes(300))


def put_stale(root: Path, *, same_file: bool) -> None:
    """A whole older record where the next one would come: valid, but for the offset it bears."""
    path, start, messages = last_file_messages(root)
    end = messages[-1].phy_offset + messages[-1].msg_size
    room = start + path.stat().st_size - end
    older = messages if same_file else rmqcore.read(root).messages(end_phy_offset=start)
    old = next(message for message in older if message.msg_size + 8 < room)
    overwrite(path, end - start, old.raw)


def stale_tail(root: Path, base: Base) -> None:
    """A record of an earlier file."""
    put_stale(root, same_file=False)


def no_last_file(root: Path, base: Base) -> None:
    """Lost with all behind it: queues and index point past the log's end."""
    path, _, _ = last_file_messages(root)
    for later in log_files(root):
        if later >= path:
            later.unlink()


def empty_last_file(root: Path, base: Base) -> None:
    """The next file was made, and nothing more."""
    files = log_files(root)
    name = int(files[-1].name) + files[0].stat().st_size
    (root / "commitlog" / f"{name:020}").touch()


def no_queues(root: Path, base: Base) -> None:
    shutil.rmtree(root / "consumequeue")


def no_index(root: Path, base: Base) -> None:
    shutil.rmtree(root / "index")


def no_queues_no_index(root: Path, base: Base) -> None:
    no_queues(root, base)
    no_index(root, base)


def entries_in(data: bytes) -> int:
    """Valid entries at the start of a queue file."""
    sizes = (struct.unpack_from(">i", data, pos + 8)[0] for pos in range(0, len(data), CQ_ENTRY))
    return next((i for i, size in enumerate(sizes) if size <= 0), len(data) // CQ_ENTRY)


def half_queue_entry(root: Path, base: Base) -> None:
    """The last entry of a queue is half written."""
    path = queue_files(root)[-1]
    end = entries_in(path.read_bytes()) * CQ_ENTRY
    overwrite(path, end - 10, bytes(10))


def lost_queue_entries(root: Path, base: Base) -> None:
    """The last five entries of a queue never reached the disk."""
    path = queue_files(root)[-1]
    count = entries_in(path.read_bytes())
    lost = min(5, count)
    overwrite(path, (count - lost) * CQ_ENTRY, bytes(lost * CQ_ENTRY))


def lost_queue_file(root: Path, base: Base) -> None:
    """The newest file of a queue is missing."""
    queue_files(root)[-1].unlink()


def lost_queue(root: Path, base: Base) -> None:
    """All files of one queue are missing."""
    shutil.rmtree(queue_files(root)[0].parent)


def expired(root: Path, base: Base) -> None:
    """The cleaner took the first three CommitLog files; queues and index still know of them."""
    for path in log_files(root)[:3]:
        path.unlink()


def expired_no_queues(root: Path, base: Base) -> None:
    expired(root, base)
    no_queues(root, base)


def nothing(root: Path, base: Base) -> None:
    """As it was."""


@dataclass(frozen=True)
class Recipe:
    """What happens to a copy, of the store that runs or of the one that was shut down."""

    change: Callable[[Path, Base], None]
    clean: bool
    aged: bool = False  # with the checkpoint taken at half of the messages

    @property
    def name(self) -> str:
        kind = "clean" if self.clean else "aged" if self.aged else "running"
        return f"{self.change.__name__}-{kind}"

    def apply(self, root: Path, base: Base) -> Path:
        shutil.copytree(base.clean if self.clean else base.running, root)
        if self.aged:
            old_checkpoint(root, base)
        self.change(root, base)
        return root


RECIPES = [
    *(Recipe(change, clean=False) for change in (nothing, old_checkpoint, zero_checkpoint, no_checkpoint)),
    *(
        Recipe(change, clean=False, aged=aged)
        for aged in (False, True)
        for change in (torn_tail, flipped_bit, no_last_file, no_queues, no_index, lost_queue_entries)
    ),
    *(
        Recipe(change, clean=False, aged=True)
        for change in (
            torn_header, garbage_tail, stale_tail, empty_last_file, no_queues_no_index, half_queue_entry, lost_queue_file,
            lost_queue, expired, expired_no_queues,
        )
    ),
    *(
        Recipe(change, clean=True)
        for change in (
            nothing, torn_tail, flipped_bit, no_last_file, no_queues, no_index, no_queues_no_index,
            half_queue_entry, lost_queue_file, lost_queue, no_checkpoint, expired,
        )
    ),
]  # fmt: skip
