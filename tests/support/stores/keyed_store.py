"""A store whose index has many small files, as it lies on disk after a crash and after a clean exit, and damage to the index."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.engine.store.store import MessageStore
from rmqcore.offline.fsck import fsck
from rmqcore.offline.fsck.findings import INFO, Finding

SLOTS, CAPACITY = 13, 20
START_MS = 1_700_000_000_000
HEADER_SIZE, ENTRIES_POS = 40, 40 + 4 * SLOTS
INDEX_FILE_SIZE = ENTRIES_POS + 20 * CAPACITY
SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 12,
    "mapped_file_size_consume_queue": 20 * 16,
    "max_hash_slot_num": SLOTS,
    "max_index_num": CAPACITY,
    "message_delay_level": "1s 5s",
}


def keys_of(number: int) -> list[str]:
    """Every seventh message has no key, every fifth has three."""
    if number % 7 == 3:
        return []
    return [f"k{number}"] + ([f"all{number % 3}", f"x{number}"] if number % 5 == 0 else [])


class RisingClock:
    """Store times that rise by 700 ms a message."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        self.now_ms += 700
        return self.now_ms


@dataclass
class KeyedStore:
    """The files of a store with `count` messages; `crashed` says whether it was ever closed."""

    folder: Path
    count: int = 120
    crashed: bool = False
    config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        root = self.folder / "made"
        store = rmqcore.open(root, self.settings, services=False, clock=RisingClock())
        for number in range(self.count):
            tags = "TagA" if number % 4 == 0 else None
            store.put(
                Message(
                    "T",
                    f"body {number}".encode(),
                    keys=keys_of(number),
                    tags=tags,
                    queue_id=number % 3,
                )
            )
        store.wait_dispatched()
        store.flush()
        store.flush_consume_queues()
        store.write_checkpoint()
        if self.crashed:
            shutil.copytree(root, self.folder / "image")
        store.close()
        if not self.crashed:
            shutil.copytree(root, self.folder / "image")

    @property
    def settings(self) -> MessageStoreConfig:
        """The settings with which the store was made."""
        return MessageStoreConfig(**{**SETTINGS, **self.config})

    def copy(self, name: str) -> Path:
        """The store's files in a folder of their own, which a test may damage."""
        root = self.folder / name
        shutil.copytree(self.folder / "image", root)
        return root

    def open(self, root: Path, **options: Any) -> MessageStore:
        """Open a copy, and dispatch what its queues and index lack."""
        store = rmqcore.open(root, self.settings, services=False, **options)
        store.wait_dispatched()
        return store

    def check(self, root: Path, **options: Any) -> None:
        """Open a copy, ask for every key, close; then fsck finds nothing in the index, and a second open changes no byte."""
        with self.open(root, **options) as store:
            self.ask(store)
        assert index_findings(root) == []
        before = contents(root / "index")
        with self.open(root) as store:
            assert contents(root / "index") == before
            self.ask(store)
        assert contents(root / "index") == before

    def ask(self, store: MessageStore) -> None:
        """Every key finds its messages, each once."""
        wanted: dict[str, list[bytes]] = {}
        for number in range(self.count):
            for key in keys_of(number):
                wanted.setdefault(key, []).append(f"body {number}".encode())
        for key, bodies in wanted.items():
            found = [
                bytes(view.body) for view in store.query("T", key, 64).messages if key in view.keys
            ]
            assert found == bodies[-64:], key


def index_findings(root: Path) -> list[Finding]:
    """What fsck says of the index, but for what is ordinary."""
    report = fsck(root)
    return [
        finding
        for finding in report.findings
        if finding.kind.startswith("index") and finding.severity != INFO
    ]


def contents(folder: Path) -> dict[str, bytes]:
    """Names and bytes of the files in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# ---- damage -----------------------------------------------------------------------------------------


def index_files(root: Path) -> list[Path]:
    """The index files, oldest first."""
    return sorted((root / "index").iterdir())


def overwrite(path: Path, pos: int, data: bytes) -> None:
    """Put bytes into a file."""
    whole = bytearray(path.read_bytes())
    whole[pos : pos + len(data)] = data
    path.write_bytes(bytes(whole))


def flip(path: Path, bit: int) -> None:
    """Turn one bit of a file over."""
    whole = bytearray(path.read_bytes())
    whole[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(whole))


def damage_at_random(root: Path, seed: int) -> str:
    """Change one to three things in ``index/``; answer what was done."""
    rng = random.Random(seed)
    done = []
    for _ in range(rng.randint(1, 3)):
        files = index_files(root) if (root / "index").is_dir() else []
        if not files:
            break
        kind = rng.choice(sorted(KINDS))
        path = rng.choice(files)
        KINDS[kind](path, rng)
        done.append(f"{kind} {files.index(path)}")
    return f"seed {seed}: " + ", ".join(done)


def _bit(path: Path, rng: random.Random) -> None:
    size = path.stat().st_size
    if size:
        flip(path, rng.randrange(8 * size))


def _zeros(path: Path, rng: random.Random) -> None:
    size = path.stat().st_size
    pos = rng.randrange(size + 1)
    overwrite(path, pos, bytes(min(rng.randint(1, 200), size - pos)))


def _garbage(path: Path, rng: random.Random) -> None:
    size = path.stat().st_size
    pos = rng.randrange(size + 1)
    overwrite(path, pos, rng.randbytes(min(rng.randint(1, 200), size - pos)))


def _header(path: Path, rng: random.Random) -> None:
    if path.stat().st_size >= HEADER_SIZE:
        pos = rng.choice([0, 8, 16, 24, 32, 36])
        overwrite(path, pos, rng.choice([bytes(4), b"\xff" * 4, b"\x7f" * 4, b"\0\0\0\7"]))


def _short(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])


def _long(path: Path, rng: random.Random) -> None:
    more = rng.choice([rng.randint(1, 100), 20, 40])
    path.write_bytes(path.read_bytes() + rng.randbytes(more))


def _gone(path: Path, rng: random.Random) -> None:
    path.unlink()


def _all_gone(path: Path, rng: random.Random) -> None:
    if rng.random() < 0.5:
        shutil.rmtree(path.parent)
        return
    for other in path.parent.iterdir():
        other.unlink()


def _swapped(path: Path, rng: random.Random) -> None:
    other = rng.choice(sorted(path.parent.iterdir()))
    mine, others = path.read_bytes(), other.read_bytes()
    path.write_bytes(others)
    other.write_bytes(mine)


def _doubled(path: Path, rng: random.Random) -> None:
    path.with_name(f"{int(path.name) + rng.choice([1, 10**6]):017d}").write_bytes(path.read_bytes())


KINDS: dict[str, Callable[[Path, random.Random], None]] = {
    "bit": _bit,
    "zeros": _zeros,
    "garbage": _garbage,
    "header": _header,
    "short": _short,
    "long": _long,
    "gone": _gone,
    "all gone": _all_gone,
    "swapped": _swapped,
    "doubled": _doubled,
}
