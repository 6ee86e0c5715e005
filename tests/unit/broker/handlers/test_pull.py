"""Pulls: the order of checks and their codes, what is found, by which filter, and when a pull is held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeChannel
from support.served_broker import SMALL, ServedBroker, tags_of

import rmqcore
from rmqcore.broker.handlers import message_filters
from rmqcore.broker.requests import MOST_BODY_BYTES, handle
from rmqcore.remoting.bodies.heartbeat import SQL92, SubscriptionData
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.request_fields import encode_fields

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
HELD = SUSPEND | SUBSCRIPTION


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path) as made:
        made.topic("t")
        yield made


def answer(response: RemotingCommand | None) -> RemotingCommand:
    assert response is not None
    return response


def code(response: RemotingCommand | None) -> int:
    return answer(response).code


def tags(response: RemotingCommand | None) -> list[str | None]:
    return tags_of(answer(response))


def offsets(response: RemotingCommand | None) -> tuple[int, int, int]:
    fields = answer(response).ext_fields
    return int(fields["nextBeginOffset"]), int(fields["minOffset"]), int(fields["maxOffset"])


# ---- checks


def test_the_order_of_checks(tmp_path: Path) -> None:
    """Each check is met while all that come behind it would refuse as well."""
    with ServedBroker(tmp_path, settings={"auto_create_subscription_group": False}) as served:
        broker = served.broker

        def refused(**more: Any) -> tuple[int, str | None]:
            response = answer(
                served.pull(queueId=9, subscription="bad", expressionType="X", **more)
            )
            return response.code, response.ext_fields.get("forbiddenType")

        settings = broker.settings
        broker.settings = replace(settings, broker_permission=2)
        assert refused() == (ResponseCode.NO_PERMISSION, "1")
        broker.settings = settings
        assert refused() == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, None)
        broker.groups.update(SubscriptionGroupConfig("g", consume_enable=False))
        assert refused() == (ResponseCode.NO_PERMISSION, "2")
        broker.groups.update(SubscriptionGroupConfig("g"))
        assert refused() == (ResponseCode.TOPIC_NOT_EXIST, None)
        served.topic("t", perm=2)
        assert refused() == (ResponseCode.NO_PERMISSION, "3")
        served.topic("t")
        assert refused() == (ResponseCode.INVALID_PARAMETER, None)
        assert code(served.pull(subscription="", expressionType="X")) == 23
        assert code(served.pull(subscription="bad", expressionType="X")) == 1
        broker.settings = replace(settings, enable_property_filter=True)
        assert code(served.pull(subscription="bad", expressionType="X")) == 23
        assert code(served.pull(subscription="a >", expressionType=SQL92)) == 23
        assert code(served.pull(subscription="||")) == 23
        assert code(served.pull()) == ResponseCode.PULL_NOT_FOUND


def test_the_checks_of_a_pull_that_brings_no_subscription(served: ServedBroker) -> None:
    broker = served.broker

    def refused(**more: Any) -> tuple[int, str | None]:
        response = answer(served.pull(sysFlag=0, subVersion=5, **more))
        return response.code, response.ext_fields.get("forbiddenType")

    assert refused() == (ResponseCode.SUBSCRIPTION_NOT_EXIST, None)
    served.beat(SubscriptionData("u"), message_model="BROADCASTING")
    broker.groups.update(SubscriptionGroupConfig("g", consume_broadcast_enable=False))
    assert refused() == (ResponseCode.NO_PERMISSION, "4")
    broker.groups.update(SubscriptionGroupConfig("g"))
    assert refused() == (ResponseCode.SUBSCRIPTION_NOT_EXIST, None)
    served.beat(SubscriptionData("t", sub_version=4))
    assert refused() == (ResponseCode.SUBSCRIPTION_NOT_LATEST, None)
    served.beat(SubscriptionData("t", sub_version=5))
    assert refused() == (ResponseCode.PULL_NOT_FOUND, None)


def test_a_group_that_must_not_read_a_topic(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "subscriptionGroup.json").write_text('{"forbiddenTable":{"g":{"t":4}}}')
    with ServedBroker(tmp_path) as served:
        served.topic("t")
        served.beat(SubscriptionData("t"))
        response = answer(served.pull(sysFlag=0))
        assert response.code == ResponseCode.NO_PERMISSION
        assert response.ext_fields["forbiddenType"] == "5"
        assert code(served.pull()) == ResponseCode.PULL_NOT_FOUND


def test_a_slave_that_must_not_be_read(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, broker_role="SLAVE") as served:
        served.topic("t")
        assert code(served.pull()) == ResponseCode.SYSTEM_BUSY
        served.broker.settings = replace(served.broker.settings, slave_read_enable=True)
        response = answer(served.pull(queue_offset=7))
        assert response.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert response.remark == "NO_MESSAGE_IN_QUEUE"


# ---- what is found


def test_records_come_as_they_lie_in_the_log(served: ServedBroker) -> None:
    served.topic("t", topic_sys_flag=1)
    served.broker.groups.update(SubscriptionGroupConfig("g", group_sys_flag=3))
    served.put("t", "A", "B")
    served.put("t", "A", queue_id=1)
    served.put("t", None)
    response = answer(served.pull(queue_offset=1))
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert tags(response) == ["B", None]
    with served.store.get("t", 0, 1) as result:
        assert response.body == b"".join(view.raw for view in result)
    assert response.ext_fields == {
        "nextBeginOffset": "3",
        "minOffset": "0",
        "maxOffset": "3",
        "suggestWhichBrokerId": "0",
        "topicSysFlag": "1",
        "groupSysFlag": "3",
    }
    stats = served.broker.stats
    assert (stats.found, stats.transferred) == (1, 2)
    item = stats.item("GROUP_GET_SIZE", "t@g")
    assert item is not None
    assert item.value == len(response.body)


def test_lite_pulls_are_pulls(served: ServedBroker) -> None:
    served.put("t", "A")
    response = served.answer(RequestCode.LITE_PULL_MESSAGE, served.pull_fields(sysFlag=4 | 16))
    assert tags(response) == ["A"]


def test_no_more_messages_than_asked_for(served: ServedBroker) -> None:
    served.put("t", *"ABCD")
    assert tags(served.pull(maxMsgNums=2)) == ["A", "B"]
    for number in (0, -1):
        assert tags(served.pull(maxMsgNums=number)) == ["A"]


@pytest.mark.parametrize(
    ("queue_offset", "expected", "status", "following"),
    [
        (3, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 3),
        (4, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 3),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
    ],
)
def test_statuses(
    served: ServedBroker, queue_offset: int, expected: int, status: str, following: int
) -> None:
    served.put("t", *"ABC")
    response = answer(served.pull(queue_offset=queue_offset))
    assert (response.code, response.remark, response.body) == (expected, status, b"")
    assert offsets(response) == (following, 0, 3)


def test_a_queue_that_is_not_there(served: ServedBroker) -> None:
    """Offset 0 waits for the first message; any other one is told to begin anew."""
    assert code(served.pull()) == ResponseCode.PULL_NOT_FOUND
    response = answer(served.pull(queue_offset=5))
    assert response.code == ResponseCode.PULL_OFFSET_MOVED
    assert offsets(response) == (0, 0, 0)


def test_tags_are_chosen_by_their_hashes(served: ServedBroker) -> None:
    """Aa and BB have one hash; the client looks at the text itself."""
    served.put("t", "Aa", "BB", "C", None)
    assert tags(served.pull(subscription="Aa")) == ["Aa", "BB"]
    assert tags(served.pull(subscription="C || Aa")) == ["Aa", "BB", "C"]
    assert tags(served.pull(subscription="")) == ["Aa", "BB", "C", None]
    response = answer(served.pull(subscription="D"))
    assert (response.code, response.remark) == (20, "NO_MATCHED_MESSAGE")
    assert offsets(response) == (4, 0, 4)


def test_the_subscription_of_the_heartbeat(served: ServedBroker) -> None:
    served.put("t", *"ABC")
    served.beat(SubscriptionData("t", "B", sub_version=3))
    assert tags(served.pull(sysFlag=0, subVersion=3, subscription="C")) == ["B"]
    assert tags(served.pull(sysFlag=4, subVersion=9, subscription="C")) == ["C"]
    served.beat(SubscriptionData("t", "B", sub_version=4, class_filter_mode=True))
    assert tags(served.pull(sysFlag=0, subVersion=3)) == ["A", "B", "C"]


def test_where_to_pull_next(tmp_path: Path) -> None:
    """The group's own broker, but of a queue that lies too far behind the one for those who are slow."""
    with ServedBroker(tmp_path, settings={"slave_read_enable": True}) as served:
        served.topic("t")
        group = SubscriptionGroupConfig("g", broker_id=2, which_broker_when_consume_slowly=3)
        served.broker.groups.update(group)
        served.put("t", "A")
        assert answer(served.pull()).ext_fields["suggestWhichBrokerId"] == "2"


# ---- SQL92


@pytest.fixture
def sql(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path, settings={"enable_property_filter": True}) as made:
        made.topic("t")
        yield made


def put_numbers(served: ServedBroker, *numbers: int) -> None:
    for number in numbers:
        served.put("t", str(number), properties={"a": str(number)})


def test_an_expression_of_the_pull_itself(sql: ServedBroker) -> None:
    put_numbers(sql, *range(10))
    response = sql.pull(subscription="a >= 3 AND a < 5", expressionType=SQL92)
    assert tags(response) == ["3", "4"]
    assert offsets(response) == (10, 0, 10)
    response = answer(sql.pull(subscription="a > 99", expressionType=SQL92))
    assert (response.code, response.remark) == (20, "NO_MATCHED_MESSAGE")
    assert offsets(response) == (10, 0, 10)
    assert offsets(sql.pull(subscription="a < 9", expressionType=SQL92, maxMsgNums=2)) == (2, 0, 10)
    held = sql.pull(queue_offset=10, subscription="a < 9", expressionType=SQL92)
    assert (code(held), answer(held).remark) == (19, "OFFSET_OVERFLOW_ONE")


def test_an_expression_that_few_messages_pass(
    sql: ServedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull looks at many messages, but not at all of a long queue: the next one goes on behind them."""
    monkeypatch.setattr(message_filters, "MOST_EVALUATED", 60)
    put_numbers(sql, *range(100))
    response = sql.pull(subscription="a = 70 OR a = 10", expressionType=SQL92)
    assert tags(response) == ["10"]
    following = offsets(response)[0]
    assert 60 <= following <= 70
    assert tags(sql.pull(queue_offset=following, subscription="a = 70", expressionType=SQL92)) == (
        ["70"] if following <= 70 else []
    )


def test_an_expression_of_the_heartbeat(sql: ServedBroker) -> None:
    put_numbers(sql, *range(5))

    def beat(expression: str, version: int) -> None:
        sql.beat(SubscriptionData("t", expression, sub_version=version, expression_type=SQL92))

    beat("a = 2", 3)
    assert tags(sql.pull(sysFlag=0, subVersion=3)) == ["2"]
    beat("a = 4", 2)
    assert tags(sql.pull(sysFlag=0, subVersion=3)) == ["2"]
    beat("a = 4", 4)
    assert tags(sql.pull(sysFlag=0, subVersion=3)) == ["4"]
    beat("a =", 5)
    assert code(sql.pull(sysFlag=0, subVersion=5)) == ResponseCode.FILTER_DATA_NOT_EXIST
    sql.broker.settings = replace(sql.broker.settings, enable_property_filter=False)
    beat("a = 1", 6)
    response = answer(sql.pull(sysFlag=0, subVersion=6))
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "SQL92" in str(response.remark)


def test_a_filter_that_is_older_than_its_subscription(sql: ServedBroker) -> None:
    """A member with an older version drops the topic and takes it up again: the subscription is newer than the filter."""
    sql.beat(SubscriptionData("t", "a = 1", sub_version=5, expression_type=SQL92))
    data = sql.broker.consumer_filters.get("g", "t")
    assert data is not None
    data.client_version = 4
    assert code(sql.pull(sysFlag=0, subVersion=5)) == ResponseCode.FILTER_DATA_NOT_LATEST


# ---- commits


def test_the_offset_is_committed_at_the_first_arrival_alone(served: ServedBroker) -> None:
    """A pull that is held for long must not put back what the client has committed meanwhile."""
    query = served.broker.offsets.query
    assert served.pull(sysFlag=COMMIT | HELD, commitOffset=0) is None
    assert query("g", "t", 0) == 0
    served.broker.offsets.commit("g", "t", 0, 9)
    served.put("t", "A")
    assert len(served.channel.sent) == 1
    assert query("g", "t", 0) == 9
    served.pull(sysFlag=SUBSCRIPTION, commitOffset=4)
    assert query("g", "t", 0) == 9
    served.pull(sysFlag=COMMIT | SUBSCRIPTION, commitOffset=-1)
    assert query("g", "t", 0) == 9
    served.pull(sysFlag=COMMIT | SUBSCRIPTION, commitOffset=4)
    assert query("g", "t", 0) == 4
    assert served.broker.offsets.query_pull("g", "t", 0) == 1


def test_a_pull_that_is_refused_commits_nothing(served: ServedBroker) -> None:
    served.pull(sysFlag=COMMIT, commitOffset=4)
    assert served.broker.offsets.query("g", "t", 0) == -1


# ---- held


@pytest.mark.parametrize("step_ms", [-600_000, 600_000])
def test_a_wall_clock_that_steps_changes_no_time_of_a_held_pull(
    served: ServedBroker, step_ms: int
) -> None:
    """After 600 seconds back a pull was held for ten minutes longer than its client had asked for."""
    assert served.pull(sysFlag=HELD) is None
    served.loop.stepped_ms += step_ms
    served.loop.advance(14_000)
    assert served.channel.sent == []
    served.loop.advance(1_500)
    assert [answer.code for answer in served.channel.sent] == [ResponseCode.PULL_NOT_FOUND]


def test_a_held_pull_gets_the_message_that_comes(served: ServedBroker) -> None:
    served.put("t", "A")
    assert served.pull(queue_offset=1, sysFlag=HELD) is None
    served.put("t", "B", queue_id=1)
    assert served.channel.sent == []
    served.put("t", "B")
    (response,) = served.channel.sent
    assert response.is_response
    assert tags(response) == ["B"]
    assert offsets(response) == (2, 0, 2)
    served.loop.advance(60_000)
    assert len(served.channel.sent) == 1


def test_only_code_19_is_held(served: ServedBroker) -> None:
    served.put("t", "A")
    assert code(served.pull(sysFlag=HELD)) == 0
    assert code(served.pull(sysFlag=HELD, subscription="B")) == 20
    assert code(served.pull(queue_offset=3, sysFlag=HELD)) == 21
    assert code(served.pull(queue_offset=1, sysFlag=SUBSCRIPTION)) == 19
    assert len(served.broker.held_pulls) == 0


def test_tags_that_are_not_wanted_wake_nobody(served: ServedBroker) -> None:
    """Until the queues are looked at after 5 seconds: then the client learns that the queue went on."""
    served.broker.held_pulls.close()
    served.pull(sysFlag=HELD, subscription="B")
    served.put("t", "A", "C")
    assert served.channel.sent == []
    served.loop.advance(5_000)
    (response,) = served.channel.sent
    assert response.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert offsets(response) == (2, 0, 2)


def test_a_tag_that_is_wanted_among_others(served: ServedBroker) -> None:
    served.pull(sysFlag=HELD, subscription="B || D")
    served.put("t", "A")
    served.put("t", "C", "B", "C")
    (response,) = served.channel.sent
    assert tags(response) == ["B"]
    assert offsets(response)[0] == 4


def test_properties_that_are_not_wanted_wake_nobody(sql: ServedBroker) -> None:
    sql.pull(sysFlag=HELD, subscription="a > 3", expressionType=SQL92)
    put_numbers(sql, 1, 2, 3)
    assert sql.channel.sent == []
    put_numbers(sql, 4)
    (response,) = sql.channel.sent
    assert tags(response) == ["4"]
    sql.pull(queue_offset=4, sysFlag=HELD, subscription="a > 99", expressionType=SQL92)
    sql.put("t", *["x"] * 33)
    assert [one.code for one in sql.channel.sent[1:]] == [ResponseCode.PULL_RETRY_IMMEDIATELY]


def test_time_ends_a_held_pull(served: ServedBroker) -> None:
    served.pull(sysFlag=HELD, suspendTimeoutMillis=20_000)
    served.loop.advance(19_900)
    assert served.channel.sent == []
    served.loop.advance(200)
    (response,) = served.channel.sent
    assert response.code == ResponseCode.PULL_NOT_FOUND
    assert len(served.broker.held_pulls) == 0


def test_short_polling(tmp_path: Path) -> None:
    settings = {"long_polling_enable": False, "short_polling_time_mills": 500}
    with ServedBroker(tmp_path, settings=settings) as served:
        served.topic("t")
        served.pull(sysFlag=HELD, suspendTimeoutMillis=20_000)
        served.loop.advance(600)
        assert [one.code for one in served.channel.sent] == [ResponseCode.PULL_NOT_FOUND]


def test_a_held_pull_goes_with_its_connection(served: ServedBroker) -> None:
    gone, other = FakeChannel("1:1"), FakeChannel("2:2")
    served.pull(sysFlag=HELD, channel=gone)
    served.pull(sysFlag=HELD, channel=other)
    gone.close()
    served.broker.channel_closed(gone)
    served.put("t", "A")
    assert gone.sent == []
    assert len(other.sent) == 1


def test_a_held_pull_keeps_no_body(served: ServedBroker) -> None:
    """Forty pulls with 15 MiB each, held for a day, took 600 MiB that no limit of buffers counted."""
    code = RequestCode.PULL_MESSAGE
    fields = encode_fields(code, served.pull_fields(sysFlag=HELD))
    request = RemotingCommand(code, ext_fields=fields, body=b"x" * 1000)
    assert handle(served.broker, request, served.channel) is None
    assert len(served.broker.held_pulls) == 1
    assert request.body == b""


def test_a_body_that_is_too_large_is_refused(served: ServedBroker) -> None:
    """A heartbeat with 15 MiB of small objects stopped all clients for eight seconds."""
    request = RemotingCommand(RequestCode.HEART_BEAT, body=b"[" * (MOST_BODY_BYTES + 1))
    response = answer(handle(served.broker, request, served.channel))
    told = f"{MOST_BODY_BYTES + 1} bytes in the body, expected at most {MOST_BODY_BYTES}"
    assert (response.code, response.remark) == (ResponseCode.INVALID_PARAMETER, told)


def test_a_held_pull_blocks_no_later_request(served: ServedBroker) -> None:
    served.pull(sysFlag=HELD)
    max_offset = served.answer(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})
    assert max_offset.ext_fields == {"offset": "0"}
    served.pull(sysFlag=HELD)
    served.put("t", "A")
    assert len({one.opaque for one in served.channel.sent}) == 2


def test_a_held_pull_is_checked_again(served: ServedBroker) -> None:
    """Its topic or group may be gone, or not readable any more, when a message comes."""
    served.pull(sysFlag=HELD)
    served.topic("t", perm=2)
    served.put("t", "A")
    assert [one.code for one in served.channel.sent] == [ResponseCode.NO_PERMISSION]


def test_a_held_pull_whose_store_fails_is_answered(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served.pull(sysFlag=HELD)

    def fail(*args: object, **more: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(served.store, "get_warm", fail)
    served.put("t", "A")
    (response,) = served.channel.sent
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "Input/output error" in str(response.remark)


def test_a_one_way_pull_is_never_answered(served: ServedBroker) -> None:
    fields = served.pull_fields(sysFlag=HELD)
    assert served.ask(RequestCode.PULL_MESSAGE, fields, flag=ONEWAY_FLAG) is None
    served.put("t", "A")
    assert served.channel.sent == []


def test_messages_of_a_store_that_was_there_before(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, **SMALL) as store:
        store.put(rmqcore.Message("t", b"x", tags="old"))
    with ServedBroker(tmp_path) as served:
        served.topic("t")
        assert tags(served.pull()) == ["old"]
