"""What push consumers ask of a `FakeBroker` beside pulls: to take messages back, and to lock queues."""

from __future__ import annotations

import asyncio

from support.broker import FakeChannel
from support.fake_cluster import FakeBroker, FakeCluster

from rmqcore.broker.channel import Channel
from rmqcore.broker.state.queue_locks import QueueLocks
from rmqcore.codec import decode
from rmqcore.message import MessageView
from rmqcore.remoting.bodies.queue_locks import encode_locked, parse_lock_batch
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import dlq_topic, retry_topic
from rmqcore.remoting.request_fields import parse_fields

SEND_BACK, LOCK, UNLOCK = 36, 41, 42
ADDRESS = "192.0.2.1:10911"


def push_broker(
    cluster: FakeCluster, *, name: str = "b-a", address: str = ADDRESS, **topics: int
) -> FakeBroker:
    """Start a broker for the consumer group ``g``."""
    broker = cluster.broker(name, address, **{retry_topic("g"): 1, **topics})
    clients = FakeChannel()
    locks = QueueLocks(
        lambda: round(asyncio.get_running_loop().time() * 1000), 10_000, Channel.close
    )

    def send_back(request: RemotingCommand) -> RemotingCommand:
        fields = parse_fields(RequestCode(SEND_BACK), request.ext_fields)
        view = record(broker, fields.number("offset"))
        properties = {"RETRY_TOPIC": view.topic, **view.properties}
        level, most = fields.number("delayLevel"), fields.number("maxReconsumeTimes")
        dead = level < 0 or view.reconsume_times >= most
        broker.put(
            (dlq_topic if dead else retry_topic)(fields.text("group")),
            0,
            view.body,
            properties=properties,
            reconsume_times=view.reconsume_times + 1,
        )
        return request.response()

    def lock(request: RemotingCommand) -> RemotingCommand:
        wanted = parse_lock_batch("LOCK_BATCH_MQ", request.body)
        mine = locks.try_lock_batch(wanted.consumer_group, wanted.queues, wanted.client_id, clients)
        return request.response(body=encode_locked(mine))

    def unlock(request: RemotingCommand) -> RemotingCommand:
        wanted = parse_lock_batch("UNLOCK_BATCH_MQ", request.body)
        locks.unlock_batch(wanted.consumer_group, wanted.queues, wanted.client_id)
        return request.response()

    broker.hooks |= {SEND_BACK: send_back, LOCK: lock, UNLOCK: unlock}
    return broker


def record(broker: FakeBroker, phy_offset: int) -> MessageView:
    """Find a message by its place in the log."""
    views = (decode(one) for queue in broker.queues.values() for one in queue)
    return next(view for view in views if view.phy_offset == phy_offset)


def bodies(broker: FakeBroker, topic: str) -> list[bytes]:
    """Give the bodies of a topic's messages, by queue."""
    found = sorted(key for key in broker.queues if key[0] == topic)
    return [decode(one).body for key in found for one in broker.queues[key]]


def refuse(request: RemotingCommand) -> RemotingCommand:
    """Answer as a broker that cannot do it now."""
    return request.response(ResponseCode.SYSTEM_ERROR, "not now")
