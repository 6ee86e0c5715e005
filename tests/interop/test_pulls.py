"""What a consumer asks, to the real broker and to ours: the same codes, remarks, fields and bodies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interop.broker import Broker
from support.eventually import eventually
from support.raw_client import RawClient
from support.sends import send
from support.server_process import ServerProcess

from rmqcore.codec import decode, java_hash
from rmqcore.remoting.bodies.heartbeat import (
    SQL92,
    ConsumerData,
    Heartbeat,
    SubscriptionData,
    encode_heartbeat,
    subscription_json,
)
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.bodies.queue_locks import LockBatch, MessageQueue, encode_lock_batch
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

pytestmark = pytest.mark.slow
CODE = RequestCode
SETTINGS = {
    "mappedFileSizeCommitLog": 4 << 20,
    "diskMaxUsedSpaceRatio": 99,
    "brokerName": "interop-a",
}
VOLATILE = {"timestamp", "indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
RECORDS = {CODE.PULL_MESSAGE, CODE.LITE_PULL_MESSAGE, CODE.QUERY_MESSAGE, CODE.VIEW_MESSAGE_BY_ID}
FAR = 1 << 62


def request(code: RequestCode, body: bytes = b"", /, **fields: Value) -> RemotingCommand:
    return RemotingCommand(code, ext_fields=encode_fields(code, fields), body=body)


def pull(
    queue_offset: int = 0, code: RequestCode = CODE.PULL_MESSAGE, **more: Value
) -> RemotingCommand:
    """Pull as a client that brings its subscription and does not wait."""
    fields: dict[str, Value] = {
        "consumerGroup": "g",
        "topic": "pulls",
        "queueId": 0,
        "queueOffset": queue_offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 2_000,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
        **more,
    }
    return request(code, b"", **fields)


def beat(
    *wanted: SubscriptionData, group: str = "g", model: str = "CLUSTERING", **more: Any
) -> RemotingCommand:
    consumer = ConsumerData(group, "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", wanted)
    return request(CODE.HEART_BEAT, encode_heartbeat(Heartbeat("c1", ("pg",), (consumer,), **more)))


def by_tag(tag: str, version: int) -> SubscriptionData:
    """Subscribe as a client does, which tells the tag's hash too: Java's broker goes by that."""
    tags, codes = frozenset({tag}), frozenset({java_hash(tag)})
    return SubscriptionData("pulls", tag, tags, codes, version)


def query_offset(**more: Value) -> RemotingCommand:
    return request(
        CODE.QUERY_CONSUMER_OFFSET,
        **{"consumerGroup": "g", "topic": "pulls", "queueId": 0, **more},
    )


def commit(**more: Value) -> RemotingCommand:
    return request(
        CODE.UPDATE_CONSUMER_OFFSET,
        **{"consumerGroup": "g", "topic": "pulls", "queueId": 0, "commitOffset": 2, **more},
    )


def by_key(key: str, max_num: int = 32) -> RemotingCommand:
    return request(
        CODE.QUERY_MESSAGE,
        topic="pulls",
        key=key,
        maxNum=max_num,
        beginTimestamp=0,
        endTimestamp=FAR,
    )


def check(expression: str, expression_type: str) -> RemotingCommand:
    wanted = SubscriptionData("pulls", expression, expression_type=expression_type)
    body = {"clientId": "c", "group": "g", "subscriptionData": subscription_json(wanted)}
    return request(CODE.CHECK_CLIENT_CONFIG, encode_json(body))


def lock(
    client_id: str, *queue_ids: int, code: RequestCode = CODE.LOCK_BATCH_MQ
) -> RemotingCommand:
    queues = tuple(MessageQueue("pulls", "interop-a", queue_id) for queue_id in queue_ids)
    return request(code, encode_lock_batch(LockBatch("g", client_id, queues)))


def of_queue(code: RequestCode, queue_id: int = 0, **more: Value) -> RemotingCommand:
    return request(code, topic="pulls", queueId=queue_id, **more)


NONE: dict[str, Any] = {"sysFlag": 0}
REQUESTS: dict[str, RemotingCommand] = {
    "pull": pull(),
    "pull 2": pull(1, maxMsgNums=1),
    "lite pull": pull(code=CODE.LITE_PULL_MESSAGE),
    "pull by a tag": pull(subscription="a"),
    "pull by two": pull(subscription="a || x"),
    "pull by none": pull(subscription="x"),
    "pull at the end": pull(3),
    "pull behind the end": pull(4),
    "pull before the begin": pull(-1),
    "pull of an empty queue": pull(queueId=1),
    "pull of an empty queue at 5": pull(5, queueId=1),
    "pull of no queue": pull(queueId=2),
    "pull of queue -1": pull(queueId=-1),
    "pull of no topic": pull(topic="unknown"),
    "pull of what is not to be read": pull(topic="blind"),
    "pull of a group that is off": pull(consumerGroup="off"),
    "pull of a name that is none": pull(consumerGroup="a b"),
    "pull by nothing": pull(subscription=""),
    "pull by ||": pull(subscription="||"),
    "pull by SQL92": pull(subscription="n > 1", expressionType=SQL92),
    "pull by no SQL92": pull(subscription="", expressionType=SQL92),
    "pull held": pull(3, sysFlag=4 | 2),
    "pull that commits": pull(sysFlag=4 | 1, commitOffset=1),
    "its offset": query_offset(),
    "no member": pull(**NONE),
    "heartbeat": beat(by_tag("b", 7)),
    "no such subscription": pull(topic="other", **NONE),
    "by the heartbeat": pull(subVersion=7, **NONE),
    "too new": pull(subVersion=8, **NONE),
    "another heartbeat": beat(by_tag("a", 6)),
    "still by the first": pull(subVersion=7, **NONE),
    "a heartbeat of SQL92": beat(
        SubscriptionData("pulls", "n > 1", sub_version=8, expression_type=SQL92)
    ),
    "by SQL92": pull(subVersion=8, **NONE),
    "a heartbeat of no SQL92": beat(
        SubscriptionData("pulls", "n >", sub_version=9, expression_type=SQL92), group="bad"
    ),
    "by no SQL92": pull(consumerGroup="bad", subVersion=9, **NONE),
    "members": request(CODE.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g"),
    "members of none": request(CODE.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="nobody"),
    "broadcasting": beat(SubscriptionData("pulls"), group="all", model="BROADCASTING"),
    "a broadcasting group's pull": pull(consumerGroup="all", **NONE),
    "fingerprint": beat(SubscriptionData("pulls"), group="short", fingerprint=5),
    "without": beat(group="short", fingerprint=5, without_sub=True),
    "by what was said before": pull(consumerGroup="short", **NONE),
    "another fingerprint": beat(group="short", fingerprint=6, without_sub=True),
    "good-bye": request(CODE.UNREGISTER_CLIENT, clientID="c1", consumerGroup="all"),
    "good-bye of nobody": request(CODE.UNREGISTER_CLIENT, clientID="c1", producerGroup="none"),
    "offset of nobody": query_offset(consumerGroup="young"),
    "offset of nobody, not 0": query_offset(consumerGroup="young", setZeroIfNotFound=False),
    "offset of nobody in an empty queue": query_offset(consumerGroup="young", queueId=1),
    "commit": commit(),
    "committed": query_offset(),
    "commit of no group": commit(consumerGroup="never"),
    "commit in no topic": commit(topic="never"),
    "max": of_queue(CODE.GET_MAX_OFFSET),
    "max of none": of_queue(CODE.GET_MAX_OFFSET, 9),
    "min": of_queue(CODE.GET_MIN_OFFSET),
    "early": of_queue(CODE.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=1),
    "late": of_queue(CODE.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=FAR),
    "late, upper": of_queue(CODE.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=FAR, boundaryType="UPPER"),
    "in an empty queue": of_queue(CODE.SEARCH_OFFSET_BY_TIMESTAMP, 1, timestamp=FAR),
    "earliest": of_queue(CODE.GET_EARLIEST_MSG_STORETIME),
    "check a tag": check("a", "TAG"),
    "check SQL92": check("n > 1", SQL92),
    "lock": lock("c1", 0, 1),
    "lock of another": lock("c2", 0, 1),
    "unlock": lock("c1", 0, code=CODE.UNLOCK_BATCH_MQ),
    "lock again": lock("c2", 0, 1),
    "by key": by_key("k1"),
    "one by key": by_key("k", 1),
    "by no key": by_key("nothing"),
    "at no place": request(CODE.VIEW_MESSAGE_BY_ID, offset=FAR),
    "no queue": request(CODE.QUERY_CONSUME_QUEUE, topic="never", queueId=0, index=0, count=1),
}


def shown(code: int, response: RemotingCommand, peer: str) -> dict[str, Any]:
    """Show what of a response must be the same."""
    fields = {n: value for n, value in response.ext_fields.items() if n not in VOLATILE}
    body: Any = None
    if code in RECORDS:
        body, at = [], 0
        while at < len(response.body):
            view = decode(response.body, at)
            body.append((view.queue_offset, view.tags, view.body))
            at += view.msg_size
    elif response.body:
        body = json.loads(response.body)
        if code == CODE.LOCK_BATCH_MQ:
            body["lockOKMQSet"].sort(key=lambda queue: queue["queueId"])
    remark = (response.remark or "").replace(peer, "PEER")
    return {"code": int(response.code), "remark": remark, "fields": fields, "body": body}


def play(address: str) -> dict[str, Any]:
    """Ask a broker everything: what it answers."""
    with RawClient(address) as wire:
        for name, queue_nums, perm in (("pulls", 2, 6), ("other", 1, 6), ("blind", 1, 2)):
            made = request(
                CODE.UPDATE_AND_CREATE_TOPIC,
                topic=name,
                defaultTopic="TBW102",
                readQueueNums=queue_nums,
                writeQueueNums=queue_nums,
                perm=perm,
                topicFilterType="SINGLE_TAG",
                order=False,
            )
            assert wire.ask(made).code == 0
        off = encode_json(SubscriptionGroupConfig("off", consume_enable=False).as_json())
        assert wire.ask(request(CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, off)).code == 0
        for number, tag in enumerate("aba"):
            properties = {"TAGS": tag, "n": str(number), "KEYS": f"k k{number}"}
            stored = wire.ask(send("pulls", tag.encode(), properties))
            assert stored.code == 0, stored
        settle(wire, 3)
        answers: dict[str, Any] = {
            name: shown(asked.code, wire.ask(asked), wire.peer) for name, asked in REQUESTS.items()
        }
        answers["told"] = [
            (int(one.code), one.is_oneway, dict(one.ext_fields)) for one in wire.asked
        ]
        answers["woken"] = woken(wire)
        return answers


def woken(wire: RawClient) -> list[dict[str, Any]]:
    """Hold two pulls over one connection, and send what one of them wants; the other one's time runs out."""
    found = []
    for opaque, tag in ((9001, "z"), (9002, "b")):
        held = pull(3, sysFlag=4 | 2, subscription=tag)
        held.opaque = opaque
        wire.send(held)
    assert wire.ask(send("pulls", b"b", {"TAGS": "b"})).code == 0
    for opaque in (9002, 9001):
        response = wire.wait_for(answering(opaque))
        found.append(shown(CODE.PULL_MESSAGE, response, wire.peer))
    return found


def answering(opaque: int) -> Callable[[RemotingCommand], bool]:
    return lambda one: one.is_response and one.opaque == opaque


def settle(wire: RawClient, queue_offset: int) -> None:
    def length() -> int:
        return int(wire.ask(of_queue(CODE.GET_MAX_OFFSET)).ext_fields["offset"])

    eventually(lambda: length() >= queue_offset, poll_s=0.1)


@pytest.fixture(scope="module", params=["false", "true"], ids=["tags alone", "with SQL92"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    settings = {**SETTINGS, "enablePropertyFilter": request.param}
    folder: Path = tmp_path_factory.mktemp("pulls")
    with ServerProcess(folder / "ours", settings=settings) as server:
        ours = play(server.broker)
    broker = Broker(folder / "java", settings)
    with broker.running():
        java = play(broker.address)
    return ours, java


def test_both_brokers_answer_alike(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    ours, java = both
    differing = {
        name: {"ours": ours[name], "java": java[name]} for name in ours if ours[name] != java[name]
    }
    assert differing == {}
