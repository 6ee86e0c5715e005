"""Repeated opens of a store with random damage, each with other damage to a copy of the same two stores."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore.testing.crash_check import TINY, drain, put
from rmqcore.testing.random_damage import PARTS, damage
from rmqcore.testing.recovery_check import check_recovery
from rmqcore.testing.verdict import PromiseBrokenError

MESSAGES = 150


@dataclass(frozen=True)
class Pair:
    """Two copies of one store, running and closed, with the settings to open them."""

    running: Path
    closed: Path
    config: dict[str, Any]


def make_pair(base: Path, rng: random.Random) -> Pair:
    """Fill a store, copy it while it is open, and close it. The seed decides how much it has flushed before."""
    config = {**TINY, "mapped_file_size_consume_queue": 20 * rng.choice((4, 16, 50))}
    closed, running = base / "closed", base / "running"
    with rmqcore.open(closed, services=False, **config) as store:
        for number in range(MESSAGES):
            put(store, number, topics=2, queues=rng.choice((1, 2, 3)))
            if rng.random() < 0.05:
                drain(store)
                store.flush()
                store.flush_consume_queues()
                store.write_checkpoint()
        drain(store)
        shutil.copytree(closed, running)
    return Pair(running, closed, config)


def damage_rounds(
    base: Path, seed: int, rounds: int, parts: Sequence[str] = tuple(PARTS)
) -> Counter[str]:
    """Damage `rounds` copies of one pair of stores and check each recovery; return the counts of outcomes.

    Raises
    ------
    PromiseBrokenError
        A recovery broke a promise. The message names the damage, and the damaged store is kept.
    """
    base.mkdir()
    rng = random.Random(seed)
    pair = make_pair(base, rng)
    counts: Counter[str] = Counter()
    for number in range(rounds):
        closed = rng.random() < 0.3
        root = base / f"damaged-{number}"
        shutil.copytree(pair.closed if closed else pair.running, root)
        changes = damage(root, rng, parts)
        if not changes:
            shutil.rmtree(root)
            continue
        shutil.copytree(root, base / "damaged")
        touched = {change.path.split("/")[0] for change in changes}
        try:
            outcome = check_recovery(
                root,
                pair.config,
                whole_log="commitlog" not in touched,
                clean=closed or "abort" in touched,
            )
        except Exception as error:
            kind = "closed" if closed else "running"
            raise PromiseBrokenError(
                f"seed {seed}, store {number} ({kind}), {pair.config}, kept in {base / 'damaged'}: {changes}: {error!r}"
            ) from error
        counts["damaged stores"] += 1
        counts["refused"] += outcome.refused is not None
        counts["log cut"] += outcome.cut_bytes > 0
        counts["with findings afterwards"] += bool(outcome.findings)
        shutil.rmtree(root)
        shutil.rmtree(base / "damaged")
    shutil.rmtree(base)
    return counts
