"""Requested topics that the store lacks, or has in a place that rmqcore does not read.

Verbs name these topics instead of printing an empty result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rmqcore.cli.common.errors import note, say
from rmqcore.cli.names import topics_with_queues
from rmqcore.codec.message import MessageView
from rmqcore.disk.store_kinds import kept_elsewhere
from rmqcore.disk.topics_file import configured_topics
from rmqcore.errors.exit_codes import FAILED, OK
from rmqcore.errors.near_names import did_you_mean
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
    """

    def __init__(
        self, reader: StoreReader, topics: Iterable[str] | None, *, whole_log: bool
    ) -> None:
        self._store = reader.path
        queued = topics_with_queues(reader.paths) if topics else set()
        self._known = queued | configured_topics(reader.paths) if topics else set()
        self._missing = dict.fromkeys(topics or () if queued or whole_log else ())
        self._listed_by = "info" if queued else "stats"
        for topic in self._known:
            self._missing.pop(topic, None)
        self._elsewhere = kept_elsewhere(reader.paths, topics or ())

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
        return bool(self._missing or self._elsewhere)

    def exit_code(self, code: int) -> int:
        """Return the exit code of a verb that would end with `code` if no topic were missing."""
        return FAILED if (self._missing or self._elsewhere) and code == OK else code

    def tell(self) -> None:
        """Print the missing topics, for which a verb that follows the log waits."""
        for topic in self._missing:
            note(f"{self._store} has {self._text(topic)}")
        self.tell_elsewhere()

    def tell_elsewhere(self) -> None:
        """Print the topics without a message that may have some in places that rmqcore does not read."""
        for topic, where in self._elsewhere.items():
            note(f"topic {topic!r}: {where}")

    def _text(self, topic: str) -> str:
        return f"no topic {topic!r}{did_you_mean(topic, self._known, shown=repr)}"

    def _hint(self) -> str:
        return f"`rmqcore {self._listed_by} {self._store}` lists the topics"
