"""Random transactions with restarts and kills in between: each half ends as its producer says, and none is lost."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.broker import FakeLoop
from support.doses import examples
from support.transactions import COMMIT, ROLLBACK, UNKNOWN, Transacting, end, end_asked

from rmqcore.broker.transactions.messages import GROUP
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.topics import TRANS_HALF_TOPIC

SECOND = 1_000
MOST_ROUNDS = 60
SETTINGS = {
    "transaction_check_interval": 5 * SECOND,
    "transaction_time_out": 2 * SECOND,
    "transaction_check_max": 1_000,
    "flush_consumer_offset_interval": 3 * SECOND,
}
ACTIONS = st.one_of(
    st.tuples(st.just("half"), st.sampled_from([COMMIT, ROLLBACK])),
    st.tuples(st.just("immune half"), st.sampled_from([COMMIT, ROLLBACK])),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("answer"), st.sampled_from([True, False])),
    st.tuples(st.just("time"), st.integers(1, 12_000)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("kill"), st.just(0)),
)


@dataclass
class Half:
    """What the model knows of a half: how it is to end, and whether its producer has said so."""

    name: str
    how: int
    response: RemotingCommand
    ended: int = 0
    """How often it was ended, which is how often it may be delivered."""


class Model:
    """The producer, and the slow truth."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = Transacting(folder, **SETTINGS)
        self.halves: dict[str, Half] = {}
        self.asked: dict[str, RemotingCommand] = {}
        self.kills = 0

    def begin(self, how: int, **properties: str) -> None:
        name = f"h{len(self.halves)}"
        self.halves[name] = Half(name, how, self.broker.half(name, **properties))

    def end(self, number: int) -> None:
        """End a half that the broker has not asked about; where its own time is over the broker wants its question answered."""
        self.collect()
        halves = [h for h in self.halves.values() if not h.ended and h.name not in self.asked]
        if halves:
            half = halves[number % len(halves)]
            response = self.broker.ask(end(half.response, half.how))
            half.ended += response.code == 0

    def collect(self) -> None:
        """Take the questions; of several about one half the last counts, as each stands for a copy that may be ended."""
        for question in self.broker.questions():
            self.asked[question.ext_fields["msgId"]] = question

    def answer(self, knows: bool) -> int:
        """Answer all questions, or say that nobody knows yet."""
        self.collect()
        questions, self.asked = self.asked, {}
        for name, question in questions.items():
            half = self.halves[name]
            half.ended += knows
            self.broker.start(end_asked(question, half.how if knows else UNKNOWN))
            if not knows:
                self.asked[name] = question
        return len(questions)

    def start_again(self, *, kill: bool) -> None:
        self.kills += kill
        if kill:
            self.broker.kill()
        else:
            self.broker.close()
        loop = FakeLoop(self.broker.loop.now_ms)
        self.broker = Transacting(self.folder, loop=loop, **SETTINGS)

    def is_done(self) -> bool:
        done = self.broker.broker.offsets.query(GROUP, TRANS_HALF_TOPIC, 0)
        return max(done, 0) == self.broker.store.max_offset(TRANS_HALF_TOPIC, 0)

    def check(self) -> None:
        """Answer until nothing is open, and compare."""
        for _ in range(MOST_ROUNDS):
            self.answer(True)
            self.broker.advance(10 * SECOND)
            if self.is_done() and not self.answer(True):
                break
        else:
            raise AssertionError("the broker does not come to an end")
        found = Counter(body.decode() for body in self.broker.bodies())
        for half in self.halves.values():
            if half.how == ROLLBACK:
                assert found[half.name] == 0, half
            else:
                assert 1 <= found[half.name] <= half.ended, half
                assert self.kills or found[half.name] == half.ended, half
        if not self.kills:  # nothing is asked about that has ended
            assert all(half.ended == 1 for half in self.halves.values())


@examples(0.25)
@given(st.lists(ACTIONS, max_size=40))
def test_each_half_ends_as_its_producer_says(actions: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder))
        try:
            for action, value in actions:
                match action:
                    case "half":
                        model.begin(value)
                    case "immune half":
                        model.begin(value, CHECK_IMMUNITY_TIME_IN_SECONDS="20")
                    case "end":
                        model.end(value)
                    case "answer":
                        model.answer(bool(value))
                    case "time":
                        model.broker.advance(value)
                    case "restart" | "kill":
                        model.start_again(kill=action == "kill")
            model.check()
        finally:
            model.broker.close()
