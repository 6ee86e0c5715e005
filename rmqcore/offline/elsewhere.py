"""Messages that lie outside of the log: in a tiered store, which is not read, or only in a compaction log."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from rmqcore._native.scan.batch import Batch
from rmqcore.codec.message import MessageView
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import tiered_topics
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.walk import Blank
from rmqcore.offline.queues.compacted_topics import CompactedTopic, list_compacted
from rmqcore.vocabulary.status import GetMessageStatus

LOOKED_AT = (
    GetMessageStatus.FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY,
)
"""Answers that the log alone gives: a message, or that there is none yet."""


class ElsewhereWarning(UserWarning):
    """A read of the log lacks messages of a topic that are only in a compaction log, or may be in a tiered store."""


class Elsewhere:
    """The topics that a read of the log asked for, as far as they have messages outside of it.

    Parameters
    ----------
    paths : StorePaths
    wanted : Conditions
        Conditions of the read; one that names CommitLog offsets has no messages elsewhere.

    Attributes
    ----------
    tiered : dict
        Topics of which no message was met and which may have some in a tiered store, and where.
    compacted : list of CompactedTopic
        Topics with messages that the log has deleted and a compaction log has. Without `Conditions.topics` all of these.
    """

    def __init__(self, paths: StorePaths, wanted: Conditions) -> None:
        self._location = paths.location
        self.tiered: dict[str, str] = {}
        self.compacted: list[CompactedTopic] = []
        if wanted.start_phy_offset is None and wanted.end_phy_offset is None:
            self.tiered = tiered_topics(paths, wanted.topics or ())
            found = list_compacted(
                paths, wanted.topics, since_ms=wanted.since_ms, until_ms=wanted.until_ms
            )
            self.compacted = [one for one in found if one.only_here]

    def __bool__(self) -> bool:
        return bool(self.tiered or self.compacted)

    def watch(self, views: Iterator[MessageView | Blank]) -> Iterator[MessageView | Blank]:
        """Yield messages, and warn behind the last one."""
        for view in views:
            if isinstance(view, MessageView):
                self.met(view.topic)
            yield view
        self.warn()

    def watch_batches(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches, and warn behind the last one if there was no row: rows of several topics do not say whose they are."""
        for batch in batches:
            if len(batch):
                self.tiered.clear()
            yield batch
        self.warn()

    def met(self, topic: str) -> None:
        """Note that the log has a message of a topic: a tiered store may still have others, but the reader knows of the topic."""
        self.tiered.pop(topic, None)

    def sentences(self) -> Iterator[tuple[str, str]]:
        """Yield each topic, and where it has messages."""
        yield from self.tiered.items()
        for one in self.compacted:
            yield one.topic, only_in_compaction(one)

    def warn(self) -> None:
        """Warn of the topics that are left."""
        for topic, where in self.sentences():
            warnings.warn(
                f"{self._location}: the log lacks messages of topic {topic!r}: {where}",
                ElsewhereWarning,
                stacklevel=3,
            )


def only_in_compaction(one: CompactedTopic) -> str:
    """Say how many messages of a topic are only in its compaction log, and what reads them."""
    what = "live message is" if one.only_here == 1 else "live messages are"
    return (
        f"{one.only_here:,} {what} only in {one.place}: `rmqcore get` and `rmqcore cat --compacted` "
        "(StoreReader.get, compacted_messages) read that"
    )
