"""``rmqcore ping``: whether a broker or a name server is up and ready."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import say
from rmqcore.cli.common.output import print_json, print_line, wants_json
from rmqcore.cli.reports.replication_lines import replication_lines
from rmqcore.cli.values import endpoint, number
from rmqcore.client.peer_status import BROKER, PeerStatus, ask_status
from rmqcore.errors import ClientError
from rmqcore.errors.exit_codes import FAILED, OK

LEAST_SECONDS, MOST_SECONDS = 0.01, 3600

_seconds = number(
    lambda seconds: LEAST_SECONDS <= seconds <= MOST_SECONDS,
    f"a number of seconds from {LEAST_SECONDS} to {MOST_SECONDS}",
)
_HINTS = {
    "full": (
        "delete other files on the disk, or keep messages for a shorter time: fileReservedTime in "
        "broker.conf"
    ),
    "failed": "check the broker's log and the disk, then restart the broker",
}


def ping(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="HOST:PORT of a broker or name server.",
            show_default=False,
            parser=endpoint,
        ),
    ],
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="S", parser=_seconds, help="Seconds to wait."),
    ] = 3.0,
    json: arguments.Json = False,
) -> int:
    """Check that a broker or name server is up and ready.

    Shows its role, name, version, the state of its store and the round-trip time. The exit code is 0 if it is
    ready, and 1 if it cannot be reached, does not respond in time, or its store refuses messages. It also works
    with Java's brokers.

    Example:
      rmqcore ping 127.0.0.1:10911
      rmqcore ping 127.0.0.1:9876 --timeout 1 --json
    """
    as_json = wants_json(json)
    try:
        found = asyncio.run(ask_status(address, timeout))
    except ClientError as error:
        if as_json:
            print_json({"ready": False, "address": address, "error": str(error)}, one_line=True)
        raise
    if as_json:
        print_json(found.as_dict(), one_line=True)
    else:
        print_line(_sentence(found))
        for line in replication_lines(found):
            print_line(f"  {line}")
    if found.ready:
        return OK
    why = f" ({found.reason})" if found.reason else ""
    say(
        f"{address} refuses messages: its store is {found.store}{why}",
        _HINTS.get(found.store or "", "see the broker's log"),
    )
    return FAILED


def _sentence(found: PeerStatus) -> str:
    ready = "ready" if found.ready else "not ready"
    trip = f"{found.round_trip_ms:.1f} ms"
    if found.role != BROKER:
        known = ", ".join(found.brokers or ()) or "no broker"
        return f"{found.address}: {ready}, {found.role}, knows {known}, {trip}"
    place = "" if found.cluster is None else f" of {found.cluster}"
    rank = "" if found.broker_id is None else " (master)" if found.broker_id == 0 else " (slave)"
    parts = [
        f"{found.role} {found.name or '?'}{place}{rank}",
        found.version or "unknown version",
        f"store {found.store}",
        trip,
    ]
    return f"{found.address}: {ready}, {', '.join(parts)}"
