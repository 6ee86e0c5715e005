"""Random damage to a store's files: bits, zeros, noise, missing or short files. Equal seeds make the same damage."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PARTS = {"commitlog": 6, "consumequeue": 6, "index": 3, "checkpoint": 2, "abort": 1}
"""Parts to damage, with their weights."""
KINDS = {"flip": 4, "zeros": 3, "noise": 3, "gone": 3, "cut": 2, "folder": 1}


@dataclass(frozen=True)
class Change:
    """One change of a file, or the removal of a folder with all its contents.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    path : str
        Path relative to the store.
    pos, length : int
        Position in the file and number of the changed bytes; the new end of a file that is cut.
    seed : int
        Seed of the noise, or the bit.
    """

    kind: str
    path: str
    pos: int = 0
    length: int = 0
    seed: int = 0

    def apply(self, root: Path) -> None:
        """Make the change."""
        path = root / self.path
        if self.kind == "folder":
            shutil.rmtree(path)
        elif self.kind == "gone":
            path.unlink()
        elif self.kind == "cut":
            os.truncate(path, self.pos)
        else:
            with path.open("r+b") as file:
                file.seek(self.pos)
                old = file.read(self.length)
                file.seek(self.pos)
                file.write(self._bytes(old))

    def _bytes(self, old: bytes) -> bytes:
        if self.kind == "zeros":
            return bytes(len(old))
        if self.kind == "noise":
            return random.Random(self.seed).randbytes(len(old))
        return bytes([old[0] ^ 1 << self.seed % 8]) if old else b""


def damage(root: Path, rng: random.Random, parts: Sequence[str] = tuple(PARTS)) -> list[Change]:
    """Change a store in one to three ways; return the changes."""
    made: list[Change] = []
    for _ in range(rng.randrange(1, 4)):
        change = _choose(root, rng, parts)
        if change is not None:
            change.apply(root)
            made.append(change)
    return made


def _choose(root: Path, rng: random.Random, parts: Sequence[str]) -> Change | None:
    (part,) = rng.choices(parts, [PARTS[part] for part in parts])
    place = root / part
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
    if not files:
        return None
    path = rng.choice(files)
    name = path.relative_to(root).as_posix()
    (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
    if kind == "folder":
        inside = path.relative_to(root).parent
        # A queue, a topic, or a whole part; never the log, without which nothing is left to recover.
        if part == "commitlog" or len(inside.parts) == 0:
            return None
        depth = rng.randrange(1, len(inside.parts) + 1)
        return Change(kind, Path(*inside.parts[:depth]).as_posix())
    if kind == "gone":
        return None if part == "commitlog" and len(files) == 1 else Change(kind, name)
    if kind == "cut":
        # A log with a short file is refused, as by Java: the bytes behind its end are unknown.
        return (
            None
            if part == "commitlog"
            else Change(kind, name, rng.randrange(path.stat().st_size + 1))
        )
    used = _used(path.read_bytes())
    if used == 0 or part == "abort":
        return None
    pos = rng.randrange(used)
    length = {"flip": 1, "zeros": rng.choice((4, 20, 200, 4096)), "noise": rng.choice((4, 20, 300))}
    return Change(kind, name, pos, length[kind], rng.randrange(1 << 30))


def _used(data: bytes) -> int:
    """Return the end of the bytes that are not zero."""
    return len(data.rstrip(b"\0"))
