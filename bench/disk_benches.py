"""What goes to disk for each byte of log, at a pace that leaves the disk idle most of the time.

The store has its default configuration and all its threads; messages are those of the benches by the clock. Two counters are
shown: pages that this process made dirty (write_bytes of /proc/self/io counts a page each time it becomes dirty, and so what will
be written), and sectors that the disk wrote (which are everybody's).
"""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import time

from bench import build
from bench.clock_benches import LARGE, QUEUES, TOPIC
from bench.report import Row
from rmqcore import Message
from rmqcore import open as open_store

PACE = 3_000_000  # bytes of log a second
SECONDS = 60
TICK_S = 0.001
SECTOR = 512
WANTED = 2.0


def disk() -> list[Row]:
    log, dirtied, written = paced()
    measured = f"{log / SECONDS / 1e6:.2f} MB/s of log for {SECONDS} s"
    rows = [
        Row("disk", "pages made dirty / log", measured, dirtied / log, WANTED, at_most=True),
    ]
    if written is not None:
        rows.append(Row("disk", "written by the disk / log", measured, written / log))
    return rows


def paced() -> tuple[int, int, int | None]:
    """Bytes of log, bytes of pages that were made dirty, and bytes that the disk wrote (None where it does not say)."""
    build.BUILD.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(dir=build.BUILD))
    try:
        with open_store(folder / "store") as store:
            time.sleep(1)
            dirtied, written = dirtied_bytes(), written_bytes(folder)
            begin = store.max_phy_offset
            body = b"x" * LARGE
            began = time.monotonic()
            number = 0
            while (passed := time.monotonic() - began) < SECONDS:
                while store.max_phy_offset - begin < passed * PACE:
                    store.put(Message(TOPIC, body, number % QUEUES, "TagA", f"k{number}"))
                    number += 1
                time.sleep(TICK_S)
            log = store.max_phy_offset - begin
        after = written_bytes(folder)
        both = None if written is None or after is None else after - written
        return log, dirtied_bytes() - dirtied, both
    finally:
        shutil.rmtree(folder)


def dirtied_bytes() -> int:
    lines = pathlib.Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def written_bytes(folder: pathlib.Path) -> int | None:
    """What the disk of a folder wrote since the machine started."""
    device = os.stat(folder).st_dev
    stat = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    return int(stat.read_text().split()[6]) * SECTOR if stat.exists() else None
