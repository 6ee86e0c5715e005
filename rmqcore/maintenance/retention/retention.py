"""`retention`: what will be deleted from a store, when and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.consumer_offsets import ConsumerOffsets, read_consumer_offsets
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.retention.forecast import Present, forecast
from rmqcore.maintenance.retention.growing_disks import disk_facts, growing_disks
from rmqcore.maintenance.retention.log_facts import LogFacts, read_log
from rmqcore.maintenance.retention.report import DiskFacts, RetentionReport
from rmqcore.maintenance.retention.rule_settings import changed_rules, odd_rules
from rmqcore.maintenance.retention.unread import positions
from rmqcore.maintenance.retention.write_rate import write_rate
from rmqcore.offline.info import disk_bytes
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.reader import LogDirectories, StoreReader
from rmqcore.vocabulary.clock import wall_clock_ms
from rmqcore.vocabulary.units import DAY_MS, HOUR_MS

HORIZON_DAYS = 7.0
MOST_DAYS = 3650.0
MOST_BYTES_PER_SECOND = 1 << 50
RESTS_MS = HOUR_MS
COPIED_MS = DAY_MS
"""A file changed at least this long after its last record was stored has the time of a copy."""


def retention(
    path: str | os.PathLike[str],
    *,
    what_if: Mapping[str, object] | None = None,
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    now_ms: int | None = None,
    horizon_days: float = HORIZON_DAYS,
    bytes_per_second: float | None = None,
    progress: Progress | None = None,
) -> RetentionReport:
    """Forecast which files of the CommitLog will be deleted when and why, and what consumer groups would lose unread.

    The rules are those of an open store, asked with a clock that runs ahead and a disk that fills at the rate at which
    the log was written. Nothing is written; the store may be in use.

    Parameters
    ----------
    path : path-like
        The store's root.
    what_if : mapping, optional
        Other values of settings, by Java's names or ours, as text or as values: a second forecast is made with them.
    config : MessageStoreConfig, optional
        The settings as they are; Java's defaults without it. Its paths say where the CommitLog is.
    commitlog, follow_links
        As of `StoreReader`.
    now_ms : int, optional
        Start of the forecast; milliseconds since the epoch.
    horizon_days : float
        Length of the forecast for files and groups.
    bytes_per_second : float, optional
        Growth of the log, instead of the rate by its own store times.
    progress : callable, optional
        Called with (bytes done, bytes in all).

    Raises
    ------
    NotAStoreError, LinkError, FileNotFoundError, NotADirectoryError
        See `StoreReader`.
    ValueError
        No setting of a name in `what_if` decides on deletions, or it cannot have this value; a horizon or a rate that
        makes no sense.
    """
    settings = config or MessageStoreConfig()
    changed = changed_rules(settings, what_if) if what_if else None
    if not 0 < horizon_days <= MOST_DAYS:
        raise ValueError(
            f"horizon_days: expected more than 0 and at most {MOST_DAYS:.0f}, got {horizon_days}"
        )
    if bytes_per_second is not None and not 0 <= bytes_per_second <= MOST_BYTES_PER_SECOND:
        raise ValueError(
            f"bytes_per_second: expected 0 to {MOST_BYTES_PER_SECOND}, got {bytes_per_second}"
        )
    reader = StoreReader(path, config=config, commitlog=commitlog, follow_links=follow_links)
    offsets = read_consumer_offsets(reader.paths)  # before the log, which may grow during the call
    log = read_log(reader.log_files(), progress)
    return forecast_of(
        reader.paths,
        log,
        offsets,
        settings,
        wall_clock_ms() if now_ms is None else now_ms,
        changed=changed,
        horizon_days=horizon_days,
        bytes_per_second=bytes_per_second,
    )


def forecast_of(
    paths: StorePaths,
    log: LogFacts,
    offsets: ConsumerOffsets,
    settings: MessageStoreConfig,
    now_ms: int,
    *,
    changed: MessageStoreConfig | None = None,
    horizon_days: float = HORIZON_DAYS,
    bytes_per_second: float | None = None,
) -> RetentionReport:
    """Make the report of a log that was read: see `retention`."""
    beside = (disk_bytes(paths.consumequeue) + disk_bytes(paths.index)) / max(log.disk_bytes, 1)
    rate = write_rate(log, beside, bytes_per_second)
    found = list(positions(paths, offsets, log.begins_at, log.end_phy_offset))
    present = Present(paths, log, rate, found, now_ms, now_ms + int(horizon_days * DAY_MS))
    disks = disk_facts(growing_disks(paths, settings, beside))
    return RetentionReport(
        path=str(paths.root),
        now_ms=now_ms,
        horizon_ms=present.horizon_ms,
        min_phy_offset=log.begins_at,
        max_phy_offset=log.end_phy_offset,
        log_bytes=log.disk_bytes,
        rate=rate,
        disks=disks,
        present=forecast(present, settings),
        what_if=None if changed is None else forecast(present, changed),
        notes=tuple(_notes(log, now_ms, disks, offsets, settings, changed)),
    )


def _notes(
    log: LogFacts,
    now_ms: int,
    disks: tuple[DiskFacts, ...],
    offsets: ConsumerOffsets,
    settings: MessageStoreConfig,
    changed: MessageStoreConfig | None,
) -> Iterator[str]:
    yield from odd_rules(settings)
    if changed is not None:
        yield from (
            f"what if: {note}" for note in odd_rules(changed) if note not in odd_rules(settings)
        )
    for disk in disks:
        if disk.used_percent < 0:
            yield (
                f"the disk of {disk.path} cannot be measured: it counts as too full, so expired "
                "files are deleted at any hour; when it will be full is unknown"
            )
    full = [facts for facts in log.files[:-1] if facts.last is not None]
    ahead = [facts for facts in full if facts.mtime_ms > now_ms]
    if ahead:
        yield (
            f"{len(ahead)} files, the first is {Path(ahead[0].file.location).name}, have a "
            "modification time in the future: they, and all files behind them, are kept until then"
        )
    copied = [
        facts
        for facts in full
        if facts.last is not None and facts.mtime_ms - facts.last.last_ms > COPIED_MS
    ]
    if copied and not ahead:
        yield (
            f"{len(copied)} files were modified more than a day after their last message was "
            "stored, as in a copy (cp without -p): they expire by the modification time"
        )
    times = [facts.last.last_ms for facts in log.files if facts.last is not None]
    if any(other < one for one, other in pairwise(times)):
        yield (
            "store times decrease in the log: the clock was set back, and the write rate is "
            "uncertain"
        )
    if times and now_ms - times[-1] > RESTS_MS:
        hours = (now_ms - times[-1]) / HOUR_MS
        yield f"the newest message is {hours:,.0f} hours old: the rate was measured before it"
    elif times and times[-1] > now_ms + RESTS_MS:
        yield "the newest message was stored in the future: a clock is or was wrong"
    yield from offsets.problems
