"""An operator resets the offsets of a group whose members run, at the real broker and at ours: our clients obey."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from interop.broker import Broker
from interop.served import Served, create_topic, fresh
from interop.workload import SIZES
from support.eventually import eventually

from rmqcore.client import Admin, Producer, PullConsumer, PushConsumer, ReceivedMessage
from rmqcore.errors import GroupNotFoundError
from rmqcore.testing.served_broker import ServedBroker

FIRST = "CONSUME_FROM_FIRST_OFFSET"
JAVA = {"useServerSideResetOffset=true": "true", "useServerSideResetOffset=false": "false"}


@pytest.fixture(scope="module", params=["rmqcore", *JAVA])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Java's broker moves the next pull of each queue by itself, or tells the members; ours tells them."""
    folder = tmp_path_factory.mktemp("broker")
    if request.param == "rmqcore":
        with ServedBroker(folder) as ours:
            yield Served("rmqcore", ours.namesrv, ours.address)
        return
    java = Broker(folder, {**SIZES, "useServerSideResetOffset": JAVA[request.param]})
    with java.running():
        yield Served("java", java.name_server, java.address)


def fill(broker: Served) -> str:
    topic = create_topic(broker)
    with Producer(broker.namesrv) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number)
    return topic


def test_a_pull_consumer_reads_again(broker: Served) -> None:
    topic, group = fill(broker), fresh("group")
    with (
        Admin(broker.namesrv) as admin,
        PullConsumer(broker.namesrv, group, consume_from=FIRST) as member,
    ):
        member.subscribe(topic)
        for _ in range(2):
            found: list[bytes] = []

            def are_read(found: list[bytes] = found) -> bool:
                found += [one.body for one in member.poll(0.5)]
                return len(found) >= 20

            eventually(are_read)
            assert sorted(found) == sorted(b"%d" % number for number in range(20))
            member.commit()
            admin.reset_offsets(group, topic, "first")


def test_a_push_consumer_reads_again(broker: Served) -> None:
    topic, group = fill(broker), fresh("group")
    found: list[bytes] = []

    def handle(message: ReceivedMessage) -> None:
        found.append(message.body)

    with (
        Admin(broker.namesrv) as admin,
        PushConsumer(broker.namesrv, group, consume_from=FIRST) as member,
    ):
        member.subscribe(topic)
        running = threading.Thread(target=member.run, args=(handle,))
        running.start()

        def is_committed() -> bool:
            try:
                return admin.lag(group, topic).lag == 0
            except GroupNotFoundError:
                return False

        eventually(lambda: len(found) >= 20 and is_committed())
        admin.reset_offsets(group, topic, "first")
        eventually(lambda: len(found) >= 40)
        member.stop()
        running.join()
    assert sorted(found[20:40]) == sorted(b"%d" % number for number in range(20))
