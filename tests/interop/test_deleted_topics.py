"""A topic that is deleted and made again, at the real broker and at ours: what clients see of it is the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.broker import Broker
from interop.served import KINDS, Served, fresh
from interop.workload import SIZES
from support.eventually import eventually

from rmqcore.client import Admin, Producer, PullConsumer
from rmqcore.testing.served_broker import ServedBroker

FIRST = "CONSUME_FROM_FIRST_OFFSET"


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    if request.param == "rmqcore":
        with ServedBroker(tmp_path) as ours:
            yield Served("rmqcore", ours.namesrv, ours.address)
        return
    java = Broker(
        tmp_path, {**SIZES, "timerWheelEnable": "true"}
    )  # without timers it cannot delete
    with java.running():
        yield Served("java", java.name_server, java.address)


def bodies(broker: Served, group: str, topic: str, wanted: int) -> list[bytes]:
    """Read as many messages as are wanted, and commit."""
    found: list[bytes] = []
    with PullConsumer(broker.namesrv, group, consume_from=FIRST) as consumer:
        consumer.subscribe(topic)

        def is_read() -> bool:
            found.extend(one.body for one in consumer.poll(0.5))
            return len(found) >= wanted

        eventually(is_read)
        consumer.commit()
    return found


def test_a_topic_made_again_begins_empty_and_without_offsets(broker: Served) -> None:
    topic, group = fresh("Topic"), fresh("group")
    with Admin(broker.namesrv) as admin, Producer(broker.namesrv) as producer:
        admin.create_topic(topic, queues=1)
        for body in (b"old0", b"old1"):
            producer.send(topic, body)
        assert bodies(broker, group, topic, 2) == [b"old0", b"old1"]
        admin.delete_topic(topic)
        admin.create_topic(topic, queues=1)
        assert admin.lag(group).queues == ()
        producer.send(topic, b"new")
        # A group that had read the old messages begins anew, as one that never was there.
        assert bodies(broker, group, topic, 1) == [b"new"]
        assert bodies(broker, fresh("group"), topic, 1) == [b"new"]
        (queue,) = admin.lag(group, topic).queues
        assert queue.lag == 0
