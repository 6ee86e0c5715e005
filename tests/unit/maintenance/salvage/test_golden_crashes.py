"""Each crash that Java's stores have among the golden ones: the report is what the damage took, and the new store is sound."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.faults.expected_loss import Known, expected_loss
from support.stores.golden_stores import CLEAN, CRASHED, config_of, manifest_of

import rmqcore
from rmqcore.maintenance.salvage.salvage import salvage
from rmqcore.offline.fsck import fsck
from rmqcore.testing.strangers import fingerprint
from rmqcore.vocabulary.sysflag import has_queue_entry


def known_of(store: Path) -> list[Known]:
    return [
        Known(
            view.phy_offset,
            view.msg_size,
            (view.topic, view.queue_id) if has_queue_entry(view.sys_flag) else None,
            view.queue_offset,
        )
        for view in rmqcore.read(store).messages()
    ]


@pytest.mark.parametrize("case", CRASHED)
def test_the_report_is_what_the_crash_took(golden: Path, tmp_path: Path, case: str) -> None:
    """All of them are one store, as it ran or as it was closed, and were damaged each in its own way."""
    config = config_of(manifest_of(golden, case))
    whole = "crash_no_index_clean_exit" if "clean_exit" in case else "crash_running_copy"
    sound, store, out = golden / whole / "input", golden / case / "input", tmp_path / "out"
    before = fingerprint(store)
    loss = expected_loss(sound, store, known_of(sound), config.mapped_file_size_commit_log)
    report = salvage(store, out)
    assert [(one.start_phy_offset, one.end_phy_offset) for one in report.lost] == loss.ranges
    missing = {
        (one.topic, one.queue_id): set(range(one.first_queue_offset, one.last_queue_offset + 1))
        for one in report.missing
    }
    assert missing == {place: possible for place, (_, possible) in loss.queues.items()}
    assert report.exit_code == (2 if loss.ranges or missing else 0)
    assert report.set_aside == []
    kept = [view.phy_offset for view in rmqcore.read(out).messages() if view.topic != "LOST"]
    assert kept == [one.phy_offset for one in loss.kept]
    assert fsck(out).findings == []
    assert fingerprint(store) == before


def test_what_the_crashes_took(golden: Path, tmp_path: Path) -> None:
    """In numbers, so that nothing above agrees by being empty on both sides."""
    lost = {}
    for case in CRASHED:
        report = salvage(golden / case / "input", tmp_path / case)
        if report.exit_code or report.torn_tail_bytes:
            lost[case] = report.lost_bytes, report.missing_messages, report.torn_tail_bytes
    assert lost == {
        "crash_flipped": (442, 1, 0),
        "crash_flipped_clean_exit": (442, 1, 0),
        "crash_garbage_tail": (0, 0, 300),
        "crash_last_file_missing": (0, 42, 0),
        "crash_stale_tail": (0, 0, 844),
        "crash_torn": (0, 1, 139),
        "crash_torn_clean_exit": (0, 1, 139),
    }


@pytest.mark.parametrize("case", CLEAN)
def test_a_sound_store_loses_nothing(golden: Path, tmp_path: Path, case: str) -> None:
    """Its queues and index are Java's to the byte, and so is its log up to the last record."""
    store, out = golden / case / "store", tmp_path / "out"
    report = salvage(store, out)
    assert (report.exit_code, report.torn_tail_bytes) == (0, 0)
    for part in ("consumequeue", "commitlog"):
        for path in sorted((store / part).rglob("*")):
            if path.is_file() and any(path.read_bytes()):
                assert (out / path.relative_to(store)).read_bytes() == path.read_bytes()
    assert fsck(out).findings == []
