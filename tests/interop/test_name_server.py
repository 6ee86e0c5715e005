"""The same requests to RocketMQ's name server and to ours: the same responses, but for times and what docs/compat.md names."""

from __future__ import annotations

import base64
import json
import random
import re
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from interop.java_process import JavaProcess

from rmqcore.namesrv.requests import NameServer
from rmqcore.namesrv.settings import NameServerSettings
from rmqcore.remoting.bodies.topic_configs import TopicConfig, TopicTable, encode_registration
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.vocabulary.data_version import DataVersion

SETTINGS: list[dict[str, bool]] = [
    {},
    {"orderMessageEnable": True, "supportActingMaster": True},
    {"deleteTopicWithBrokerRegistration": True, "returnOrderTopicConfigToBroker": False},
    {"enableAllTopicList": False, "supportActingMaster": True},
]
TOPICS = ["T1", "T2", "T3", "TBW102", "%RETRY%g", "rmq_sys_SYNC_BROKER_MEMBER_x"]


def decoded(frame: str) -> RemotingCommand:
    decoder = FrameDecoder()
    decoder.feed(base64.b64decode(frame))
    found = decoder.next_frame()
    assert found is not None
    return decode_command(found)


def request(code: RequestCode, fields: Mapping[str, Value], body: bytes = b"") -> RemotingCommand:
    return RemotingCommand(code, opaque=1, ext_fields=encode_fields(code, fields), body=body)


class Requests:
    """Random requests of three brokers with three instances, and of those who ask."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)

    def one(self) -> RemotingCommand:
        kinds = [self.register] * 6 + [self.route] * 5 + [self.unregister] * 2
        kinds += [self.whole, self.perm, self.delete, self.version, self.heartbeat, self.members]
        return self.choose.choice([*kinds, self.put, self.get, self.forget])()

    def broker(self) -> dict[str, Value]:
        number, broker_id = self.choose.randrange(3), self.choose.randrange(3)
        host = self.choose.choice([broker_id, broker_id, self.choose.randrange(3)])
        return {
            "clusterName": f"C{number // 2}",
            "brokerName": f"b-{number}",
            "brokerId": broker_id,
            "brokerAddr": f"192.0.2.{number}:{host}",
        }

    def register(self) -> RemotingCommand:
        names = self.choose.sample(TOPICS, self.choose.choice([0, 2, 3, 5]))
        topics = {
            name: TopicConfig(
                name,
                self.choose.randint(1, 4),
                self.choose.randint(1, 4),
                self.choose.choice([6, 4, 2, 7]),
                topic_sys_flag=self.choose.randint(0, 2),
            )
            for name in names
        }
        version = DataVersion(self.choose.randint(0, 1), 5, self.choose.randint(1, 3))
        body = encode_registration(TopicTable(topics, version))
        fields: dict[str, Value] = {
            **self.broker(),
            "haServerAddr": f"ha{self.choose.randrange(3)}",
        }
        if self.choose.random() < 0.7:
            fields["enableActingMaster"] = self.choose.random() < 0.6
        if self.choose.random() < 0.3:
            fields["bodyCrc32"] = (zlib.crc32(body) & 0x7FFFFFFF) ^ self.choose.choice([0, 0, 1])
        return request(RequestCode.REGISTER_BROKER, fields, body)

    def unregister(self) -> RemotingCommand:
        return request(RequestCode.UNREGISTER_BROKER, self.broker())

    def route(self) -> RemotingCommand:
        topic = self.choose.choice([*TOPICS, "nowhere"])
        return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})

    def whole(self) -> RemotingCommand:
        return request(
            self.choose.choice(
                [
                    RequestCode.GET_BROKER_CLUSTER_INFO,
                    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
                    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
                ]
            ),
            {},
        )

    def perm(self) -> RemotingCommand:
        code = self.choose.choice(
            [RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER]
        )
        return request(code, {"brokerName": self.broker()["brokerName"]})

    def delete(self) -> RemotingCommand:
        fields: dict[str, Value] = {"topic": self.choose.choice(TOPICS)}
        if self.choose.random() < 0.7:
            fields["clusterName"] = self.choose.choice(["C0", "C1", "nowhere", ""])
        return request(RequestCode.DELETE_TOPIC_IN_NAMESRV, fields)

    def version(self) -> RemotingCommand:
        body = json.dumps({"stateVersion": 0, "timestamp": 5, "counter": self.choose.randint(1, 3)})
        return request(RequestCode.QUERY_DATA_VERSION, self.broker(), body.encode())

    def heartbeat(self) -> RemotingCommand:
        return request(RequestCode.BROKER_HEARTBEAT, self.broker())

    def members(self) -> RemotingCommand:
        name = self.broker()["brokerName"]
        fields: dict[str, Value] = {"clusterName": "C0", "brokerName": name}
        return request(RequestCode.GET_BROKER_MEMBER_GROUP, fields)

    def kv(self) -> dict[str, Value]:
        namespace = self.choose.choice(["ORDER_TOPIC_CONFIG", "other"])
        return {"namespace": namespace, "key": self.choose.choice(TOPICS)}

    def put(self) -> RemotingCommand:
        fields: dict[str, Value] = {
            **self.kv(),
            "value": self.choose.choice(["b-0:4", "b-1:\u00e9"]),
        }
        return request(RequestCode.PUT_KV_CONFIG, fields)

    def get(self) -> RemotingCommand:
        return request(RequestCode.GET_KV_CONFIG, self.kv())

    def forget(self) -> RemotingCommand:
        return request(RequestCode.DELETE_KV_CONFIG, self.kv())


def ask_java(java: JavaProcess, asked: list[RemotingCommand]) -> list[RemotingCommand]:
    frames = [base64.b64encode(encode_command(one)).decode() for one in asked]
    requests = [{"frame": frame, "connection": 1} for frame in frames]
    return [decoded(frame) for frame in java.call("askNameServer", requests=requests)]


def ask_ours(server: NameServer, asked: list[RemotingCommand]) -> list[RemotingCommand]:
    found = [server.answer(one, connection=1, now_ms=0) for one in asked]
    assert None not in found
    return [one for one in found if one is not None]


def comparable(response: RemotingCommand) -> Any:
    """Code, remark, fields, and the body without the order of Java's hash maps, by which it also picks one address."""
    text = re.sub(r"([{,])(\d+):", r'\1"\2":', response.body.decode())
    body = in_order(json.loads(text)) if text else None
    if isinstance(body, dict) and "brokerAddr" in body:
        body["brokerAddr"] = "any"
    remark = response.remark if response.code else None  # 901 forgets to take away Java's default
    return (response.code, remark, response.ext_fields, body)


def in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: in_order(part) for name, part in value.items()}
    if isinstance(value, list):
        return sorted((in_order(part) for part in value), key=json.dumps)
    return value


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(settings) or "plain")
@pytest.mark.parametrize("seed", range(4))
def test_the_same_requests_have_the_same_responses(
    java: JavaProcess, settings: dict[str, bool], seed: int
) -> None:
    make = Requests(seed)
    asked = [make.one() for _ in range(250)]
    java.call("nameServer", settings=settings)
    body = "".join(f"{name}={str(value).lower()}\n" for name, value in settings.items()).encode()
    ours = ask_ours(NameServer(NameServerSettings().changed("", body)), asked)
    for one, theirs, answer in zip(asked, ask_java(java, asked), ours, strict=True):
        assert comparable(answer) == comparable(theirs), one
    codes = {answer.code for answer in ours}
    assert {0, 1, 17, 22} <= codes


def test_settings_have_javas_names_and_defaults(java: JavaProcess) -> None:
    java.call("nameServer", settings={})
    (response,) = ask_java(java, [request(RequestCode.GET_NAMESRV_CONFIG, {})])
    theirs = response.body.decode().splitlines()
    ours = NameServerSettings().as_text().splitlines()
    assert set(ours) <= set(theirs)
    assert len(ours) == 5


def test_a_first_registration_of_one_topic_is_refused_by_both(java: JavaProcess) -> None:
    """Java keeps the broker's name without an address; ours keeps nothing."""
    java.call("nameServer", settings={})
    make = Requests(1)
    body = encode_registration(TopicTable({"T1": TopicConfig("T1")}))
    first = request(RequestCode.REGISTER_BROKER, {**make.broker(), "haServerAddr": "ha"}, body)
    info = request(RequestCode.GET_BROKER_CLUSTER_INFO, {})
    server = NameServer()
    for answers in (ask_java(java, [first, info]), ask_ours(server, [first, info])):
        assert (answers[0].code, answers[0].remark) == (1, "register broker failed")
    assert server.routes.brokers() == ()


def test_a_request_that_no_name_server_knows(java: JavaProcess) -> None:
    java.call("nameServer", settings={})
    for code in (10, 34, 9999):
        asked = [RemotingCommand(code, opaque=1)]
        (theirs,), (ours,) = ask_java(java, asked), ask_ours(NameServer(), asked)
        assert theirs.code == ours.code == 3
