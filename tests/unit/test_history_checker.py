"""The judge of the rounds of a served broker: it passes a sound history, and finds each kind of fault in a wrong one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.history.checker import Finding, Stored, check
from support.history.record import Event, History, body_of, named_in

TOPIC = "Orders"
GROUPS = {"readers": (TOPIC,)}


class Story:
    """A history that a test writes: every event is a second after the one before."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.stored: list[Stored] = []
        self._op = 0

    def add(self, what: str, **more: Any) -> None:
        self.events.append({"at": float(len(self.events)), "who": "w", "what": what} | more)

    def send(
        self,
        uid: str,
        queue_offset: int | None,
        *,
        ok: bool = True,
        place: bool = True,
        **more: Any,
    ) -> None:
        """Send a message, which the store has at this offset, or has not."""
        self._op += 1
        self.add("send", op=self._op, topic=TOPIC, uids=[uid], **more)
        places = [[0, queue_offset]] if place and queue_offset is not None else []
        self.add("sent", op=self._op, ok=ok, places=places)
        if queue_offset is not None:
            self.store(uid, queue_offset)

    def end(self, *, commit: bool, ok: bool = True) -> None:
        """End the transaction of the last send."""
        self.add("end", op=self._op, commit=commit)
        self.add("ended", op=self._op, ok=ok)

    def store(self, uid: str, queue_offset: int, *, topic: str = TOPIC, named: str = TOPIC) -> None:
        self.stored.append(Stored(topic, 0, queue_offset, uid, named))

    def got(self, uid: str, queue_offset: int, *, named: str = TOPIC, tries: int = 0) -> None:
        self.add(
            "got",
            group="readers",
            topic=TOPIC,
            queue_id=0,
            queue_offset=queue_offset,
            uid=uid,
            named=named,
            tries=tries,
        )

    def commit(self, bound: int, *, ok: bool = True) -> None:
        self.add("commit", group="readers", next={f"{TOPIC}/0": bound})
        self.add("committed", group="readers", ok=ok)

    def findings(self, *ordered: str) -> list[Finding]:
        return check(self.events, self.stored, groups=GROUPS, ordered=ordered)

    def kinds(self, *ordered: str) -> set[str]:
        return {finding.kind for finding in self.findings(*ordered)}


def sound() -> Story:
    """Two messages of a key, stored, received and committed."""
    story = Story()
    for number in range(2):
        story.send(f"m{number}", number, key="k")
        story.got(f"m{number}", number)
    story.commit(2)
    return story


def test_a_sound_history_passes() -> None:
    assert sound().findings("readers") == []


def test_a_message_without_an_answer_may_be_there_or_not() -> None:
    story = sound()
    story.send("there", 2, ok=False)
    story.got("there", 2)
    story.send("not there", None, ok=False)
    story.add("send", op=99, topic=TOPIC, uids=["the client ended"])
    assert story.findings("readers") == []


def test_an_acknowledged_message_that_the_store_lacks() -> None:
    story = sound()
    story.send("gone", None)
    (finding,) = story.findings()
    assert finding.kind == "lost"
    assert "gone" in finding.text


def test_an_acknowledged_place_where_nothing_is() -> None:
    story = sound()
    story.send("moved", None)
    story.events[-1]["places"] = [[0, 7]]
    story.store("moved", 2)
    story.got("moved", 2)
    assert story.kinds() == {"lost"}


def test_an_acknowledged_place_where_another_message_is() -> None:
    story = sound()
    story.send("m2", None)
    story.events[-1]["places"] = [[0, 1]]
    story.store("m2", 2)
    story.got("m2", 2)
    assert story.kinds() == {"misplaced"}


def test_two_messages_at_one_place() -> None:
    story = sound()
    story.send("m2", 1, place=False)
    story.got("m1", 1)
    assert "misplaced" in story.kinds()


def test_a_body_of_another_topic_in_the_store() -> None:
    story = sound()
    story.stored[1] = story.stored[1]._replace(named="Payments")
    assert story.kinds() == {"misplaced"}


def test_a_body_of_another_topic_that_is_received() -> None:
    story = sound()
    story.got("m1", 1, named="Payments")
    assert "misplaced" in story.kinds()


def test_a_message_received_from_the_offset_of_another() -> None:
    story = sound()
    story.send("m2", 2)
    story.got("m2", 1)
    assert "misplaced" in story.kinds()


def test_a_message_of_the_retry_topic_has_another_place() -> None:
    story = sound()
    story.got("m0", 17, tries=1)
    assert story.findings("other") == []


def test_a_key_whose_messages_changed_places() -> None:
    story = Story()
    story.send("m0", None, key="k", place=False)
    story.send("m1", 0, key="k")
    story.store("m0", 1)
    for uid, queue_offset in (("m1", 0), ("m0", 1)):
        story.got(uid, queue_offset)
    assert story.kinds("readers") == {"reordered"}


def test_a_send_without_an_answer_may_be_overtaken() -> None:
    story = Story()
    story.send("m0", None, key="k", ok=False)
    story.send("m1", 0, key="k")
    story.store("m0", 1)
    for uid, queue_offset in (("m1", 0), ("m0", 1)):
        story.got(uid, queue_offset)
    assert story.findings("readers") == []


def test_an_ordered_consumer_that_is_given_the_later_message_first() -> None:
    story = Story()
    for number in range(3):
        story.send(f"m{number}", number)
    for number in (0, 2, 1, 2):
        story.got(f"m{number}", number)
    assert story.kinds() == set()
    assert story.kinds("readers") == {"reordered"}


def test_an_ordered_consumer_may_be_given_messages_again() -> None:
    story = Story()
    for number in range(3):
        story.send(f"m{number}", number)
    for number in (0, 1, 0, 1, 2):
        story.got(f"m{number}", number)
    assert story.findings("readers") == []


def test_a_message_that_was_sent_once_and_is_there_twice() -> None:
    story = sound()
    story.store("m1", 2)
    story.got("m1", 2)
    assert story.kinds() == {"twice"}


def test_a_message_that_was_perhaps_sent_again_may_be_there_twice() -> None:
    story = Story()
    story.send("m0", 0, retries=True)
    story.store("m0", 1)
    story.got("m0", 0)
    assert story.findings() == []


def test_a_message_that_comes_again_after_its_commit() -> None:
    story = sound()
    story.got("m1", 1)
    assert story.kinds() == {"again"}


def test_what_explains_that_a_message_comes_again() -> None:
    for event in (
        {"what": "member", "who": "another", "group": "readers", "queues": []},
        {"what": "fault", "name": "kill"},
    ):
        story = sound()
        story.add(**event)
        story.got("m1", 1)
        assert story.findings() == []


def test_a_commit_that_is_answered_just_before_the_broker_is_killed() -> None:
    """The fault is noted first, then the broker is stopped for a second, then it is killed: an answer was on its way."""
    story = sound()
    commit = story.events.pop()
    story.add(what="fault", name="kill_paused")
    story.events.append({**commit, "at": story.events[-1]["at"] + 0.5})
    story.add(what="healed", name="kill_paused", at=story.events[-1]["at"] + 1)
    story.got("m1", 1)
    assert story.findings() == []
    story.events[-2]["at"] = commit["at"]
    assert story.kinds() == {"again"}


def test_what_does_not_explain_it() -> None:
    for event in (
        {"what": "member", "group": "others", "queues": []},
        {"what": "member", "group": "readers", "queues": []},
        {"what": "fault", "name": "kill", "at": 100.0},
        {"what": "fault", "name": "delay"},
    ):
        story = sound()
        story.add(**event)
        story.got("m1", 1)
        assert story.kinds() == {"again"}


def test_a_commit_that_failed_covers_nothing() -> None:
    story = Story()
    story.send("m0", 0)
    story.got("m0", 0)
    story.commit(1, ok=False)
    story.got("m0", 0)
    assert story.findings() == []


def test_a_commit_of_a_queue_that_the_member_has_no_more_covers_nothing() -> None:
    story = sound()
    story.events[-1]["held"] = [f"{TOPIC}/1"]
    story.got("m1", 1)
    assert story.findings() == []
    story.events[-2]["held"] = [f"{TOPIC}/0"]
    assert story.kinds() == {"again"}


def test_a_commit_that_goes_back_takes_the_later_ones_away() -> None:
    story = sound()
    story.commit(1)
    story.got("m1", 1)
    assert story.findings() == []
    story.got("m0", 0)
    assert story.kinds() == {"again"}


def test_a_delayed_message_before_its_time() -> None:
    story = Story()
    story.send("m0", 0, place=False, delay_s=5.0)
    story.got("m0", 0)
    assert story.kinds() == {"early"}


def test_a_delayed_message_at_its_time_or_under_a_clock_that_was_set() -> None:
    story = Story()
    story.send("m0", 0, place=False, delay_s=2.0)
    story.got("m0", 0)
    assert story.findings() == []
    for step_s in (600.0, -600.0):
        story = Story()
        story.send("m0", 0, place=False, delay_s=5.0)
        story.add("fault", name="step_clock", step_s=step_s)
        story.got("m0", 0)
        assert story.findings() == []
    story.events[-2]["step_s"] = 0.0
    assert story.kinds() == {"early"}


def test_a_delayed_message_is_there_once_more_for_each_kill() -> None:
    story = Story()
    story.send("m0", 0, place=False, delay_s=0.1)
    story.got("m0", 0)
    story.store("m0", 1)
    story.got("m0", 1)
    assert story.kinds() == {"twice"}
    story.add("fault", name="kill_paused")
    assert story.findings() == []
    story.store("m0", 2)
    story.got("m0", 2)
    assert story.kinds() == {"twice"}


def test_a_group_that_never_gets_a_message() -> None:
    story = sound()
    story.send("m2", 2)
    assert story.kinds() == {"undelivered"}


def test_messages_that_no_client_sent() -> None:
    story = sound()
    story.store("x", 2)
    story.got("x", 2)
    assert story.kinds() == {"strange"}


def test_transactions() -> None:
    story = Story()
    story.send("committed", 0, half=True, place=False)
    story.end(commit=True)
    story.got("committed", 0)
    story.send("without an answer", None, half=True)
    story.end(commit=True, ok=False)
    story.send("rolled back", None, half=True)
    story.end(commit=False)
    assert story.findings() == []
    story.store("rolled back", 1)
    story.got("rolled back", 1)
    assert story.kinds() == {"rolled back"}


def test_a_committed_transaction_that_is_lost() -> None:
    story = Story()
    story.send("m0", None, half=True)
    story.end(commit=True)
    assert story.kinds() == {"lost"}


def test_a_transaction_without_an_end_that_is_seen() -> None:
    story = Story()
    story.send("m0", 0, half=True, place=False)
    story.got("m0", 0)
    assert story.kinds() == {"rolled back"}


def test_the_history_is_written_as_it_happens(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.jsonl"
    with History(path) as history:
        history.add("one", "send", op=history.next_op(), topic=TOPIC, uids=["u"])
        assert [json.loads(line) for line in path.read_text().splitlines()] == history.events
        assert history.next_op() == 2


def test_a_body_names_its_message_and_its_topic() -> None:
    assert named_in(body_of("u.1", TOPIC, 300)) == ("u.1", TOPIC)
    assert named_in(b"sync 3") == ("sync 3", "")
