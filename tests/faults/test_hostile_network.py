"""A broker behind a network that cuts, delays, splits, repeats and garbles: its answers are so, and who is gone leaves nothing.

RMQCORE_HOSTILE_SECONDS: for how long.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import uvloop
from support.doses import dose
from support.eventually import eventually_async
from support.hostile_proxy import PARTITIONS, Harm, HostileProxy
from support.raw_client import AsyncRawClient, pull_request, send_request
from support.server_process import fsck

import rmqcore
from rmqcore.broker.network import server
from rmqcore.broker.network.server import Ports, Running
from rmqcore.broker.settings import BrokerSettings
from rmqcore.client import AsyncProducer, SendStatus
from rmqcore.client import connection as client_connection
from rmqcore.codec import parse_msg_id
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import ClientError, ProtocolError
from rmqcore.remoting.bodies.heartbeat import (
    ConsumerData,
    Heartbeat,
    SubscriptionData,
    encode_heartbeat,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand

SECONDS = dose("RMQCORE_HOSTILE_SECONDS", test=2, verify=6, night=1200)
QUIET_SECONDS = 120.0
KIND = tuple(harm for harm in Harm if harm not in (Harm.FUZZ, *PARTITIONS))
TOPIC = "orders"


class Network:
    """Clients behind two proxies, one of which garbles, and one client that has a good line.

    Attributes
    ----------
    told : dict
        Bodies of the messages that were answered SEND_OK, by queue and offset; what was sent is what the broker got.
    places : set
        CommitLog offset, queue and offset of the messages whose request may have been garbled.
    """

    def __init__(self, running: Running, rng: random.Random) -> None:
        self._running = running
        self._rng = rng
        self._numbers = count()
        self.told: dict[tuple[int, int], bytes] = {}
        self.places: set[tuple[int, int]] = set()
        self.asked = 0
        self.proxies: list[HostileProxy] = []

    async def live(self, seconds: float) -> None:
        """Do all of it for a time."""
        address = self._running.ready.broker
        kind = HostileProxy(address, self._rng, KIND)
        bad = HostileProxy(address, self._rng, (Harm.FUZZ,))
        self.proxies = [kind, bad]
        ended = asyncio.Event()
        async with kind, bad:
            jobs: list[Coroutine[Any, Any, None]] = [self._witness(ended)]
            jobs += [self._send(kind.address, ended, garbled=False) for _ in range(4)]
            jobs += [self._send(bad.address, ended, garbled=True) for _ in range(2)]
            jobs += [self._pull(proxy.address, ended) for proxy in (kind, bad)]
            jobs += [self._produce(kind.address, ended), self._garbage(ended)]
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(job)
                await asyncio.sleep(seconds)  # the dose of harm
                await eventually_async(self.had_a_bit_of_all)
                ended.set()

    def had_a_bit_of_all(self) -> bool:
        """Say whether messages came through, and connections to each proxy."""
        return bool(self.told and self.asked and all(sum(p.counts.values()) for p in self.proxies))

    async def _send(self, address: str, ended: asyncio.Event, *, garbled: bool) -> None:
        """Send messages, several at once, over one connection after another."""
        while not ended.is_set():
            with suppress(ConnectionError, ProtocolError, TimeoutError):
                client = await AsyncRawClient.open(address)
                try:
                    async with asyncio.timeout(
                        2
                    ):  # a garbled length makes the broker wait for what never comes
                        while not ended.is_set():
                            await self._send_some(client, garbled=garbled)
                finally:
                    client.close()

    async def _send_some(self, client: AsyncRawClient, *, garbled: bool) -> None:
        bodies: dict[int, tuple[int, bytes]] = {}
        for _ in range(self._rng.randrange(1, 6)):
            number = next(self._numbers)
            body = b"%d " % number * self._rng.choice((1, 20, 900))
            queue_id = self._rng.randrange(4)
            request = send_request(TOPIC, body, queue_id, f"K{number}")
            bodies[client.send(request)] = queue_id, body
        while bodies:
            answer = await client.next()
            if not answer.is_response or answer.opaque not in bodies:
                if (
                    not garbled
                    and answer.code == ResponseCode.SUCCESS
                    and "msgId" in answer.ext_fields
                ):
                    self._note_place(answer)  # of a frame that came twice
                continue
            queue_id, body = bodies.pop(answer.opaque)
            if answer.code == ResponseCode.SUCCESS and "msgId" in answer.ext_fields:
                self._note_place(answer)
                if not garbled:
                    assert int(answer.ext_fields["queueId"]) == queue_id
                    self._note(queue_id, int(answer.ext_fields["queueOffset"]), body)
            else:
                assert garbled, answer

    def _note_place(self, answer: RemotingCommand) -> None:
        place = (
            parse_msg_id(answer.ext_fields["msgId"]).phy_offset,
            int(answer.ext_fields["queueOffset"]),
        )
        assert place not in self.places, "two sends were told the same place"
        self.places.add(place)

    def _note(self, queue_id: int, queue_offset: int, body: bytes) -> None:
        assert self.told.setdefault((queue_id, queue_offset), body) is body, (
            "two sends were told the same place"
        )

    async def _pull(self, address: str, ended: asyncio.Event) -> None:
        """Be a consumer whose pulls are held when its connection ends."""
        while not ended.is_set():
            with suppress(ConnectionError, ProtocolError, TimeoutError):
                client = await AsyncRawClient.open(address)
                try:
                    client.send(beat())
                    for queue_id in range(4):
                        client.send(
                            pull_request(TOPIC, 1 << 40, queue_id=queue_id, held_ms=600_000)
                        )
                        client.send(pull_request(TOPIC, 0, queue_id=queue_id))
                        client.send(pull_request("quiet", 0, queue_id=queue_id, held_ms=600_000))
                    async with asyncio.timeout(self._rng.random()):
                        while True:
                            await client.next()
                finally:
                    client.close()

    async def _produce(self, address: str, ended: asyncio.Event) -> None:
        """Send by our client, whose connections to the broker go through the proxy: it tries again by itself."""
        real, split = self._running.ready.broker, client_connection.split_address
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                client_connection,
                "split_address",
                lambda a, r: split(address if a == real else a, r),
            )
            async with AsyncProducer(str(self._running.ready.namesrv), timeout=5.0) as producer:
                while not ended.is_set():
                    body = b"%d of our client" % next(self._numbers)
                    with suppress(ClientError):
                        sent = await producer.send(TOPIC, body)
                        assert sent.status is SendStatus.SEND_OK
                        self._note(sent.queue_id, sent.queue_offset, body)

    async def _garbage(self, ended: asyncio.Event) -> None:
        """Send what is no frame: that connection is closed."""
        while not ended.is_set():
            client = await AsyncRawClient.open(self._running.ready.broker)
            try:
                # A first word that is no length; whatever comes behind it.
                client.writer.write(b"\xff" + self._rng.randbytes(self._rng.randrange(3, 2000)))
                async with asyncio.timeout(QUIET_SECONDS):
                    with pytest.raises(ConnectionError):
                        await client.next()
            finally:
                client.close()

    async def _witness(self, ended: asyncio.Event) -> None:
        """Be served all the time, over one connection that nobody harms."""
        client = await AsyncRawClient.open(self._running.ready.broker)
        try:
            while not ended.is_set():
                number = next(self._numbers)
                body = b"%d of the witness" % number
                sent = await client.ask(send_request(TOPIC, body, 0, f"K{number}"))
                assert sent.code == ResponseCode.SUCCESS, sent
                self._note(0, int(sent.ext_fields["queueOffset"]), body)
                self.asked += 1
                await asyncio.sleep(0.001)  # its pace: the others have most of the time
        finally:
            client.close()


def beat() -> RemotingCommand:
    """Make the heartbeat of a client that produces and consumes."""
    subscription = SubscriptionData(TOPIC, "*")
    consumer = ConsumerData("raw", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", (subscription,))  # fmt: skip
    body = encode_heartbeat(Heartbeat("client", ("raw",), (consumer,)))
    return RemotingCommand(RequestCode.HEART_BEAT, body=body)


async def nothing_is_left(running: Running) -> None:
    """Wait until the server has forgotten all of its connections."""
    broker, connections = running.broker, running.connections
    await eventually_async(
        lambda: not (connections.open or broker.puts_in_flight or len(broker.client_requests)),
        within_s=QUIET_SECONDS,
    )
    assert len(broker.held_pulls) == 0
    assert connections.buffered == 0
    assert broker.producers.channels("raw") == []
    assert not broker.consumers.groups()


def check(network: Network, store: MessageStore) -> None:
    """Look that each message that was answered lies where the answer says, as it was sent."""
    assert store.wait_dispatched(60)
    for (queue_id, queue_offset), body in network.told.items():
        (message,) = store.get(TOPIC, queue_id, queue_offset, 1).messages
        assert (message.queue_offset, message.body) == (queue_offset, body)
    for phy_offset, queue_offset in network.places:
        found = store.lookup(phy_offset)
        assert found is not None
        assert found.queue_offset == queue_offset


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_hostile_network(folder: Path, rng: random.Random, loop: str) -> None:
    async def whole(store: MessageStore) -> Network:
        ports = Ports(broker=0, namesrv=0)
        async with server.serving(store, BrokerSettings(), ports) as running:
            network = Network(running, rng)
            await network.live(SECONDS / 2)
            await nothing_is_left(running)
            return network

    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    sizes: dict[str, Any] = {
        "mapped_file_size_commit_log": 16 << 20,
        "disk_max_used_space_ratio": 100,
    }
    with rmqcore.open(folder / "store", **sizes) as store:
        with asyncio.Runner(loop_factory=factory) as runner:
            network = runner.run(whole(store))
        check(network, store)
    code, said = fsck(folder / "store")
    assert code == 0, said
