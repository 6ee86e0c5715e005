"""The topics of a broker, as it registers them.

Source: RocketMQ 5.5.0 RegisterBrokerBody, TopicConfigSerializeWrapper, TopicConfig, DataVersion.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqcore.errors import RequestError
from rmqcore.remoting.bodies.json_object import JsonObject, encode_long_json, parse_body
from rmqcore.vocabulary.data_version import DataVersion

READ, WRITE, INHERIT = 4, 2, 1
"""Bits of a topic's ``perm``; by the leave of one with INHERIT a send creates others."""
SINGLE_TAG = "SINGLE_TAG"
FIRST_VERSION_WITH_LIST = 37
"""Before V3_0_11 the body has the topics alone, without an object around them."""
MAX_PLAIN_SIZE = 64 << 20
"""Bytes that a compressed body may become."""
_INT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Settings of a topic at a broker; the defaults are Java's."""

    name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = READ | WRITE
    topic_filter_type: str = SINGLE_TAG
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it by Java's names."""
        return {
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.name,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }


@dataclass(frozen=True, slots=True)
class TopicTable:
    """All topics of a broker by name, and the version of the table."""

    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)

    def as_json(self) -> dict[str, Any]:
        """Return it by Java's names: the body of GET_ALL_TOPIC_CONFIG, and the contents of topics.json."""
        return {
            "dataVersion": self.data_version.as_json(),
            "topicConfigTable": {name: topic.as_json() for name, topic in self.topics.items()},
        }


@dataclass(frozen=True, slots=True)
class RegistrationBounds:
    """Limits of the body of a registration; the defaults are for a name server's own broker.

    Attributes
    ----------
    plain_bytes : int
        Most bytes of a decompressed body.
    topics : int or None
    values : int or None
        Values of the JSON, as `parse_json` counts them.
    """

    plain_bytes: int = MAX_PLAIN_SIZE
    topics: int | None = None
    values: int | None = None

    def check_topics(self, request: str, count: int) -> None:
        """Raise RequestError if there are too many topics."""
        if self.topics is not None and count > self.topics:
            raise RequestError(request, "topics", f"at most {self.topics:,}", f"{count:,}")


def parse_data_version(request: str, body: bytes) -> DataVersion:
    """Read a body that is the version of a table.

    Raises
    ------
    RequestError
        The body is not a version.
    """
    return data_version(parse_body(request, body))


def parse_registration(
    request: str,
    body: bytes,
    *,
    version: int,
    compressed: bool,
    bounds: RegistrationBounds = RegistrationBounds(),
) -> TopicTable:
    """Read the topics of REGISTER_BROKER; filter servers and static topics are ignored.

    Parameters
    ----------
    request : str
        Name of the request, for errors.
    body : bytes
        If empty, the broker has no topics.
    version : int
        The request's version.
    compressed : bool
        The request's field ``compressed``.
    bounds : RegistrationBounds

    Raises
    ------
    RequestError
        The body is invalid, or exceeds the bounds.
    """
    if not body:
        return TopicTable()
    if compressed and version >= FIRST_VERSION_WITH_LIST:
        return _CompressedReader(request, body, bounds).topic_table()
    found = parse_body(request, body, bounds.values)
    if version >= FIRST_VERSION_WITH_LIST:
        found = found.child("topicConfigSerializeWrapper")
    table = topic_table(found)
    bounds.check_topics(request, len(table.topics))
    return table


def encode_registration(table: TopicTable) -> bytes:
    """Write the topics for REGISTER_BROKER, not compressed."""
    body = {"filterServerList": [], "topicConfigSerializeWrapper": table.as_json()}
    return encode_long_json(body)


def data_version(found: JsonObject) -> DataVersion:
    """Read the version of a table."""
    names = ("stateVersion", "timestamp", "counter")
    return DataVersion(*(found.number(name, 0) for name in names))


def topic_table(found: JsonObject) -> TopicTable:
    """Read the topics by name, and their version, in the form of GET_ALL_TOPIC_CONFIG and topics.json."""
    topics = {}
    for key, topic in found.table("topicConfigTable"):
        config = topic_config(topic, key)
        topics[config.name] = config
    return TopicTable(topics, data_version(found.child("dataVersion")))


def topic_config(found: JsonObject, name: str | None = None) -> TopicConfig:
    """Read one topic; `name` is used if the topic does not include its name."""
    return TopicConfig(
        found.text("topicName", name),
        found.int32("readQueueNums", 16),
        found.int32("writeQueueNums", 16),
        found.int32("perm", READ | WRITE),
        found.text("topicFilterType", SINGLE_TAG),
        found.int32("topicSysFlag", 0),
        found.flag("order"),
        found.text_table("attributes"),
    )


class _CompressedReader:
    """A zlib stream of lengths and texts from a peer, each of which is checked."""

    def __init__(self, request: str, body: bytes, bounds: RegistrationBounds) -> None:
        self._request = request
        self._bounds = bounds
        stream = zlib.decompressobj()
        try:
            self._data = stream.decompress(body, bounds.plain_bytes)
        except zlib.error as error:
            raise self._wrong("body", "a zlib stream", error) from None
        if not stream.eof:
            expected = f"a zlib stream of at most {bounds.plain_bytes} bytes"
            raise self._wrong("body", expected, "a longer or truncated stream")
        self._pos = 0

    def topic_table(self) -> TopicTable:
        """Read version and topics; the lists behind them are ignored."""
        version = parse_data_version(self._request, self._piece("dataVersion"))
        topics = {}
        count = self._length("topic count", len(self._data) // 4)
        self._bounds.check_topics(self._request, count)
        for number in range(count):
            topic = self._topic(f"topic {number}")
            topics[topic.name] = topic
        return TopicTable(topics, version)

    def _topic(self, field: str) -> TopicConfig:
        try:
            text = self._piece(field).decode("utf-8")
            name, *numbers, filter_type = text.split(" ", 5)[:5]
            read_nums, write_nums, perm = map(int, numbers)
        except ValueError:
            expected = "a name, two queue counts, perm and a filter type"
            raise self._wrong(field, expected, "another text") from None
        attributes = text.split(" ", 5)[5:]
        return TopicConfig(
            name, read_nums, write_nums, perm, filter_type, attributes=self._attributes(attributes)
        )

    def _attributes(self, text: list[str]) -> dict[str, str]:
        """Read the attributes, which an older broker does not send."""
        if not text or not text[0].strip():
            return {}
        members = parse_body(
            self._request, b'{"attributes":' + text[0].encode() + b"}", self._bounds.values
        )
        return members.text_table("attributes")

    def _piece(self, field: str) -> bytes:
        length = self._length(field, len(self._data) - self._pos - 4)
        self._pos += length
        return self._data[self._pos - length : self._pos]

    def _length(self, field: str, most: int) -> int:
        if len(self._data) - self._pos < 4:
            raise self._wrong(f"{field} length", "4 bytes", f"{len(self._data) - self._pos} bytes")
        length: int = _INT.unpack_from(self._data, self._pos)[0]
        if not 0 <= length <= most:
            raise self._wrong(f"{field} length", f"0 to {most}", length)
        self._pos += 4
        return length

    def _wrong(self, field: str, expected: str, found: object) -> RequestError:
        return RequestError(self._request, field, expected, found)
