"""Pairs of a master and a slave: ours and Java's on either side, each slave with a new store."""

from __future__ import annotations

import contextlib
import json
import pathlib
import time
from collections.abc import Iterator

from bench.broker_servers import Server, java, ours
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import encode_fields
from rmqcore.testing.served_broker import ask_once

FOLLOWED_S = 600.0
LOOK_S = 0.02
KINDS = ("rmqcore", "Java")


@contextlib.contextmanager
def master(kind: str, folder: pathlib.Path, **settings: object) -> Iterator[Server | None]:
    """A master whose HA port listens; None where there is no Java."""
    if kind == "rmqcore":
        with ours(folder, "--ha-port", "0", **settings) as server:
            yield server
        return
    with java(folder, haListenPort=0, brokerIP2="127.0.0.1", **settings) as real:
        if real is not None:
            real.ha = f"127.0.0.1:{real.port + 1}"
        yield real


@contextlib.contextmanager
def slave(kind: str, folder: pathlib.Path, of: Server, **settings: object) -> Iterator[Server]:
    """A slave of a master, which begins to follow while this starts."""
    given = {"brokerRole": "SLAVE", "brokerId": 1, **settings}
    if kind == "rmqcore":
        words = "--ha-master", of.ha, "--namesrv", of.namesrv
        with ours(folder, *words, **given) as server:
            yield server
        return
    with java(folder, haListenPort=0, **given) as real:
        assert real is not None
        code = RequestCode.EXCHANGE_BROKER_HA_INFO
        fields = encode_fields(code, {"masterHaAddress": of.ha})
        ask_once(real.address, RemotingCommand(code, ext_fields=fields))
        yield real


def end(server: Server) -> int:
    """Where its log ends. Java's other answer that says so fails where the log is empty."""
    status = json.loads(server.ask(RequestCode.GET_BROKER_HA_STATUS).body)
    if status["master"]:
        return int(status["masterCommitLogMaxOffset"])
    return int(status["haClientRuntimeInfo"]["maxOffset"])


def seconds_to(server: Server, phy_offset: int) -> tuple[int, float]:
    """Wait until a slave holds the log up to an offset; return bytes, and the seconds from the first growth that was seen."""
    deadline = time.monotonic() + FOLLOWED_S
    begin = first = end(server)
    begun = 0.0
    while (now_at := end(server)) < phy_offset:
        now = time.monotonic()
        if now > deadline:
            raise RuntimeError(f"{server.name}: {now_at} of {phy_offset} after {FOLLOWED_S} s")
        if not begun and now_at > begin:
            begun, first = now, now_at
        time.sleep(LOOK_S)
    done = time.monotonic()
    return phy_offset - first, done - (begun or done)
