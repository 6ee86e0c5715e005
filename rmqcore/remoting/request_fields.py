"""The fields of each request: their names and types, and whether they are required.

Source: RocketMQ 5.5.0 RequestHeaderRegistry, the classes in remoting.protocol.header,
RemotingCommand#decodeCommandCustomHeader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from rmqcore.errors import RequestError
from rmqcore.remoting.codes import RequestCode
from rmqcore.vocabulary.java_json import shown_value


class FieldType(Enum):
    """Type of a field; the value is its letter in the table below."""

    TEXT = "s"
    INT = "i"
    LONG = "l"
    BOOL = "b"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field of a request."""

    name: str
    type: FieldType
    required: bool


Value = str | int | bool


class RequestFields(dict[str, Value]):
    """The fields of a request by RocketMQ's long names; a field that was not sent is missing.

    The caller chooses the getter by the type of the field, which was checked when the field was read.
    """

    def text(self, name: str, default: str = "") -> str:
        """Return a field that is text."""
        value = self.get(name, default)
        assert isinstance(value, str), name
        return value

    def number(self, name: str, default: int = 0) -> int:
        """Return a field that is a number."""
        value = self.get(name, default)
        assert isinstance(value, int), name
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a field that is true or false."""
        value = self.get(name, default)
        assert isinstance(value, bool), name
        return value


def _specs(text: str) -> tuple[FieldSpec, ...]:
    """Read ``name:type``, with a star if the field is required."""
    specs = []
    for word in text.split():
        name, letter = word.split(":")
        specs.append(FieldSpec(name, FieldType(letter[0]), letter.endswith("*")))
    return tuple(specs)


SEND_V2_NAMES: Mapping[str, str] = MappingProxyType(
    dict(
        zip(
            "abcdefghijklmn",
            "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag properties reconsumeTimes "
            "unitMode maxReconsumeTimes batch bname".split(),
            strict=True,
        )
    )
)
"""What the letters stand for that a SEND_MESSAGE_V2 has for names."""

SEND_V2 = frozenset(
    {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)
"""Requests whose fields have letters for names."""

_SEND = (
    "producerGroup:s* topic:s* defaultTopic:s* defaultTopicQueueNums:i* queueId:i* sysFlag:i* bornTimestamp:l* flag:i* "
    "properties:s reconsumeTimes:i unitMode:b maxReconsumeTimes:i batch:b bname:s"
)
_PULL = (
    "consumerGroup:s* topic:s* liteTopic:s queueId:i* queueOffset:l* maxMsgNums:i* sysFlag:i* commitOffset:l* "
    "suspendTimeoutMillis:l* subscription:s subVersion:l* expressionType:s maxMsgBytes:i requestSource:i proxyFrowardClientId:s"
)
_QUEUE = "topic:s* queueId:i*"
_BROKER = "brokerName:s* brokerAddr:s* clusterName:s* brokerId:l*"
_CODE = RequestCode

REQUEST_FIELDS: Mapping[RequestCode, tuple[FieldSpec, ...]] = MappingProxyType(
    {
        code: _specs(text)
        for code, text in {
            # send
            _CODE.SEND_MESSAGE: _SEND,
            _CODE.SEND_MESSAGE_V2: _SEND,
            _CODE.SEND_BATCH_MESSAGE: _SEND,
            _CODE.SEND_REPLY_MESSAGE: _SEND,
            _CODE.SEND_REPLY_MESSAGE_V2: _SEND,
            _CODE.CONSUMER_SEND_MSG_BACK: (
                "offset:l* group:s* delayLevel:i* originMsgId:s originTopic:s unitMode:b maxReconsumeTimes:i"
            ),
            _CODE.END_TRANSACTION: (
                "topic:s producerGroup:s* tranStateTableOffset:l* commitLogOffset:l* commitOrRollback:i* fromTransactionCheck:b "
                "msgId:s* transactionId:s"
            ),
            # pull, offsets, query
            _CODE.PULL_MESSAGE: _PULL,
            _CODE.LITE_PULL_MESSAGE: _PULL,
            _CODE.QUERY_CONSUMER_OFFSET: "consumerGroup:s* topic:s* queueId:i* setZeroIfNotFound:b",
            _CODE.UPDATE_CONSUMER_OFFSET: "consumerGroup:s* topic:s* queueId:i* commitOffset:l*",
            _CODE.SEARCH_OFFSET_BY_TIMESTAMP: (
                "topic:s* liteTopic:s queueId:i* timestamp:l* boundaryType:s"
            ),
            _CODE.GET_MAX_OFFSET: f"{_QUEUE} committed:b",
            _CODE.GET_MIN_OFFSET: _QUEUE,
            _CODE.GET_EARLIEST_MSG_STORETIME: _QUEUE,
            _CODE.QUERY_MESSAGE: (
                "topic:s* key:s* maxNum:i* beginTimestamp:l* endTimestamp:l* indexType:s lastKey:s"
            ),
            _CODE.VIEW_MESSAGE_BY_ID: "topic:s offset:l*",
            _CODE.QUERY_CONSUME_QUEUE: "topic:s queueId:i index:l count:i consumerGroup:s",
            # clients
            _CODE.HEART_BEAT: "",
            _CODE.UNREGISTER_CLIENT: "clientID:s* producerGroup:s consumerGroup:s",
            _CODE.GET_CONSUMER_LIST_BY_GROUP: "consumerGroup:s*",
            _CODE.CHECK_CLIENT_CONFIG: "",
            _CODE.LOCK_BATCH_MQ: "",
            _CODE.UNLOCK_BATCH_MQ: "",
            # requests of a broker to its clients
            _CODE.CHECK_TRANSACTION_STATE: (
                "topic:s tranStateTableOffset:l* commitLogOffset:l* msgId:s transactionId:s offsetMsgId:s bname:s"
            ),
            _CODE.NOTIFY_CONSUMER_IDS_CHANGED: "consumerGroup:s*",
            _CODE.PUSH_REPLY_MESSAGE_TO_CLIENT: (
                "producerGroup:s* topic:s* defaultTopic:s* defaultTopicQueueNums:i* queueId:i* sysFlag:i* bornTimestamp:l* "
                "flag:i* properties:s reconsumeTimes:i unitMode:b bornHost:s* storeHost:s* storeTimestamp:l*"
            ),
            _CODE.RESET_CONSUMER_CLIENT_OFFSET: (
                "topic:s* group:s* timestamp:l* isForce:b* queueId:i offset:l"
            ),
            _CODE.GET_CONSUMER_STATUS_FROM_CLIENT: "topic:s* group:s* clientAddr:s",
            _CODE.GET_CONSUMER_RUNNING_INFO: "consumerGroup:s* clientId:s* jstackEnable:b",
            # topics and groups
            _CODE.UPDATE_AND_CREATE_TOPIC: (
                "topic:s* defaultTopic:s* readQueueNums:i* writeQueueNums:i* perm:i* topicFilterType:s* topicSysFlag:i order:b* "
                "attributes:s force:b"
            ),
            _CODE.GET_ALL_TOPIC_CONFIG: "topicSeq:i dataVersion:s maxTopicNum:i",
            _CODE.DELETE_TOPIC_IN_BROKER: "topic:s*",
            _CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "",
            _CODE.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "groupSeq:i dataVersion:s maxGroupNum:i",
            _CODE.DELETE_SUBSCRIPTIONGROUP: "groupName:s* cleanOffset:b",
            _CODE.GET_TOPIC_CONFIG: "topic:s*",
            _CODE.GET_SUBSCRIPTIONGROUP_CONFIG: "group:s*",
            _CODE.UPDATE_AND_CREATE_TOPIC_LIST: "",
            _CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: "",
            _CODE.UPDATE_AND_GET_GROUP_FORBIDDEN: "group:s* topic:s* readable:b",
            # assignments
            _CODE.QUERY_ASSIGNMENT: "",
            _CODE.SET_MESSAGE_REQUEST_MODE: "",
            # admin
            _CODE.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: "topic:s* group:s* clientAddr:s",
            _CODE.CONSUME_MESSAGE_DIRECTLY: (
                "consumerGroup:s* clientId:s msgId:s brokerName:s topic:s topicSysFlag:i groupSysFlag:i"
            ),
            _CODE.CLONE_GROUP_OFFSET: "srcGroup:s* destGroup:s* topic:s offline:b",
            _CODE.QUERY_TOPICS_BY_CONSUMER: "group:s*",
            _CODE.QUERY_SUBSCRIPTION_BY_CONSUMER: "group:s* topic:s",
            _CODE.DELETE_EXPIRED_COMMITLOG: "",
            _CODE.GET_COLD_DATA_FLOW_CTR_INFO: "",
            _CODE.UPDATE_BROKER_CONFIG: "",
            _CODE.GET_BROKER_CONFIG: "",
            _CODE.GET_BROKER_RUNTIME_INFO: "",
            _CODE.GET_ALL_CONSUMER_OFFSET: "",
            _CODE.GET_ALL_DELAY_OFFSET: "",
            _CODE.GET_TOPIC_STATS_INFO: "topic:s*",
            _CODE.GET_CONSUMER_CONNECTION_LIST: "consumerGroup:s*",
            _CODE.GET_PRODUCER_CONNECTION_LIST: "producerGroup:s*",
            _CODE.GET_CONSUME_STATS: "consumerGroup:s* topic:s topicList:s",
            _CODE.INVOKE_BROKER_TO_RESET_OFFSET: (
                "topic:s* group:s* queueId:i offset:l timestamp:l* isForce:b*"
            ),
            _CODE.QUERY_TOPIC_CONSUME_BY_WHO: "topic:s*",
            _CODE.QUERY_CONSUME_TIME_SPAN: "topic:s* group:s*",
            _CODE.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: "",
            _CODE.CLEAN_EXPIRED_CONSUMEQUEUE: "",
            _CODE.VIEW_BROKER_STATS_DATA: "statsName:s* statsKey:s*",
            _CODE.CLEAN_UNUSED_TOPIC: "",
            _CODE.GET_BROKER_CONSUME_STATS: "isOrder:b*",
            _CODE.GET_ALL_PRODUCER_INFO: "",
            _CODE.GET_ALL_MESSAGE_REQUEST_MODE: "",
            _CODE.GET_BROKER_HA_STATUS: "",
            _CODE.EXCHANGE_BROKER_HA_INFO: "masterHaAddress:s masterFlushOffset:l masterAddress:s",
            _CODE.GET_TIMER_CHECK_POINT: "",
            _CODE.GET_TIMER_METRICS: "",
            # name server
            _CODE.PUT_KV_CONFIG: "namespace:s* key:s* value:s*",
            _CODE.GET_KV_CONFIG: "namespace:s* key:s*",
            _CODE.DELETE_KV_CONFIG: "namespace:s* key:s*",
            _CODE.REGISTER_BROKER: (
                f"{_BROKER} haServerAddr:s* heartbeatTimeoutMillis:l enableActingMaster:b compressed:b bodyCrc32:i"
            ),
            _CODE.UNREGISTER_BROKER: _BROKER,
            _CODE.GET_ROUTEINFO_BY_TOPIC: "topic:s* acceptStandardJsonOnly:b",
            _CODE.GET_BROKER_CLUSTER_INFO: "",
            _CODE.WIPE_WRITE_PERM_OF_BROKER: "brokerName:s*",
            _CODE.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: "",
            _CODE.DELETE_TOPIC_IN_NAMESRV: "topic:s* clusterName:s",
            _CODE.GET_SYSTEM_TOPIC_LIST_FROM_NS: "",
            _CODE.GET_TOPICS_BY_CLUSTER: "cluster:s*",
            _CODE.GET_KVLIST_BY_NAMESPACE: "namespace:s*",
            _CODE.UPDATE_NAMESRV_CONFIG: "",
            _CODE.GET_NAMESRV_CONFIG: "",
            _CODE.QUERY_DATA_VERSION: _BROKER,
            _CODE.ADD_WRITE_PERM_OF_BROKER: "brokerName:s*",
            _CODE.GET_BROKER_MEMBER_GROUP: "clusterName:s* brokerName:s*",
            _CODE.BROKER_HEARTBEAT: (
                "clusterName:s* brokerAddr:s* brokerName:s* brokerId:l epoch:i maxOffset:l confirmOffset:l "
                "heartbeatTimeoutMills:l electionPriority:i"
            ),
        }.items()
    }
)
"""Of each request that is known its fields. Those that Java's headers inherit (ns, nsd, oway, lo) mean nothing to a server."""

_LETTERS = {name: letter for letter, name in SEND_V2_NAMES.items()}
_SENT_NAMES: Mapping[RequestCode, tuple[tuple[str, FieldSpec], ...]] = {
    code: tuple((_LETTERS[spec.name] if code in SEND_V2 else spec.name, spec) for spec in specs)
    for code, specs in REQUEST_FIELDS.items()
}
"""The fields of each request, with the names that they are sent under."""
_TEXT, _BOOL = FieldType.TEXT, FieldType.BOOL
_PLAIN_DIGITS = 9
"""As many digits fit an int."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")
_LIMITS = {FieldType.INT: 1 << 31, FieldType.LONG: 1 << 63}


def parse_fields(code: RequestCode, ext_fields: Mapping[str, str]) -> RequestFields:
    """Read the fields of a request; unknown fields are left out.

    Parameters
    ----------
    code : RequestCode
        One of `REQUEST_FIELDS`.
    ext_fields : mapping
        The fields as received.

    Raises
    ------
    RequestError
        A required field is missing, or a field is not a number of its type. Java logs the latter and ignores the field.
    """
    fields = RequestFields()
    for sent_name, spec in _SENT_NAMES[code]:
        text = ext_fields.get(sent_name)
        if text is not None:
            fields[spec.name] = text if spec.type is _TEXT else _value(code, spec, text)
        elif spec.required:
            raise RequestError(code.name, spec.name, "a value", "missing")
    return fields


def encode_fields(code: RequestCode, fields: Mapping[str, Value]) -> dict[str, str]:
    """Write the fields of a request, under their short names if it has short names.

    Raises
    ------
    ValueError
        A required field is missing, a field has another type or exceeds its range, or the request has no such field.
    """
    known = {spec.name for spec in REQUEST_FIELDS[code]}
    if unknown := [name for name in fields if name not in known]:
        raise ValueError(f"{code.name} has no field {unknown[0]!r}")
    return {
        sent_name: _text(code, spec, fields[spec.name]) for sent_name, spec in _given(code, fields)
    }


def _given(code: RequestCode, fields: Mapping[str, Value]) -> Iterable[tuple[str, FieldSpec]]:
    for sent_name, spec in _SENT_NAMES[code]:
        if spec.name in fields:
            yield sent_name, spec
        elif spec.required:
            raise ValueError(f"{code.name} needs a field {spec.name!r}")


def _value(code: RequestCode, spec: FieldSpec, text: str) -> Value:
    if len(text) <= _PLAIN_DIGITS and text.isascii() and text.isdigit() and spec.type is not _BOOL:
        return int(text)  # most numbers have this form
    if spec.type is _BOOL:
        return text.lower() == "true"  # as Boolean.parseBoolean: everything else is false
    number = int(text) if _NUMBER.fullmatch(text) else None
    limit = _LIMITS[spec.type]
    if number is None or not -limit <= number < limit:
        expected = "an int" if spec.type is FieldType.INT else "a long"
        raise RequestError(code.name, spec.name, expected, shown_value(text))
    return number


def _text(code: RequestCode, spec: FieldSpec, value: Value) -> str:
    match spec.type, value:
        case FieldType.BOOL, bool():
            return "true" if value else "false"
        case FieldType.TEXT, str():
            return value
        case ((FieldType.INT | FieldType.LONG), int()) if not isinstance(value, bool):
            if -_LIMITS[spec.type] <= value < _LIMITS[spec.type]:
                return str(value)
    raise ValueError(f"{code.name}: {spec.name} is {value!r}, expected {spec.type.name}")
