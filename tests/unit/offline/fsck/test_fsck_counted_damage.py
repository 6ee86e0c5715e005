"""Damage that `fsck` only counts, because all ranges and findings that it keeps are there: the same report as one by one.

An object and a sentence for each of 700,000 damaged records took 2 of the 4 seconds of a check.
"""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.stores import hostile_logs
from support.stores.hostile_logs import BODY_POS, record

from rmqcore.offline.fsck import fsck, log_damage
from rmqcore.offline.fsck.log_damage import DamageAudit


def mixed(size: int) -> bytes:
    """Records with a wrong body, of another place, and with bytes between them."""
    rng = random.Random(7)

    def part(pos: int) -> bytes:
        kind = rng.randrange(5)
        whole = bytearray(record(pos + (kind == 1), b"body"))
        if kind == 0:
            whole[BODY_POS] ^= 1
        return bytes(whole) + b"\xff" * (7 if kind == 2 else 0)

    return hostile_logs.each(size, part)


def report_of(root: Path, max_findings: int) -> dict[str, Any]:
    report = dataclasses.asdict(fsck(root, max_findings=max_findings))
    del report["seconds"]
    return report


SIZE = 2_000_000
SIZES = {
    "bad_bytes": dose("RMQCORE_COUNTED_DAMAGE", test=500_000, verify=SIZE, night=SIZE),
    "failing_bodies": dose("RMQCORE_COUNTED_DAMAGE", test=500_000, verify=SIZE, night=SIZE),
    "lies_about_topics": dose("RMQCORE_COUNTED_DAMAGE", test=1_000_000, verify=SIZE, night=SIZE),
    "mixed": SIZE,
}
"""Logs of more than 4,096 damaged ranges, for fewer are one by one at any rate."""


@pytest.mark.parametrize("max_findings", [0, 20, 100_000])
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("file_behind", [False, True])
def test_the_report_is_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shape: str,
    max_findings: int,
    file_behind: bool,
) -> None:
    size = SIZES[shape]
    data = mixed(size) if shape == "mixed" else hostile_logs.SHAPES[shape](size)
    log = hostile_logs.write_log(tmp_path, data)
    if file_behind:
        log.with_name(f"{size:020}").write_bytes(record(size).ljust(size, b"\0"))
    monkeypatch.setattr(log_damage, "MAX_RANGES", 50)
    noted = [0]
    note = DamageAudit._note

    def counted(self: DamageAudit, damaged: Any) -> None:
        noted[0] += 1
        note(self, damaged)

    monkeypatch.setattr(DamageAudit, "_note", counted)
    report = report_of(tmp_path, max_findings)
    ranges = report["counts"]["damaged_ranges"]
    assert (noted[0] < ranges - 500) == (max_findings < 100_000)
    monkeypatch.setattr(DamageAudit, "has_all_ranges", False)
    noted[0] = 0
    assert report_of(tmp_path, max_findings) == report
    assert noted[0] == ranges
