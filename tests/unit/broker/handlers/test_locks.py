"""Locks of queues over the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.served_broker import ServedBroker

from rmqcore.remoting.bodies import queue_locks
from rmqcore.remoting.bodies.queue_locks import LockBatch, MessageQueue, encode_lock_batch
from rmqcore.remoting.codes import RequestCode, ResponseCode

QUEUES = tuple(MessageQueue("t", "broker-a", queue_id) for queue_id in range(2))


def lock(served: ServedBroker, client_id: str, *queues: MessageQueue) -> list[Any]:
    body = encode_lock_batch(LockBatch("g", client_id, queues))
    response = served.answer(RequestCode.LOCK_BATCH_MQ, body=body)
    assert response.code == ResponseCode.SUCCESS
    locked: list[Any] = json.loads(response.body)["lockOKMQSet"]
    return locked


def test_locks_are_asked_for_and_given_up(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as served:
        assert lock(served, "a", QUEUES[0]) == [QUEUES[0].as_json()]
        assert lock(served, "b", *QUEUES) == [QUEUES[1].as_json()]
        assert not served.broker.queue_locks.is_lock_all_expired("g")
        body = encode_lock_batch(LockBatch("g", "a", QUEUES))
        assert served.answer(RequestCode.UNLOCK_BATCH_MQ, body=body).code == ResponseCode.SUCCESS
        assert lock(served, "b", *QUEUES) == [queue.as_json() for queue in QUEUES]
        served.loop.advance(61_000)
        assert served.broker.queue_locks.is_lock_all_expired("g")


def test_too_many_queues(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(queue_locks, "MOST_QUEUES", 1)
    with ServedBroker(tmp_path) as served:
        body = encode_lock_batch(LockBatch("g", "a", QUEUES))
        response = served.answer(RequestCode.LOCK_BATCH_MQ, body=body)
        assert response.code == ResponseCode.SYSTEM_ERROR
        assert "mqSet" in str(response.remark)
