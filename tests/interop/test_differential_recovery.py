"""Stores with random damage, recovered by Java and by us. RMQCORE_JAVA_DAMAGED: how many; RMQCORE_SEED: other damage."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from interop.differential import Differential
from interop.java_process import JavaProcess
from support.doses import dose

STORES = dose("RMQCORE_JAVA_DAMAGED", test=10, verify=40, night=1000)
A_BASE = 50


def test_recovery_of_random_damage(java: JavaProcess, tmp_path: Path) -> None:
    seed = int(os.environ.get("RMQCORE_SEED", "7"))
    problems: list[str] = []
    for first in range(0, STORES, A_BASE):
        run = Differential(java, tmp_path / str(first), seed + first, problems.append)
        run.run(min(A_BASE, STORES - first))
        sys.stdout.write(f"{dict(run.counts)}\n")
    assert not problems, "\n".join([f"{len(problems)} stores; RMQCORE_SEED={seed}", *problems[:10]])
