"""Consumers that pull again and again while messages come: each gets what it wants, all of it, in order, once."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.broker import FakeChannel
from support.doses import examples
from support.served_broker import ServedBroker

import rmqcore
from rmqcore.codec import decode
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand

SUBSCRIPTIONS = ["*", "A", "B || C"]
HELD = 6
CODES = {ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY}


class Consumer:
    """A client with one queue: it pulls from where its last answer ended, and has one pull under way at most."""

    def __init__(self, served: ServedBroker, subscription: str) -> None:
        self._served = served
        self._subscription = subscription
        self.channel = FakeChannel(subscription)
        self.next_offset = 0
        self.is_waiting = False
        self.got: list[str] = []

    def pull(self) -> None:
        """Pull, unless a pull is under way, and take the answers that came."""
        self.take()
        if not self.is_waiting:
            self.is_waiting = True
            response = self._served.pull(
                queue_offset=self.next_offset,
                channel=self.channel,
                sysFlag=HELD,
                subscription=self._subscription,
                suspendTimeoutMillis=300,
                maxMsgNums=3,
            )
            if response is not None:
                self._take(response)

    def take(self) -> None:
        """Take the answers that came later."""
        for response in self.channel.sent:
            self._take(response)
        self.channel.sent.clear()

    def _take(self, response: RemotingCommand) -> None:
        assert self.is_waiting, "a pull was answered twice"
        self.is_waiting = False
        assert response.code in CODES
        following = int(response.ext_fields["nextBeginOffset"])
        assert following >= self.next_offset
        at = 0
        while at < len(response.body):
            view = decode(response.body, at)
            assert self.next_offset <= view.queue_offset < following
            self.got.append(view.body.decode())
            at += view.msg_size
        self.next_offset = following

    def reconnect(self) -> None:
        """Lose the connection with the pull that is under way, and come back over another one."""
        self.take()
        self.channel.close()
        self._served.broker.channel_closed(self.channel)
        self.channel = FakeChannel(self._subscription)
        self.is_waiting = False


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("store"), st.sampled_from("ABC")),
        st.tuples(st.just("pull"), st.integers(0, 2)),
        st.tuples(st.just("reconnect"), st.integers(0, 2)),
        st.tuples(st.just("dispatch"), st.booleans()),
        st.tuples(st.just("time"), st.integers(1, 400)),
    ),
    max_size=50,
)


@examples(0.3)  # each opens a store
@given(STEPS)
def test_each_consumer_gets_all_that_it_wants_once(steps: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder, ServedBroker(Path(folder)) as served:
        served.topic("t")
        consumers = [Consumer(served, text) for text in SUBSCRIPTIONS]
        stored: list[str] = []
        for what, value in steps:
            match what, value:
                case "store", str(tag):
                    name = f"{tag}{len(stored)}"
                    served.store.put(rmqcore.Message("t", name.encode(), tags=tag))
                    stored.append(name)
                case "pull", int(who):
                    consumers[who].pull()
                case "reconnect", int(who):
                    consumers[who].reconnect()
                case "dispatch", bool(heard):
                    served.store.dispatch_once()
                    if heard:
                        served.loop.run()
                case _, int(passed):
                    served.loop.advance(passed)
        for _ in range(len(stored) + 2):
            served.dispatch()
            served.loop.advance(400)
            for consumer in consumers:
                consumer.pull()
        for consumer, wanted in zip(consumers, ("ABC", "A", "BC"), strict=True):
            assert consumer.got == [name for name in stored if name[0] in wanted]
        assert len(served.broker.held_pulls) == sum(one.is_waiting for one in consumers)
