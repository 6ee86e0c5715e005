"""A broker's settings beside its store's: Java's names in snake_case, with Java's defaults, and rmqcore's own bounds.

Source: RocketMQ 5.5.0 BrokerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from rmqcore.config.broker_conf import field_of, java_name, parse_value
from rmqcore.errors.arguments import SettingError
from rmqcore.vocabulary.units import DAY_MS, INT_MAX, LONG_MAX

MOST_NAME = 255
"""Letters of a name: the region's is a property of each message, the broker's is in each route."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """How a broker answers. Intervals and timeouts are milliseconds.

    Attributes
    ----------
    broker_name, broker_cluster_name : str
    broker_id : int
        0 is the master.
    broker_ip1 : str or None
        The host that clients receive; None: the host on which the broker listens.
    broker_permission : int
        Bits 4 (read) and 2 (write) for all topics.
    region_id : str
        ``MSG_REGION`` of messages and answers.
    trace_on : bool
    auto_create_topic_enable, auto_create_subscription_group : bool
    default_topic_queue_nums : int
        Queues of ``TBW102``, and the highest number of queues of a topic that a send creates.
    cluster_topic_enable, broker_topic_enable, trace_topic_enable : bool
        The topics named after the cluster and the broker allow sends to create topics; the trace topic exists.
    msg_trace_topic_name : str
    reject_transaction_message : bool
    transaction_time_out, transaction_check_interval : int
    transaction_check_max : int
    long_polling_enable : bool
    short_polling_time_mills : int
        How long a pull is held if `long_polling_enable` is off.
    notify_consumer_ids_changed_enable : bool
    channel_expired_timeout : int
        A client that was silent for this time is gone.
    enable_property_filter : bool
        Consumers may subscribe with SQL92.
    filter_support_retry : bool
        Retried messages pass the filter again.
    slave_read_enable : bool
    ha_flow_control_enable : bool
        The master sends all slaves together at most `max_ha_transfer_byte_in_second`.
    max_ha_transfer_byte_in_second : int
        Bytes of the log; Java counts only the headers of frames.
    flush_consumer_offset_interval : int
    register_name_server_period : int
    max_buffered_bytes : int
        Bytes in the buffers of all connections of a port.
    max_topics, max_subscription_groups : int
    max_client_bytes, max_client_bytes_per_connection : int
        Estimated bytes of the groups, members, subscriptions and expressions of heartbeats.
    max_dead_filter_bytes : int
        Estimated bytes of the compiled expressions of groups that are gone.
    max_held_pull_bytes : int
        Estimated bytes of held pulls.
    max_consumer_offsets : int
        Committed offsets of queues.
    max_queue_locks : int
        Locks of queues that are consumed in order.
    max_stats_items : int
        Counters of topics and groups.
    max_registered_topics, max_kv_config_bytes : int
        Bounds of the name server: topics of all brokers, and bytes of its KV config.
    """

    broker_name: str = "broker-a"
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = 0
    broker_ip1: str | None = None
    broker_permission: int = 6
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    reject_transaction_message: bool = False
    transaction_time_out: int = 6_000
    transaction_check_interval: int = 30_000
    transaction_check_max: int = 15
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1_000
    notify_consumer_ids_changed_enable: bool = True
    channel_expired_timeout: int = 120_000
    enable_property_filter: bool = False
    filter_support_retry: bool = False
    slave_read_enable: bool = False
    ha_flow_control_enable: bool = False
    max_ha_transfer_byte_in_second: int = 100 << 20
    flush_consumer_offset_interval: int = 5_000
    register_name_server_period: int = 30_000
    max_buffered_bytes: int = 256 << 20
    max_topics: int = 50_000
    max_subscription_groups: int = 20_000
    max_client_bytes: int = 64 << 20
    max_client_bytes_per_connection: int = 4 << 20
    max_dead_filter_bytes: int = 16 << 20
    max_held_pull_bytes: int = 128 << 20
    max_consumer_offsets: int = 1_000_000
    max_queue_locks: int = 100_000
    max_stats_items: int = 50_000
    max_registered_topics: int = 500_000
    max_kv_config_bytes: int = 4 << 20

    def __post_init__(self) -> None:
        """Refuse values with which the broker would misbehave or never rest.

        Raises
        ------
        SettingError
            A value is out of its range.
        """
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise SettingError((java_name(name),), f"expected {low} to {high}, got {value}")
        for name in ("broker_name", "broker_cluster_name", "region_id"):
            if len(text := getattr(self, name)) > MOST_NAME:
                problem = f"expected at most {MOST_NAME} letters, got {len(text):,}"
                raise SettingError((java_name(name),), problem)
        for name in ("broker_name", "broker_cluster_name"):
            if not getattr(self, name).strip():
                raise SettingError((java_name(name),), "expected a name, got an empty value")

    @classmethod
    def from_properties(cls, given: Mapping[str, str]) -> Self:
        """Read the settings from the keys of a ``broker.conf``; keys of other parts of a broker are ignored.

        Raises
        ------
        SettingError
            A value is invalid, or enables authentication or the election of masters, which this broker does not have. The error
            names the key.
        """
        for key in NOT_SERVED & given.keys():
            if parse_value(key, "bool", given[key]):
                raise SettingError((key,), "expected false: this broker does not support it")
        return replace(cls(), **parse_settings(given))


def parse_settings(given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the keys of a properties file that belong to BrokerSettings; return the fields by name.

    Raises
    ------
    SettingError
        A value is invalid; the error names the key.
    """
    values: dict[str, Any] = {}
    for key, text in given.items():
        name = field_of(key, _TYPES.keys())
        if name is not None:
            values[name] = parse_value(key, _TYPES[name], text)
    return values


NOT_SERVED = frozenset(
    {"aclEnable", "authenticationEnabled", "authorizationEnabled", "enableControllerMode"}
)
"""Keys that are not passed over: a broker that asks nobody who they are must not take a configuration that wants it."""
_TYPES = {field.name: str(field.type) for field in fields(BrokerSettings)}
_RANGES = {
    "broker_id": (0, LONG_MAX),
    "broker_permission": (0, 7),
    "default_topic_queue_nums": (1, 1024),
    "transaction_time_out": (0, 365 * DAY_MS),
    "transaction_check_interval": (10, 365 * DAY_MS),
    "transaction_check_max": (0, INT_MAX),
    "short_polling_time_mills": (1, DAY_MS),
    "max_ha_transfer_byte_in_second": (1, LONG_MAX),
    "channel_expired_timeout": (1_000, DAY_MS),
    "flush_consumer_offset_interval": (10, DAY_MS),
    "register_name_server_period": (10, 60_000),
    "max_buffered_bytes": (1 << 24, 1 << 40),
    "max_topics": (100, 1 << 31),
    "max_subscription_groups": (100, 1 << 31),
    "max_client_bytes": (1 << 16, 1 << 40),
    "max_client_bytes_per_connection": (1 << 16, 1 << 40),
    "max_dead_filter_bytes": (0, 1 << 40),
    "max_held_pull_bytes": (1 << 16, 1 << 40),
    "max_consumer_offsets": (1_000, 1 << 31),
    "max_queue_locks": (100, 1 << 31),
    "max_stats_items": (1_000, 1 << 31),
    "max_registered_topics": (1_000, 1 << 31),
    "max_kv_config_bytes": (1 << 16, 1 << 40),
}
