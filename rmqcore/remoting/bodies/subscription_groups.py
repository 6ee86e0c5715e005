"""The consumer groups of a broker: their settings and permissions.

Source: RocketMQ 5.5.0 SubscriptionGroupConfig, SubscriptionGroupWrapper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqcore.remoting.bodies.json_object import JsonObject
from rmqcore.remoting.bodies.topic_configs import data_version
from rmqcore.vocabulary.data_version import DataVersion

_CUSTOMIZED, _EXPONENTIAL = "CUSTOMIZED", "EXPONENTIAL"
_FLAGS = {
    "consumeEnable": "consume_enable",
    "consumeFromMinEnable": "consume_from_min_enable",
    "consumeBroadcastEnable": "consume_broadcast_enable",
    "consumeMessageOrderly": "consume_message_orderly",
    "notifyConsumerIdsChangedEnable": "notify_consumer_ids_changed_enable",
}
_INTS = {
    "retryQueueNums": "retry_queue_nums",
    "retryMaxTimes": "retry_max_times",
    "groupSysFlag": "group_sys_flag",
    "consumeTimeoutMinute": "consume_timeout_minute",
}
_LONGS = {
    "brokerId": "broker_id",
    "whichBrokerWhenConsumeSlowly": "which_broker_when_consume_slowly",
}


@dataclass(frozen=True, slots=True)
class SubscriptionGroupConfig:
    """Settings of a consumer group at a broker; names and defaults are Java's.

    `group_retry_policy` and `subscription_data_set` are only for POP consumers, and are kept unchanged.
    """

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: Mapping[str, Any] = field(default_factory=lambda: {"type": _CUSTOMIZED})
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: tuple[Mapping[str, Any], ...] | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it by Java's names."""
        names = {**_FLAGS, **_INTS, **_LONGS}
        members: dict[str, Any] = {java: getattr(self, name) for java, name in names.items()}
        members["groupName"] = self.group_name
        members["groupRetryPolicy"] = dict(self.group_retry_policy)
        members["attributes"] = dict(self.attributes)
        if self.subscription_data_set is not None:
            members["subscriptionDataSet"] = [dict(wanted) for wanted in self.subscription_data_set]
        return dict(sorted(members.items()))


@dataclass(frozen=True, slots=True)
class SubscriptionGroupTable:
    """All groups of a broker by name, the forbidden operations as bits by group and topic, and the table's version."""

    groups: Mapping[str, SubscriptionGroupConfig] = field(default_factory=dict)
    forbidden: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)

    def as_json(self) -> dict[str, Any]:
        """Return it by Java's names: the body of GET_ALL_SUBSCRIPTIONGROUP_CONFIG, and the contents of subscriptionGroup.json."""
        return {
            "dataVersion": self.data_version.as_json(),
            "forbiddenTable": {group: dict(bits) for group, bits in self.forbidden.items()},
            "subscriptionGroupTable": {
                name: group.as_json() for name, group in self.groups.items()
            },
        }


def subscription_group(found: JsonObject, name: str | None = None) -> SubscriptionGroupConfig:
    """Read one group; `name` is used if the group does not include its name.

    Raises
    ------
    RequestError
        The object is not a valid group.
    """
    wanted = found.objects("subscriptionDataSet")
    members: dict[str, Any] = {
        field_name: found.flag(java, _DEFAULTS[field_name]) for java, field_name in _FLAGS.items()
    }
    for java, field_name in _INTS.items():
        members[field_name] = found.int32(java, _DEFAULTS[field_name])
    for java, field_name in _LONGS.items():
        members[field_name] = found.number(java, _DEFAULTS[field_name])
    return SubscriptionGroupConfig(
        found.text("groupName", name),
        group_retry_policy=_retry_policy(found.child("groupRetryPolicy")),
        subscription_data_set=tuple(_wanted(one) for one in wanted) if wanted else None,
        attributes=found.text_table("attributes"),
        **members,
    )


def subscription_group_table(found: JsonObject) -> SubscriptionGroupTable:
    """Read all groups, in the form of GET_ALL_SUBSCRIPTIONGROUP_CONFIG and subscriptionGroup.json.

    Raises
    ------
    RequestError
        The object is not a valid table of groups.
    """
    groups = {}
    for key, members in found.table("subscriptionGroupTable"):
        group = subscription_group(members, key)
        groups[group.group_name] = group
    forbidden = {group: bits.number_table() for group, bits in found.table("forbiddenTable")}
    return SubscriptionGroupTable(groups, forbidden, data_version(found.child("dataVersion")))


def _retry_policy(found: JsonObject) -> dict[str, Any]:
    kind = found.text("type", _CUSTOMIZED)
    if kind not in (_CUSTOMIZED, _EXPONENTIAL):
        found.refuse("type", f"{_CUSTOMIZED} or {_EXPONENTIAL}", kind)
    policy: dict[str, Any] = {"type": kind}
    exponential = found.child("exponentialRetryPolicy")
    if numbers := exponential.number_table():
        policy["exponentialRetryPolicy"] = {
            name: numbers[name] for name in ("initial", "max", "multiplier") if name in numbers
        }
    if times := found.child("customizedRetryPolicy").numbers("next"):
        policy["customizedRetryPolicy"] = {"next": times}
    return policy


def _wanted(found: JsonObject) -> dict[str, Any]:
    names = ("topic", "expressionType", "expression")
    return {**{name: found.text(name, "") for name in names}, "version": found.number("version", 0)}


_DEFAULTS = {
    name: getattr(SubscriptionGroupConfig(""), name)
    for name in (*_FLAGS.values(), *_INTS.values(), *_LONGS.values())
}
