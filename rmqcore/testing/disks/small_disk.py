"""A store on a small disk: a steady writer, readers, kills, and the cleaning thread; time runs a thousand times faster.

Needs root and loop devices, as `real_cuts`. Checked are three things: the disk's use stays between the ratios, only
files are deleted that the rules do not keep, and each acknowledged message that was not deleted is in the store.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Self

import rmqcore
from rmqcore.disk.used_space import used_percent
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY, Acked, check_store, drain
from rmqcore.testing.disks.real_cuts import make_image, mounted
from rmqcore.testing.kills import child_of
from rmqcore.testing.verdict import hold

HOWS = ("time", "disk", "forced")
FASTER = 1000
DISK_MB = 96
FILE_BYTES = 1 << 20
HOUR_S = 3600 / FASTER
RESERVED_HOURS = 1
# Java's three levels. The margin is for the bytes written between two rounds, each of which deletes four files.
MOST_USED, FORCED, WARNING = 75, 85, 90
MARGIN = 8
LOOK_EVERY_S = 0.02
LONGEST = 20


def config_of(how: str) -> dict[str, Any]:
    """Return the settings that select the trigger of deletions.

    ``time``: files expire, and are deleted at any hour. ``disk``: expired files are deleted when the disk is full.
    ``forced``: files do not expire, and are deleted when the disk is nearly full.
    """
    return {
        **TINY,
        "mapped_file_size_commit_log": FILE_BYTES,
        "mapped_file_size_consume_queue": 20 * 1000,
        "max_hash_slot_num": 1000,
        "max_index_num": 4000,
        "clean_resource_interval": 10_000 // FASTER,
        "delete_commit_log_files_interval": 1,
        "delete_file_batch_max": 4,
        "delete_when": ";".join(f"{hour:02d}" for hour in range(24)) if how == "time" else "04",
        "file_reserved_time": 72 if how == "forced" else RESERVED_HOURS,
        "disk_max_used_space_ratio": MOST_USED,
        "disk_space_clean_forcibly_ratio": FORCED,
        "disk_space_warning_level_ratio": WARNING,
    }


class Watch:
    """Watches the disk while the writer runs: its use, and the deleted files of the log.

    It sets back the mtime of each file, so that the file looks a thousand times as old.

    Parameters
    ----------
    disk, root : Path
    config : dict
    """

    def __init__(self, disk: Path, root: Path, config: dict[str, Any]) -> None:
        self._disk, self._folder = disk, root / "commitlog"
        self._reserved_s = config["file_reserved_time"] * 3600
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._ages: dict[str, float] = {}  # since when a file is not the newest any more
        self.percents: list[int] = []
        self.deleted = self.early = 0
        self.problem: str | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self.percents.append(used_percent(self._disk))
            if self._folder.is_dir():
                self._look(time.time())

    def _look(self, now: float) -> None:
        names = sorted(os.listdir(self._folder))
        whole = names[:-2]  # the next file may already exist
        for name in whole:
            since = self._ages.setdefault(name, now)
            made = now - (now - since) * FASTER
            try:
                os.utime(self._folder / name, (made, made))
            except FileNotFoundError:
                continue
        for name in [name for name in self._ages if name not in names]:
            age_s = (now - self._ages.pop(name)) * FASTER
            self.deleted += 1
            if age_s < self._reserved_s:
                self.early += 1
                if max(self.percents[-50:]) < FORCED:  # it exceeds that for less than a check
                    self.problem = (
                        f"{name} went {age_s:.0f} s old, and the disk was not used by {FORCED} %"
                    )
        gone = [
            name for name in names if self._ages and name < min(self._ages) and name not in whole
        ]
        if gone:
            self.problem = f"{gone} is older than what was deleted"

    def check(self, *, full_from: int) -> None:
        """Check the observations against the rules; `full_from`: the use after which a low use counts as a fault."""
        hold(self.problem is None, self.problem)
        high = max(self.percents)
        hold(high <= WARNING + MARGIN, "the disk was used by", high, "%")
        filled = next(
            (at for at, percent in enumerate(self.percents) if percent >= full_from), None
        )
        if filled is not None:
            low = min(self.percents[filled:])
            hold(
                low >= full_from - MARGIN, "so much was deleted that the disk is used by", low, "%"
            )


def lives(
    base: Path, rng: random.Random, *, hours: float, how: str, deletions: int = 0
) -> Counter[str]:
    """Run a store for some hours of its own time; return the counts of events.

    On a busy machine the run lasts longer, up to `LONGEST` times, until `deletions` files of its log were deleted.

    Raises
    ------
    PromiseBrokenError
        A promise was broken.
    """
    image, place = base / "small.img", base / "disk"
    make_image(image, "ext4", DISK_MB)
    counts: Counter[str] = Counter()
    config = config_of(how)
    with mounted(image, place, "ext4") as disk:
        root = disk / "store"
        acked: list[Acked] = []
        begin = time.monotonic()
        end, last = (begin + times * hours * HOUR_S for times in (1, LONGEST))
        with Watch(disk, root, config) as watch:
            while (now := time.monotonic()) < end or (watch.deleted < deletions and now < last):
                seconds = min(rng.uniform(0.5, 5), max(0.5, end - time.monotonic()))
                refused = _one_life(root, config, rng, counts["kills"], seconds, acked)
                counts += Counter({"kills": 1, "refused puts": refused})
                acked = _check(root, config, acked)
        watch.check(full_from=FORCED if how == "forced" else MOST_USED)
        counts += Counter({"files deleted": watch.deleted, "before their time": watch.early})
        found = fsck(root)
        hold(found.exit_code == 0, "fsck:", *map(str, found.findings[:5]))
        counts["acknowledged messages kept"] += len(acked)
        counts["log bytes written"] += max(one.phy_offset for one in acked)
    image.unlink()
    return counts


def _one_life(
    root: Path,
    config: dict[str, Any],
    rng: random.Random,
    life: int,
    seconds: float,
    acked: list[Acked],
) -> int:
    """Let a writer write for `seconds`, then kill it; return the number of refused puts."""
    first = life * 1_000_000
    call = f"steady_writer.write({str(root)!r}, {config!r}, {first}, {rng.randrange(1 << 30)}, {FASTER})"
    refused = 0
    with child_of(call, module="rmqcore.testing.disks.steady_writer") as child:
        assert child.stdout is not None and child.stderr is not None
        timer = threading.Timer(seconds + 1, child.send_signal, [signal.SIGKILL])
        timer.start()
        for line in child.stdout:
            if not line.endswith(b"\n"):
                break
            answer = json.loads(line)
            hold("broken" not in answer, answer.get("broken"))
            refused += answer.get("refused", 0)
            acked += [Acked(**one) for one in answer.get("acked", ())]
        told = child.stderr.read().decode(errors="replace")
        timer.cancel()
    hold(child.returncode == -signal.SIGKILL, "the writer ended with", child.returncode, told)
    return refused


def _check(root: Path, config: dict[str, Any], acked: list[Acked]) -> list[Acked]:
    """Open the store as after any crash; check and return the acknowledged messages that the log still holds."""
    with rmqcore.open(root, services=False, **config) as store:
        drain(store)
        # As in Java queue files of messages that are gone stay until the first round after an open.
        store.clean_once(disk_ratio=0.1)
        kept = [one for one in acked if one.phy_offset >= store.min_phy_offset]
        check_store(store, kept)
    return kept
