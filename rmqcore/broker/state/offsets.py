"""How far each consumer group has read: in memory, and in ``config/consumerOffset.json``.

Source: RocketMQ 5.5.0 ConsumerOffsetManager, LmqConsumerOffsetManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from rmqcore.broker.config_files import ConfigFiles
from rmqcore.disk.consumer_offsets import (
    BETWEEN_TOPIC_AND_GROUP,
    LMQ_TABLE,
    parse_consumer_offsets,
)
from rmqcore.queries.queue_info import QueueInfo
from rmqcore.vocabulary.data_version import DataVersion
from rmqcore.vocabulary.java_json import shown_value
from rmqcore.vocabulary.topics import LMQ_PREFIX

FILE = "consumerOffset.json"
LMQ_FILE = "lmqConsumerOffset.json"
UPDATE_VERSION_STEP = 500
"""So many commits make a new version of the table."""
MOST_TOLD = 10
"""Offsets that a start sets back, and its warning names."""
_FAIR_TENTHS = 9
"""From so many tenths of the bound on, a connection makes no new offsets that made more than a hundredth of the bound."""
_LOG = logging.getLogger("rmqcore.broker")


class OffsetsFullError(ValueError):
    """The broker refuses the offset of one more queue, because its table is full."""


class Offsets:
    """The committed offsets of groups, and those of their pulls. Its methods are called by the loop's thread only.

    Parameters
    ----------
    files : ConfigFiles
    now_ms : callable
        The clock.
    lmq : bool
        ``enableLmq``: all offsets are in ``lmqConsumerOffset.json``. If the file in use is missing, the offsets of the
        other one are used; Java starts without offsets then.
    most : int
        Highest number of offsets that commits may create; the file may hold more.

    Raises
    ------
    StoreFormatError
        The file exists, and neither it nor its ``.bak`` can be read.
    """

    def __init__(
        self, files: ConfigFiles, now_ms: Callable[[], int], *, lmq: bool = False, most: int
    ) -> None:
        self._most = most
        self._count = self._pulled_count = 0
        self._made_by: dict[str, int] = {}
        self._files = files
        self._lmq = lmq
        self._file, other = (LMQ_FILE, FILE) if lmq else (FILE, LMQ_FILE)
        self._now_ms = now_ms
        self._table: dict[tuple[str, str], dict[int, int]] = {}
        self._pulled: dict[tuple[str, str], dict[int, int]] = {}
        self._version = DataVersion(timestamp_ms=now_ms())
        self._commits = 0
        self._changed = False
        saved = files.load(self._file)
        if saved is None:
            saved = files.load(other)
            self._changed = saved is not None
            if saved is not None:
                self._tell(
                    f"{self._file} is missing, and the offsets of {other} are continued there"
                )
        if saved is not None:
            self._take(saved)

    def _take(self, saved: Mapping[str, Any]) -> None:
        groups, version = parse_consumer_offsets(saved, self._leave_out)
        for group, offsets in groups.items():
            for (topic, queue_id), queue_offset in offsets.items():
                self._table.setdefault((topic, group), {})[queue_id] = queue_offset
        if version is not None:
            self._version = version
        self._recount()

    def adopt(self, told: Mapping[str, Any]) -> None:
        """Adopt a master's offsets from its answer to GET_ALL_CONSUMER_OFFSET; groups that it lacks keep theirs.

        Source: RocketMQ 5.5.0 SlaveSynchronize#syncConsumerOffset.
        """
        groups, version = parse_consumer_offsets(told, self._leave_out)
        for group, offsets in groups.items():
            by_topic: dict[tuple[str, str], dict[int, int]] = {}
            for (topic, queue_id), queue_offset in offsets.items():
                by_topic.setdefault((topic, group), {})[queue_id] = queue_offset
            for place, queues in by_topic.items():
                self._changed |= self._table.get(place) != queues
                self._table[place] = queues
        if version is not None:
            self._version = version
        self._recount()
        self.save_if_changed()

    def cut_back(self, queues: Iterable[QueueInfo]) -> None:
        """Set offsets behind the ends of their queues to these ends; offsets of queues that are not named stay.

        The log lost messages that the group had received: in a power cut, or by `serve --truncate-to-master`. The next
        messages get their queue offsets, and a group that is away then would never receive them. Java leaves the
        offsets unchanged.

        Parameters
        ----------
        queues : iterable of QueueInfo
            The queues of a store after its recovery.
        """
        ends = {(queue.topic, queue.queue_id): queue.max_offset for queue in queues}
        moved = []
        for (topic, group), offsets in self._table.items():
            for queue_id, queue_offset in offsets.items():
                end = ends.get((topic, queue_id), queue_offset)
                if queue_offset > end:
                    offsets[queue_id] = end
                    moved.append(
                        f"group {shown_value(group)}, topic {shown_value(topic)}, queue {queue_id}: from {queue_offset} to {end}"
                    )
        if moved:
            self._changed = True
            text = "the log has lost messages; offsets of groups behind the ends of their queues are set to the ends (%d): %s"
            more = [f"and {len(moved) - MOST_TOLD} more"] if len(moved) > MOST_TOLD else []
            _LOG.warning(text, len(moved), "; ".join(moved[:MOST_TOLD] + more))

    def _leave_out(self, problem: str) -> None:
        self._tell(f"{self._file}: {problem}; it is left out")

    def _tell(self, text: str) -> None:
        _LOG.warning("%s", text)
        self._files.problems.append(text)

    def _recount(self) -> None:
        self._count = sum(map(len, self._table.values()))
        self._pulled_count = sum(map(len, self._pulled.values()))

    # ---- single offsets

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the queue offset that a group has committed; -1 if the group has committed none."""
        return self._table.get((topic, group), {}).get(queue_id, -1)

    def commit(
        self,
        group: str,
        topic: str,
        queue_id: int,
        queue_offset: int,
        client: str = "",
        *,
        is_own: bool = False,
    ) -> None:
        """Store a queue offset, which may be before the present one.

        Parameters
        ----------
        group, topic : str
        queue_id, queue_offset : int
        client : str
            Address of the connection, for the log and for the bound.
        is_own : bool
            The broker's own group commits, to which no bound applies.

        Raises
        ------
        OffsetsFullError
            The group has no offset of the queue yet, and the table has `most` offsets; from nine tenths of `most` on,
            also if the connection made more than its share.
        """
        offsets = self._table.get((topic, group), {})
        before = offsets.get(queue_id)
        if before is None:
            if not is_own:
                self._check_room(client, 1)
            self._table.setdefault((topic, group), offsets)
            before = -1
            self._count += 1
            self._made_by[client] = self._made_by.get(client, 0) + 1
        if queue_offset < before:
            text = "%s sets the offset of group %s, topic %s, queue %d back from %d to %d"
            names = shown_value(group), shown_value(topic)
            _LOG.warning(text, client, *names, queue_id, before, queue_offset)
        offsets[queue_id] = queue_offset
        self._changed |= queue_offset != before
        self._commits += 1
        if self._commits % UPDATE_VERSION_STEP == 0:
            self._version = self._version.next(self._now_ms())

    def _check_room(self, client: str, new: int) -> None:
        made = self._made_by.get(client, 0)
        is_greedy = made * 100 > self._most and self._count * 10 >= self._most * _FAIR_TENTHS
        if self._count + new > self._most or is_greedy:
            raise OffsetsFullError(
                f"{self._count:,} offsets are stored, {made:,} of them by this connection; the "
                f"limit is {self._most:,} (maxConsumerOffsets). Deleting groups or topics frees "
                "theirs"
            )

    def client_closed(self, client: str) -> None:
        """Forget how many offsets a connection has made; the offsets stay."""
        self._made_by.pop(client, None)

    def note_pull(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Note where a group's next pull begins, in memory only; above the bound the oldest entries are dropped."""
        pulled = self._pulled.setdefault((topic, group), {})
        self._pulled_count += queue_id not in pulled
        pulled[queue_id] = queue_offset
        while self._pulled_count > self._most and len(self._pulled) > 1:
            self._pulled_count -= len(self._pulled.pop(next(iter(self._pulled))))

    def query_pull(self, group: str, topic: str, queue_id: int) -> int:
        """Return where the next pull starts: as noted, else at the committed offset; -1 without either."""
        pulled = self._pulled.get((topic, group), {}).get(queue_id)
        return self.query(group, topic, queue_id) if pulled is None else pulled

    # ---- groups and topics

    def topics_of(self, group: str) -> list[str]:
        """Return the topics for which a group has committed offsets."""
        return [topic for topic, owner in self._table if owner == group]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed offsets of a topic."""
        return [group for name, group in self._table if name == topic]

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group in a topic by queue id."""
        return dict(self._table.get((topic, group), {}))

    def clone(self, source: str, target: str, topic: str) -> None:
        """Replace the committed offsets of a group in a topic by those of another group.

        Source: RocketMQ 5.5.0 ConsumerOffsetManager#cloneOffset.

        Raises
        ------
        OffsetsFullError
            The table would have more than `most` offsets.
        """
        found = self._table.get((topic, source))
        if found is not None:
            new = len(found) - len(self._table.get((topic, target), ()))
            if new > 0:
                self._check_room("", new)
            self._table[topic, target] = dict(found)
            self._count += new
            self._changed = True

    def remove(self, group: str) -> None:
        """Forget all offsets of a group."""
        self._remove(lambda place: place[1] == group)

    def remove_topic(self, topic: str) -> None:
        """Forget all offsets in a topic."""
        self._remove(lambda place: place[0] == topic)

    def _remove(self, is_meant: Callable[[tuple[str, str]], bool]) -> None:
        for table in (self._table, self._pulled):
            for place in [place for place in table if is_meant(place)]:
                del table[place]
                self._changed = True
        self._recount()

    # ---- the whole table

    def __len__(self) -> int:
        return len(self._table)

    def whole(self) -> dict[str, Any]:
        """Return all committed offsets by Java's names, as in the file and the answer to GET_ALL_CONSUMER_OFFSET."""
        make = self.snapshot()
        return make()

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """Return a function that returns `whole`, and that any thread may call.

        Groups, topics and the version are those of now. The offsets of a group in a topic are copied in one step when
        their turn comes: each is the committed offset of now or of a later time.
        """
        entries, version = list(self._table.items()), self._version
        return partial(self._of_entries, entries, version)

    def _of_entries(
        self, entries: list[tuple[tuple[str, str], dict[int, int]]], version: DataVersion
    ) -> dict[str, Any]:
        light, other = {}, {}
        for (topic, group), offsets in entries:
            key = f"{topic}{BETWEEN_TOPIC_AND_GROUP}{group}"
            if self._lmq and group.startswith(LMQ_PREFIX):
                light[key] = offsets.get(0, 0)
            else:
                # `copy` holds the GIL throughout; an iteration would not.
                copied = offsets.copy()
                other[key] = {
                    str(queue_id): queue_offset for queue_id, queue_offset in copied.items()
                }
        whole = {"dataVersion": version.as_json(), "offsetTable": other}
        return {**whole, LMQ_TABLE: light} if self._lmq else whole

    def save_if_changed(self, then: Callable[[], object] | None = None) -> None:
        """Write the file if an offset has changed since the last write; call `then` when it is on disk."""
        if self._changed:
            self._changed = False
            self._files.save(self._file, self.snapshot, then)
        elif then is not None:
            then()
