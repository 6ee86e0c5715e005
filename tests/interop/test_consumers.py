"""Real Java consumers of each kind at the real broker and at ours: they get the same, in the same order where there is one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from interop.broker import Broker
from interop.client_manners import create_topic
from interop.java_process import JavaProcess
from support.server_process import ServerProcess

pytestmark = pytest.mark.slow
COUNT = 40
TIMEOUT_MS = 120_000


@dataclass
class Served:
    """A broker, and the JVM whose clients use it."""

    java: JavaProcess
    name_server: str
    address: str
    numbers: Iterator[int]

    def topic(self) -> str:
        """Make a topic of four queues."""
        name = f"Consumers{next(self.numbers)}"
        create_topic(self.java, self.name_server, self.address, name)
        return name

    def produce(self, topic: str, first: int, count: int) -> None:
        self.java.call(
            "produce", nameServer=self.name_server, topic=topic, first=first, count=count
        )

    def push(self, topic: str, group: str, wanted: int, **more: Any) -> list[list[Any]]:
        """Consume with the members of a group until together they have this many messages."""
        given = {"members": 1, "tags": "*", "timeoutMs": TIMEOUT_MS, **more}
        got: list[list[Any]] = self.java.call(
            "push",
            nameServer=self.name_server,
            topic=topic,
            group=group,
            wanted=wanted,
            **given,
        )
        return got


def keys(messages: list[Any]) -> list[int]:
    return sorted(message["key"] for message in messages)


@pytest.fixture(scope="module", params=["ours", "java"])
def served(
    request: pytest.FixtureRequest, java: JavaProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp(f"consumers_{request.param}")
    settings = {"enablePropertyFilter": "true"}
    if request.param == "ours":
        with ServerProcess(folder, settings=settings) as server:
            yield Served(java, server.namesrv, server.broker, itertools.count())
            java.call("endProducer")
    else:
        sizes = {"mappedFileSizeCommitLog": 4 << 20, "diskMaxUsedSpaceRatio": 98}
        broker = Broker(folder, {**sizes, **settings})
        with broker.running():
            yield Served(java, broker.name_server, broker.address, itertools.count())
            java.call("endProducer")


def test_a_broker_shares_out_the_queues(served: Served) -> None:
    """Members that leave the sharing to the broker (setClientRebalance(false)) get all messages."""
    topic = served.topic()
    served.produce(topic, 0, COUNT)
    more = {"members": 2, "brokerRebalance": True}
    parts = served.push(topic, f"{topic}-group", COUNT, **more)
    assert sorted({message["key"] for part in parts for message in part}) == list(range(COUNT))


def test_a_message_is_given_to_a_consumer_by_an_administrator(served: Served) -> None:
    """The broker hands it on (309), and asks the consumer how far it is (223)."""
    topic = served.topic()
    served.produce(topic, 0, 1)
    found = served.java.call(
        "direct",
        nameServer=served.name_server,
        topic=topic,
        group=f"{topic}-group",
        tags="wanted",
        timeoutMs=TIMEOUT_MS,
    )
    assert found["result"] == "CR_SUCCESS"
    assert keys(found["got"]) == [7]
    assert found["queues"] > 0


def test_concurrent_push_goes_on_where_it_ended(served: Served) -> None:
    """All messages once; the next consumer of the group begins behind them, as its offsets were committed."""
    topic = served.topic()
    served.produce(topic, 0, COUNT)
    (got,) = served.push(topic, "concurrent", COUNT)
    assert keys(got) == list(range(COUNT))
    served.produce(topic, COUNT, 10)
    (got,) = served.push(topic, "concurrent", 10)
    assert keys(got) == list(range(COUNT, COUNT + 10))


def test_push_by_tags(served: Served) -> None:
    topic = served.topic()
    served.produce(topic, 0, COUNT)
    wanted = [key for key in range(COUNT) if key % 3 != 1]
    (got,) = served.push(topic, "tags", len(wanted), tags="T0 || T2")
    assert keys(got) == wanted


def test_push_by_sql92(served: Served) -> None:
    topic = served.topic()
    served.produce(topic, 0, COUNT)
    wanted = [*range(3, 8), 30]
    (got,) = served.push(topic, "sql", len(wanted), sql="a BETWEEN 3 AND 7 OR a IN ('30')")
    assert keys(got) == wanted


def test_two_members_share_the_queues(served: Served) -> None:
    topic = served.topic()
    served.produce(topic, 0, COUNT)
    one, two = served.push(topic, "shared", COUNT, members=2)
    assert sorted({*keys(one), *keys(two)}) == list(range(COUNT))


def test_orderly_push_keeps_the_order_of_each_queue(served: Served) -> None:
    topic = served.topic()
    served.produce(topic, 0, COUNT)
    (got,) = served.push(topic, "orderly", COUNT, orderly=True)
    assert keys(got) == list(range(COUNT))
    for queue_id in range(4):
        offsets = [m["queue_offset"] for m in got if m["queue_id"] == queue_id]
        assert offsets == list(range(COUNT // 4))


def test_each_member_of_a_group_that_broadcasts_gets_all(served: Served) -> None:
    topic = served.topic()
    served.produce(topic, 0, COUNT)
    got = served.push(topic, "broadcast", COUNT, members=2, broadcasting=True)
    assert [keys(mine) for mine in got] == [list(range(COUNT))] * 2


def test_lite_pull_goes_on_where_it_ended(served: Served) -> None:
    topic = served.topic()
    served.produce(topic, 0, COUNT)

    def lite(wanted: int) -> list[int]:
        got = served.java.call(
            "lite",
            nameServer=served.name_server,
            topic=topic,
            group="lite",
            tags="*",
            wanted=wanted,
            timeoutMs=TIMEOUT_MS,
        )
        return keys(got)

    assert lite(COUNT) == list(range(COUNT))
    served.produce(topic, COUNT, 8)
    assert lite(8) == list(range(COUNT, COUNT + 8))


def test_old_pull_waits_for_a_message(served: Served) -> None:
    """A pull that is held gets the message that is sent meanwhile, long before its time is over."""
    topic = served.topic()
    served.produce(topic, 0, COUNT)
    answer = served.java.call(
        "pull",
        nameServer=served.name_server,
        topic=topic,
        group="oldPull",
        tags="T0 || T1",
        first=60,
        count=1,
    )
    assert keys(answer["got"]) == [key for key in range(COUNT) if key % 3 != 2]
    assert keys(answer["late"]) == [60]
    assert answer["tookMs"] < 45_000  # the broker holds a pull for 60 s
