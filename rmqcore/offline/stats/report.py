"""Report of `stats`."""

from __future__ import annotations

from dataclasses import dataclass, field

from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.queues.compacted_topics import CompactedTopic
from rmqcore.offline.stats.timeline import TimelineBucket
from rmqcore.shown.report import Report


@dataclass(frozen=True, slots=True)
class TagCount:
    """How many messages have a tag: a whole TAGS value."""

    tag: str
    messages: int


@dataclass(frozen=True, slots=True)
class GroupStats:
    """Messages of a topic, or of a topic, hour and queue.

    Attributes
    ----------
    topic : str or None
        None in the total, and in the row of topics that were not counted separately.
    hour_ms : int or None
        Where `stats` was asked for hours: the begin of the hour of the store time.
    queue_id : int or None
        Where it was asked for queues.
    bytes : int
        Of whole records.
    share : float
        Of the bytes of all messages that were counted.
    messages_per_second, bytes_per_second : float
        Over the time between the first and the last message, at least a second.
    distinct_tags : int
        At most 10,000 are counted.
    top_tags : tuple of TagCount
        The ten most frequent ones.
    all_tags_counted : bool
        False where there were more tags than are counted.
    msg_size_p50, msg_size_p99, latency_p50_ms, latency_p99_ms : float or None
        Within 1.6 % (exact up to 63); None where there are too many groups for histograms. Latency is store minus born time.
    first_store_timestamp_ms, last_store_timestamp_ms : int
        The least and the greatest.
    """

    topic: str | None
    hour_ms: int | None
    queue_id: int | None
    messages: int
    bytes: int
    share: float
    messages_per_second: float
    bytes_per_second: float
    distinct_tags: int
    top_tags: tuple[TagCount, ...]
    all_tags_counted: bool
    msg_size_min: int
    msg_size_mean: float
    msg_size_p50: float | None
    msg_size_p99: float | None
    msg_size_max: int
    latency_min_ms: int
    latency_mean_ms: float
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    latency_max_ms: int
    first_store_timestamp_ms: int
    last_store_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """Unread messages of a consumer group in a topic.

    Attributes
    ----------
    queues : int
        Queues of the topic for which the group has an offset.
    lag : int
        Messages from the group's offsets to the ends of the queues.
    lost : int
        How many of them the store no longer has.
    first_unread_ms : int or None
        Store time of the oldest unread message; None if there is none, or it cannot be read.
    behind_ms : int or None
        From then to the newest message of the store.
    beyond : int
        Queues in which the group's offset lies behind the end of the queue, as after a loss of messages or in a store that was
        made anew; or which the store does not have.
    """

    group: str
    topic: str
    queues: int
    lag: int
    lost: int
    first_unread_ms: int | None
    behind_ms: int | None
    beyond: int


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """A message, and where it lies; None for what could not be read again."""

    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    phy_offset: int
    msg_size: int
    store_timestamp_ms: int
    tags: str | None
    keys: tuple[str, ...]


@dataclass(frozen=True)
class StatsReport(Report):
    """Counts of a store.

    Attributes
    ----------
    path : str
    total : GroupStats or None
        Total of all messages; None if there are none.
    by : tuple of str
        The keys of the counts: ``topic``, then ``hour`` and ``queue`` if requested.
    groups : list of GroupStats
        The one with the most bytes first; with hours by topic and hour.
    more_groups : bool
        There were more than 200,000: the messages of all others are one group without a topic.
    consumers : list of ConsumerLag
        By group and topic.
    largest, newest : list of MessagePlace
        The ten largest messages, and the ten last ones of the log, the last one first.
    timeline_width_ms : int
    timeline : list of TimelineBucket
        At most 240 buckets of that width, by store time, without gaps.
    damage : list of DamageRange
        What could not be read, or was read although its body fails its CRC; as `StoreReader.damage`.
    problems : list of str
        What is wrong with the consumer offsets.
    seconds : float
    compacted : list of CompactedTopic
        What compacted topics have in ``compaction/``; nothing else of the report counts it.
    """

    path: str
    total: GroupStats | None
    by: tuple[str, ...]
    groups: list[GroupStats]
    more_groups: bool
    consumers: list[ConsumerLag]
    largest: list[MessagePlace]
    newest: list[MessagePlace]
    timeline_width_ms: int
    timeline: list[TimelineBucket]
    damage: list[DamageRange]
    problems: list[str]
    seconds: float
    compacted: list[CompactedTopic] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 where every record could be read, 2 otherwise."""
        return DAMAGED if self.damage else OK
