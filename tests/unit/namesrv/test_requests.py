"""A name server's answers, where Java's is not needed to judge them: brokers that vanish, requests that are wrong, settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from rmqcore.namesrv.requests import NameServer
from rmqcore.namesrv.route_table import LIVE_MS
from rmqcore.namesrv.settings import NameServerSettings
from rmqcore.remoting.bodies.routes import parse_route
from rmqcore.remoting.bodies.topic_configs import TopicConfig, TopicTable, encode_registration
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.vocabulary.data_version import DataVersion

TWO = {name: TopicConfig(name, 4, 4) for name in ("TBW102", "T1")}


WHO: dict[str, Value] = {
    "clusterName": "C",
    "brokerName": "b",
    "brokerId": 0,
    "brokerAddr": "b:1",
    "haServerAddr": "b:2",
}


class Peer:
    """A connection that has an address."""

    def __init__(self, peer: str) -> None:
        self.peer = peer


class Asker:
    """A name server, and the clock that it is asked by."""

    def __init__(self, settings: NameServerSettings | None = None) -> None:
        self.server = NameServer(settings)
        self.now_ms = 0

    def ask(
        self,
        code: RequestCode,
        fields: Mapping[str, Value] | None = None,
        body: bytes = b"",
        connection: object = "one",
    ) -> RemotingCommand:
        request = RemotingCommand(
            code, opaque=7, ext_fields=encode_fields(code, fields or {}), body=body
        )
        response = self.server.answer(request, connection=connection, now_ms=self.now_ms)
        assert response is not None
        assert (response.opaque, response.is_response) == (7, True)
        return response

    def register(
        self, name: str = "b", *, connection: object = "one", **more: Any
    ) -> RemotingCommand:
        fields: dict[str, Value] = {
            "clusterName": "C",
            "brokerName": name,
            "brokerId": 0,
            "brokerAddr": f"{name}:1",
            "haServerAddr": f"{name}:2",
        }
        body = encode_registration(TopicTable(TWO, DataVersion(counter=1)))
        code = RequestCode.REGISTER_BROKER
        return self.ask(code, {**fields, **more}, body, connection)

    def names(self, topic: str = "T1") -> list[str]:
        response = self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if response.code == ResponseCode.TOPIC_NOT_EXIST:
            return []
        return [one.broker_name for one in parse_route("x", response.body).brokers]


def test_a_broker_that_is_silent_for_two_minutes_is_gone() -> None:
    asker = Asker()
    asker.register("a", connection="one")
    asker.register("b", connection="two")
    asker.now_ms = 100_000
    broker: dict[str, Value] = {"clusterName": "C", "brokerName": "b", "brokerAddr": "b:1"}
    asker.ask(RequestCode.BROKER_HEARTBEAT, broker)
    assert asker.server.routes.expire(120_000) == []
    assert asker.server.routes.expire(120_001) == ["one"]
    assert asker.names() == ["b"]
    assert asker.server.routes.expire(220_000) == []
    assert asker.server.routes.expire(220_001) == ["two"]
    assert asker.names() == []
    assert asker.server.routes.clusters() == {}


def test_a_broker_says_how_long_it_may_be_silent() -> None:
    asker = Asker()
    asker.register(heartbeatTimeoutMillis=1000)
    assert asker.server.routes.expire(1001) == ["one"]


def test_asking_for_the_version_is_a_sign_of_life() -> None:
    asker = Asker()
    asker.register()
    asker.now_ms = 100_000
    broker: dict[str, Value] = {
        "clusterName": "C",
        "brokerName": "b",
        "brokerAddr": "b:1",
        "brokerId": 0,
    }
    for counter, changed in ((1, "false"), (2, "true")):
        body = json.dumps({"counter": counter}).encode()
        response = asker.ask(RequestCode.QUERY_DATA_VERSION, broker, body)
        assert response.ext_fields == {"changed": changed}
        assert json.loads(response.body)["counter"] == 1
    assert asker.server.routes.expire(120_001) == []


def test_a_connection_that_is_closed_takes_its_brokers_along() -> None:
    asker = Asker()
    asker.register("a", connection=(one := object()))
    asker.register("b", connection=object())
    asker.register("c", connection=one)
    asker.server.routes.connection_closed(one)
    assert asker.names() == ["b"]
    asker.server.routes.connection_closed(one)
    assert asker.names() == ["b"]


def test_a_broker_that_moved_to_another_connection_stays() -> None:
    asker = Asker()
    asker.register(connection=(old := object()))
    asker.register(connection=object())
    asker.server.routes.connection_closed(old)
    assert asker.names() == ["b"]


@pytest.mark.parametrize("how", ["silent", "closed", "unregistered"])
def test_a_broker_that_changed_its_cluster_is_forgotten_in_both(how: str) -> None:
    """Java looks for it in the cluster that it registered in first, does not find it, and shows it in routes for ever."""
    asker = Asker()
    asker.register()
    asker.register(clusterName="D")
    assert asker.server.routes.clusters() == {"C": ["b"], "D": ["b"]}
    if how == "silent":
        assert asker.server.routes.expire(200_000) == ["one", "one"]
    elif how == "closed":
        asker.server.routes.connection_closed("one")
    else:
        asker.server.routes.unregister("D", "b", "b:1")
    assert asker.names() == []
    assert asker.server.routes.clusters() == {}
    assert asker.server.routes.brokers() == ()


def test_a_slave_hears_where_its_master_is() -> None:
    asker = Asker()
    assert asker.register().ext_fields == {}
    response = asker.register(brokerId=1, brokerAddr="slave:1")
    assert response.ext_fields == {"haServerAddr": "b:2", "masterAddr": "b:1"}


def test_topics_of_an_old_version_are_not_read_again() -> None:
    asker = Asker()
    asker.register()
    asker.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "b"})
    asker.register()
    route = asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T1"})
    assert [queues.perm for queues in parse_route("x", route.body).queues] == [4]


def test_numbers_are_keys_with_quotes_also_for_old_clients() -> None:
    asker = Asker()
    asker.register()
    request = RemotingCommand(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, version=0, ext_fields={"topic": "T1"}
    )
    response = asker.server.answer(request, connection=None, now_ms=0)
    assert response is not None
    assert json.loads(response.body)["brokerDatas"][0]["brokerAddrs"] == {"0": "b:1"}
    assert b" " not in response.body


@pytest.mark.parametrize(
    ("code", "ext_fields", "body", "remark"),
    [
        (
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {},
            b"",
            "GET_ROUTEINFO_BY_TOPIC: topic is missing, expected a value",
        ),
        (
            RequestCode.REGISTER_BROKER,
            {
                "brokerName": "b",
                "brokerAddr": "b:1",
                "clusterName": "C",
                "haServerAddr": "",
                "brokerId": "x",
            },
            b"",
            "REGISTER_BROKER: brokerId is 'x', expected a long",
        ),
        (
            RequestCode.UPDATE_NAMESRV_CONFIG,
            {},
            b"kvConfigPath=/etc/passwd",
            "UPDATE_NAMESRV_CONFIG: 'kvConfigPath' is none, expected one of ",
        ),
        (
            RequestCode.UPDATE_NAMESRV_CONFIG,
            {},
            b"orderMessageEnable=maybe",
            "UPDATE_NAMESRV_CONFIG: orderMessageEnable is 'maybe', expected true or false",
        ),
        (
            RequestCode.UPDATE_NAMESRV_CONFIG,
            {},
            b"\xff",
            "UPDATE_NAMESRV_CONFIG: body is 'utf-8' codec",
        ),
    ],
)
def test_a_wrong_request_gets_an_error_and_changes_nothing(
    code: RequestCode, ext_fields: dict[str, str], body: bytes, remark: str
) -> None:
    server = NameServer()
    request = RemotingCommand(code, opaque=9, ext_fields=ext_fields, body=body)
    response = server.answer(request, connection=None, now_ms=0)
    assert response is not None
    assert (response.code, response.opaque) == (ResponseCode.SYSTEM_ERROR, 9)
    assert response.remark is not None and response.remark.startswith(remark)
    assert server.settings == NameServerSettings()
    assert server.routes.brokers() == ()


def test_settings_are_changed_and_told() -> None:
    asker = Asker()
    body = b"orderMessageEnable = true\nenableAllTopicList=false\n"
    assert asker.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body).code == ResponseCode.SUCCESS
    told = asker.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode()
    assert told == (
        "deleteTopicWithBrokerRegistration=false\nenableAllTopicList=false\norderMessageEnable=true\n"
        "returnOrderTopicConfigToBroker=true\nsupportActingMaster=false\n"
    )
    response = asker.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "disable")


def test_one_way_requests_act_and_are_not_answered_and_responses_are_neither() -> None:
    server = NameServer()
    fields = encode_fields(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"})
    for flag in (ONEWAY_FLAG, RESPONSE_FLAG):
        server.kv_config.delete("n", "k")
        request = RemotingCommand(RequestCode.PUT_KV_CONFIG, flag=flag, ext_fields=fields)
        assert server.answer(request, connection=None, now_ms=0) is None
        assert server.kv_config.get("n", "k") == ("v" if flag == ONEWAY_FLAG else None)


# ---- lists ------------------------------------------------------------------------------------------


def test_topics_of_a_cluster() -> None:
    asker = Asker()
    asker.register("a")
    asker.register("b", clusterName="D", connection="two")
    asker.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T1", "clusterName": "D"})
    for cluster, topics in (("C", ["TBW102", "T1"]), ("D", ["TBW102"]), ("none", [])):
        answer = asker.ask(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})
        assert (answer.code, json.loads(answer.body)) == (0, {"topicList": topics})


def test_texts_of_a_namespace() -> None:
    asker = Asker()
    code, namespace = RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "N"}
    assert asker.ask(code, namespace).remark == "No config item, Namespace: N"
    asker.ask(RequestCode.PUT_KV_CONFIG, {**namespace, "key": "k", "value": "v"})
    assert json.loads(asker.ask(code, namespace).body) == {"table": {"k": "v"}}


def test_a_request_that_is_not_served_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    server = NameServer()
    for port in (1, 2):
        request = RemotingCommand(RequestCode.GET_UNIT_TOPIC_LIST)
        server.answer(request, connection=Peer(f"10.0.0.1:{port}"), now_ms=0)
    (record,) = caplog.records
    words = "client 10.0.0.1: this name server does not support request 311 GET_UNIT_TOPIC_LIST"
    assert words in record.getMessage()


# ---- a name that is taken ---------------------------------------------------------------------------


def address_of(asker: Asker, broker_id: int = 0) -> str | None:
    """Where clients find an instance of the broker."""
    broker = asker.server.routes.broker("b")
    return None if broker is None else broker.addresses.get(broker_id)


def test_the_name_of_a_live_broker_is_not_taken_over(caplog: pytest.LogCaptureFixture) -> None:
    asker = Asker()
    asker.register(connection=Peer("10.0.0.1:1"))
    for state in (0, 9):
        for port in (1, 2):
            version = DataVersion(state, counter=5)
            body = encode_registration(TopicTable({"X": TopicConfig("X"), **TWO}, version))
            fields = {**WHO, "brokerAddr": "forged:1"}
            code = RequestCode.REGISTER_BROKER
            answer = asker.ask(code, fields, body, Peer(f"10.0.0.9:{port}"))
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "is live at 'b:1'" in str(answer.remark)
    assert address_of(asker) == "b:1"
    assert asker.names("X") == []
    (record,) = caplog.records
    assert "refused the registration of 'forged:1' from 10.0.0.9" in record.getMessage()
    other = asker.register(clusterName="D", brokerAddr="forged:1", connection="two")
    assert other.code == ResponseCode.SYSTEM_ERROR
    assert asker.server.routes.clusters() == {"C": ["b"]}


def test_a_broker_that_is_gone_or_silent_leaves_its_name() -> None:
    asker = Asker()
    asker.register(connection="one")
    asker.server.routes.connection_closed("one")
    assert asker.register(brokerAddr="new:1", connection="two").code == ResponseCode.SUCCESS
    asker.now_ms = LIVE_MS
    assert asker.register(brokerAddr="x:1", connection="three").code == ResponseCode.SYSTEM_ERROR
    asker.now_ms = LIVE_MS + 1
    assert asker.register(brokerAddr="x:1", connection="three").code == ResponseCode.SUCCESS
    assert address_of(asker) == "x:1"


def test_a_broker_that_restarts_keeps_its_name() -> None:
    """A new process at the same address registers before the old connection is seen to be closed."""
    asker = Asker()
    asker.register(connection="one")
    assert asker.register(connection="two").code == ResponseCode.SUCCESS
    asker.server.routes.connection_closed("one")
    assert address_of(asker) == "b:1"


def test_a_slave_has_another_id_and_may_become_the_master() -> None:
    asker = Asker()
    asker.register(connection="one")
    slave: dict[str, Any] = {"brokerId": 1, "brokerAddr": "s:1", "connection": "two"}
    assert asker.register(**slave).code == ResponseCode.SUCCESS
    assert (address_of(asker), address_of(asker, 1)) == ("b:1", "s:1")
    assert asker.register(**{**slave, "brokerId": 0}).code == ResponseCode.SUCCESS
    assert (address_of(asker), address_of(asker, 1)) == ("s:1", None)


def test_a_master_that_a_controller_has_elected_has_the_route() -> None:
    asker = Asker()

    def register(state: int, address: str) -> ResponseCode:
        body = encode_registration(TopicTable(TWO, DataVersion(state, counter=1)))
        fields = {**WHO, "brokerAddr": address}
        answer = asker.ask(RequestCode.REGISTER_BROKER, fields, body, address)
        return ResponseCode(answer.code)

    assert register(1, "b:1") == ResponseCode.SUCCESS
    assert register(2, "elected:1") == ResponseCode.SUCCESS
    assert address_of(asker) == "elected:1"
    register(1, "b:1")  # a master that was deposed
    assert address_of(asker) == "elected:1"
