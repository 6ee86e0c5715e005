"""Requests that create, change, delete and list topics.

Source: RocketMQ 5.5.0 AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TypeVar

from rmqcore.broker.attributes import parse_attributes
from rmqcore.broker.call import Call, answer_later, error_response
from rmqcore.broker.handlers.in_background import answer_with_table
from rmqcore.broker.state.deleted_topics import DISPATCH_SECONDS
from rmqcore.broker.state.topics import MOST_QUEUES
from rmqcore.broker.worker import WorkerBusyError
from rmqcore.errors import StoreError
from rmqcore.remoting.bodies.json_object import encode_json, parse_body
from rmqcore.remoting.bodies.topic_configs import (
    INHERIT,
    READ,
    SINGLE_TAG,
    WRITE,
    TopicConfig,
    parse_data_version,
    topic_config,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import wrong_topic
from rmqcore.remoting.request_fields import RequestFields
from rmqcore.vocabulary.data_version import DataVersion

MULTI_TAG = "MULTI_TAG"
PART_SIZE = 2_000
"""Topics or groups of one answer to a client that asks for parts."""
_EVERY_PERM = READ | WRITE | INHERIT
_NO_MAPPINGS = {
    "mappingDataVersion": DataVersion().as_json(),
    "topicQueueMappingDetailMap": {},
    "topicQueueMappingInfoMap": {},
}
_T = TypeVar("_T")


def answer_when_done(call: Call) -> Callable[[], None]:
    """Return a function to call when the request is done: it sends the response."""
    return lambda: call.answer(call.respond())


def _update_and_create_topic(call: Call) -> RemotingCommand | None:
    """Make or change a topic.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#updateAndCreateTopic.
    """
    name = call.fields.text("topic")
    wrong = wrong_topic(name) or _system_topic(call, name)
    if wrong is not None:
        return call.respond(ResponseCode.INVALID_PARAMETER, wrong)
    try:
        topic = _topic_of(call.fields)
    except ValueError as error:
        return call.respond(ResponseCode.SYSTEM_ERROR, str(error))
    return _make(call, [topic])


def _update_and_create_topics(call: Call) -> RemotingCommand | None:
    """Make or change several topics, all or none.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#updateAndCreateTopicList.

    Notes
    -----
    Java creates none of them if one exists already with the same configuration.
    """
    found = parse_body(call.code.name, call.request.body).objects("topicConfigList")
    return _make(call, [topic_config(one) for one in found])


def _make(call: Call, topics: list[TopicConfig]) -> RemotingCommand | None:
    """Create or change topics that clients may have, all or none; topics without a change stay as they are."""
    for topic in topics:
        wrong = _wrong(call, topic)
        if wrong is not None:
            return call.respond(ResponseCode.INVALID_PARAMETER, wrong)
    changed = [topic for topic in topics if topic != call.broker.topics.get(topic.name)]
    if not changed:
        return call.respond()
    try:
        call.broker.topics.update_all(changed, answer_when_done(call))
    except ValueError as error:
        return call.respond(ResponseCode.SYSTEM_ERROR, str(error))
    return None


def _wrong(call: Call, topic: TopicConfig) -> str | None:
    wrong = wrong_topic(topic.name) or _system_topic(call, topic.name)
    if wrong is None:
        wrong = _wrong_queues(topic.read_queue_nums, topic.write_queue_nums, topic.perm)
    if wrong is None and topic.attributes.get("+message.type") == "MIXED":
        wrong = "MIXED message type is not supported."
    return wrong


def _system_topic(call: Call, name: str) -> str | None:
    if call.broker.topics.is_system(name):
        return f"The topic[{name}] is conflict with system topic."
    return None


def _wrong_queues(read_queue_nums: int, write_queue_nums: int, perm: int) -> str | None:
    for name, number in (("readQueueNums", read_queue_nums), ("writeQueueNums", write_queue_nums)):
        if not 0 <= number <= MOST_QUEUES:
            return f"{name} is {number}, expected 0 to {MOST_QUEUES}"
    if not 0 <= perm <= _EVERY_PERM:
        return f"perm is {perm}, expected 0 to {_EVERY_PERM}"
    return None


def _topic_of(fields: RequestFields) -> TopicConfig:
    filter_type = fields.text("topicFilterType")
    if filter_type not in (SINGLE_TAG, MULTI_TAG):
        raise ValueError(f"topicFilterType = [{filter_type}] value invalid")
    return TopicConfig(
        fields.text("topic"),
        fields.number("readQueueNums"),
        fields.number("writeQueueNums"),
        fields.number("perm"),
        filter_type,
        fields.number("topicSysFlag"),
        fields.flag("order"),
        parse_attributes(fields.text("attributes")),
    )


def _delete_topic(call: Call) -> RemotingCommand | None:
    """Delete a topic, with the offsets of groups in it and its counters.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#deleteTopic.

    Notes
    -----
    Java deletes the files of its queues as well. Here they stay until their messages have left the log, and the
    messages are hidden (`DeletedTopics`). The list of hidden topics is on disk before the topic leaves
    ``topics.json``: after a crash at any moment the topic is unchanged or deleted, and no message reappears.
    """
    name = call.fields.text("topic")
    wrong = _system_topic(call, name) if name.strip() else "The specified topic is blank."
    if wrong is not None:
        return call.respond(ResponseCode.INVALID_PARAMETER, wrong)
    store, end = call.broker.store, call.broker.store.max_phy_offset

    def settle() -> None:
        store.flush()
        if not store.wait_dispatched(DISPATCH_SECONDS):
            raise StoreError(
                f"topic {name} was not deleted: its queues are behind the log; try again later"
            )

    try:
        call.broker.worker.run(
            settle, lambda done: answer_later(call, lambda: _settled(call, name, end, done))
        )
    except WorkerBusyError as error:
        return call.respond(ResponseCode.SYSTEM_BUSY, str(error))
    call.broker.topics.begin_delete(name)
    return None


def _settled(
    call: Call, name: str, end_phy_offset: int, done: Future[None]
) -> RemotingCommand | None:
    """Continue a deletion in the loop's thread, when queues and disk have all messages before `end_phy_offset`."""
    broker, error = call.broker, done.exception()
    if error is not None:
        broker.topics.undo_delete(name)
        return error_response(call.request, call.channel, error)
    broker.stats.topic_deleted(name)
    broker.offsets.remove_topic(name)
    end = partial(broker.topics.end_delete, name, answer_when_done(call))
    hide = partial(broker.deleted_topics.hide, name, end_phy_offset, end)
    broker.offsets.save_if_changed(hide)
    return None


def _get_all_topic_config(call: Call) -> RemotingCommand | None:
    """Return all topics, or one part to a client that asks for parts; and where the queues of deleted topics begin.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#getAllTopicConfig, TopicConfigManager#subTopicConfigTable.
    """
    table = call.broker.topics.table()
    deleted = call.broker.deleted_topics.for_slaves()
    total = len(table.topics)

    def make() -> dict[str, object]:
        part = part_of(call, table.topics, table.data_version, "topicSeq", "maxTopicNum")
        return {**replace(table, topics=part).as_json(), **_NO_MAPPINGS, **deleted}

    return answer_with_table(call, make, total, ext_fields={"totalTopicNum": str(total)})


def part_of(
    call: Call, table: Mapping[str, _T], version: DataVersion, begin: str, most: str
) -> Mapping[str, _T]:
    """Return the part of a table that a client asks for: all, or a number of entries from a position, sorted by name.

    A client with another version of the table gets the first part.
    """
    fields = call.fields
    if not fields.keys() & {"dataVersion", begin, most}:
        return table
    given = fields.text("dataVersion")
    known = bool(given.strip()) and parse_data_version(call.code.name, given.encode()) == version
    first = max(0, fields.number(begin)) if known else 0
    many = max(0, min(PART_SIZE, fields.number(most, PART_SIZE)))
    return {name: table[name] for name in sorted(table)[first : first + many]}


def _get_topic_config(call: Call) -> RemotingCommand:
    name = call.fields.text("topic")
    topic = call.broker.topics.get(name)
    if topic is None:
        remark = f"No topic in this broker. topic: {name}"
        return call.respond(ResponseCode.TOPIC_NOT_EXIST, remark)
    return call.respond(body=encode_json(topic.as_json()))


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: _update_and_create_topic,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _update_and_create_topics,
    RequestCode.DELETE_TOPIC_IN_BROKER: _delete_topic,
    RequestCode.GET_ALL_TOPIC_CONFIG: _get_all_topic_config,
    RequestCode.GET_TOPIC_CONFIG: _get_topic_config,
}
