"""Random damage, recovered by Java and by us, thousands of times: ours is sound, and where Java's is sound both are the same."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from interop.files import copy_store
from interop.java_process import JavaError, JavaProcess
from interop.java_store import JavaStore
from interop.recovery import check_up_to_the_ends
from interop.workload import SIZES, Workload, ours
from interop.writers import Clock, put_java, put_ours

import rmqcore
from rmqcore.testing.random_damage import PARTS, damage
from rmqcore.testing.recovery_check import Outcome, check_recovery, errors_of

CONFIG: dict[str, Any] = {
    **SIZES,
    "mappedFileSizeCommitLog": 16 * 1024,
    "checkCommitLogOffsetOnRecover": True,
}
STEPS, STEP = 5, 30


def make_bases(java: JavaProcess, base: Path, seed: int) -> dict[str, Path]:
    """Give the same messages to Java and to us; each store as it runs and as it was closed."""
    made = {}
    puts = list(Workload(seed, CONFIG).take(STEPS * STEP))
    with JavaStore(java, base / "java", CONFIG) as store:
        for start in range(0, len(puts), STEP):
            put_java(store, puts[start : start + STEP])
        made["java running"] = copy_store(base / "java", base / "java_running")
    made["java closed"] = copy_store(base / "java", base / "java_closed")
    clock = Clock()
    with rmqcore.open(base / "ours", services=False, clock=clock, **ours(CONFIG)) as mine:
        for start in range(0, len(puts), STEP):
            put_ours(mine, clock, puts[start : start + STEP])
            if start < STEP * (STEPS - 1):
                mine.flush()
                mine.flush_consume_queues()
                mine.write_checkpoint()
        made["ours running"] = copy_store(base / "ours", base / "ours_running")
    made["ours closed"] = copy_store(base / "ours", base / "ours_closed")
    return made


class Differential:
    """Damaged copies of some stores, each recovered by both.

    Parameters
    ----------
    process : JavaProcess
    base : Path
        A folder that is not there yet.
    seed : int
    broken : callable
        Called with what did not hold of a store, and what had been done to it.
    parts : sequence of str
        What is damaged.
    """

    def __init__(
        self,
        process: JavaProcess,
        base: Path,
        seed: int,
        broken: Callable[[str], object],
        parts: Sequence[str] = tuple(PARTS),
    ) -> None:
        base.mkdir()
        self._process = process
        self._base = base
        self._seed = seed
        self._broken = broken
        self._parts = parts
        self._rng = random.Random(seed)
        self._bases = make_bases(process, base, seed)
        self.counts: Counter[str] = Counter()

    def run(self, stores: int) -> None:
        """Damage and compare so many stores."""
        for number in range(stores):
            state = self._rng.choice(("running", "running", "closed"))
            kind = f"{self._rng.choice(('java', 'ours'))} {state}"
            damaged = Path(shutil.copytree(self._bases[kind], self._base / "damaged"))
            changes = damage(damaged, self._rng, self._parts)
            touched = {change.path.split("/")[0] for change in changes}
            clean = kind.endswith("closed") or "abort" in touched
            try:
                self._compare(damaged, whole_log="commitlog" not in touched, clean=clean)
            except (Exception, AssertionError) as error:  # noqa: BLE001 - of a thousand stores the others count too
                self.counts["broken"] += 1
                self._broken(f"seed {self._seed}, store {number} ({kind}): {changes}: {error!r}")
            self.counts["stores"] += 1
            for name in ("damaged", "theirs", "mine"):
                shutil.rmtree(self._base / name, ignore_errors=True)

    def _compare(self, damaged: Path, *, whole_log: bool, clean: bool) -> None:
        theirs = Path(shutil.copytree(damaged, self._base / "theirs"))
        mine = Path(shutil.copytree(damaged, self._base / "mine"))
        java = self._java(theirs)
        sound = java is not None and not not_index(errors_of(theirs))
        self.counts["Java's recovery is sound"] += sound
        outcome = check_recovery(mine, ours(CONFIG), whole_log=whole_log, clean=clean)
        self._count(outcome, theirs, whole_log=whole_log, clean=clean)
        if not sound:
            return
        assert java is not None
        assert not outcome.refused, f"refused by us ({outcome.refused}), recovered by Java"
        if not not_index(outcome.findings):
            self.counts["both are sound, and the same"] += 1
        check_ends(mine, java)
        check_up_to_the_ends(mine, theirs, java)

    def _java(self, root: Path) -> dict[str, Any] | None:
        """Let Java recover a store and close it; its offsets, or None where it does not start."""
        try:
            with JavaStore(self._process, root, CONFIG) as store:
                store.await_dispatch()
                return store.offsets()
        except JavaError:
            if not self._process.alive:
                raise
            self.counts["Java does not start"] += 1
            return None

    def _count(self, outcome: Outcome, theirs: Path, *, whole_log: bool, clean: bool) -> None:
        kind = ("whole" if whole_log else "damaged") + " log, " + ("closed" if clean else "crashed")
        self.counts[kind] += 1
        self.counts[f"{kind}: Java's has errors by fsck"] += bool(errors_of(theirs))
        self.counts[f"{kind}: ours has errors by fsck"] += bool(outcome.findings)
        self.counts["refused by us"] += outcome.refused is not None


def not_index(findings: list[str]) -> list[str]:
    """Leave out what is about the index: Java's drops entries on recovery and enters others twice (docs/compat.md)."""
    return [finding for finding in findings if not finding.startswith("error: index")]


def check_ends(mine: Path, java: dict[str, Any]) -> None:
    """The ends of log and queues are Java's."""
    with rmqcore.open(mine, services=False, **ours(CONFIG)) as store:
        for name in ("min_phy_offset", "max_phy_offset"):
            assert getattr(store, name) == java[name], (name, getattr(store, name), java[name])
        for queue in java["queues"]:
            place = queue["topic"], queue["queue_id"]
            ends = store.min_offset(*place), store.max_offset(*place)
            assert ends == (queue["min_offset"], queue["max_offset"]), (place, ends, queue)
