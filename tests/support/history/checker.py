"""Judges a history of a served broker, beside what its store has at the end.

At least once is what is promised, so a message may come twice; `check` finds what no fault of a machine or a network excuses.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from support.history.record import Event

SLACK_S = 0.02
"""The broker's clock has milliseconds, and is not the one of the history."""
UNSAVED_S = 15.0
"""A kill takes away commits that are younger than this: `flushConsumerOffsetInterval` is 5 s, and a machine may be busy."""


class Stored(NamedTuple):
    """A message in the log at the end."""

    topic: str
    queue_id: int
    queue_offset: int
    uid: str
    named: str


class Finding(NamedTuple):
    """Something that must not be.

    Attributes
    ----------
    kind : str
        lost, undelivered, misplaced, twice, reordered, again, early, rolled back, strange.
    """

    kind: str
    text: str


class Sent(NamedTuple):
    """A message of a send."""

    uid: str
    invoke: Event
    done: Event | None
    place: tuple[str, int, int] | None
    expected: bool
    """It must be in its topic at the end."""
    forbidden: bool
    """Its transaction was rolled back."""


def check(
    events: Sequence[Event],
    stored: Iterable[Stored],
    *,
    groups: Mapping[str, Iterable[str]],
    ordered: Iterable[str] = (),
) -> list[Finding]:
    """Return what is wrong.

    Parameters
    ----------
    events
        The history; `record` has their fields.
    stored
        All messages of the store, in the order of the log.
    groups
        The topics of each group that received until nothing was left.
    ordered
        Groups whose consumer promises the order of a queue.
    """
    messages = sends_of(events)
    at_end = list(stored)
    topics = {message.invoke["topic"] for message in messages.values()}
    in_topics = [one for one in at_end if one.topic in topics]
    return [
        *in_store(messages, in_topics, [e["at"] for e in events if is_kill(e)]),
        *places(messages, in_topics, events),
        *key_order(messages, in_topics),
        *delivered(messages, in_topics, events, groups),
        *queue_order(events, set(ordered)),
        *after_commit(events),
        *before_time(messages, events),
    ]


def sends_of(events: Iterable[Event]) -> dict[str, Sent]:
    """Return every message that was sent, by uid."""
    invokes: dict[int, Event] = {}
    done: dict[int, Event] = {}
    ends: dict[int, Event] = {}
    ended: dict[int, bool] = {}
    tables = {"send": invokes, "sent": done, "end": ends}
    for event in events:
        if event["what"] in tables:
            tables[event["what"]][event["op"]] = event
        elif event["what"] == "ended":
            ended[event["op"]] = event["ok"]
    found: dict[str, Sent] = {}
    for op, invoke in invokes.items():
        answer = done.get(op)
        acked = answer is not None and answer["ok"]
        given = answer.get("places") if answer is not None and acked else None
        half = invoke.get("half", False)
        end = ends.get(op)
        expected = acked and (
            not half or (ended.get(op, False) and end is not None and end["commit"])
        )
        forbidden = half and (end is None or not end["commit"])
        for number, uid in enumerate(invoke["uids"]):
            place = (invoke["topic"], *given[number]) if given and number < len(given) else None
            found[uid] = Sent(uid, invoke, answer, place, bool(expected), forbidden)
    return found


def in_store(
    messages: Mapping[str, Sent], stored: Iterable[Stored], kills: Sequence[float]
) -> Iterator[Finding]:
    """Look for messages that are missing, there twice, or there although they must not be.

    The broker saves how far delayed messages are delivered every ten seconds: after a kill it may deliver one once more.
    """
    where: dict[str, list[Stored]] = defaultdict(list)
    for one in stored:
        where[one.uid].append(one)
    for uid, message in messages.items():
        copies = where.get(uid, [])
        if message.expected and not copies:
            yield Finding("lost", f"{uid} was acknowledged at {message.done}, the store has it not")
        if message.forbidden and copies:
            yield Finding("rolled back", f"{uid} was never committed, the store has {copies}")
        allowed = 1
        if message.invoke.get("delay_s"):
            allowed += len(kills) - bisect.bisect_left(kills, message.invoke["at"])
        if len(copies) > allowed and not message.invoke.get("retries", False):
            yield Finding("twice", f"{uid} was sent once, the store has {copies}")
    for uid in where.keys() - messages.keys():
        yield Finding("strange", f"no client sent {where[uid]}")


def places(
    messages: Mapping[str, Sent], stored: Iterable[Stored], events: Iterable[Event]
) -> Iterator[Finding]:
    """Look for messages at another place than the acknowledgement or the store says."""
    uids: dict[tuple[str, int, int], str] = {}
    for one in stored:
        place = one.topic, one.queue_id, one.queue_offset
        if uids.setdefault(place, one.uid) != one.uid:
            yield Finding("misplaced", f"{place} has {uids[place]} and {one.uid}")
        if one.named not in ("", one.topic):
            yield Finding("misplaced", f"the store has in {place} {one.uid} of topic {one.named!r}")
    for uid, message in messages.items():
        if message.place is not None and uids.get(message.place, uid) != uid:
            yield Finding(
                "misplaced",
                f"{uid} was acknowledged at {message.place}, where {uids[message.place]} is",
            )
        elif message.place is not None and message.place not in uids:
            yield Finding("lost", f"{uid} was acknowledged at {message.place}, where nothing is")
    for event in events:
        if event["what"] != "got":
            continue
        place = event["topic"], event["queue_id"], event["queue_offset"]
        if event["named"] not in ("", event["topic"]):
            yield Finding("misplaced", f"{event} names another topic")
        if event.get("tries", 0):
            continue  # it comes from the group's retry topic
        if uids.get(place) != event["uid"]:
            yield Finding("misplaced", f"{event}: the store has {uids.get(place)} there")


def key_order(messages: Mapping[str, Sent], stored: Iterable[Stored]) -> Iterator[Finding]:
    """Look for messages of a key that stand before one that was acknowledged before they were sent."""
    first: dict[str, int] = {}
    for number, one in enumerate(stored):
        first.setdefault(one.uid, number)
    by_key: dict[str, list[Sent]] = defaultdict(list)
    for message in messages.values():
        if message.invoke.get("key") is not None and message.uid in first:
            by_key[message.invoke["key"]].append(message)
    for key, sent in by_key.items():
        highest, before = -1, ""
        for message in sent:  # one after the other: a key has one sender
            here = first[message.uid]
            if here < highest:
                yield Finding(
                    "reordered",
                    f"key {key}: {before} was acknowledged before {message.uid} was sent, and stands behind it",
                )
            if message.expected and here > highest:
                highest, before = here, message.uid


def delivered(
    messages: Mapping[str, Sent],
    stored: Iterable[Stored],
    events: Iterable[Event],
    groups: Mapping[str, Iterable[str]],
) -> Iterator[Finding]:
    """Look for messages of the store that a group never got, and for those that nobody sent."""
    had: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event["what"] == "got":
            had[event["group"]].add(event["uid"])
    by_topic: dict[str, list[Stored]] = defaultdict(list)
    for one in stored:
        by_topic[one.topic].append(one)
    for group, topics in groups.items():
        for one in (one for topic in topics for one in by_topic[topic]):
            if one.uid not in had[group]:
                yield Finding("undelivered", f"group {group} never got {one}")
        for uid in had[group]:
            if uid not in messages:
                yield Finding("strange", f"group {group} got {uid}, which no client sent")
            elif messages[uid].forbidden:
                yield Finding("rolled back", f"group {group} got {uid}, which was never committed")


def queue_order(events: Iterable[Event], ordered: set[str]) -> Iterator[Finding]:
    """Look for an ordered consumer that got a message of a queue for the first time before one in front of it."""
    highest: dict[tuple[str, str, int], int] = {}
    for event in events:
        if event["what"] != "got" or event["group"] not in ordered:
            continue
        queue = event["group"], event["topic"], event["queue_id"]
        before, here = highest.get(queue, -1), event["queue_offset"]
        if here > before + 1:
            yield Finding("reordered", f"{event} came when {before} was the highest of its queue")
        highest[queue] = max(before, here)


def after_commit(events: Sequence[Event]) -> Iterator[Finding]:
    """Look for messages that came again to a group although a commit covers them.

    A kill may take a young commit away: at some moment between the start of that fault and its end. Where a group has several
    members, one of them may still hold what the other has committed when a queue goes from one to the other; a group of one has
    no such excuse, also when its member comes anew.
    """
    members: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event["what"] in ("got", "member"):
            members[event["group"]].add(event["who"])
    moved: dict[str, list[float]] = defaultdict(list)
    kills: list[Kill] = []
    pending: dict[str, Event] = {}
    covered: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for event in events:
        what = event["what"]
        if what == "member":
            if len(members[event["group"]]) > 1:
                moved[event["group"]].append(event["at"])
        elif is_kill(event):
            kills.append(Kill(event["at"]))
        elif what == "healed" and kills and is_kill(event | {"what": "fault"}):
            kills[-1].ended = event["at"]
        elif what == "commit":
            pending[event["who"]] = event
        elif what == "committed" and (asked := pending.pop(event["who"], None)) and event["ok"]:
            held = event["held"] if "held" in event else asked["next"]
            for queue in asked["next"].keys() & set(held):
                bound = asked["next"][queue]
                cover(covered[event["group"], queue], bound, event["at"])
        elif what == "got" and not event.get("tries", 0):
            queue = f"{event['topic']}/{event['queue_id']}"
            at = first_cover(covered[event["group"], queue], event["queue_offset"])
            if at is None or is_between(moved[event["group"]], at, event["at"]):
                continue
            if not any(one.took_away(at) for one in kills):
                yield Finding("again", f"{event} came again, a commit at {at:.3f} covers it")


@dataclass
class Kill:
    """A kill of the broker: it was stopped for a moment before, and started again within this time."""

    began: float
    ended: float = float("inf")

    def took_away(self, committed: float) -> bool:
        """Say whether a commit of some moment may have been lost."""
        return self.began <= committed + UNSAVED_S and committed <= self.ended


def is_kill(event: Event) -> bool:
    """Say whether the broker was killed."""
    return event["what"] == "fault" and "kill" in event["name"]


def cover(commits: list[tuple[int, float]], bound: int, at: float) -> None:
    """Note a commit; one that goes back takes those beyond it away."""
    while commits and commits[-1][0] > bound:
        commits.pop()
    if not commits or commits[-1][0] < bound:
        commits.append((bound, at))


def first_cover(commits: Sequence[tuple[int, float]], queue_offset: int) -> float | None:
    """Return when a commit first covered an offset; None if none has."""
    index = bisect.bisect_right(commits, queue_offset, key=lambda one: one[0])
    return commits[index][1] if index < len(commits) else None


def is_between(times: Sequence[float], low: float, high: float) -> bool:
    """Say whether one of the sorted times is between two others."""
    index = bisect.bisect_left(times, low)
    return index < len(times) and times[index] <= high


def before_time(messages: Mapping[str, Sent], events: Iterable[Event]) -> Iterator[Finding]:
    """Look for delayed messages that came before their time, although no clock was set.

    A clock that is set back makes a message due at once that is due later than its level allows, as with Java.
    """
    events = list(events)
    steps = [e["at"] for e in events if e["what"] == "fault" and e.get("step_s", 0)]
    for event in events:
        if event["what"] != "got" or event["uid"] not in messages:
            continue
        invoke = messages[event["uid"]].invoke
        due = invoke["at"] + invoke.get("delay_s", 0.0)
        if event["at"] < due - SLACK_S and not is_between(steps, invoke["at"], event["at"]):
            yield Finding("early", f"{event} came {due - event['at']:.3f} s before its time")
