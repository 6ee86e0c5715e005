"""``rmqcore top``: a store that is in use, live."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count as count_from
from typing import Annotated

import typer
from rich.live import Live

from rmqcore.cli.common import arguments
from rmqcore.cli.common.output import print_json, terminal_console, wants_json
from rmqcore.cli.reports.top_screen import Sort, screen, sorted_topics
from rmqcore.cli.values import choice, number
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.stats.live import LiveSample, LiveStats

LEAST_INTERVAL, MOST_INTERVAL = 0.1, 86400

_interval = number(
    lambda seconds: LEAST_INTERVAL <= seconds <= MOST_INTERVAL,
    f"a number of seconds from {LEAST_INTERVAL} to {MOST_INTERVAL}",
)


def top(
    store: arguments.Store,
    interval: Annotated[
        float,
        typer.Option("--interval", metavar="S", parser=_interval, help="Seconds between samples."),
    ] = 1.0,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            metavar="N",
            parser=arguments.count_option,
            help="End after N samples.",
            show_default="go on until Ctrl-C",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print one sample, of one interval, and end.")
    ] = False,
    sort: Annotated[
        Sort, choice(Sort, "--sort", help="What the first topic has the most of; topic: by name.")
    ] = Sort.bytes,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    json: arguments.Json = False,
) -> int:
    """Show live what happens in a store that is in use.

    Rates by topic, the lag of consumer groups, and the disk; until Ctrl-C. The store is only read, also beside
    a running broker. Ctrl-C ends with exit code 130, as for tail -f. Piped, or with --json, each sample is a
    line of JSON. Damage that was met is counted, and the exit code is 2 then.

    Example:
      rmqcore top /data/store
      rmqcore top /data/store --once --sort lag
      rmqcore top /data/store --count 2 --json | jq .total
    """
    live = LiveStats(store, commitlog=commitlog, follow_links=follow_links)
    samples = _samples(live, interval, 1 if once else count)
    if wants_json(json):
        return _print_lines(samples, sort)
    if once:
        return _print_once(samples, sort)
    return _show(samples, sort)


def _samples(live: LiveStats, interval: float, most: int | None) -> Iterator[LiveSample]:
    """Yield one sample per interval, the first one after an interval.

    Where a sample took longer, the next one waits for half an interval all the same: rates of a few milliseconds say nothing.
    """
    numbers = count_from() if most is None else range(most)
    due = time.monotonic() + interval
    for _ in numbers:
        time.sleep(max(0.0, due - time.monotonic()))
        yield live.sample()
        due = max(due + interval, time.monotonic() + interval / 2)


def _print_lines(samples: Iterator[LiveSample], sort: Sort) -> int:
    code = OK
    for sample in samples:
        print_json(replace(sample, topics=sorted_topics(sample, sort)).as_dict(), one_line=True)
        code = _code(sample)
    return code


def _print_once(samples: Iterator[LiveSample], sort: Sort) -> int:
    console = terminal_console()
    code = OK
    for sample in samples:
        console.print(screen(console, sample, sort, whole=True))
        code = _code(sample)
    return code


def _show(samples: Iterator[LiveSample], sort: Sort) -> int:
    console = terminal_console()
    code = OK
    shown: LiveSample | None = None
    try:
        with Live(
            "waiting for the first sample", console=console, screen=True, auto_refresh=False
        ) as view:
            for sample in samples:
                shown = sample
                view.update(screen(console, sample, sort), refresh=True)
                code = _code(sample)
    finally:
        if shown is not None:  # what was last seen stays in the terminal
            console.print(screen(console, shown, sort))
    return code


def _code(sample: LiveSample) -> int:
    return DAMAGED if sample.damaged_ranges else OK
