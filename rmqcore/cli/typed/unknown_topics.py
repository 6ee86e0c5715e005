"""Requested topics that the store lacks, or whose messages lie outside of the log, in part or all.

Verbs name these topics instead of printing an empty result, or a part as if it were all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rmqcore.cli.common.errors import note, say
from rmqcore.cli.names import topics_with_queues
from rmqcore.codec.message import MessageView
from rmqcore.disk.topics_file import configured_topics
from rmqcore.errors.exit_codes import FAILED, OK
from rmqcore.errors.near_names import did_you_mean
from rmqcore.offline.elsewhere import Elsewhere, only_in_compaction
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.walk import Blank
from rmqcore.offline.reader import StoreReader


class UnknownTopics:
    """Requested topics without a queue, a message in the log, or an entry in the broker's configuration.

    A log may hold messages whose queues are not made yet, and a broker makes a topic's queues with its first message.

    Parameters
    ----------
    reader : StoreReader
    topics : iterable of str
        The requested topics.
    whole_log : bool
        True if the topics are the only condition and the whole log is read: then missing topics are known even without
        ``consumequeue/``.
    shown : Conditions, optional
        Conditions of a verb that shows all messages for which they hold: then it is an error if a requested topic has live
        messages in its compaction log alone, and a note without requested topics. By default only if no message of the topic is
        met.
    """

    def __init__(
        self,
        reader: StoreReader,
        topics: Iterable[str] | None,
        *,
        whole_log: bool,
        shown: Conditions | None = None,
    ) -> None:
        self._store = reader.path
        queued = topics_with_queues(reader.paths) if topics else set()
        self._known = queued | configured_topics(reader.paths) if topics else set()
        self._missing = dict.fromkeys(topics or () if queued or whole_log else ())
        self._listed_by = "info" if queued else "stats"
        for topic in self._known:
            self._missing.pop(topic, None)
        found = Elsewhere(reader.paths, shown or Conditions.of(topics or ()))
        compacted = {one.topic: only_in_compaction(one) for one in found.compacted}
        for topic in compacted:
            self._missing.pop(topic, None)
        self._elsewhere = found.tiered | (compacted if shown is None else {})
        self._not_shown = compacted if shown is not None and topics else {}
        self._not_asked = compacted if shown is not None and not topics else {}

    def watch(self, views: Iterable[MessageView | Blank]) -> Iterator[MessageView | Blank]:
        """Yield the messages, and strike their topics off the list of topics without a message."""
        for view in views:
            if (self._missing or self._elsewhere) and isinstance(view, MessageView):
                self.met([view.topic])
            yield view

    def met(self, topics: Iterable[str | None]) -> None:
        """Remove topics with a message."""
        for topic in topics:
            if topic is not None:
                self._missing.pop(topic, None)
                self._elsewhere.pop(topic, None)

    def refuse(self) -> bool:
        """Print the missing topics as errors; return True if any is missing."""
        for topic in self._missing:
            say(f"{self._store} has {self._text(topic)}", self._hint())
        for topic, where in self._elsewhere.items():
            say(
                f"{self._store}: the log has no such message of topic {topic!r}",
                where,
            )
        for topic, where in self._not_shown.items():
            say(f"{self._store}: the log lacks messages of topic {topic!r}", where)
        for topic, where in self._not_asked.items():
            note(f"topic {topic!r}: {where}")
        return bool(self._missing or self._elsewhere or self._not_shown)

    def exit_code(self, code: int) -> int:
        """Return the exit code of a verb that would end with `code` if no topic were missing."""
        lacks = self._missing or self._elsewhere or self._not_shown
        return FAILED if lacks and code == OK else code

    def tell(self) -> None:
        """Print the missing topics, for which a verb that follows the log waits."""
        for topic in self._missing:
            note(f"{self._store} has {self._text(topic)}")
        self.tell_elsewhere()

    def tell_elsewhere(self) -> bool:
        """Print where topics have messages outside of the log; return True if a requested topic lacks messages for certain."""
        for topic, where in (self._elsewhere | self._not_shown | self._not_asked).items():
            note(f"topic {topic!r}: {where}")
        return bool(self._not_shown)

    def _text(self, topic: str) -> str:
        return f"no topic {topic!r}{did_you_mean(topic, self._known, shown=repr)}"

    def _hint(self) -> str:
        return f"`rmqcore {self._listed_by} {self._store}` lists the topics"
