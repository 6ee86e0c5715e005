"""Random damage to a store, then a salvage: its report says what was damaged and nothing else, and the new store is sound.

RMQCORE_SALVAGED: how many damages. Beside Java: tests/interop/test_salvage.py.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.faults.expected_loss import Known, Loss, Place, expected_loss

import rmqcore
from rmqcore.config import MessageStoreConfig
from rmqcore.maintenance.salvage import salvage as salvage_module
from rmqcore.maintenance.salvage.report import SalvageReport
from rmqcore.maintenance.salvage.salvage import salvage
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY, drain, put
from rmqcore.testing.random_damage import damage
from rmqcore.testing.strangers import fingerprint
from rmqcore.vocabulary.sysflag import has_queue_entry

DAMAGES = dose("RMQCORE_SALVAGED", test=20, verify=60, night=2000)
A_STORE = 20
FILE_SIZE = 4096
CONFIG: dict[str, Any] = {
    **TINY,
    "mapped_file_size_commit_log": FILE_SIZE,
    "enabled_append_prop_crc": True,
    "force_verify_prop_crc": True,
}


def make(root: Path, rng: random.Random) -> list[Known]:
    with rmqcore.open(root, services=False, **CONFIG) as store:
        for number in range(rng.randrange(40, 160)):
            put(store, number, topics=2, queues=rng.choice((1, 2, 3)))
        drain(store)
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"T0":{}}}')
    return [
        Known(
            view.phy_offset,
            view.msg_size,
            (view.topic, view.queue_id) if has_queue_entry(view.sys_flag) else None,
            view.queue_offset,
        )
        for view in rmqcore.read(root).messages()
    ]


def spoil(root: Path, rng: random.Random) -> list[str]:
    told = [str(change) for change in damage(root, rng)]
    logs = sorted((root / "commitlog").iterdir())
    if rng.random() < 0.2 and len(logs) > 4:
        path, size = rng.choice(logs[:-2]), rng.randrange(FILE_SIZE)
        os.truncate(path, size)
        told.append(f"{path.name} cut to {size}")
    return told


def check_report(report: SalvageReport, loss: Loss) -> None:
    found: list[tuple[int, int]] = []
    for one in report.lost:
        if found and one.start_phy_offset <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], one.end_phy_offset)
        else:
            found.append((one.start_phy_offset, one.end_phy_offset))
    lost = {(one.phy_offset, one.end) for one in loss.lost}
    torn = {
        (one.start_phy_offset, one.end_phy_offset)
        for one in report.lost
        if one.start_phy_offset >= loss.end
    }
    assert torn <= lost
    assert [one for one in found if one[0] < loss.end] == loss.ranges
    missing: dict[Place, set[int]] = defaultdict(set)
    for gap in report.missing:
        offsets = range(gap.first_queue_offset, gap.last_queue_offset + 1)
        assert not missing[gap.topic, gap.queue_id] & set(offsets)
        missing[gap.topic, gap.queue_id] |= set(offsets)
    assert missing.keys() <= loss.queues.keys()
    for place, (certain, possible) in loss.queues.items():
        assert certain <= missing[place] <= possible, place
    assert report.missing_messages == sum(map(len, missing.values()))
    assert report.missing_complete
    assert report.set_aside == []
    assert report.exit_code == (2 if report.lost or report.missing else 0)


def check_store(sound: Path, out: Path, kept: list[Known], report: SalvageReport) -> None:
    found = fsck(out)
    assert found.findings == []
    if not kept:
        return
    old, new = rmqcore.read(sound), rmqcore.read(out)
    for one in kept:
        view, before = new.lookup(one.phy_offset), old.lookup(one.phy_offset)
        assert view is not None
        assert before is not None
        assert bytes(view.raw) == bytes(before.raw)
        if one.queue is not None:
            got = new.get(*one.queue, one.queue_offset, 1)
            if any(
                (gap.topic, gap.queue_id) == one.queue
                and gap.first_queue_offset <= one.queue_offset <= gap.last_queue_offset
                for gap in report.unserved
            ):
                assert got.status.name == "OFFSET_TOO_SMALL"
                continue
            assert [view.phy_offset for view in got.messages] == [one.phy_offset]
    with rmqcore.open(out, services=False, **CONFIG) as store:
        assert store.recovery.cut_bytes == 0
        assert put(store, 1) is not None
        drain(store)
    assert fsck(out).findings == []


@pytest.mark.parametrize("number", range(-(-DAMAGES // A_STORE)))
def test_the_report_is_what_was_damaged(
    folder: Path, rng: random.Random, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(salvage_module, "sync_tree", lambda folder: None)  # of the whole system
    rng.seed(f"{rng} {number}")
    sound, damaged, out = folder / "sound", folder / "damaged", folder / "out"
    records = make(sound, rng)
    for case in range(A_STORE):
        shutil.copytree(sound, damaged)
        told = spoil(damaged, rng)
        before = fingerprint(damaged)
        loss = expected_loss(sound, damaged, records, FILE_SIZE)
        try:
            report = salvage(damaged, out, config=MessageStoreConfig(**CONFIG))
            assert fingerprint(damaged) == before
            check_report(report, loss)
            check_store(sound, out, loss.kept, report)
        except BaseException as error:
            error.add_note(f"store {number}, damage {case} of {rng}: {told}")
            raise
        shutil.rmtree(damaged)
        shutil.rmtree(out)
