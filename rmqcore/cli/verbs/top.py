"""``rmqcore top``: live rates of a store in use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count as count_from
from typing import Annotated

import typer
from rich.live import Live

from rmqcore.cli.common import arguments
from rmqcore.cli.common.output import print_json, terminal_console, wants_json
from rmqcore.cli.reports.replication_lines import replication_lines
from rmqcore.cli.reports.top_screen import Sort, screen, sorted_topics
from rmqcore.cli.values import choice, endpoint, number
from rmqcore.client.peer_status import PeerStatus, ask_status
from rmqcore.errors import ClientError
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.stats.live import LiveSample, LiveStats

LEAST_INTERVAL, MOST_INTERVAL = 0.1, 86400
ASK_S = 2.0
"""Seconds to wait for a broker's response."""
Seen = tuple[LiveSample, PeerStatus | ClientError | None]

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
            help="Stop after N samples.",
            show_default="continue until Ctrl-C",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print one sample, after one interval, and exit.")
    ] = False,
    sort: Annotated[
        Sort, choice(Sort, "--sort", help="Sort topics by this, largest first; topic: by name.")
    ] = Sort.bytes,
    broker: Annotated[
        str | None,
        typer.Option(
            "--broker",
            metavar="H:P",
            help="Also show replication as reported by this broker, which serves the store.",
        ),
    ] = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    json: arguments.Json = False,
) -> int:
    """Show a live view of a store in use.

    Shows rates by topic, the lag of consumer groups, and the disk until Ctrl-C, which ends it with exit code 130.
    The store is only read, also beside a running broker. In a pipe, or with --json, each sample is a line of
    JSON. Damage is counted, and the exit code is then 2.

    Example:
      rmqcore top /data/store
      rmqcore top /data/store --once --sort lag
      rmqcore top /data/store --count 2 --json | jq .total
    """
    live = LiveStats(store, commitlog=commitlog, follow_links=follow_links)
    if broker is not None:
        broker = endpoint(broker, "--broker")
    samples = _samples(live, interval, 1 if once else count, broker)
    if wants_json(json):
        return _print_lines(samples, sort)
    if once:
        return _print_once(samples, sort)
    return _show(samples, sort)


def _samples(
    live: LiveStats, interval: float, most: int | None, broker: str | None = None
) -> Iterator[Seen]:
    """Yield one sample per interval, the first one after an interval.

    If a sample took longer, the next one still waits for half an interval: rates over a few milliseconds mean nothing.
    """
    numbers = count_from() if most is None else range(most)
    due = time.monotonic() + interval
    for _ in numbers:
        time.sleep(max(0.0, due - time.monotonic()))
        yield live.sample(), None if broker is None else _ask(broker)
        due = max(due + interval, time.monotonic() + interval / 2)


def _ask(broker: str) -> PeerStatus | ClientError:
    try:
        return asyncio.run(ask_status(broker, ASK_S))
    except ClientError as error:
        return error


def _lines(told: PeerStatus | ClientError | None) -> list[str]:
    if told is None:
        return []
    if isinstance(told, ClientError):
        return [f"! {told}"]
    return replication_lines(told)


def _print_lines(samples: Iterator[Seen], sort: Sort) -> int:
    code = OK
    for sample, told in samples:
        found = replace(sample, topics=sorted_topics(sample, sort)).as_dict()
        if isinstance(told, ClientError):
            found |= {"replication": None, "broker_error": str(told)}
        elif told is not None:
            found["replication"] = told.replication
        print_json(found, one_line=True)
        code = _code(sample)
    return code


def _print_once(samples: Iterator[Seen], sort: Sort) -> int:
    console = terminal_console()
    code = OK
    for sample, told in samples:
        console.print(screen(console, sample, sort, _lines(told), whole=True))
        code = _code(sample)
    return code


def _show(samples: Iterator[Seen], sort: Sort) -> int:
    console = terminal_console()
    code = OK
    shown: LiveSample | None = None
    lines: list[str] = []
    try:
        with Live(
            "waiting for the first sample", console=console, screen=True, auto_refresh=False
        ) as view:
            for sample, told in samples:
                shown, lines = sample, _lines(told)
                view.update(screen(console, sample, sort, lines), refresh=True)
                code = _code(sample)
    finally:
        if shown is not None:  # what was last seen stays in the terminal
            console.print(screen(console, shown, sort, lines))
    return code


def _code(sample: LiveSample) -> int:
    return DAMAGED if sample.damaged_ranges else OK
