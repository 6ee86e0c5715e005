"""Requests for tables of a broker: offsets, statistics, the consumers of a topic, system topics.

Source: RocketMQ 5.5.0 AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqcore.broker.call import Call
from rmqcore.broker.state.stats import StatsSnapshot, snapshot
from rmqcore.remoting.bodies.heartbeat import subscription_json
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand


def _get_all_delay_offset(call: Call) -> RemotingCommand:
    return call.respond(body=encode_json(call.broker.schedule.as_json()))


def _get_all_message_request_mode(call: Call) -> RemotingCommand:
    """Return the groups that pop: none, because this broker serves pulls only."""
    return call.respond(body=encode_json({"messageRequestModeMap": {}}))


def _query_topic_consume_by_who(call: Call) -> RemotingCommand:
    """Return the groups that subscribe to a topic now, or have read it.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#queryTopicConsumeByWho.
    """
    topic = call.fields.text("topic")
    groups = [*call.broker.consumers.groups_of(topic), *call.broker.offsets.groups_of(topic)]
    return call.respond(body=encode_json({"groupList": list(dict.fromkeys(groups))}))


def _query_topics_by_consumer(call: Call) -> RemotingCommand:
    """Return the topics in which a group has committed offsets.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#queryTopicsByConsumer.
    """
    topics = call.broker.offsets.topics_of(call.fields.text("group"))
    body = {"brokerAddr": call.broker.address, "topicList": topics}
    return call.respond(body=encode_json(body))


def _query_subscription_by_consumer(call: Call) -> RemotingCommand:
    """Return the subscription of a group with members to a topic.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#querySubscriptionByConsumer.
    """
    group, topic = call.fields.text("group"), call.fields.text("topic")
    wanted = call.broker.consumers.subscription(group, topic)
    body: dict[str, object] = {"group": group, "topic": topic}
    if wanted is not None:
        body["subscriptionData"] = subscription_json(wanted)
    return call.respond(body=encode_json(body))


def _get_cold_data_flow_ctr_info(call: Call) -> RemotingCommand:
    """Return the groups that read messages from disk: an empty table, because the broker neither counts nor slows them.

    Source: RocketMQ 5.5.0 ColdDataCgCtrService#getColdDataFlowCtrInfo; the thresholds are Java's defaults.
    """
    body = {
        "cgColdReadThreshold": 3 << 20,
        "configTable": {},
        "globalColdReadThreshold": 100 << 20,
        "runtimeTable": {},
        "globalAcc": 0,
    }
    return call.respond(body=encode_json(body))


def _get_system_topic_list(call: Call) -> RemotingCommand:
    return call.respond(body=encode_json({"topicList": call.broker.topics.system_topics()}))


def _view_broker_stats_data(call: Call) -> RemotingCommand:
    """Return the counts under a name for a topic or group, in the last minute, hour and day.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#ViewBrokerStatsData.
    """
    name, key = call.fields.text("statsName"), call.fields.text("statsKey")
    item = call.broker.stats.item(name, key)
    if item is None:
        remark = f"The stats <{name}> <{key}> not exist"
        return call.respond(ResponseCode.SYSTEM_ERROR, remark)
    body = {
        "statsDay": _snapshot_json(snapshot(item.day)),
        "statsHour": _snapshot_json(snapshot(item.hour)),
        "statsMinute": _snapshot_json(snapshot(item.minute)),
    }
    return call.respond(body=encode_json(body))


def _snapshot_json(counted: StatsSnapshot) -> dict[str, object]:
    return {"avgpt": counted.avgpt, "sum": counted.sum, "tps": counted.tps}


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.GET_ALL_DELAY_OFFSET: _get_all_delay_offset,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: _get_all_message_request_mode,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _query_topic_consume_by_who,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: _query_topics_by_consumer,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: _query_subscription_by_consumer,
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: _get_cold_data_flow_ctr_info,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _get_system_topic_list,
    RequestCode.VIEW_BROKER_STATS_DATA: _view_broker_stats_data,
}
