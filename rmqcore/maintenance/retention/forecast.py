"""A forecast with one set of settings: the cleaning rounds to come, and their results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rmqcore.config import MessageStoreConfig
from rmqcore.config.broker_conf import java_name
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.clean.rules import CleanRules
from rmqcore.maintenance.retention.growing_disks import ELSEWHERE, GrowingDisks, growing_disks
from rmqcore.maintenance.retention.log_facts import LogFacts
from rmqcore.maintenance.retention.report import (
    FileForecast,
    Forecast,
    LevelForecast,
    TimePoint,
    WriteRate,
)
from rmqcore.maintenance.retention.rule_settings import rule_settings
from rmqcore.maintenance.retention.simulation import Gone, SimulatedFile, Simulation
from rmqcore.maintenance.retention.unread import Position, unread_forecast
from rmqcore.vocabulary.units import DAY_MS

MOST_MS = 3650 * DAY_MS
"""Longest time to look ahead for a full disk."""
MOST_POINTS = 400


@dataclass(frozen=True)
class Present:
    """Initial state of a forecast.

    Attributes
    ----------
    paths : StorePaths
    log : LogFacts
    rate : WriteRate
    positions : sequence of Position
    now_ms, horizon_ms : int
    """

    paths: StorePaths
    log: LogFacts
    rate: WriteRate
    positions: Sequence[Position]
    now_ms: int
    horizon_ms: int


def forecast(present: Present, config: MessageStoreConfig) -> Forecast:
    """Make the rounds that a store with this configuration would."""
    rules = CleanRules(config)
    disks = growing_disks(present.paths, config, present.rate.beside)
    simulation = Simulation(
        _simulated(present.log, disks),
        present.log.end_phy_offset,
        disks,
        rules,
        config.clean_resource_interval,
        present.rate.bytes_per_second,
        present.now_ms,
    )
    settled_ms = _settled_ms(present, rules)
    simulation.run(present.horizon_ms)
    if simulation.whole:
        simulation.run(min(settled_ms, present.now_ms + MOST_MS))
    settled = simulation.whole and settled_ms < present.now_ms + MOST_MS
    gone = {
        one.file_from_offset: one for one in simulation.gone if one.time_ms <= present.horizon_ms
    }
    files = tuple(_file_forecast(present.log, gone))
    return Forecast(
        settings=rule_settings(config),
        files=files,
        levels=tuple(_levels(simulation, rules, never=settled and _knows_disks(disks))),
        settles_at_bytes=_most_at_last(simulation) if settled else None,
        refuses_puts_from_ms=simulation.puts_refused_ms,
        groups=unread_forecast(present.positions, files),
        timeline=_timeline(simulation, present.horizon_ms),
        looked_to_ms=present.horizon_ms if simulation.whole else simulation.now_ms,
    )


def _simulated(log: LogFacts, disks: GrowingDisks) -> list[SimulatedFile]:
    devices = [os.stat(disk.path).st_dev for disk in disks.disks]
    found = []
    for number, facts in enumerate(log.files):
        device = os.stat(facts.file.path.parent).st_dev
        start, newest = facts.file.file_from_offset, number == len(log.files) - 1
        written = log.end_phy_offset - start if newest else facts.disk_bytes
        found.append(
            SimulatedFile(
                start,
                start + max(facts.file.size, log.shape.file_size),
                None if newest else facts.mtime_ms,
                # Blocks that an open store has allocated ahead are always there, further on as it is written.
                min(facts.disk_bytes, written),
                devices.index(device) if device in devices else ELSEWHERE,
            )
        )
    return found


def _settled_ms(present: Present, rules: CleanRules) -> int:
    """Return the time of the steady state at this rate: present files are deleted, and some written later too."""
    newest = max([present.now_ms, *(facts.mtime_ms for facts in present.log.files)])
    rate = present.rate.bytes_per_second
    file_ms = int(present.log.shape.file_size / rate * 1000) if rate > 0 else 0
    return newest + rules.reserved_ms + 3 * DAY_MS + 3 * file_ms


def _file_forecast(log: LogFacts, gone: Mapping[int, Gone]) -> Iterator[FileForecast]:
    for facts in log.files:
        one = gone.get(facts.file.file_from_offset)
        yield FileForecast(
            facts.file.location,
            facts.file.file_from_offset,
            facts.file.size,
            facts.disk_bytes,
            None if facts.first is None else facts.first.first_ms,
            None if facts.last is None else facts.last.last_ms,
            facts.mtime_ms,
            None if one is None else one.time_ms,
            None if one is None else one.reason,
        )


def _knows_disks(disks: GrowingDisks) -> bool:
    return all(disk.space is not None for disk in disks.disks)


def _levels(simulation: Simulation, rules: CleanRules, *, never: bool) -> Iterator[LevelForecast]:
    named = {
        "disk_max_used_space_ratio": rules.most_used,
        "disk_space_clean_forcibly_ratio": rules.forced,
        "disk_space_warning_level_ratio": rules.warning,
    }
    for name, ratio in named.items():
        percent = round(ratio * 100)
        at_ms = simulation.reached.get(percent + 1)
        yield LevelForecast(java_name(name), percent, at_ms, never and at_ms is None)
    at_ms = simulation.full_ms
    yield LevelForecast("full", 100, at_ms, never and at_ms is None)


def _most_at_last(simulation: Simulation) -> int:
    """The most that the log has in the last day of a simulation."""
    begin_ms = simulation.points[-1][0] - DAY_MS
    return max(size for time_ms, size, _ in simulation.points if time_ms >= begin_ms)


def _timeline(simulation: Simulation, horizon_ms: int) -> tuple[TimePoint, ...]:
    points = [point for point in simulation.points if point[0] <= horizon_ms]
    step = -(-len(points) // MOST_POINTS) or 1
    chosen = points[::step]
    if points and chosen[-1] != points[-1]:
        chosen.append(points[-1])
    return tuple(TimePoint(*point) for point in chosen)
