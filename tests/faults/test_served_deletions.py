"""kill -9 of `rmqcore serve` while a topic is deleted: it is there, or deleted, and then no message comes back.

RMQCORE_SERVED_DELETIONS: how often.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest
from support.doses import dose

from rmqcore.client import Admin, Producer
from rmqcore.errors import ClientError
from rmqcore.testing import ServedBroker

DELETIONS = dose("RMQCORE_SERVED_DELETIONS", test=3, verify=10, night=200)
TOPIC = "orders"
OLD = 40


@pytest.mark.slow
def test_no_message_of_a_deleted_topic_comes_back(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        sent = 0
        for number in range(DELETIONS):
            broker.create_topic(TOPIC, 1)
            begin = len(broker.messages(TOPIC))
            with Producer(broker.namesrv) as producer:
                bodies = [f"{number}-{one}".encode() for one in range(OLD)]
                for body in bodies:
                    producer.send(TOPIC, body)
            sent += OLD
            with Admin(broker.namesrv) as admin:
                deleting = threading.Thread(target=_delete, args=(admin,))
                deleting.start()
                deleting.join(0.002 * (number % 8))
                broker.kill()
                deleting.join()
            broker.start()
            with Admin(broker.namesrv) as admin:
                is_there = TOPIC in admin.list_topics()
            shown = [message.body for message in broker.messages(TOPIC)][begin:]
            assert shown == (bodies if is_there else []) or (is_there and not shown)
            broker.create_topic(TOPIC, 1)
            if is_there:
                with Admin(broker.namesrv) as admin:
                    admin.delete_topic(TOPIC)
            broker.create_topic(TOPIC, 1)
            broker.kill()
            broker.start()
            assert broker.messages(TOPIC) == []
            with Producer(broker.namesrv) as producer:
                assert producer.send(TOPIC, b"next").queue_offset == sent
            sent += 1
            assert [message.body for message in broker.messages(TOPIC)] == [b"next"]
            with Admin(broker.namesrv) as admin:
                admin.delete_topic(TOPIC)


def _delete(admin: Admin) -> None:
    with suppress(ClientError):  # it is killed before it has answered
        admin.delete_topic(TOPIC)
