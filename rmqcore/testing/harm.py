"""Harm to a copy of a store: links, FIFOs, wrong kinds, odd sizes, far names, foreign bytes. A seed repeats it."""

from __future__ import annotations

import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

HUGE = 1 << 40
FAR_NAMES = ("00000000000000016384", "09223372036854775807", "99999999999999999999", "0", "x" * 255)
ODD_NAMES = ("\x1b]8;;http:x\x07T", "[red]T", "..T", "T\n", "-rf", "%LMQ%T", "\udce9")
LEFTOVERS = (
    "lock",
    "abort",
    "checkpoint",
    "cut",
    "rebuilt",
    ".abort.tmp",
    ".checkpoint.tmp",
    ".building",
)


def spoil(root: Path, outside: Path, rng: random.Random) -> list[str]:
    """Change a store in one to four ways; return the changes."""
    told = []
    for _ in range(rng.randrange(1, 5)):
        harm = rng.choice(HARMS)
        try:
            told.append(f"{harm.__name__[1:]} {harm(root, outside, rng)}")
        except (OSError, IndexError):
            continue  # an earlier change removed the place, or all places
    return told


def _place(root: Path, rng: random.Random) -> Path:
    """Return a random path in the store, or one that a store would have."""
    if rng.random() < 0.3:
        return root / rng.choice(LEFTOVERS)
    return rng.choice(sorted(path for path in root.rglob("*")))


def _clear(path: Path) -> Path:
    """Remove the file or directory at a path, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return path


def _link(root: Path, outside: Path, rng: random.Random) -> str:
    """Make links to files and folders outside, to nothing, to itself and to a folder above."""
    path = _place(root, rng)
    kin = outside / "store" / path.relative_to(root)
    targets = [
        outside / "file",
        outside / "folder",
        outside / "nothing",
        path,
        root,
        Path("/dev/zero"),
        kin,
        kin,
    ]
    target = rng.choice(targets)
    text = os.path.relpath(target, path.parent) if rng.random() < 0.5 else os.fspath(target)
    _clear(path).symlink_to(text)
    return f"{path} -> {text}"


def _kind(root: Path, outside: Path, rng: random.Random) -> str:
    """Make a FIFO, a socket, a folder in place of a file, a file in place of a folder."""
    del outside
    path = _place(root, rng)
    folder = path.is_dir()
    _clear(path)
    kind = rng.choice(("fifo", "socket", "other"))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            here = os.open(path.parent, os.O_RDONLY)
            try:
                made.bind(f"/proc/self/fd/{here}/{path.name}")
            finally:
                os.close(here)
    elif folder:
        path.write_bytes(rng.randbytes(100))
    else:
        path.mkdir()
    return f"{path} {kind}"


def _size(root: Path, outside: Path, rng: random.Random) -> str:
    """Make empty, odd and huge files; added bytes are a hole."""
    del outside
    path = rng.choice(_files(root))
    size = rng.choice((0, 1, 19, 4096, path.stat().st_size - 1, path.stat().st_size * 2, HUGE))
    os.truncate(path, size)
    return f"{path} {size}"


def _name(root: Path, outside: Path, rng: random.Random) -> str:
    """Make names at the ends of 64 bits, and names that a terminal or a shell would obey."""
    del outside
    path = rng.choice(sorted(root.rglob("*")))
    other = path.with_name(rng.choice(ODD_NAMES if path.is_dir() else (*FAR_NAMES, *ODD_NAMES)))
    if path.is_file() and rng.random() < 0.3:
        os.link(path, other)
    else:
        path.rename(other)
    return f"{path} as {other}"


def _content(root: Path, outside: Path, rng: random.Random) -> str:
    """Write noise, zeros, or a part of one file into another."""
    del outside
    files = _files(root)
    path, other = rng.choice(files), rng.choice(files)
    with other.open("rb") as file:
        file.seek(rng.randrange(1 + min(other.stat().st_size, 1 << 20)))
        copied = file.read(2000)
    pos = rng.randrange(1 + min(path.stat().st_size, 1 << 20))
    with path.open("r+b") as file:
        file.seek(pos)
        file.write(rng.choice((rng.randbytes(rng.randrange(1, 400)), bytes(200), copied)))
    return f"{path} at {pos}"


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


HARMS: list[Callable[[Path, Path, random.Random], str]] = [
    _link,
    _link,
    _kind,
    _size,
    _name,
    _content,
]
