"""A master that is killed under load, and its slave, which is started as the master."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

from support.eventually import eventually
from support.raw_client import RawClient, pull_request, send_request
from support.replicated_pair import QUEUES, TOPIC, Load, Node
from support.server_process import fsck

import rmqcore
from rmqcore.disk.consumer_offsets import read_consumer_offsets
from rmqcore.disk.paths import StorePaths
from rmqcore.remoting.bodies.heartbeat import Heartbeat, encode_heartbeat
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

GROUP = "readers"
EARLY, READ = 8, 5
"""Messages of each queue before the slave comes, and how many of them the group has read."""
ALONE: dict[str, Any] = {
    "inSyncReplicas": 1,
    "transactionTimeOut": 1_000,
    "transactionCheckInterval": 1_000,
}
"""Settings of a slave that is the master now: nobody follows it, and open transactions are asked for."""
METADATA_S = 200.0
"""Seconds until a Java slave has asked for topics and offsets: it begins a minute after its start."""


def ask(client: RawClient, code: RequestCode, **fields: Value) -> RemotingCommand:
    """Ask, and expect that it is done."""
    answer = client.ask(RemotingCommand(code, ext_fields=encode_fields(code, fields)))
    assert answer.code == ResponseCode.SUCCESS, answer
    return answer


def fail_over(
    old: Node, new: Node, rng: random.Random, *, answers: int, name_server: str | None = None
) -> None:
    """Kill a master under load, and start its slave as the master; look that clients miss nothing.

    Parameters
    ----------
    old, new : Node
        Their stores are empty.
    rng : Random
    answers : int
        Messages at least that are answered before the kill.
    name_server : str, optional
        Where the old master registers; else at its own.
    """
    old.lead(name_server=name_server)
    begin(old.address)
    with Load(old.address, rng, 900) as load:
        new.follow(old.ha, old)
        eventually(lambda: has_offsets(new.store), within_s=METADATA_S)
        wanted = len(load.stored) + answers + rng.randrange(answers)
        eventually(lambda: (len(load.stored) >= wanted and load.halves) or load.unexpected)
        old.kill()
    assert not load.unexpected
    (new.kill if rng.random() < 0.5 else new.stop)()
    new.lead(**ALONE)
    with RawClient(new.address) as client:
        goes_on(client, load)
        asks_for_halves(client, load)
    new.stop()
    code, said = fsck(new.store)
    assert code == 0, said
    with rmqcore.open(new.store, disk_max_used_space_ratio=100) as store:
        assert store.wait_dispatched(600)
        load.check(store)


def begin(address: str) -> None:
    """Store messages that wait for no slave, and be a group that has read some of them."""
    with RawClient(address) as client:
        for queue_id in range(QUEUES):
            for number in range(EARLY):
                request = send_request(TOPIC, b"early", queue_id, f"E{queue_id}{number}")
                request.ext_fields["i"] = request.ext_fields["i"].replace(
                    "WAIT\x01true", "WAIT\x01false"
                )
                assert client.ask(request).code == ResponseCode.SUCCESS
            client.ask(pull_request(TOPIC, 0, queue_id=queue_id, group=GROUP))  # makes the group
            code = RequestCode.UPDATE_CONSUMER_OFFSET
            ask(client, code, consumerGroup=GROUP, topic=TOPIC, queueId=queue_id, commitOffset=READ)


def has_offsets(store: Path) -> bool:
    """Whether a slave has saved what the group has read."""
    groups = read_consumer_offsets(StorePaths(store)).groups
    return groups.get(GROUP) == {(TOPIC, queue_id): READ for queue_id in range(QUEUES)}


def goes_on(client: RawClient, load: Load) -> None:
    """Look that the group goes on where it was, and queues behind what they have."""
    for queue_id in range(QUEUES):
        code = RequestCode.QUERY_CONSUMER_OFFSET
        answer = ask(client, code, consumerGroup=GROUP, topic=TOPIC, queueId=queue_id)
        assert int(answer.ext_fields["offset"]) == READ
        answer = ask(client, RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId=queue_id)
        end = int(answer.ext_fields["offset"])
        assert end > max(place for queue, place in load.stored if queue == queue_id)
        answer = client.ask(send_request(TOPIC, b"next", queue_id, f"N{queue_id}"))
        assert (answer.code, answer.ext_fields["queueOffset"]) == (ResponseCode.SUCCESS, str(end))


def asks_for_halves(client: RawClient, load: Load) -> None:
    """Be the producer of all transactions that are open, until each was asked for."""
    heartbeat = encode_heartbeat(Heartbeat("client", ("raw",)))
    answer = client.ask(RemotingCommand(RequestCode.HEART_BEAT, body=heartbeat))
    assert answer.code == ResponseCode.SUCCESS, answer
    missing, until = set(load.halves), time.monotonic() + METADATA_S
    while missing:
        question = client.wait_for(lambda one: one.code == RequestCode.CHECK_TRANSACTION_STATE)
        missing.discard(question.ext_fields["msgId"])
        assert time.monotonic() < until, missing
