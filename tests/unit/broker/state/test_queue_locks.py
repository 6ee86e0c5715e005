"""Locks of queues: one member of a group at a time, for a minute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.broker import FakeChannel, FakeLoop

from rmqcore.broker.channel import Channel
from rmqcore.broker.state.queue_locks import LOCK_MAX_LIVE_TIME_MS, QueueLocks
from rmqcore.remoting.bodies.queue_locks import MessageQueue

CHANNEL = FakeChannel()
ONE, TWO = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


def test_a_lock_is_one_members_until_it_is_given_up_or_a_minute_is_over() -> None:
    loop = FakeLoop()
    locks = QueueLocks(loop.clock, 100, Channel.close)
    assert locks.is_lock_all_expired("g")
    assert locks.try_lock_batch("g", [ONE], "a", CHANNEL) == [ONE]
    assert locks.try_lock_batch("g", [ONE, TWO], "b", CHANNEL) == [TWO]
    assert locks.try_lock_batch("h", [ONE], "b", CHANNEL) == [ONE]
    locks.unlock_batch("g", [ONE], "b")
    assert locks.try_lock_batch("g", [ONE], "b", CHANNEL) == []
    loop.advance(LOCK_MAX_LIVE_TIME_MS)
    assert locks.try_lock_batch("g", [TWO], "b", CHANNEL) == [TWO]
    loop.advance(1)
    assert locks.try_lock_batch("g", [ONE, TWO], "c", CHANNEL) == [ONE]
    assert not locks.is_lock_all_expired("g")
    locks.unlock_batch("g", [ONE], "c")
    locks.unlock_batch("g", [TWO], "b")
    assert locks.is_lock_all_expired("g")


def test_expired_locks_are_forgotten_and_count_for_nothing_before() -> None:
    loop = FakeLoop()
    locks = QueueLocks(loop.clock, 100, Channel.close)
    locks.try_lock_batch("g", [ONE], "a", CHANNEL)
    loop.advance(LOCK_MAX_LIVE_TIME_MS + 1)
    assert locks.is_lock_all_expired("g")
    locks.drop_expired()
    assert locks.is_lock_all_expired("g")
    assert locks.try_lock_batch("g", [ONE], "b", CHANNEL) == [ONE]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["lock", "unlock", "time", "drop"]),
        st.sampled_from("ab"),
        st.sets(st.integers(0, 2)),
    ),
    max_size=40,
)


@given(STEPS)
def test_any_sequence_is_as_a_slow_model_says(steps: list[tuple[str, str, set[int]]]) -> None:
    loop = FakeLoop()
    locks = QueueLocks(loop.clock, 100, Channel.close)
    model: dict[int, tuple[str, int]] = {}
    for what, who, queue_ids in steps:
        queues = [MessageQueue("t", "b", queue_id) for queue_id in sorted(queue_ids)]
        live = {
            queue_id: owner
            for queue_id, (owner, at) in model.items()
            if loop.now_ms - at <= LOCK_MAX_LIVE_TIME_MS
        }
        if what == "time":
            loop.advance(25_000 * len(queue_ids))
        elif what == "drop":
            locks.drop_expired()
        elif what == "lock":
            own = [queue for queue in queues if live.get(queue.queue_id, who) == who]
            assert locks.try_lock_batch("g", queues, who, CHANNEL) == own
            model.update({queue.queue_id: (who, loop.now_ms) for queue in own})
        else:
            locks.unlock_batch("g", queues, who)
            for queue_id in queue_ids:
                if model.get(queue_id, ("", 0))[0] == who:
                    del model[queue_id]
        alive = any(loop.now_ms - at <= LOCK_MAX_LIVE_TIME_MS for _, at in model.values())
        assert locks.is_lock_all_expired("g") == (not alive)
