"""What a `FakeBroker` does beside pulls: it takes messages back, locks queues, and answers an administrator."""

from __future__ import annotations

import asyncio

from support.broker import FakeChannel
from support.fake_cluster import FakeBroker, FakeCluster

from rmqcore.broker.channel import Channel
from rmqcore.broker.state.queue_locks import QueueLocks
from rmqcore.codec import decode
from rmqcore.codec.message import MessageView
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.bodies.queue_locks import encode_locked, parse_lock_batch
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import dlq_topic, retry_topic
from rmqcore.remoting.request_fields import parse_fields

SEND_BACK, LOCK, UNLOCK = 36, 41, 42
ADDRESS = "192.0.2.1:10911"
STATS = (
    b'{"offsetTable":{{"brokerName":"b-a","queueId":0,"topic":"T"}:'
    b'{"brokerOffset":3,"consumerOffset":1,"pullOffset":2,"lastTimestamp":5}}}'
)
OFFSETS = b'{"offsetTable":{{"brokerName":"b-a","queueId":0,"topic":"T"}:1}}'


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
        try:
            view = record(broker, fields.number("offset"))
        except LookupError:
            return refuse(request)
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


def admin_broker(cluster: FakeCluster) -> FakeBroker:
    """Start a broker with 20 messages in two queues of topic ``T``, which answers an administrator too."""
    broker = push_broker(cluster, T=2)
    for number in range(20):
        broker.put("T", number % 2, b"%d" % number)
    stored = broker.queues["T", 0][0]
    groups = encode_json({"subscriptionGroupTable": {"g": {"groupName": "g"}}})
    bodies_of_answers = {
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups,
        RequestCode.GET_CONSUME_STATS: STATS,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: OFFSETS,
        RequestCode.VIEW_MESSAGE_BY_ID: stored,
        RequestCode.QUERY_MESSAGE: stored * 2,
        RequestCode.UPDATE_AND_CREATE_TOPIC: b"",
        RequestCode.DELETE_SUBSCRIPTIONGROUP: b"",
        RequestCode.DELETE_TOPIC_IN_BROKER: b"",
    }
    for code, body in bodies_of_answers.items():
        broker.hooks[code] = lambda request, body=body: request.response(body=body)  # type: ignore[misc]
    return broker


def record(broker: FakeBroker, phy_offset: int) -> MessageView:
    """Find a message by its place in the log."""
    views = (decode(one) for queue in broker.queues.values() for one in queue)
    found = next((view for view in views if view.phy_offset == phy_offset), None)
    if found is None:
        raise LookupError(phy_offset)
    return found


def bodies(broker: FakeBroker, topic: str) -> list[bytes]:
    """Give the bodies of a topic's messages, by queue."""
    found = sorted(key for key in broker.queues if key[0] == topic)
    return [decode(one).body for key in found for one in broker.queues[key]]


def refuse(request: RemotingCommand) -> RemotingCommand:
    """Answer as a broker that cannot do it now."""
    return request.response(ResponseCode.SYSTEM_ERROR, "not now")
