"""The history of a run: one JSON line for each event, in the order in which they happened.

Every event has ``at`` (seconds of the monotonic clock), ``who`` (a client, or "faults") and ``what``:

send
    A send is invoked: ``op`` (its number), ``topic``, ``uids``, and where they apply ``key`` (order is kept within a key),
    ``delay_s``, ``half`` (a transaction) and ``retries`` (the client may send it again).
sent
    It is over: ``op``, ``ok``, ``places`` (queue and queue offset of each message whose place was acknowledged) or ``error``.
end, ended
    A transaction is ended: ``op`` of its send, ``commit``; then ``ok``.
got
    A message was received: ``group``, ``topic``, ``queue_id``, ``queue_offset``, ``uid``, ``named`` (the topic that its body
    names; empty if it names none), ``tries`` (how often the broker had it back).
commit, committed
    A group's offsets: ``group``, ``next`` (the first uncommitted queue offset by "topic/queue"); then ``ok``, and perhaps
    ``held`` (the member's queues after it: the offset of another queue is not committed).
member
    The queues of a member of a group changed, or it came or went: ``group``.
note
    Something that no rule is about: ``error``.
fault, healed
    A fault begins: ``name``; it is over. A clock's step has ``step_s``.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Event = dict[str, Any]


class History:
    """Events of all clients; several threads may add to it.

    Attributes
    ----------
    events : list of dict
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.events: list[Event] = []
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._guard = threading.Lock()
        self._ops = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, who: str, what: str, **more: Any) -> None:
        """Write an event down, with the time of the call."""
        with self._guard:
            event = {"at": time.monotonic(), "who": who, "what": what, **more}
            self.events.append(event)
            self._file.write(json.dumps(event) + "\n")

    def next_op(self) -> int:
        """Return the number of the next send."""
        return next(self._ops)


def body_of(uid: str, topic: str, padding: int = 0) -> bytes:
    """Return a body that names its message and its topic."""
    return f"{uid} {topic} ".encode() + b"." * padding


def named_in(body: bytes) -> tuple[str, str]:
    """Return uid and topic that a body names; other bytes are named as they are."""
    words = body[:200].split(b" ")
    if len(words) < 3:
        return body[:60].decode("utf-8", "replace"), ""  # of a client of another language
    return words[0].decode("utf-8", "replace"), words[1].decode("utf-8", "replace")
