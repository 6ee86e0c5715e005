"""Logs that were made up to cost time: cat, info, fsck and rebuild of each shape at doubling sizes, beside sound logs.

A straight line: twice the bytes on the disk take twice the time, whatever is forged.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable

from bench import build
from bench.report import Row

sys.path.insert(0, str(build.ROOT / "tests"))

from support.stores import hostile_logs

from rmqcore.cli.common.output import RowFormat
from rmqcore.cli.verbs.cat import cat
from rmqcore.cli.verbs.info import info
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.offline.fsck import fsck

SIZES_MIB = (4, 8, 16)

LARGER_MIB = {"anywhere": (16, 32, 64)}
"""Where each header reaches to a place of its own, a small file lies in what a reader has at hand, and each place of a large one
is a page to read: the line is nearly straight from 32 MiB on."""

DOUBLED = 2.6
"""Twice the bytes take less than so many times the time: 1.3 times as much for each byte. A quadratic reader takes four times."""

OF_SOUND = 0.1
"""cat of a crafted log has a tenth of the speed of cat of a sound one with records of 1 KiB, by bytes on the disk, or more."""

OF_SMALL = 0.5
"""And half of that of a sound one with records as small as those between which the damage lies."""

LEAST_RATE = {"fsck": 8.0, "rebuild": 10.0}
"""MiB a second, by bytes on the disk: what a byte may cost. Sound logs of large records are read at the speed of their CRC."""

INFO_OVER_CAT = 1.3
"""info takes less time than cat, or the same where nothing is delivered, but for what is left of noise."""

ROUNDS = 2

LEAST_SECONDS = 0.03


def small_records(size: int) -> bytes:
    """Sound records as small as those of the shapes with a damage a record."""
    return hostile_logs.each(size, hostile_logs.record)


SOUND: dict[str, Callable[[int], bytes]] = {
    "sound, 1 KiB": hostile_logs.sound,
    "sound, empty": small_records,
}

SHAPES = (*SOUND, *hostile_logs.SHAPES, "sparse")


def _cat(store: pathlib.Path) -> None:
    out = pathlib.Path(os.devnull)
    cat(str(store), asked_format=RowFormat.jsonl, out=out, no_progress=True)


def _info(store: pathlib.Path) -> None:
    info(str(store), json=True)


def _rebuild(store: pathlib.Path) -> None:
    rebuild(StorePaths(store), store / "rebuilt", overwrite=True)


VERBS: dict[str, Callable[[pathlib.Path], object]] = {
    "cat": _cat,
    "info": _info,
    "fsck": fsck,
    "rebuild": _rebuild,
}


def seconds(store: pathlib.Path, verb: str) -> float:
    """Processor time of a verb over a store, the least of some rounds; what it prints goes nowhere."""
    found = []
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stderr(nowhere),
        contextlib.redirect_stdout(nowhere),
    ):
        for _ in range(ROUNDS):
            start = time.process_time()
            VERBS[verb](store)
            found.append(time.process_time() - start)
    return min(found)


def measure(shape: str, mib: int, root: pathlib.Path) -> dict[str, float]:
    """Seconds of each verb over a log of a shape with `mib` MiB on the disk."""
    size = mib << 20
    if shape == "sparse":
        path = hostile_logs.write_sparse_log(root, size)
    else:
        path = hostile_logs.write_log(root, {**SOUND, **hostile_logs.SHAPES}[shape](size))
    try:
        # The configuration of a store has no file of 8 GiB, so none can be rebuilt.
        verbs = [verb for verb in VERBS if shape != "sparse" or verb != "rebuild"]
        return {verb: seconds(root, verb) for verb in verbs}
    finally:
        path.unlink()


def measure_sizes(shape: str, sizes_mib: tuple[int, ...]) -> dict[str, list[float]]:
    """Seconds of each verb, one for each size."""
    took: dict[str, list[float]] = {}
    for mib in sizes_mib:
        with tempfile.TemporaryDirectory() as folder:
            for verb, value in measure(shape, mib, pathlib.Path(folder)).items():
                took.setdefault(verb, []).append(value)
    return took


def hostile() -> list[Row]:
    """Every shape at every size; the requirements are for the largest ones."""
    rows: list[Row] = []
    sound: dict[str, float] = {}
    for shape in SHAPES:
        sizes = LARGER_MIB.get(shape, SIZES_MIB)
        took = measure_sizes(shape, sizes)
        rows += [_doubled(shape, verb, sizes, values) for verb, values in took.items()]
        cat_s, info_s = took["cat"][-1], took["info"][-1]
        speed = sizes[-1] / cat_s
        if shape in SOUND:
            sound[shape] = speed
            continue
        for least, (name, sound_speed) in zip((OF_SOUND, OF_SMALL), sound.items(), strict=True):
            told = f"{speed:.1f} MiB/s, {name} {sound_speed:.1f} MiB/s"
            rows.append(Row("of a sound log", f"{shape}: cat", told, speed / sound_speed, least))
        told = f"{info_s * 1e3:.0f} ms, cat {cat_s * 1e3:.0f} ms"
        required = INFO_OVER_CAT if cat_s > LEAST_SECONDS else None
        rows.append(Row("info / cat", shape, told, info_s / cat_s, required, at_most=True))
        for verb in ("fsck", "rebuild"):
            if verb in took:
                rate = sizes[-1] / took[verb][-1]
                told = f"{rate:.1f} MiB/s"
                rows.append(
                    Row("rate", f"{shape}: {verb}", told, rate, LEAST_RATE[verb], unit="MiB/s")
                )
    return rows


def _doubled(shape: str, verb: str, sizes: tuple[int, ...], values: list[float]) -> Row:
    times = ", ".join(f"{value * 1e3:.0f}" for value in values)
    measured = f"{times} ms for {', '.join(map(str, sizes))} MiB"
    ratio = values[-1] / values[-2]
    # What takes no time has no line.
    required = DOUBLED if values[-1] > LEAST_SECONDS else None
    return Row("doubled", f"{shape}: {verb}", measured, ratio, required, at_most=True)
