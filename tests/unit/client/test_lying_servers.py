"""Name servers and brokers that answer with anything: a call ends with a `ClientError` or in time, and a client stays whole.

Of each answer one thing is changed: a field, a byte of its body, its code, its opaque; or it comes twice, late, never, or as
bytes that are not a frame. Beside that, peers ask clients for odd things.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from support.doses import dose
from support.fake_cluster import NAMESRV, FakeBroker, Peer, Pipe, fake_cluster, run
from support.push_broker import OFFSETS, admin_broker

from rmqcore.client import AsyncAdmin, AsyncProducer, AsyncPullConsumer, AsyncPushConsumer
from rmqcore.errors import ClientError
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand

FIRST: dict[str, Any] = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
ROUNDS = dose("RMQCORE_LIARS", test=12, verify=200, night=4000)
NUMBERS = ("-1", "0", "9223372036854775807", "-9223372036854775808", "1e9", "x", "", "4294967296")
VALUES: tuple[object, ...] = (None, -1, 1 << 70, 1.5, "", "x" * 70_000, [], {}, [None], True)
ASKED = (40, 39, 220, 221, 307, 309, 326, 10, -1)


def lies(rng: random.Random, answer: RemotingCommand) -> list[RemotingCommand | bytes]:
    """Return what is sent in place of an answer."""
    fields = dict(answer.ext_fields)
    match rng.randrange(12):
        case 0:
            return []
        case 1:
            answer.opaque = rng.choice([0, answer.opaque + 1, 1 << 30])
        case 2:
            answer.code = rng.choice([1, 2, 17, 19, 20, 21, 22, 26, 206, 30_000, -5])
            answer.remark = "r" * rng.choice([0, 10, 100_000])
        case 3 if fields:
            fields[rng.choice(list(fields))] = rng.choice(NUMBERS)
            answer.ext_fields = fields
        case 4 if fields:
            del fields[rng.choice(list(fields))]
            answer.ext_fields = fields
        case 5 | 6 if answer.body:
            answer.body = changed_body(rng, answer.body)
        case 7:
            answer.body = rng.choice([b"", b"{}", b"[]", b"null", b"[" * 1000, rng.randbytes(99)])
        case 8:
            return [answer, answer]
        case 9:
            return [
                rng.choice([b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08\x63\0\0\0abcd", b"\xff" * 64])
            ]
        case 10:
            ext_fields = {"consumerGroup": "g", "group": "g", "topic": rng.choice(["T", "", "é"])}
            body = rng.choice([b"", OFFSETS, OFFSETS.replace(b":1}", b":-7}"), b"{", b"x" * 999])
            code, flag = rng.choice(ASKED), rng.choice([0, ONEWAY_FLAG])
            return [RemotingCommand(code, flag=flag, ext_fields=ext_fields, body=body), answer]
        case 11:
            data = answer.body
            answer.body = data[: rng.randrange(len(data) + 1)] if data else b"{" * 70_000
    return [answer]


def changed_body(rng: random.Random, body: bytes) -> bytes:
    """Change a value of a JSON text, or a byte."""
    try:
        table = json.loads(body)
    except ValueError:
        found = bytearray(body)
        found[rng.randrange(len(found))] = rng.randrange(256)
        return bytes(found)
    places = list(_places(table))
    if places:
        holder, key = rng.choice(places)
        if rng.random() < 0.2:
            del holder[key]
        else:
            holder[key] = rng.choice(VALUES)
    return json.dumps(table).encode()


def _places(value: object) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return [(value, key) for key in value] + [p for one in value.values() for p in _places(one)]
    if isinstance(value, list):
        return [p for one in value for p in _places(one)]
    return []


class Liar:
    """Lets peers tell lies now and then.

    Attributes
    ----------
    rate : float
        How many answers are lies; 0 ends it.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.rate = 0.0

    def attach(self, peer: Peer) -> None:
        """Let a peer answer all requests so."""
        hear = peer.hear

        def lying(request: RemotingCommand, pipe: Pipe) -> None:
            hear(request, _Teller(pipe, self))  # type: ignore[arg-type]

        peer.hear = lying  # type: ignore[method-assign]

    def told(self, answer: RemotingCommand) -> list[RemotingCommand | bytes]:
        if self._rng.random() >= self.rate:
            return [answer]
        return lies(self._rng, answer)


class _Teller:
    """A pipe whose answers are lies."""

    def __init__(self, pipe: Pipe, liar: Liar) -> None:
        self._pipe = pipe
        self._liar = liar

    def send(self, command: RemotingCommand) -> None:
        for one in self._liar.told(command):
            if isinstance(one, bytes):
                self._pipe.send_bytes(one)
            else:
                self._pipe.send(one)


async def administer(liar: Liar) -> None:
    async with AsyncAdmin(NAMESRV, timeout=2.0) as admin:
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
            admin.list_topics,
            lambda: admin.topic_route("T"),
            lambda: admin.topic_queues("T"),
            admin.list_groups,
            lambda: admin.lag("g"),
            lambda: admin.lag("g", "T"),
            lambda: admin.reset_offsets("g", "T", "first"),
            lambda: admin.message_by_id("T", "C000020100002A9F0000000000000000"),
            lambda: admin.message_by_id("T", "AC11000112345"),
            lambda: admin.messages_by_key("T", "k"),
            lambda: admin.create_topic("T"),
            lambda: admin.delete_group("g"),
        ]
        for call in calls:
            begin = asyncio.get_running_loop().time()
            with suppress(ClientError):
                await call()
            assert asyncio.get_running_loop().time() - begin <= 2.1
        liar.rate = 0
        assert "T" in await admin.list_topics()
        assert (await admin.lag("g")).lag == 2


async def produce(liar: Liar) -> None:
    async with AsyncProducer(NAMESRV, timeout=1.0) as producer:
        for number in range(8):
            begin = asyncio.get_running_loop().time()
            with suppress(ClientError):
                if number % 4 == 3:
                    await producer.send_oneway("T", b"x")
                elif number % 4 == 2:
                    await producer.send_many("T", [b"x", b"y"])
                else:
                    await producer.send("T", b"x")
            assert asyncio.get_running_loop().time() - begin <= 1.1
        liar.rate = 0
        await asyncio.sleep(40)  # routes are asked for again
        assert (await producer.send("T", b"x")).status == "SEND_OK"


async def pull(liar: Liar, broker: FakeBroker) -> None:
    async with AsyncPullConsumer(NAMESRV, "g", auto_commit=True, **FIRST) as consumer:
        with suppress(ClientError):
            await consumer.subscribe("T", timeout=3.0)
        for _ in range(6):
            with suppress(ClientError):
                await consumer.poll(1.0)
            with suppress(ClientError):
                await consumer.commit(1.0)
        liar.rate = 0
        await asyncio.sleep(5)  # what was asked while peers lied has failed by now
        await consumer.subscribe("T")
        await asyncio.sleep(60)
        broker.put("T", 0, b"last")
        broker.put("T", 1, b"last")
        await all_of([b"last"] * 2, lambda: consumer.poll(1.0))
        await consumer.commit()


async def all_of(wanted: list[bytes], poll: Callable[[], Any]) -> None:
    """Poll until some bodies came."""
    missing = list(wanted)
    for _ in range(200):
        for message in await poll():
            if message.body in missing:
                missing.remove(message.body)
        if not missing:
            return
    raise AssertionError(f"never received: {missing}")


async def push(liar: Liar, broker: FakeBroker, *, orderly: bool) -> None:
    found: list[bytes] = []

    async def handle(message: Any) -> None:
        found.append(message.body)
        if message.body == b"0" and found.count(b"0") < 3:
            raise RuntimeError("again")

    async with AsyncPushConsumer(NAMESRV, "g", orderly=orderly, **FIRST) as consumer:
        with suppress(ClientError):
            await consumer.subscribe("T", timeout=3.0)
        liar.rate, rate = 0, liar.rate
        await asyncio.sleep(5)  # what was asked while peers lied has failed by now
        await consumer.subscribe("T")
        liar.rate = rate
        running = asyncio.ensure_future(consumer.run(handle))
        await asyncio.sleep(40)
        liar.rate = 0
        await asyncio.sleep(90)
        broker.put("T", 0, b"last")
        broker.put("T", 1, b"last")
        await asyncio.sleep(90)
        assert not running.done()
        assert found.count(b"last") >= 2
        consumer.stop()
        await running


def life(kind: str, liar: Liar, broker: FakeBroker) -> Coroutine[Any, Any, None]:
    """Return the life of a client of this kind."""
    match kind:
        case "admin":
            return administer(liar)
        case "producer":
            return produce(liar)
        case "pull":
            return pull(liar, broker)
        case _:
            return push(liar, broker, orderly=kind == "orderly")


async def watched(work: Coroutine[Any, Any, None], raised: list[object]) -> None:
    """Run a coroutine, and note what callbacks and tasks raise that nothing waits for."""
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    await work


@pytest.mark.parametrize("kind", ["admin", "producer", "pull", "push", "orderly"])
def test_a_client_among_liars_stays_whole(
    rng: random.Random, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(ROUNDS):
        raised: list[object] = []
        caplog.clear()
        with fake_cluster() as cluster:
            broker, liar = admin_broker(cluster), Liar(rng)
            for peer in cluster.peers.values():
                liar.attach(peer)
            liar.rate = rng.choice([0.05, 0.3, 1.0])

            run(watched(life(kind, liar, broker), raised))
        assert raised == []
        assert not [one for one in caplog.records if one.exc_info and one.levelno > logging.WARNING]
        assert all(value >= 0 for value in broker.offsets.values()), broker.offsets
        assert max((len(one.getMessage()) for one in caplog.records), default=0) < 2_000
