"""Messages that wait for work which only a Java broker does: the timer wheel's, and those of POP consumers.

A timed message waits in ``rmq_sys_wheel_timer`` and in a slot of ``timerwheel`` until its time has come. A message that a POP
consumer was given waits for its acknowledgement: ``rmq_sys_REVIVE_LOG_*`` has check points and acknowledgements, and what they
leave over is given to consumers again. rmqcore does neither, so it says how many there are.

Source: RocketMQ 5.5.0 TimerWheel, Slot, TimerCheckpoint, TimerMessageStore, PopReviveService, PopCheckPoint, AckMsg.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from rmqcore.disk.consumer_offsets import read_consumer_offsets
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import queue_directories
from rmqcore.disk.read_range import read_range
from rmqcore.errors import RemoteStorageError, StoreError
from rmqcore.offline.log.log_files import LogFile, list_log_files
from rmqcore.offline.log.window import record_at
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import max_offset
from rmqcore.shown.report import Report
from rmqcore.vocabulary.topics import REVIVE_TOPIC_PREFIX

WHEEL, WHEEL_CHECK = "timerwheel", "config/timercheck"
TIMER_TOPIC = "rmq_sys_wheel_timer"
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
SLOT = np.dtype(
    [("time", ">i8"), ("first", ">i8"), ("last", ">i8"), ("num", ">i4"), ("magic", ">i4")]
)

WHEEL_BYTES = 2 * 604_800 * SLOT.itemsize
PRECISION_MS = 1000
"""timerPrecisionMs, by which a slot's time is counted."""
MOST_READ = 10_000
"""Number of check points and acknowledgements that are read; more may follow."""
MOST_CHECKED = 256
"""The most messages that a check point names; one with more is damaged."""
MOST_PROBLEMS = 20


@dataclass
class Waiting(Report):
    """Messages that wait for a Java broker.

    Attributes
    ----------
    timer_messages : int
        Timed messages whose time has not come, POP's own among them.
    timer_until_ms : int or None
        When the last of those in the wheel is due; milliseconds since the epoch.
    pop_messages : int
        Messages that POP consumers were given and have not acknowledged.
    pop_at_least : bool
        There are more check points than were read.
    problems : list of str
        Files that could not be read, or are damaged, each as a sentence.
    """

    timer_messages: int = 0
    timer_until_ms: int | None = None
    pop_messages: int = 0
    pop_at_least: bool = False
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return asdict(self)

    @property
    def timer_sentence(self) -> str:
        """Return a sentence about waiting timed messages; empty if there are none."""
        if not self.timer_messages:
            return ""
        until = f" until {_time(self.timer_until_ms)}" if self.timer_until_ms is not None else ""
        what = _counted(self.timer_messages, "timed message waits", "timed messages wait")
        return f"{what}{until}; rmqcore does not deliver them"

    @property
    def pop_sentence(self) -> str:
        """Return a sentence about unacknowledged POP messages; empty if there are none."""
        if not self.pop_messages and not self.pop_at_least:
            return ""
        what = _counted(self.pop_messages, "message waits", "messages wait")
        least = "at least " if self.pop_at_least else ""
        return f"{least}{what} for a POP consumer's acknowledgement; rmqcore does not revive them"

    @property
    def sentences(self) -> list[str]:
        """All that is said, with what could not be read."""
        return [*filter(None, (self.timer_sentence, self.pop_sentence)), *self.problems]

    def problem(self, text: str) -> None:
        """Note what could not be read; the last one stands for all others."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(text)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def count_waiting(paths: StorePaths) -> Waiting:
    """Count what waits in a store; files are only read, and what cannot be read is named in the answer.

    Parameters
    ----------
    paths : StorePaths

    Raises
    ------
    RemoteStorageError
        The store is behind a URL, and its server does not give a file.
    """
    found = Waiting()
    for count, topic in ((_count_timers, TIMER_TOPIC), (_count_popped, REVIVE_TOPIC_PREFIX)):
        try:
            count(paths, found, _queues(paths, topic))
        except RemoteStorageError:
            raise
        except (StoreError, OSError) as error:
            found.problem(str(error))
    return found


def _queues(paths: StorePaths, topic: str) -> list[QueueFiles]:
    """The queues of topics that begin with a text; no other queue is looked into."""
    paths.bring_in(paths.consumequeue, beginnings=True)
    return [
        QueueFiles(name, queue_id, directory, leave_out_links=paths.leave_out_links)
        for name, queue_id, directory in queue_directories(paths, lambda path, error: None)
        if name.startswith(topic)
    ]


# ---- the timer wheel --------------------------------------------------------------------------------


def _count_timers(paths: StorePaths, found: Waiting, queues: list[QueueFiles]) -> None:
    read_to_ms, queue_offset = _timer_check(paths, found)
    behind = sum(max(0, max_offset(queue) - queue_offset) for queue in queues)
    data = read_range(paths.root / WHEEL, 0, WHEEL_BYTES + 1)
    if data and len(data) != WHEEL_BYTES:
        size = f"more than {WHEEL_BYTES}" if len(data) > WHEEL_BYTES else f"{len(data)}"
        found.problem(f"{WHEEL}: file size is {size}, expected {WHEEL_BYTES}")
    slots = np.frombuffer(data, SLOT, min(len(data), WHEEL_BYTES) // SLOT.itemsize)
    at = np.flatnonzero(slots["num"])
    times, counts = slots["time"][at].astype(np.int64), slots["num"][at].astype(np.int64)
    sound = (counts > 0) & (times > 0) & (times % (WHEEL_BYTES // SLOT.itemsize) == at)
    if not sound.all():
        first = int(at[np.flatnonzero(~sound)[0]])
        damaged = int(np.count_nonzero(~sound))
        found.problem(f"{WHEEL} at {first * SLOT.itemsize}: {damaged} slots are damaged")
    coming = sound & (times >= read_to_ms // PRECISION_MS)
    found.timer_messages = behind + int(counts[coming].sum())
    if coming.any():
        found.timer_until_ms = int(times[coming].max()) * PRECISION_MS


def _timer_check(paths: StorePaths, found: Waiting) -> tuple[int, int]:
    """Up to which time the wheel was read, and which messages of the timer's topic are in it."""
    data = read_range(paths.root / WHEEL_CHECK, 0, 32)
    if not data:
        return 0, 0
    if len(data) < 32:
        found.problem(f"{WHEEL_CHECK}: file size is {len(data)}, expected 4096")
        return 0, 0
    read_to_ms, _, queue_offset, _ = struct.unpack(">qqqq", data)
    if read_to_ms < 0 or queue_offset < 0:
        what = f"lastReadTimeMs is {read_to_ms}, lastTimerQueueOffset is {queue_offset}"
        found.problem(f"{WHEEL_CHECK}: {what}, expected 0 or more")
    return max(0, read_to_ms), max(0, queue_offset)


# ---- POP --------------------------------------------------------------------------------------------

Popped = tuple[str, str, int, int]
"""Group, topic, queue id and queue offset of a message."""


def _count_popped(paths: StorePaths, found: Waiting, queues: list[QueueFiles]) -> None:
    if not queues:
        return
    revived = read_consumer_offsets(paths).groups.get(REVIVE_GROUP, {})
    files = list_log_files(paths)
    given: set[Popped] = set()
    acknowledged: set[Popped] = set()
    for queue in queues:
        begin = revived.get((queue.topic, queue.queue_id), 0)
        for tag, body in _bodies(queue, begin, files, found):
            try:
                if tag == "ck":
                    given.update(_given(body))
                else:
                    acknowledged.update(_acknowledged(body))
            except (KeyError, TypeError, ValueError):
                found.problem(f"{queue.topic} {queue.queue_id}: a {tag!r} cannot be read")
    found.pop_messages = len(given - acknowledged)


def _bodies(
    queue: QueueFiles, begin: int, files: list[LogFile], found: Waiting
) -> Iterator[tuple[str, Any]]:
    """The check points and acknowledgements of a queue from an offset on, each with its tag."""
    begin = max(begin, queue.files[0].first_offset if queue.files else 0)
    end = max_offset(queue)
    if end - begin > MOST_READ:
        found.pop_at_least = True
    for entry in queue.entries(begin, max(0, min(end - begin, MOST_READ))):
        view = record_at(files, int(entry["phy_offset"]), most_whole=1 << 20)
        if view is None or view.topic != queue.topic:
            continue
        try:
            yield view.tags or "", json.loads(bytes(view.body))
        except (ValueError, RecursionError):
            found.problem(f"{queue.topic} {queue.queue_id}: a {view.tags!r} cannot be read")


def _given(body: Any) -> Iterator[Popped]:
    """The messages of a check point that its own bits do not say to be acknowledged."""
    place = str(body["c"]), str(body["t"]), int(body["q"])
    count, bits = int(body["n"]), int(body.get("bm") or 0)
    ahead = body.get("d") or range(count)
    if not 0 <= count <= MOST_CHECKED or len(ahead) > MOST_CHECKED:
        raise ValueError(count)
    for number, distance in enumerate(ahead):
        if not bits >> number & 1:
            yield (*place, int(body["so"]) + int(distance))


def _acknowledged(body: Any) -> Iterator[Popped]:
    """The messages of an acknowledgement, or of a batch of them."""
    place = str(body["c"]), str(body["t"]), int(body["q"])
    for queue_offset in body["aol"] if "aol" in body else [body["ao"]]:
        yield (*place, int(queue_offset))
