"""The consumer over a cluster without sockets: which queues, from where, what is given out and stored."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from support.fake_cluster import NAMESRV, NOW_MS, FakeBroker, FakeCluster, run

from rmqcore.client import AsyncPullConsumer, MessageQueue, ReceivedMessage
from rmqcore.client.message_cache import MOST_MESSAGES_OF_QUEUE
from rmqcore.errors import (
    ClientClosedError,
    ClientError,
    NotAssignedError,
    NotReachedError,
    RefusedError,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand

ADDRESS = "192.0.2.1:10911"
PULL, BEAT, MEMBERS, COMMIT = 361, 34, 38, 15
FIRST = "CONSUME_FROM_FIRST_OFFSET"


def consumer(group: str = "g", **settings: Any) -> AsyncPullConsumer:
    return AsyncPullConsumer(NAMESRV, group, now_ms=lambda: NOW_MS, **settings)


async def poll_all(member: AsyncPullConsumer, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    while len(found) < count:
        batch = await member.poll(5)
        assert batch, f"{len(found)} of {count} messages came"
        found += batch
    return found


def offsets(broker: FakeBroker, group: str = "g", topic: str = "T") -> dict[int, int]:
    return {key[2]: at for key, at in broker.offsets.items() if key[:2] == (group, topic)}


# ---- the way of a message ---------------------------------------------------------------------------


def test_what_was_sent_is_polled_committed_and_not_polled_again(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=2)
    for number in range(10):
        broker.put("T", number % 2, b"%d" % number)

    async def work() -> None:
        async with consumer(consume_from=FIRST) as member:
            await member.subscribe("T")
            assert member.assignment() == [MessageQueue("T", "b-a", n) for n in range(2)]
            found = await poll_all(member, 10)
            assert sorted(message.body for message in found) == [b"%d" % n for n in range(10)]
            await member.commit()
        assert offsets(broker) == {0: 5, 1: 5}
        async with consumer(consume_from=FIRST) as member:
            await member.subscribe("T")
            assert await member.poll(30) == []
            broker.put("T", 1, b"late")
            (late,) = await member.poll(30)
            assert (late.body, late.queue_id, late.queue_offset) == (b"late", 1, 5)

    run(work())


def test_what_was_not_committed_comes_again(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.put("T", 0, b"x")

    async def work() -> None:
        for _ in range(2):
            async with consumer(consume_from=FIRST) as member:
                await member.subscribe("T")
                assert [message.body for message in await member.poll()] == [b"x"]

    run(work())
    assert offsets(broker) == {}


def test_what_was_pulled_and_not_given_out_is_not_committed(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    for number in range(5):
        broker.put("T", 0, b"%d" % number)

    async def work() -> None:
        async with consumer(consume_from=FIRST, pull_batch_size=2) as member:
            await member.subscribe("T")
            await member.poll()
            await asyncio.sleep(1)  # everything is pulled by now
            await member.commit()
            assert offsets(broker) == {0: 2}
            await member.commit()
            assert broker.codes().count(COMMIT) == 1  # nothing has changed

    run(work())


def test_a_group_without_offsets_begins_with_new_messages(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.put("T", 0, b"old")

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            broker.put(
                "T", 0, b"new"
            )  # at once: the group's place was known when subscribe returned
            assert [message.body for message in await member.poll()] == [b"new"]

    run(work())


def test_messages_that_nobody_wants_are_behind_the_group_too(cluster: FakeCluster) -> None:
    """A broker sends what has the tag's hash; after a commit it should not send it again."""
    broker = cluster.broker("b-a", ADDRESS, T=1)
    for tag in ("Aa", "BB", "BB"):
        broker.put("T", 0, tag.encode(), tags=tag)

    async def work() -> None:
        async with consumer(consume_from=FIRST, pull_batch_size=1) as member:
            await member.subscribe("T", "Aa")
            assert [message.body for message in await member.poll()] == [b"Aa"]
            assert await member.poll(1) == []
            await member.commit()

    run(work())
    assert offsets(broker) == {0: 3}


def test_a_pull_without_messages_does_not_pass_those_that_wait(cluster: FakeCluster) -> None:
    """What was pulled and not given out yet was committed with the empty pull behind it."""
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.put("T", 0, b"wanted", tags="Aa")

    async def work() -> None:
        async with consumer(consume_from=FIRST) as member:
            await member.subscribe("T", "Aa")
            await asyncio.sleep(0.1)
            broker.put("T", 0, b"same hash", tags="BB")
            await asyncio.sleep(0.1)
            await member.commit()
            assert offsets(broker) == {}

    run(work())


def test_an_offset_that_is_no_longer_there_moves(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.first_offsets["T", 0] = 100
    broker.put("T", 0, b"x")
    broker.offsets["g", "T", 0] = 7

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            (message,) = await member.poll()
            assert message.queue_offset == 100

    run(work())


def test_the_slave_that_a_broker_names_is_asked_next(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.put("T", 0, b"x")

    def elsewhere(request: RemotingCommand) -> RemotingCommand:
        found = {"minOffset": "0", "maxOffset": "1", "nextBeginOffset": "0"}
        return request.response(20, ext_fields={**found, "suggestWhichBrokerId": "1"})

    async def work() -> None:
        slave = FakeBroker("b-a", "192.0.2.2:10911")
        cluster.peers[slave.address] = slave
        cluster.register_slave(slave)
        slave.put("T", 0, b"of the slave")
        broker.hooks[PULL] = elsewhere
        async with consumer(consume_from=FIRST) as member:
            await member.subscribe("T")
            assert [message.body for message in await member.poll()] == [b"of the slave"]
            assert slave.codes()[0] == BEAT

    run(work())


# ---- subscriptions ----------------------------------------------------------------------------------


def test_a_broker_is_told_of_a_subscription_before_anything_is_asked(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1, U=1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T", "A || B")
            await member.subscribe("U")

    run(work())
    assert broker.codes()[0] == BEAT
    (group,) = broker.beats[-1].consumers
    assert (group.group_name, group.consume_type, group.message_model) == (
        "g",
        "CONSUME_ACTIVELY",
        "CLUSTERING",
    )
    assert group.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    texts = {wanted.topic: wanted.sub_string for wanted in group.subscriptions}
    assert texts == {"T": "A || B", "U": "*"}
    assert broker.asked[-1].ext_fields["consumerGroup"] == "g"
    assert broker.members["g"] == {}


def test_other_tags_take_the_place_of_the_first_at_once(cluster: FakeCluster) -> None:
    """A held pull had the old tags, so for twenty seconds nothing of the new ones came."""
    broker = cluster.broker("b-a", ADDRESS, T=1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T", "A")
            assert await member.poll(1) == []
            await member.subscribe("T", "B")
            await asyncio.sleep(0.1)
            texts = [
                request.ext_fields["subscription"]
                for request in broker.asked
                if request.code == PULL
            ]
            assert texts == ["A", "B"]
            broker.put("T", 0, b"a", tags="A")
            broker.put("T", 0, b"b", tags="B")
            assert [message.body for message in await poll_all(member, 1)] == [b"b"]

    run(work())


def test_a_topic_that_is_not_there_yet_is_read_as_soon_as_it_is(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with consumer(consume_from=FIRST) as member:
            await member.subscribe("T")
            assert member.assignment() == []
            assert await member.poll(3) == []
            cluster.register(broker, TBW102=8, T=1)
            broker.put("T", 0, b"x")
            started = loop.time()
            assert [message.body for message in await member.poll()] == [b"x"]
            assert loop.time() - started <= 1.0

    run(work())


def test_a_topic_that_is_read_no_more(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1, U=1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            await member.subscribe("U")
            await member.unsubscribe("T")
            assert [queue.topic for queue in member.assignment()] == ["U"]
            await member.unsubscribe("T")
            broker.put("T", 0, b"x")
            assert await member.poll(1) == []

    run(work())
    assert [wanted.topic for wanted in broker.beats[-1].consumers[0].subscriptions] == ["U"]


def test_new_queues_of_a_topic_are_read_after_half_a_minute(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            cluster.register(broker, TBW102=8, T=3)
            await asyncio.sleep(31)
            assert len(member.assignment()) == 3

    run(work())


# ---- groups -----------------------------------------------------------------------------------------


def test_two_members_share_the_queues_and_one_has_all_when_the_other_goes(
    cluster: FakeCluster,
) -> None:
    cluster.broker("b-a", ADDRESS, T=4)

    async def work() -> None:
        async with consumer() as first:
            await first.subscribe("T")
            assert len(first.assignment()) == 4
            async with consumer() as second:
                await second.subscribe("T")
                await asyncio.sleep(0.1)  # the first is told by a notification
                shares = first.assignment(), second.assignment()
                assert [len(share) for share in shares] == [2, 2]
                assert len({*shares[0], *shares[1]}) == 4
            await asyncio.sleep(0.1)
            assert len(first.assignment()) == 4

    run(work())


def test_a_queue_that_goes_to_another_member_goes_on_where_it_was_committed(
    cluster: FakeCluster,
) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=2)
    for number in range(4):
        broker.put("T", number % 2, b"%d" % number)

    async def work() -> None:
        async with consumer(consume_from=FIRST) as first, consumer(consume_from=FIRST) as second:
            await first.subscribe("T")
            await poll_all(first, 4)
            await first.commit()
            await second.subscribe("T")
            await asyncio.sleep(0.1)
            (queue,) = second.assignment()
            broker.put("T", queue.queue_id, b"later")
            (message,) = await second.poll()
            assert message.body == b"later"
            assert await first.poll(1) == []

    run(work())


@pytest.mark.parametrize("auto_commit", [False, True])
def test_a_commit_names_the_queue_that_went_to_another_member_before(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, auto_commit: bool
) -> None:
    """It stored nothing for the queue, and said nothing."""
    broker = cluster.broker("b-a", ADDRESS, T=2)
    for number in range(4):
        broker.put("T", number % 2, b"%d" % number)

    async def work() -> None:
        settings: dict[str, Any] = {"consume_from": FIRST, "auto_commit": auto_commit}
        async with consumer(**settings) as first, consumer(**settings) as second:
            await first.subscribe("T")
            returned = await poll_all(first, 4)
            await second.subscribe("T")
            await asyncio.sleep(0.1)
            (gone,) = second.assignment()
            # What polls before the last one returned went with the queue, with auto_commit.
            done = auto_commit and gone != returned[-1].queue
            await first.commit()
            assert ("is no longer assigned to this consumer" in caplog.text) is not done
            assert (str(gone) in caplog.text) is not done
            assert (offsets(broker).get(gone.queue_id) == 2) is done
            if not done:
                again = [one.msg_id for one in returned if one.queue == gone]
                assert [one.msg_id for one in await second.poll(1)] == again
            caplog.clear()
            await first.commit()
            assert caplog.text == ""

    run(work())


def test_a_broker_that_was_started_anew_is_told_who_reads(cluster: FakeCluster) -> None:
    """The broker knew nobody, so the member had no queue until its next heartbeat."""
    broker = cluster.broker("b-a", ADDRESS, T=1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            await asyncio.sleep(0.1)
            broker.members.clear()
            broker.close_all()
            await asyncio.sleep(0.1)
            broker.put("T", 0, b"x")
            assert [message.body for message in await member.poll()] == [b"x"]
            assert len(broker.members["g"]) == 1
            broker.members["g"].clear()  # forgotten, over a connection that stays
            await asyncio.sleep(21)  # no heartbeat is due before the queues are shared anew
            assert len(broker.members["g"]) == 1
            assert len(member.assignment()) == 1

    run(work())


def test_a_member_whose_members_are_not_told_keeps_its_queues(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=2)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            broker.hooks[MEMBERS] = lambda request: request.response(1, "no")
            broker.notify("g")
            await asyncio.sleep(5)
            assert len(member.assignment()) == 2
            assert broker.codes().count(MEMBERS) >= 5  # asked again each second

    run(work())


# ---- errors -----------------------------------------------------------------------------------------


def test_a_pull_that_fails_is_made_again_a_second_later(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.put("T", 0, b"x")
    broker.hooks[PULL] = lambda request: request.response(14, "closing")

    async def work() -> None:
        async with consumer(consume_from=FIRST) as member:
            await member.subscribe("T")
            assert await member.poll(4.5) == []
            assert broker.codes().count(PULL) == 5
            del broker.hooks[PULL]
            assert len(await member.poll()) == 1

    run(work())
    assert "14 SERVICE_NOT_AVAILABLE: closing" in caplog.text


def test_a_broker_that_is_away_is_two_lines(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A consumer of 16 queues logged 304 warnings in 10 s, all for one reason."""
    broker = cluster.broker("b-a", ADDRESS, T=16)
    for queue_id in range(16):
        broker.put("T", queue_id, b"x")

    async def work() -> None:
        async with consumer(consume_from=FIRST) as member:
            await member.subscribe("T")
            assert len(await poll_all(member, 16)) == 16
            caplog.clear()
            caplog.set_level(logging.WARNING, "rmqcore.client")
            del cluster.peers[ADDRESS]
            broker.close_all()
            assert await member.poll(10) == []
            assert caplog.text.count("does not answer, pulls are tried again") == 1
            cluster.peers[ADDRESS] = broker
            broker.put("T", 0, b"y")
            assert len(await poll_all(member, 1)) == 1
            await asyncio.sleep(5)

    run(work())
    lines = [one for one in caplog.records if "broker b-a" in one.getMessage()]
    assert [one.getMessage() for one in lines][1:] == ["broker b-a answers again"]
    assert len(caplog.records) < 10


def test_flow_control_is_asked_again_soon(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.hooks[PULL] = lambda request: request.response(ResponseCode.FLOW_CONTROL, "slow")

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            assert await member.poll(1.01) == []

    run(work())
    assert 45 <= broker.codes().count(PULL) <= 52


@pytest.mark.parametrize("code", [16, 23, 26])
def test_a_refusal_that_is_for_good_reaches_who_polls(cluster: FakeCluster, code: int) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.hooks[PULL] = lambda request: request.response(code, "never")

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            with pytest.raises(RefusedError, match="never"):
                await member.poll(2)

    run(work())


def test_a_broker_that_is_gone_for_a_while(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            await asyncio.sleep(0.1)
            cluster.stop(broker)
            assert await member.poll(5) == []
            with pytest.raises(NotReachedError, match="GET_MIN_OFFSET"):
                await member.seek("T", 0, 0)
            again = cluster.broker("b-a", "192.0.2.1:20911", T=1)
            again.put("T", 0, b"x")
            assert [message.body for message in await member.poll()] == [b"x"]

    run(work())


def test_a_commit_that_is_refused_is_told(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.put("T", 0, b"x")
    broker.hooks[COMMIT] = lambda request: request.response(26, "no such group")

    async def work() -> None:
        async with consumer(consume_from=FIRST) as member:
            await member.subscribe("T")
            await member.poll()
            with pytest.raises(RefusedError, match="UPDATE_CONSUMER_OFFSET: 26"):
                await member.commit()
            del broker.hooks[COMMIT]
            await member.commit()

    run(work())
    assert offsets(broker) == {0: 1}


def test_commits_of_a_topic_come_to_a_broker_in_turn(cluster: FakeCluster) -> None:
    """A group's first commit was lost for one queue of four, though all were answered with success.

    Java makes the group's table without a lock: of two commits at once the second has replaced the table of the first.
    """
    broker = cluster.broker("b-a", ADDRESS, T=4)
    asked: list[int] = []
    answered: list[int] = []

    def slow(request: RemotingCommand) -> None:
        assert len(asked) == len(answered), "two commits are on their way at once"
        asked.append(int(request.ext_fields["queueId"]))
        (pipe,) = broker.pipes

        def answer() -> None:
            answered.append(asked[-1])
            code = 26 if asked == [0] else 0
            pipe.send(request.response(code))

        asyncio.get_running_loop().call_later(1, answer)

    broker.hooks[COMMIT] = slow
    for number in range(4):
        broker.put("T", number, b"x")

    async def work() -> None:
        async with consumer(consume_from=FIRST) as member:
            await member.subscribe("T")
            await poll_all(member, 4)
            with pytest.raises(RefusedError):
                await member.commit()
            assert sorted(answered) == [0, 1, 2, 3]  # one that is refused keeps no other back
            await asyncio.gather(member.commit(), member.commit())
            assert answered[4:] == [0]

    run(work())


def test_no_name_server(cluster: FakeCluster) -> None:
    del cluster.peers[NAMESRV]

    async def work() -> None:
        async with consumer() as member:
            with pytest.raises(NotReachedError):
                await member.subscribe("T")
            with pytest.raises(ClientError, match="nothing is subscribed"):
                await member.poll()

    run(work())


def test_after_close_nothing_goes_on(cluster: FakeCluster) -> None:
    cluster.broker("b-a", ADDRESS, T=1)

    async def work() -> None:
        member = consumer()
        await member.subscribe("T")
        await member.close()
        await member.close()
        with pytest.raises(ClientClosedError):
            await member.subscribe("T")
        for call in (member.poll, member.commit):
            with pytest.raises(ClientClosedError):
                await call()
        with pytest.raises(ClientClosedError):
            await member.seek("T", 0, 0)
        with pytest.raises(ClientClosedError):
            await member.unsubscribe("T")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work())


def test_a_poll_that_a_close_overtakes_is_told_at_once(cluster: FakeCluster) -> None:
    """It waited for its whole time, and gave nothing."""
    cluster.broker("b-a", ADDRESS, T=1)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        member = consumer()
        await member.subscribe("T")
        polled = asyncio.create_task(member.poll(600))
        await asyncio.sleep(0.1)
        started = loop.time()
        await member.close()
        with pytest.raises(ClientClosedError):
            await polled
        assert loop.time() - started < 5

    run(work())


@pytest.mark.parametrize(
    "settings",
    [{"group": "a b"}, {"pull_batch_size": 0}, {"pull_batch_size": 1025}, {"consume_from": "X"}],
)
def test_settings_that_are_none(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"group|pull_batch_size|ConsumeFrom"):
        consumer(**settings)


# ---- seek -------------------------------------------------------------------------------------------


def test_seek_goes_back_and_forth_and_forgets_what_was_pulled(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    for number in range(6):
        broker.put("T", 0, b"%d" % number)

    async def work() -> None:
        async with consumer(consume_from=FIRST, pull_batch_size=2) as member:
            await member.subscribe("T")
            await poll_all(member, 2)
            await member.seek("T", 0, 5)
            assert [message.body for message in await member.poll()] == [b"5"]
            await member.seek("T", 0, 0)
            assert [message.body for message in await member.poll()] == [b"0", b"1"]
            await member.seek("T", 0, 6)
            await member.commit()
            assert offsets(broker) == {0: 6}
            for beyond in (-1, 7):
                with pytest.raises(ValueError, match="expected 0 to 6"):
                    await member.seek("T", 0, beyond)

    run(work())


def test_seek_in_a_queue_that_is_not_read(cluster: FakeCluster) -> None:
    cluster.broker("b-a", ADDRESS, T=1)
    cluster.broker("b-b", "192.0.2.2:10911", T=1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            with pytest.raises(NotAssignedError, match="queue 1 of topic T"):
                await member.seek("T", 1, 0)
            with pytest.raises(ValueError, match="b-a, b-b all have a queue 0"):
                await member.seek("T", 0, 0)
            await member.seek("T", 0, 0, broker_name="b-b")

    run(work())


# ---- commits unasked --------------------------------------------------------------------------------


def test_auto_commit_stores_what_earlier_polls_gave_out(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    for number in range(3):
        broker.put("T", 0, b"%d" % number)

    async def work() -> None:
        async with consumer(consume_from=FIRST, auto_commit=True, pull_batch_size=1) as member:
            await member.subscribe("T")
            await member.poll()
            await member.poll()
            assert offsets(broker) == {}
            await asyncio.sleep(6)
            await member.poll()
            await asyncio.sleep(0.1)  # polls do not wait for it
            assert offsets(broker) == {0: 2}
        assert offsets(broker) == {0: 2}  # the program may have failed at the last one

    run(work())


def test_auto_commit_does_not_store_what_an_error_has_interrupted(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    broker.put("T", 0, b"x")

    async def work() -> None:
        async with consumer(consume_from=FIRST, auto_commit=True) as member:
            await member.subscribe("T")
            await member.poll()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(work())
    assert offsets(broker) == {}


# ---- bounds -----------------------------------------------------------------------------------------


def test_no_more_is_pulled_than_has_room(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)
    for _ in range(2 * MOST_MESSAGES_OF_QUEUE):
        broker.put("T", 0, b"x")

    async def work() -> None:
        async with consumer(consume_from=FIRST, pull_batch_size=100) as member:
            await member.subscribe("T")
            await asyncio.sleep(1)
            assert broker.codes().count(PULL) == MOST_MESSAGES_OF_QUEUE // 100
            await poll_all(member, 2 * MOST_MESSAGES_OF_QUEUE)

    run(work())


def test_a_broker_that_notifies_without_end_is_asked_once_a_round(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            await asyncio.sleep(0.1)
            before = broker.codes().count(MEMBERS)
            for _ in range(1000):
                broker.notify("g")
            await asyncio.sleep(0.1)
            assert broker.codes().count(MEMBERS) - before <= 5

    run(work())


def test_what_else_a_broker_may_ask(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            for code in (RequestCode.CONSUME_MESSAGE_DIRECTLY, 4711):
                broker.pipes[0].send(RemotingCommand(code, opaque=7))
            await asyncio.sleep(0.1)

    run(work())
    assert [one.code for one in broker.asked if one.is_response] == [3, 3]
