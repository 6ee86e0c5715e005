"""Checks of the disk, now and in the days to come, and of messages that consumer groups lose by the cleaning rules."""

from __future__ import annotations

from collections.abc import Iterator

from rmqcore.engine.clean.disks import disk_use
from rmqcore.engine.clean.rules import CleanRules
from rmqcore.maintenance.doctor.patient import Patient
from rmqcore.maintenance.doctor.report import Diagnosis, Evidence
from rmqcore.maintenance.retention.report import RetentionReport, UnreadForecast
from rmqcore.maintenance.retention.retention import forecast_of
from rmqcore.vocabulary.units import DAY_MS, HOUR_MS, WEEK_MS


def check_disk(patient: Patient) -> Iterator[Diagnosis]:
    """How full the disks are."""
    use = disk_use(patient.paths, patient.settings)
    trigger = CleanRules(patient.settings).look(patient.now_ms, use)
    seen = [
        Evidence(patient.shown(folder), f"disk usage is {ratio:.0%}")
        for folder, ratio in (
            (patient.paths.commitlog, use.log),
            (patient.paths.consumequeue, use.queues),
        )
    ]
    if trigger.full is not None:
        yield patient.diagnosis("disk_full", [Evidence(seen[0].path, trigger.full)])
    elif trigger.disk and min(use.log, use.queues) >= 0:
        yield patient.diagnosis("disk_nearly_full", seen)


def check_time_to_come(patient: Patient) -> Iterator[Diagnosis]:
    """A disk that fills, files that stay, messages that go unread."""
    if not patient.has_messages:
        return
    report = forecast_of(
        patient.paths, patient.log, patient.offsets, patient.settings, patient.now_ms
    )
    yield from _filling(patient, report)
    ahead = [
        Evidence(
            patient.shown(file.path),
            f"was modified at {file.mtime_ms}",
            f"{patient.now_ms} or before",
        )
        for file in report.present.files[:-1]
        if file.mtime_ms > patient.now_ms + HOUR_MS
    ]
    if ahead:
        yield patient.diagnosis("files_stay", ahead)
    yield from _overdue(patient)
    lost = [
        _evidence(row, f"{row.lost} messages were deleted unread")
        for row in report.present.groups
        if row.lost
    ]
    if lost:
        yield patient.diagnosis("unread_lost", lost)
    soon = [
        _evidence(row, f"{row.loses} unread messages will be deleted, from {row.loses_from_ms} on")
        for row in report.present.groups
        if row.loses_from_ms is not None and row.loses_from_ms < patient.now_ms + DAY_MS
    ]
    if soon:
        yield patient.diagnosis("unread_goes", soon)


def _overdue(patient: Patient) -> Iterator[Diagnosis]:
    """Files that an open store should have deleted; how long it keeps them says its broker.conf alone."""
    if patient.holder is None or patient.config is None:
        return
    rules = CleanRules(patient.config)
    late = [
        Evidence(
            facts.file.name,
            f"was modified at {facts.mtime_ms}",
            f"deleted {rules.reserved_ms} ms later",
        )
        for facts in patient.log.files[:-1]
        if rules.is_over(facts.mtime_ms, patient.now_ms - 2 * DAY_MS)
    ]
    if late:
        yield patient.diagnosis("files_overdue", late)


def _filling(patient: Patient, report: RetentionReport) -> Iterator[Diagnosis]:
    levels = {level.name: level.reached_at_ms for level in report.present.levels}
    reached = [levels[name] for name in ("diskSpaceWarningLevelRatio", "full")]
    soon = [at_ms for at_ms in reached if at_ms is not None]
    if soon and patient.now_ms < min(soon) < patient.now_ms + WEEK_MS:
        rate = round(report.rate.bytes_per_second)
        yield patient.diagnosis(
            "disk_fills",
            [
                Evidence(disk.path, f"full at {min(soon)}, at {rate} bytes of log per second")
                for disk in report.disks
            ],
            shorter=max(1, patient.settings.file_reserved_time // 3),
        )


def _evidence(row: UnreadForecast, what: str) -> Evidence:
    return Evidence(
        f"config/consumerOffset.json {row.topic}@{row.group} {row.queue_id}",
        what,
        f"the group is at {row.queue_offset}, the queue starts at {row.min_offset}",
        row.first_unread_phy_offset,
    )
