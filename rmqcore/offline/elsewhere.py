"""Topics of which a read met no message, and which may have some in a compaction log or in a tiered store: these are not read."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

from rmqcore._native.scan.batch import Batch
from rmqcore.codec.message import MessageView
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import kept_elsewhere
from rmqcore.offline.log.walk import Blank
from rmqcore.vocabulary.status import GetMessageStatus

LOOKED_AT = (
    GetMessageStatus.FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY,
)
"""Answers that the log alone gives: a message, or that there is none yet."""


class ElsewhereWarning(UserWarning):
    """A read met no message of a topic that may have some in a compaction log or in a tiered store: these are not read."""


class Elsewhere:
    """The topics that a read asked for, until it meets messages of them.

    Parameters
    ----------
    paths : StorePaths
    topics : iterable of str, optional

    Attributes
    ----------
    topics : dict
        Topics of which no message was met, and where they may have some.
    """

    def __init__(self, paths: StorePaths, topics: Iterable[str] | None) -> None:
        self.topics = kept_elsewhere(paths, topics or ())
        self._location = paths.location

    def watch(self, views: Iterator[MessageView | Blank]) -> Iterator[MessageView | Blank]:
        """Yield messages, and warn behind the last one."""
        for view in views:
            if isinstance(view, MessageView):
                self.topics.pop(view.topic, None)
            yield view
        self.warn()

    def watch_batches(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches, and warn behind the last one if there was no row: rows of several topics do not say whose they are."""
        for batch in batches:
            if len(batch):
                self.topics.clear()
            yield batch
        self.warn()

    def warn(self) -> None:
        """Warn of the topics that are left."""
        for topic, where in self.topics.items():
            warnings.warn(
                f"{self._location}: the log has no such message of topic {topic!r}: {where}",
                ElsewhereWarning,
                stacklevel=3,
            )
