"""Real power cuts: the disk image of a mounted ext4 or XFS is cloned while a writer runs, mounted beside it, and opened.

The clone is the disk at one moment: it lacks all that the file system had not written, and mounting it replays the
journal, as after a power cut. Needs root, Linux, loop devices, mkfs.ext4 and mkfs.xfs: the image lies on an XFS, which
can clone files.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rmqcore.testing.crash_check import TINY, Acked, check_directory
from rmqcore.testing.kills import child_of, store_settings
from rmqcore.testing.verdict import hold

FICLONE = 0x40049409
TOOLS = ("mkfs.ext4", "mkfs.xfs", "mount", "umount")
HOST_MB, DISK_MB = 1500, 320  # XFS needs at least 300 MB
FILE_SYSTEMS = ("ext4", "xfs")
ANSWERS = 40  # most answers from one cut to the next


def why_not() -> str | None:
    """Return why this machine cannot make a real power cut; None if it can."""
    if sys.platform != "linux":
        return "loop devices are Linux's"
    if os.geteuid() != 0:
        return "only root mounts file systems"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    return _refused()


@functools.cache
def _refused() -> str | None:
    """Return the error of mounting a small image, which containers may forbid even to root; None if it works."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            make_image(Path(folder, "image"), "ext4", 4)
            with mounted(Path(folder, "image"), Path(folder, "place"), "ext4"):
                return None
        except OSError as error:
            return f"no disk image can be mounted: {error}"


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr}")


def make_image(path: Path, file_system: str, megabytes: int) -> None:
    """Make a disk image of `megabytes` MB with an empty file system."""
    with path.open("xb") as file:
        file.truncate(megabytes << 20)
    quiet = ["-q", "-F"] if file_system == "ext4" else ["-q", "-m", "reflink=1"]
    _run(f"mkfs.{file_system}", *quiet, path)


@contextmanager
def mounted(image: Path, place: Path, file_system: str) -> Iterator[Path]:
    """Mount an image while the context lasts."""
    place.mkdir()
    try:
        options = "loop,nouuid" if file_system == "xfs" else "loop"
        _run("mount", "-t", file_system, "-o", options, image, place)
        try:
            yield place
        finally:
            _run("umount", place)
    finally:
        place.rmdir()


def clone(source: Path, target: Path) -> None:
    """Copy a file in its state of one moment."""
    with source.open("rb") as old, target.open("xb") as new:
        fcntl.ioctl(new.fileno(), FICLONE, old.fileno())


def cut_rounds(base: Path, rng: random.Random, cuts: int) -> Counter[str]:
    """Cut the power of a writer `cuts` times, half on ext4 and half on XFS; return the counts by file system."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        make_image(base / "host.img", "xfs", HOST_MB)
        host = stack.enter_context(mounted(base / "host.img", base / "host", "xfs"))
        for file_system in FILE_SYSTEMS:
            make_image(host / file_system, file_system, DISK_MB)
            with mounted(host / file_system, base / "disk", file_system) as disk:
                config = {**TINY, **store_settings(rng), "flush_disk_type": "SYNC_FLUSH"}
                half = cuts // 2 + (cuts % 2 and file_system == "ext4")
                acked = _cut_writer(base, disk, host / file_system, file_system, config, rng, half)
                counts[f"power cuts on {file_system}"] += half
                counts["acknowledged messages"] += acked
    (base / "host.img").unlink()
    return counts


def _cut_writer(
    base: Path,
    disk: Path,
    image: Path,
    file_system: str,
    config: dict[str, Any],
    rng: random.Random,
    cuts: int,
) -> int:
    """Let a writer put, and cut its disk at intervals; return the number of messages acknowledged to it."""
    acked: list[Acked] = []
    call = (
        f"killed_writer.write({str(disk / 'store')!r}, {config!r}, 0, {rng.randrange(1 << 30)}, 0)"
    )
    with child_of(call) as child:
        assert child.stdout is not None
        try:
            for _ in range(cuts):
                for _ in range(rng.randrange(1, ANSWERS)):
                    answer = json.loads(child.stdout.readline())
                    acked += [Acked(**one) for one in answer.get("acked", ())]
                _cut(base, image, file_system, config, acked)
        finally:
            child.kill()
    return len(acked)


def _cut(
    base: Path, image: Path, file_system: str, config: dict[str, Any], acked: list[Acked]
) -> None:
    """Clone the disk, and compare its store with the messages acknowledged before."""
    found = image.with_suffix(".cut")
    clone(image, found)
    with mounted(found, base / "cut", file_system) as cut:
        store = cut / "store"
        hold(store.is_dir() or not acked, "the store itself is not there")
        if store.is_dir():
            check_directory(store, acked, config)
    found.unlink()
