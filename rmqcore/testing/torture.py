"""``python -m rmqcore.testing.torture DIR``: prove on this machine and disk that a store keeps acknowledged messages.

Five parts take turns until the time is up: killed writers and readers, power cuts (from a record of all changes of
files), failing system calls, random damage, and malicious directories. A sixth, real power cuts of file systems that
are mounted for it, runs if root asks for it. All files are created below DIR, which must be empty or missing, and
deleted again; after a failure the files that show it are kept. docs/reliability.md says what each part proves.
"""

from __future__ import annotations

import argparse
import errno
import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmqcore.errors import StoreError
from rmqcore.errors.exit_codes import FAILED, INTERRUPTED, OK, USAGE
from rmqcore.testing import fault_shim
from rmqcore.testing.damaged_stores import damage_rounds
from rmqcore.testing.disks import real_cuts, small_disk
from rmqcore.testing.disks.disk_facts import DiskFacts, disk_facts
from rmqcore.testing.fault_shim import run_child
from rmqcore.testing.kills import kill_rounds
from rmqcore.testing.power_cuts import WRITERS
from rmqcore.testing.strangers import stranger_rounds
from rmqcore.testing.verdict import PromiseBrokenError

REAL_CUTS_A_ROUND = 10
SMALL_DISK_HOURS = 6.0
KILLS_A_ROUND, CUTS_A_ROUND, STORES_A_ROUND, CALLS_STRIDE = 5, 60, 25, 40
ERRORS = ("EIO", "ENOSPC", "ENOMEM", "EMFILE", "EINTR")
CHILD_S = 1800.0


def run_kills(folder: Path, rng: random.Random) -> Counter[str]:
    """Kill the writers of one store."""
    kills, acked = kill_rounds(folder, rng, KILLS_A_ROUND)
    return Counter({"kills": kills, "acknowledged messages": acked})


def run_cuts(folder: Path, rng: random.Random) -> Counter[str]:
    """Cut one recorded run at many moments."""
    writer, seed = rng.choice(sorted(WRITERS)), rng.randrange(1 << 30)
    most = CUTS_A_ROUND // (6 if writer == "wide" else 1)
    told = _child(f"power_cuts.cut({str(folder)!r}, {writer!r}, {seed}, {most})")
    return Counter({"power cuts": int(told.split()[0]), "recorded runs": 1})


def run_calls(folder: Path, rng: random.Random) -> Counter[str]:
    """Run the life of a store, and fail system calls at regular distances."""
    how, mode = rng.choice(("life", "life", "look")), rng.choice(("ASYNC_FLUSH", "SYNC_FLUSH"))
    error, first = rng.choice(ERRORS), rng.randrange(1, CALLS_STRIDE)
    told = _child(
        f"failing_calls.each_call({str(folder)!r}, 'any', {how!r}, {mode!r}, {error!r},"
        f" stride={CALLS_STRIDE}, first={first})"
    )
    return Counter({"failed calls": int(told.split()[1])})


def run_damage(folder: Path, rng: random.Random) -> Counter[str]:
    """Open copies of one store with random damage, each twice."""
    return damage_rounds(folder / "damage", rng.randrange(1 << 30), STORES_A_ROUND)


def run_real_cuts(folder: Path, rng: random.Random) -> Counter[str]:
    """Cut the disks of one writer on ext4 and of one on XFS."""
    return real_cuts.cut_rounds(folder, rng, REAL_CUTS_A_ROUND)


def run_small_disk(folder: Path, rng: random.Random) -> Counter[str]:
    """Run a store on a disk that is always nearly full."""
    return small_disk.lives(folder, rng, hours=SMALL_DISK_HOURS, how=rng.choice(small_disk.HOWS))


def run_strangers(folder: Path, rng: random.Random) -> Counter[str]:
    """Run all actions on malicious directories; files outside must stay unchanged."""
    return stranger_rounds(folder / "strangers", rng.randrange(1 << 30), STORES_A_ROUND)


def _child(call: str) -> str:
    done = run_child(call, timeout=CHILD_S)
    if done.returncode:
        raise PromiseBrokenError(
            f"{call} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return done.stdout.splitlines()[-1]


@dataclass
class Part:
    """A part of the run, and its results."""

    name: str
    run: Callable[[Path, random.Random], Counter[str]]
    why_not: Callable[[], str | None] = lambda: None
    unasked: bool = True
    rounds: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    problem: str | None = None
    skipped: str | None = None

    def round(self, base: Path, seed: int) -> None:
        """Run one round; a broken promise ends this part."""
        began = time.monotonic()
        folder = base / f"{self.name}-{self.rounds}"
        folder.mkdir()
        try:
            self.counts += self.run(folder, random.Random(f"{seed} {self.name} {self.rounds}"))
        except (PromiseBrokenError, StoreError, OSError, subprocess.SubprocessError) as error:
            self.problem = f"round {self.rounds}, seed {seed}, files in {folder}: {error}"
        else:
            shutil.rmtree(folder)
        self.rounds += 1
        self.seconds += time.monotonic() - began

    def as_dict(self) -> dict[str, Any]:
        """Return the results as plain JSON values."""
        return {
            "part": self.name,
            "rounds": self.rounds,
            "seconds": round(self.seconds, 1),
            "counts": dict(self.counts),
            "problem": self.problem,
            "skipped": self.skipped,
        }


def all_parts() -> list[Part]:
    """Return the parts of a run, in their order."""
    return [
        Part("kills", run_kills),
        Part("power-cuts", run_cuts, fault_shim.why_not),
        Part("calls", run_calls, fault_shim.why_not),
        Part("damage", run_damage),
        Part("strangers", run_strangers),
        Part("real-cuts", run_real_cuts, real_cuts.why_not, unasked=False),
        Part("small-disk", run_small_disk, real_cuts.why_not, unasked=False),
    ]


def torture(
    base: Path,
    parts: Sequence[Part],
    *,
    seed: int,
    minutes: float | None,
    rounds: int | None,
    tell: Callable[[str], object] = lambda _: None,
) -> bool:
    """Run the parts in turns until the time is up or each has had its rounds; return True if all promises held.

    Parameters
    ----------
    base : Path
        An empty folder.
    parts : sequence of Part
        Parts with a reason in `skipped` do not run.
    seed : int
        Seed of all random choices. The timing of threads and kills does not depend on it.
    minutes : float or None
        Time after which no round begins.
    rounds : int or None
        Rounds of each part.
    tell : callable
        Called with a line after each round.
    """
    end = None if minutes is None else time.monotonic() + 60 * minutes
    running = [part for part in parts if part.skipped is None]
    while running:
        for part in list(running):
            late = end is not None and time.monotonic() >= end and part.rounds > 0
            if late or (rounds is not None and part.rounds >= rounds):
                running.remove(part)
                continue
            part.round(base, seed)
            done = ", ".join(f"{count} {what}" for what, count in part.counts.items() if count)
            tell(f"{part.name}: {part.rounds} rounds, {part.seconds:.0f} s: {part.problem or done}")
            if part.problem is not None:
                running.remove(part)
    return all(part.problem is None for part in parts)


def table(parts: Sequence[Part]) -> str:
    """Return the results of a run as a table."""
    lines = [f"{'part':12} {'rounds':>6} {'seconds':>8}  result"]
    for part in parts:
        counts = ", ".join(f"{count} {what}" for what, count in part.counts.items() if count)
        result = f"did not run: {part.skipped}" if part.skipped else f"held: {counts}"
        if part.problem:
            result = f"BROKEN: {part.problem}"
        lines.append(f"{part.name:12} {part.rounds:>6} {part.seconds:>8.0f}  {result}")
    return "\n".join(lines)


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rmqcore.testing.torture",
        description="Kills, power cuts, failing system calls and damage: proves that a store keeps what it acknowledged.",
        epilog="Exit codes: 0 everything that ran held, 1 something did not, or a part given by --part cannot run, 64 usage.",
    )
    parser.add_argument(
        "dir", type=Path, help="an empty folder, or one to make, on the disk to try"
    )
    parser.add_argument("--minutes", type=float, help="begin no round after these (default 5)")
    parser.add_argument("--rounds", type=int, help="rounds of each part, instead of minutes")
    parser.add_argument("--seed", type=int, help="of all choices (default: another one each time)")
    parser.add_argument(
        "--part",
        action="append",
        choices=[part.name for part in all_parts()],
        help="only this part; may be repeated (real-cuts and small-disk run only so: root, they mount file systems)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    return parser


def _prepare(folder: Path) -> bool:
    """Create the folder; return whether it was missing before."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(folder)) from None
        if any(folder.iterdir()):
            raise OSError(errno.ENOTEMPTY, "the folder is not empty", str(folder)) from None
        return False
    return True


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = arguments()
    try:
        options = parser.parse_args(args)
    except SystemExit as end:
        return USAGE if end.code else OK
    for name, value in (("minutes", options.minutes), ("rounds", options.rounds)):
        if value is not None and value <= 0:
            return _refuse(f"--{name} {value} is not above 0")
    asked = options.part or [part.name for part in all_parts() if part.unasked]
    parts = [part for part in all_parts() if part.name in asked]
    for part in parts:
        part.skipped = part.why_not()
        if part.skipped and options.part:
            sys.stderr.write(f"torture: --part {part.name} cannot run: {part.skipped}\n")
            return FAILED
    try:
        made = _prepare(options.dir)
    except OSError as error:
        return _refuse(str(error))
    facts = disk_facts(options.dir)
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    minutes = 5.0 if options.minutes is None and options.rounds is None else options.minutes
    tell: Callable[[str], object] = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731, T201
    tell(f"{facts}\nseed {seed}")
    try:
        held = torture(
            options.dir, parts, seed=seed, minutes=minutes, rounds=options.rounds, tell=tell
        )
    except KeyboardInterrupt:
        for part in parts:
            for left in options.dir.glob(f"{part.name}-*"):
                shutil.rmtree(left, ignore_errors=True)
        tell("interrupted; the files are removed")
        return INTERRUPTED
    if held and made:
        options.dir.rmdir()
    _report(parts, facts, seed, held=held, as_json=options.json)
    return OK if held else FAILED


def _refuse(why: str) -> int:
    sys.stderr.write(f"torture: {why}\n")
    return USAGE


def _report(
    parts: Sequence[Part], facts: DiskFacts, seed: int, *, held: bool, as_json: bool
) -> None:
    if as_json:
        whole = {
            "held": held,
            "seed": seed,
            "disk": facts.as_dict(),
            "parts": [part.as_dict() for part in parts],
        }
        sys.stdout.write(json.dumps(whole) + "\n")
        return
    verdict = "everything held" if held else "SOMETHING DID NOT HOLD"
    skipped = [part.name for part in parts if part.skipped]
    if held and skipped:
        verdict = f"everything that ran held; {' and '.join(skipped)} did not run"
    sys.stdout.write(
        "\n".join([table(parts), *(f"note: {note}" for note in facts.notes), verdict]) + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
