"""The topics of a broker: kept in ``config/topics.json``, and created by sends if the broker allows it.

Source: RocketMQ 5.5.0 TopicConfigManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Any

from rmqcore.broker.attributes import TOPIC_ATTRIBUTES, changed_attributes
from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.state.new_topics import NewTopic, Then, topic_like
from rmqcore.broker.state.system_tables import system_topics
from rmqcore.broker.thens import call_each, nothing
from rmqcore.remoting.bodies.json_object import JsonObject
from rmqcore.remoting.bodies.topic_configs import (
    INHERIT,
    READ,
    WRITE,
    TopicConfig,
    TopicTable,
    topic_table,
)
from rmqcore.remoting.names import wrong_topic
from rmqcore.vocabulary.data_version import DataVersion
from rmqcore.vocabulary.java_json import shown_value
from rmqcore.vocabulary.topics import DEFAULT_TOPIC, SYSTEM_TOPICS, is_system_topic

FILE = "topics.json"
MOST_LISTED = 5
MOST_QUEUES = 1024
"""Of a topic that a request makes; those of a file may have more."""
OnChange = Callable[[tuple[TopicConfig, ...], Callable[[], object]], object]
"""Gets the topics that have changed, none where one was deleted, and what is to be called when name servers know of it."""
_LOG = logging.getLogger("rmqcore.broker")


class TopicConfigs:
    """The topics that a broker knows. Its methods are called by the loop's thread only.

    A topic that a send creates is known once it is on disk and registered at the name servers. Until then `get` returns
    None, and other sends to it wait as well.

    Parameters
    ----------
    settings : BrokerSettings
    config_files : ConfigFiles
    now_ms : callable

    Attributes
    ----------
    settings : BrokerSettings
        Those of the broker, as they are now.
    on_change : callable or None
        Registers topics; without it, no name server learns of them.
    watch : callable or None
        Receives the name of each topic for which `get` returns another result from now on.

    Raises
    ------
    StoreFormatError
        ``topics.json`` cannot be read, nor its ``.bak``.
    """

    def __init__(
        self, settings: BrokerSettings, config_files: ConfigFiles, now_ms: Callable[[], int]
    ) -> None:
        self.settings = settings
        self._files = config_files
        self._now_ms = now_ms
        self._topics = {topic.name: topic for topic in system_topics(settings)}
        self._own = frozenset(self._topics)
        self._version = DataVersion()
        self._made: dict[str, NewTopic] = {}
        self._leaving: dict[str, TopicConfig] = {}
        self.on_change: OnChange | None = None
        self.watch: Callable[[str], object] | None = None
        saved = config_files.load_as(FILE, _parse)
        if saved is not None:
            self._take(saved)

    def _take(self, saved: TopicTable) -> None:
        for topic in saved.topics.values():
            wrong = None if topic.name in self._own else wrong_topic(topic.name)
            if wrong is None:
                self._topics[topic.name] = topic
            else:
                self._files.left_out(FILE, wrong)
        self._version = saved.data_version

    # ---- asking -------------------------------------------------------------------------------------

    def get(self, name: str) -> TopicConfig | None:
        """Return a topic; None if it is unknown."""
        return self._topics.get(name)

    def table(self) -> TopicTable:
        """Return all topics as they are now, with the version of the table."""
        return TopicTable(dict(self._topics), self._version)

    def known(self) -> Mapping[str, TopicConfig]:
        """Return all topics by name without a copy, to be read before control returns to the loop."""
        return self._topics

    def is_system(self, name: str) -> bool:
        """Return True if RocketMQ itself uses a topic, including the broker's and the cluster's own topics."""
        return name in self._own or is_system_topic(name)

    def system_topics(self) -> list[str]:
        """Return the names of the topics that RocketMQ itself uses, including the broker's and the cluster's own."""
        return sorted(self._own | SYSTEM_TOPICS)

    def tell_of_unknown(self, names: Iterable[str]) -> None:
        """Log the unknown ones of some topics with messages: no client can read them. Topics of groups are left out."""
        known = self._topics
        unknown = [
            name
            for name in names
            if not (name in known or self.is_system(name) or name.startswith("%"))
        ]
        if unknown:
            listed = ", ".join(unknown[:MOST_LISTED]) + (", ..." if unknown[MOST_LISTED:] else "")
            text = (
                "%s lacks topics that have messages: %s; clients see such a topic only after "
                "mqadmin updateTopic has created it"
            )
            _LOG.warning(text, f"config/{FILE}", listed)

    # ---- creating -----------------------------------------------------------------------------------

    def create_for_send(
        self, topic: str, default_topic: str, queue_nums: int, sys_flag: int, then: Then
    ) -> None:
        """Call `then` with the topic of a message, which is created if `default_topic` allows that; with None if it does not.

        `then` is called at once if no topic is created, and later otherwise.

        Source: RocketMQ 5.5.0 TopicConfigManager#createTopicInSendMessageMethod.
        """
        if self._known_or_made(topic, then):
            return
        default = self._topics.get(default_topic)
        closed = default_topic == DEFAULT_TOPIC and not self.settings.auto_create_topic_enable
        if default is not None and closed:
            default = self._topics[default_topic] = replace(default, perm=READ | WRITE)
        if default is None or not default.perm & INHERIT:
            why = "does not exist" if default is None else "lacks the INHERIT permission"
            shown = shown_value(default_topic)
            _LOG.warning("topic %s was not created: default topic %s %s", topic, shown, why)
            then(None)
            return
        self._make(topic_like(default, topic, queue_nums, sys_flag), then)

    def create_for_send_back(
        self, topic: str, queue_nums: int, perm: int, sys_flag: int, then: Then
    ) -> None:
        """Call `then` with a topic of the broker's own messages, which is created if it is missing.

        Source: RocketMQ 5.5.0 TopicConfigManager#createTopicInSendMessageBackMethod.
        """
        if self._known_or_made(topic, then):
            return
        self._make(TopicConfig(topic, queue_nums, queue_nums, perm, topic_sys_flag=sys_flag), then)

    def _known_or_made(self, topic: str, then: Then) -> bool:
        """Call `then`, at once or later, if the topic exists or is being created; return whether that is so."""
        known = self._topics.get(topic)
        if known is not None:
            then(known)
            return True
        made = self._made.get(topic)
        if made is not None:
            made.thens.append(then)
            return True
        wrong = wrong_topic(topic)
        if wrong is not None:
            _LOG.warning("a topic could not be created: %s", shown_value(wrong))
            then(None)
        return wrong is not None

    def _make(self, topic: TopicConfig, then: Then) -> None:
        if self._are_too_many({topic.name}):
            _LOG.warning(
                "topic %s was not created: the limit of %d topics is reached (maxTopics)",
                topic.name,
                self.settings.max_topics,
            )
            then(None)
            return
        _LOG.info("new topic %s", topic)
        made = self._made[topic.name] = NewTopic(topic, then)
        self._save(partial(self._tell, (topic,), partial(self._is_made, made)))

    def _are_too_many(self, names: AbstractSet[str]) -> bool:
        """Return True if the broker would have too many topics with these."""
        new = names - self._topics.keys() - self._made.keys()
        return bool(new) and (
            len(self._topics) + len(self._made) + len(new) > self.settings.max_topics
        )

    def _is_made(self, made: NewTopic) -> None:
        name = made.topic.name
        if self._made.get(name) is made:
            del self._made[name]
            self._topics.setdefault(name, made.topic)
            self._note(name)
        call_each(made.thens, self._topics.get(name))

    # ---- changing -----------------------------------------------------------------------------------

    def update(self, topic: TopicConfig, then: Callable[[], object] | None = None) -> None:
        """Create or change a topic, as `update_all` does."""
        self.update_all([topic], then)

    def update_all(
        self, topics: list[TopicConfig], then: Callable[[], object] | None = None
    ) -> None:
        """Create or change topics, all or none; `then` is called when they are on disk and registered.

        The topics' attributes are changes: ``+name`` with a value, or ``-name``.

        Raises
        ------
        ValueError
            A name or an attribute is invalid, or the broker already has ``maxTopics`` topics.

        Notes
        -----
        Source: RocketMQ 5.5.0 TopicConfigManager#updateTopicConfigList.
        """
        changed = tuple(self._with_attributes(topic) for topic in topics)
        if self._are_too_many({topic.name for topic in changed}):
            raise ValueError(
                f"there are already {len(self._topics):,} topics, the limit is {self.settings.max_topics:,} (maxTopics)"
            )
        for topic in changed:
            _LOG.info("topic %s was %s", topic, self._topics.get(topic.name))
            self._topics[topic.name] = topic
            self._note(topic.name)
        self._save(partial(self._tell, changed, then or nothing))

    def _with_attributes(self, topic: TopicConfig) -> TopicConfig:
        wrong = None if topic.name in self._own else wrong_topic(topic.name)
        if wrong is not None:
            raise ValueError(wrong)
        known = self._topics.get(topic.name)
        current = None if known is None else known.attributes
        attributes = changed_attributes(TOPIC_ATTRIBUTES, current, topic.attributes)
        return replace(topic, attributes=attributes)

    def set_order(self, names: Iterable[str]) -> None:
        """Mark topics whose messages are ordered over all brokers, as a name server says.

        Source: RocketMQ 5.5.0 TopicConfigManager#updateOrderTopicConfig.
        """
        known = (self._topics.get(name) for name in names)
        changed = [topic for topic in known if topic is not None and not topic.order]
        for topic in changed:
            self._topics[topic.name] = replace(topic, order=True)
            self._note(topic.name)
        if changed:
            self._save(nothing)

    def begin_delete(self, name: str) -> None:
        """Forget a topic in memory; the file keeps it until `end_delete`. An unknown topic is logged."""
        made = self._made.pop(name, None)
        found = self._topics.pop(name, None) or (None if made is None else made.topic)
        if found is None:
            _LOG.warning("topic %s is unknown", shown_value(name))
            return
        self._leaving[name] = found
        self._note(name)

    def undo_delete(self, name: str) -> None:
        """Restore a topic after `begin_delete`, unless it was created again."""
        found = self._leaving.pop(name, None)
        if found is not None:
            self._topics.setdefault(name, found)
            self._note(name)

    def end_delete(self, name: str, then: Callable[[], object]) -> None:
        """Delete a topic for good after `begin_delete`; `then` is called when that is on disk and registered."""
        if self._leaving.pop(name, None) is None:
            then()
            return
        _LOG.info("topic %s is deleted", name)
        self._save(partial(self._tell, (), then))

    def adopt(self, table: TopicTable) -> None:
        """Replace the topics and the version of the table by a master's; topics that the master lacks are deleted.

        Source: RocketMQ 5.5.0 SlaveSynchronize#syncTopicConfig.
        """
        wanted = {
            name: topic
            for name, topic in table.topics.items()
            if name in self._own or wrong_topic(name) is None
        }
        gone = self._topics.keys() - wanted.keys() - self._own
        changed = [topic for name, topic in wanted.items() if self._topics.get(name) != topic]
        if not (gone or changed) and self._version == table.data_version:
            return
        for name in gone:
            del self._topics[name]
        self._topics.update({topic.name: topic for topic in changed})
        for name in (*gone, *(topic.name for topic in changed)):
            self._note(name)
        self._version = table.data_version
        self._files.save(FILE, self._saved)
        self._tell((), nothing)

    def tell_all(self) -> None:
        """Register all topics again, after a change of the broker's permission."""
        self._version = self._version.next(self._now_ms())
        self._tell((), nothing)

    def _note(self, name: str) -> None:
        if self.watch is not None:
            self.watch(name)

    def _save(self, then: Callable[[], object]) -> None:
        self._version = self._version.next(self._now_ms())
        self._files.save(FILE, self._saved, then)

    def _saved(self) -> Callable[[], dict[str, Any]]:
        made = {name: made.topic for name, made in self._made.items()}
        return TopicTable({**self._leaving, **made, **self._topics}, self._version).as_json

    def _tell(self, changed: tuple[TopicConfig, ...], then: Callable[[], object]) -> None:
        if self.on_change is None:
            then()
        else:
            self.on_change(changed, then)


def _parse(saved: dict[str, Any]) -> TopicTable:
    return topic_table(JsonObject(FILE, "", saved))
