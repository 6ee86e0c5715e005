"""A master and a slave in processes of their own, clients that load the master, and a bad line between the two."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol, Self

from support.eventually import eventually
from support.hostile_proxy import Harm, HostileProxy
from support.ports import PortBlock
from support.raw_client import RawClient, send_request
from support.server_process import ServerProcess, fsck

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.bodies.json_object import parse_body
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand

HARMS = (Harm.NONE, Harm.CUT, Harm.DELAY, Harm.SINGLE_BYTES)
"""What networks do to bytes that arrive as they were sent."""
TOPIC, QUEUES, SENDERS = "orders", 4, 8
MASTER: dict[str, Any] = {
    "brokerRole": "SYNC_MASTER",
    "inSyncReplicas": 2,
    "slaveTimeout": 2_000,
    "transactionTimeOut": 3_600_000,
    "transactionCheckInterval": 3_600_000,
}
"""Settings of a master whose sends wait for its slave. It asks about no half: a Java broker stores anew what it asks about."""
NAMES: dict[str, Any] = {"brokerName": "interop-a", "brokerClusterName": "InteropCluster"}
AGAIN_S = 0.05
HARMED_S = 3.0
"""Seconds at most that a line is bad before a kill."""
LONG_S = 1800.0
COMPARED_BYTES = 8 << 20


class Node(Protocol):
    """A broker of either kind, with one store: started as master or slave, killed, and started again."""

    store: Path

    @property
    def address(self) -> str:
        """Where clients connect."""
        ...

    @property
    def ha(self) -> str:
        """Where slaves get the log."""
        ...

    @property
    def name_server(self) -> str:
        """A name server that ends with the broker."""
        ...

    def lead(self, name_server: str | None = None, **settings: Any) -> None:
        """Start as the master, which registers at a name server, or at one of its own."""
        ...

    def follow(self, ha_address: str, master: Node) -> None:
        """Start as a slave that gets the log there."""
        ...

    def start(self) -> None:
        """Start as before."""
        ...

    def kill(self) -> None:
        """End it as a crash does."""
        ...

    def stop(self) -> None:
        """End it as an operator does."""
        ...


class OurNode:
    """``rmqcore serve``."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder = folder
        self._settings = settings
        self._ports = PortBlock()
        self._process: ServerProcess | None = None
        self.store = folder / "store"
        self.address, self.ha, self.name_server = (
            f"127.0.0.1:{self._ports.first + place}" for place in (2, 3, 4)
        )

    @property
    def _server(self) -> ServerProcess:
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        """What it has said on stderr."""
        return self._server.log

    def _start(self, *options: str, **settings: Any) -> None:
        given = {**self._settings, **NAMES, **settings}
        self._process = ServerProcess(self._folder, *options, settings=given)
        self._process.broker = self.address
        self._process.start()

    def lead(self, name_server: str | None = None, **settings: Any) -> None:
        """Start as the master, which registers at a name server, or at one of its own."""
        ha_port, names_port = (one.rpartition(":")[2] for one in (self.ha, self.name_server))
        names = ("--namesrv", name_server) if name_server else ("--namesrv-port", names_port)
        self._start("--ha-port", ha_port, "--vip", *names, **{**MASTER, **settings})

    def follow(self, ha_address: str, master: Node) -> None:
        """Start as a slave."""
        words = "--role", "SLAVE", "--ha-master", ha_address, "--namesrv", master.name_server
        self._start(*words)

    def start(self) -> None:
        """Start as before."""
        self._server.start()

    def kill(self) -> None:
        """End it as a crash does."""
        self._server.kill()

    def stop(self) -> None:
        """End it as an operator does."""
        assert self._server.stop() == 0, self.log
        assert "Traceback" not in self.log

    def end(self) -> None:
        """End it where it runs."""
        if self._process is not None and self._process.is_running():
            self.kill()


@dataclass(frozen=True)
class Sent:
    """A message, by what its body is made of."""

    number: int
    repeats: int

    @property
    def body(self) -> bytes:
        """The body."""
        return b"%d " % self.number * self.repeats


class Load:
    """Senders that connect again whenever their broker is gone. They remember what they were told.

    Attributes
    ----------
    address : str
        Where they send; it may change.
    stored : dict
        The messages that were answered SEND_OK, by queue and offset.
    halves : set of str
        Keys of half messages that were answered SEND_OK, of transactions that nobody ends.
    size : int
        Bytes of the bodies in `stored`.
    answers : int
        All answers, SEND_OK or not.
    """

    def __init__(
        self, address: str, rng: random.Random, most_repeats: int, half_share: float = 0.02
    ) -> None:
        self.address = address
        self.stored: dict[tuple[int, int], Sent] = {}
        self.halves: set[str] = set()
        self.unexpected: list[object] = []
        self.size = self.answers = 0
        self._most_repeats = most_repeats
        self._half_share = half_share
        self._guard = threading.Lock()
        self._ended = threading.Event()
        self._numbers = count()
        self._threads = [
            threading.Thread(target=self._send, args=(random.Random(rng.random()),))
            for _ in range(SENDERS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def _send(self, rng: random.Random) -> None:
        while not self._ended.is_set():
            try:
                with RawClient(self.address) as client:
                    while not self._ended.is_set():
                        self._send_one(client, rng)
            except OSError:
                self._ended.wait(AGAIN_S)  # the broker was killed
            except Exception as error:  # noqa: BLE001 a thread's exception is shown by the test
                self.unexpected.append(error)
                return

    def _send_one(self, client: RawClient, rng: random.Random) -> None:
        number = next(self._numbers)
        sent = Sent(number, rng.choice((1, 3, 30, self._most_repeats)))
        key = f"K{number}"
        request = send_request(TOPIC, sent.body, rng.randrange(QUEUES), key)
        request.ext_fields["g"] = str(time.time_ns() // 1_000_000)  # bornTimestamp
        half = rng.random() < self._half_share
        if half:
            request.ext_fields["i"] += "TRAN_MSG\x01true\x02PGROUP\x01raw\x02"
            request.ext_fields["f"] = "4"  # the sysFlag of a prepared transaction
        self._note(client.ask(request), key, sent, half=half)

    def _note(self, answer: RemotingCommand, key: str, sent: Sent, *, half: bool) -> None:
        with self._guard:
            self.answers += 1
            # Stored, but no slave is known to have it; or refused for a moment, which Java does on a slow machine.
            if answer.code in (ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SYSTEM_BUSY):
                return
            if answer.code != ResponseCode.SUCCESS:
                self.unexpected.append(answer)
            elif half:
                self.halves.add(key)
            else:
                fields = answer.ext_fields
                place = int(fields["queueId"]), int(fields["queueOffset"])
                if place in self.stored:
                    self.unexpected.append(f"{place} was given twice")
                self.stored[place] = sent
                self.size += len(sent.body)

    def check(self, store: MessageStore) -> None:
        """Look that a store has each message that was answered, at its place."""
        for (queue_id, queue_offset), sent in self.stored.items():
            (message,) = store.get(TOPIC, queue_id, queue_offset, 1).messages
            assert (message.queue_offset, message.body) == (queue_offset, sent.body)


class BadLine:
    """A proxy in a thread of its own."""

    def __init__(self, target: str, rng: random.Random) -> None:
        self._target = target
        self._rng = random.Random(rng.random())
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._loop: asyncio.AbstractEventLoop
        self._proxy: HostileProxy
        self._ended: asyncio.Event
        self.address = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(60)

    async def _run(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with HostileProxy(self._target, self._rng, (Harm.NONE,)) as self._proxy:
            self.address = self._proxy.address
            self._is_ready.set()
            await self._ended.wait()

    def change(self, harm: Harm) -> None:
        """Do this to all bytes from now on."""
        self._loop.call_soon_threadsafe(self._proxy.change, harm)


def kill_again_and_again(
    master: Node, slave: Node, rng: random.Random, *, kills: int, size: int, most_repeats: int
) -> Load:
    """Replicate over a bad line while both sides are killed; return the load when both have ended and hold all of it.

    Parameters
    ----------
    master, slave : Node
        Their stores are empty.
    rng : Random
    kills : int
        Both sides have their turn, in an order of the generator; in every fifth turn both at once.
    size : int
        Bytes of bodies that are answered SEND_OK at the end.
    most_repeats : int
        How long a body may be.
    """
    turns = [(master, slave) if n % 5 == 4 else ((master, slave)[n % 2],) for n in range(kills)]
    rng.shuffle(turns)
    master.lead()
    with BadLine(master.ha, rng) as line, Load(master.address, rng, most_repeats) as load:
        slave.follow(line.address, master)
        for number, turn in enumerate(turns, 1):
            _grown(load, size * number // (kills + 1))
            line.change(rng.choice(HARMS))
            _harmed(load, rng.randrange(10, 400))
            for one in turn:
                one.kill()
            line.change(Harm.NONE)
            for one in turn:
                one.start()
        _grown(load, size)
        load.stop()
        caught_up(slave, master)
        slave.stop()
        master.stop()
    assert not load.unexpected
    return load


def caught_up(slave: Node, master: Node) -> None:
    """Wait until a slave has all of its master's log, which does not grow."""
    eventually(
        lambda: log_end(slave.address) == log_end(master.address),
        within_s=LONG_S,
        details=lambda: (log_end(slave.address), log_end(master.address)),
    )


def _grown(load: Load, size: int) -> None:
    eventually(lambda: load.size >= size or load.unexpected, within_s=LONG_S)
    assert not load.unexpected


def _harmed(load: Load, answers: int) -> None:
    """Wait for a few more answers, or for a while: over some bad lines none come."""
    enough, until = load.answers + answers, time.monotonic() + HARMED_S
    eventually(lambda: load.answers >= enough or time.monotonic() > until)


def log_end(address: str) -> int:
    """Ask a broker where its log ends."""
    return int(_runtime_info(address)["commitLogMaxOffset"])


def log_begin(address: str) -> int:
    """Ask a broker where its log begins."""
    return int(_runtime_info(address)["commitLogMinOffset"])


def _runtime_info(address: str) -> Mapping[str, str]:
    with RawClient(address) as client:
        answer = client.ask(RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO))
    return parse_body("GET_BROKER_RUNTIME_INFO", answer.body).text_table("table")


class Answered(Protocol):
    """Messages whose sends were answered."""

    def check(self, store: MessageStore) -> None:
        """Assert that a store has each message that was answered, at its place."""


def check_stores(answered: Answered, *stores: Path) -> None:
    """Assert that closed stores are sound, have the same log, and every message that was answered."""
    for store in stores:
        code, said = fsck(store)
        assert code == 0, said
    with ExitStack() as stack:
        opened = [
            stack.enter_context(rmqcore.open(store, disk_max_used_space_ratio=100))
            for store in stores
        ]
        for one in opened:
            assert one.wait_dispatched(600)
            answered.check(one)
        same_logs(*opened)


def same_logs(first: MessageStore, *others: MessageStore) -> None:
    """Look that logs begin and end at the same places, and are the same bytes."""
    ends = first.min_phy_offset, first.max_phy_offset
    for other in others:
        assert (other.min_phy_offset, other.max_phy_offset) == ends
        at = ends[0]
        while at < ends[1]:
            ours = first.read_range(at, COMPARED_BYTES)
            assert other.read_range(at, len(ours)) == ours, at
            at += len(ours)
