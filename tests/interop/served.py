"""A broker that runs, Java's or ours, for tests that ask both the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from interop.broker import Broker
from interop.workload import SIZES

from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.testing.served_broker import ServedBroker, ask_once

KINDS = ("java", "rmqcore")
_NUMBERS = count(1)


class Served(NamedTuple):
    """A broker that runs."""

    kind: str
    namesrv: str
    address: str


@contextmanager
def serving(kind: str, folder: Path) -> Iterator[Served]:
    """Run a broker of one of `KINDS`."""
    if kind == "java":
        java = Broker(folder, SIZES)
        with java.running():
            yield Served("java", java.name_server, java.address)
    else:
        with ServedBroker(folder) as ours:
            yield Served("rmqcore", ours.namesrv, ours.address)


def fresh(prefix: str) -> str:
    """Give a name that no other test of this process has: tests share their brokers."""
    return f"{prefix}{next(_NUMBERS)}"


def create_topic(broker: Served, **more: Value) -> str:
    """Make a topic of a test's own, with four queues."""
    name = fresh("Topic")
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    fields: dict[str, Value] = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "order": False,
        **more,
    }
    ask_once(broker.address, RemotingCommand(code, ext_fields=encode_fields(code, fields)))
    return name
