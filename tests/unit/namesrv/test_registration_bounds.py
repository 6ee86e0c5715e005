"""What other processes may make a name server keep and do: a registration of 7 MB stopped all clients of the broker for 20 s."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from support.broker import FakeChannel

from rmqcore.namesrv import requests
from rmqcore.namesrv.kv_config import KvConfig, KvConfigFullError
from rmqcore.namesrv.requests import NameServer
from rmqcore.namesrv.settings import NameServerBounds
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields


class Asker:
    """A name server whose other thread works when the test says so."""

    def __init__(self, bounds: NameServerBounds | None = None) -> None:
        self.server = NameServer(bounds=bounds)
        self.channel = FakeChannel()
        self.work: list[tuple[Callable[[], Any], Callable[[Future[Any]], object]]] = []

    def later(self, work: Callable[[], Any], then: Callable[[Future[Any]], object]) -> None:
        self.work.append((work, then))

    def works(self) -> None:
        work, then = self.work.pop(0)
        done: Future[Any] = Future()
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 as a thread pool does
            done.set_exception(error)
        then(done)

    def ask(
        self,
        code: RequestCode,
        fields: dict[str, Value],
        body: bytes = b"",
        channel: FakeChannel | None = None,
        flag: int = 0,
    ) -> RemotingCommand | None:
        request = RemotingCommand(
            code,
            opaque=7,
            flag=flag,
            version=500,
            ext_fields=encode_fields(code, fields) if fields else {},
            body=body,
        )
        return self.server.answer_peer(request, channel or self.channel, now_ms=0, later=self.later)

    def register(
        self, topics: int, name: str = "b", *, fill: str = "", **more: Any
    ) -> RemotingCommand | None:
        fields: dict[str, Value] = {
            "clusterName": "C",
            "brokerName": name,
            "brokerId": 0,
            "brokerAddr": f"{name}:1",
            "haServerAddr": f"{name}:2",
        }
        return self.ask(RequestCode.REGISTER_BROKER, fields, registration(topics, fill), **more)


def registration(topics: int, fill: str = "") -> bytes:
    table: dict[str, object] = {f"r{number}{fill}": {} for number in range(topics)}
    version = {"stateVersion": 0, "timestamp": 1, "counter": 1}
    wrapper = {"topicConfigTable": table, "dataVersion": version}
    return json.dumps({"topicConfigSerializeWrapper": wrapper}).encode()


def code(response: RemotingCommand | None) -> int:
    assert response is not None
    return response.code


def test_a_long_registration_is_parsed_in_another_thread_and_answered_then() -> None:
    asker = Asker()
    assert asker.register(2_000, fill="x" * 40) is None
    assert (asker.channel.sent, asker.server.routes.topics()) == ([], [])
    asker.works()
    assert [answer.code for answer in asker.channel.sent] == [ResponseCode.SUCCESS]
    assert len(asker.server.routes.topics()) == 2_000
    assert code(asker.register(3)) == ResponseCode.SUCCESS, "a short one is answered at once"


def test_what_follows_a_long_registration_over_its_connection_waits() -> None:
    asker = Asker()
    asker.register(2_000, fill="x" * 40)
    assert asker.channel.held == 1
    other = FakeChannel()
    assert code(asker.register(3, "other", channel=other)) == ResponseCode.SUCCESS
    asker.works()
    assert len(asker.channel.sent) == 1
    assert (asker.channel.held, other.held, asker.server._long) == (0, 0, 0)


def test_a_connection_that_closes_while_its_registration_is_parsed_registers_nothing() -> None:
    asker = Asker()
    asker.register(2_000, fill="x" * 40)
    asker.channel.closed = True
    asker.works()
    assert asker.server.routes.brokers() == ()
    assert not asker.server._long


def test_few_long_registrations_wait() -> None:
    asker = Asker()
    for _ in range(requests.MOST_LONG_WAITING):
        assert asker.register(2_000, fill="x" * 40, channel=FakeChannel()) is None
    assert code(asker.register(2_000, fill="x" * 40)) == ResponseCode.SYSTEM_BUSY
    assert asker.register(2_000, fill="x" * 40, flag=ONEWAY_FLAG) is None
    assert len(asker.work) == requests.MOST_LONG_WAITING


def test_a_body_that_is_too_long_is_refused_unread() -> None:
    asker = Asker()
    body = bytes(requests.MOST_BODY_BYTES + 1)
    for wrong, more in (
        (RequestCode.REGISTER_BROKER, body),
        (RequestCode.QUERY_DATA_VERSION, body),
    ):
        assert code(asker.ask(wrong, {}, more)) == ResponseCode.INVALID_PARAMETER
    settings = bytes(requests.MOST_OTHER_BODY_BYTES + 1)
    found = asker.ask(RequestCode.UPDATE_NAMESRV_CONFIG, {}, settings)
    assert code(found) == ResponseCode.INVALID_PARAMETER


def test_a_small_body_must_not_become_a_large_one() -> None:
    asker = Asker()
    fields: dict[str, Value] = {"compressed": True, "brokerName": "b", "clusterName": "C"}
    fields |= {"brokerAddr": "b:1", "haServerAddr": "b:2", "brokerId": 0}
    body = zlib.compress(bytes(requests.MOST_PLAIN_BYTES + 1))
    found = asker.ask(RequestCode.REGISTER_BROKER, fields, body)
    assert code(found) == ResponseCode.SYSTEM_ERROR
    assert found is not None
    assert f"at most {requests.MOST_PLAIN_BYTES} bytes" in str(found.remark)


def test_topics_and_brokers_have_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asker = Asker(NameServerBounds(topics=15))
    monkeypatch.setattr(requests, "MOST_TOPICS", 10)
    assert code(asker.register(11)) == ResponseCode.SYSTEM_ERROR
    assert code(asker.register(10, "one")) == ResponseCode.SUCCESS
    assert code(asker.register(10, "two")) == ResponseCode.SYSTEM_ERROR
    assert code(asker.register(5, "two")) == ResponseCode.SUCCESS
    monkeypatch.setattr(requests, "MOST_BROKERS", 2)
    assert code(asker.register(0, "three")) == ResponseCode.SYSTEM_ERROR
    assert len(asker.server.routes.brokers()) == 2


def test_the_kv_config_is_bounded_in_bytes() -> None:
    texts = KvConfig(1_000)
    texts.put("n", "k", "x" * 600)
    with pytest.raises(KvConfigFullError):
        texts.put("n", "other", "x" * 600)
    with pytest.raises(KvConfigFullError):
        texts.put("n", "k", "x" * 900)
    texts.put("n", "k", "x" * 10)
    texts.put("n", "other", "x" * 500)
    texts.delete("n", "other")
    texts.put("n", "other", "ä" * 250)
    assert texts.namespace("n") == {"k": "x" * 10, "other": "ä" * 250}
    texts = KvConfig(1_000)
    for number in range(4):
        texts.put(f"namespace {number}", "", "")
    with pytest.raises(KvConfigFullError):
        texts.put("namespace 4", "", "")


def test_a_full_kv_config_is_an_answer() -> None:
    fields: dict[str, Value] = {"namespace": "n", "key": "k", "value": "v"}
    bounds = NameServerBounds(kv_config_bytes=100)
    found = Asker(bounds).ask(RequestCode.PUT_KV_CONFIG, fields)
    assert code(found) == ResponseCode.SYSTEM_ERROR
    assert found is not None
    assert "is full" in str(found.remark)
    assert "maxKvConfigBytes" in str(found.remark)


def test_the_values_of_a_registration_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    asker = Asker()
    monkeypatch.setattr(requests, "MOST_VALUES", 20)
    found = asker.register(20)
    assert code(found) == ResponseCode.SYSTEM_ERROR
    assert found is not None
    assert "more than 20 values" in str(found.remark)
    assert code(asker.register(4)) == ResponseCode.SUCCESS


def test_the_topics_of_a_compressed_registration_are_counted_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "MOST_TOPICS", 10)
    fields: dict[str, Value] = {"compressed": True, "brokerName": "b", "clusterName": "C"}
    fields |= {"brokerAddr": "b:1", "haServerAddr": "b:2", "brokerId": 0}
    body = zlib.compress(b"\0\0\0\2{}" + (11).to_bytes(4) + b"what is no topic at all" * 10)
    found = Asker().ask(RequestCode.REGISTER_BROKER, fields, body)
    assert found is not None
    assert "topics is 11, expected at most 10" in str(found.remark)


def test_long_lists_are_written_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    asker = Asker()
    asker.register(4)
    short = asker.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
    put: dict[str, Value] = {"namespace": "n", "key": "k", "value": "v"}
    asker.ask(RequestCode.PUT_KV_CONFIG, put)
    asker.ask(RequestCode.PUT_KV_CONFIG, {**put, "key": "l"})
    monkeypatch.setattr(requests, "SHORT_TABLE", 1)
    asked: tuple[tuple[RequestCode, dict[str, Value]], ...] = (
        (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}),
        (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "C"}),
        (RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}),
    )
    for wanted, fields in asked:
        assert asker.ask(wanted, fields) is None
        asker.works()
        assert asker.ask(wanted, fields, flag=ONEWAY_FLAG) is None
        assert asker.work == [], "nobody wants the answer"
    assert short is not None
    bodies = [answer.body for answer in asker.channel.sent]
    assert bodies == [short.body, short.body, b'{"table":{"k":"v","l":"v"}}']
