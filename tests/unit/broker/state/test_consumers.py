"""Consumer groups: who is a member, what the group subscribes to, and who is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.broker import FakeChannel

from rmqcore.broker.channel import Channel
from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.state import consumers as consumers_module
from rmqcore.broker.state.client_memory import ClientMemory, ClientMemoryError
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.broker.state.consumer_filters import ConsumerFilters
from rmqcore.broker.state.consumers import BROADCASTING, CLUSTERING, Consumers
from rmqcore.remoting.bodies.heartbeat import SQL92, ConsumerData, SubscriptionData
from rmqcore.remoting.codes import LanguageCode, RequestCode

TIMEOUT_MS = 120_000


class NoFiles(ConfigFiles):
    """No file is there, and none is written."""

    def __init__(self) -> None:
        pass

    def load_as(self, name: str, parse: object) -> None:
        return None


class Members:
    """Consumers of a broker, and the connections that they come over."""

    def __init__(
        self,
        *,
        notify: bool = True,
        most_of_connection: int = 1 << 40,
        most_of_all: int = 1 << 40,
    ) -> None:
        self.evicted: list[str] = []
        self.memory = ClientMemory(most_of_connection, most_of_all, self.evict)
        self.filters = ConsumerFilters(NoFiles(), 0, 1 << 20)
        self.consumers = Consumers(
            TIMEOUT_MS, notify=notify, filters=self.filters, memory=self.memory
        )
        self.channels: dict[str, FakeChannel] = {}
        self.now_ms = 1_000

    def evict(self, channel: Channel) -> None:
        self.evicted.append(channel.peer)
        channel.close()
        self.consumers.channel_closed(channel, self.now_ms)

    def channel(self, name: str) -> FakeChannel:
        return self.channels.setdefault(name, FakeChannel(name))

    def beat(
        self,
        name: str,
        *wanted: SubscriptionData,
        group: str = "g",
        model: str = CLUSTERING,
        notify: bool = True,
        without_sub: bool = False,
        client_id: str | None = None,
    ) -> bool:
        consumer = ConsumerData(
            group, "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", wanted
        )
        client = ClientChannelInfo(
            self.channel(name), client_id or f"id-{name}", LanguageCode.JAVA, 513, self.now_ms
        )
        return self.consumers.register(
            consumer, client, notify=notify, without_sub=without_sub, now_ms=self.now_ms
        )

    def told(self) -> dict[str, list[str]]:
        """Which groups each connection was told of since the last look."""
        found = {}
        for name, channel in self.channels.items():
            assert all(one.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED for one in channel.sent)
            assert all(one.is_oneway for one in channel.sent)
            if channel.sent:
                found[name] = [one.ext_fields["consumerGroup"] for one in channel.sent]
            channel.sent.clear()
        return found


def sub(topic: str, version: int = 1, **more: Any) -> SubscriptionData:
    return SubscriptionData(topic, sub_version=version, **more)


def test_a_new_member_is_told_too() -> None:
    """A lite pull consumer shares out its queues when it is told; without that it has none for 20 seconds."""
    members = Members()
    assert members.beat("a", sub("t"))
    assert members.told() == {"a": ["g"]}
    assert members.beat("b", sub("t"))
    assert members.told() == {"a": ["g"], "b": ["g"]}
    assert not members.beat("b", sub("t"))
    assert members.told() == {}
    group = members.consumers.group("g")
    assert group is not None
    assert group.client_ids() == ["id-a", "id-b"]
    assert group.find_client("id-b") is group.clients[members.channel("b")]
    assert group.find_client("id-c") is None


def test_a_member_that_connected_anew_is_asked_over_the_new_connection() -> None:
    """The broker may not know yet that the old connection is dead: what it sends there is lost."""
    members = Members()
    members.beat("a", sub("t"))
    members.beat("b", sub("t"))
    members.beat("new", sub("t"), client_id="id-a")
    members.beat("b", sub("t"))
    group = members.consumers.group("g")
    assert group is not None
    new = group.clients[members.channel("new")]
    assert group.find_client("id-a") is new
    assert group.members() == {"id-a": new, "id-b": group.clients[members.channel("b")]}
    members.consumers.channel_closed(members.channel("new"), members.now_ms)
    assert group.find_client("id-a") is group.clients[members.channel("a")]


def test_other_topics_are_told_and_other_expressions_are_not() -> None:
    members = Members()
    members.beat("a", sub("t"), sub("u"))
    members.told()
    assert not members.beat("a", sub("t", 2, sub_string="A"), sub("u"))
    assert members.told() == {}
    assert members.beat("a", sub("t", 2))
    assert members.told() == {"a": ["g"]}
    assert members.consumers.subscription("g", "u") is None
    assert members.beat("a", sub("t", 2), sub("v"))
    assert members.consumers.groups_of("v") == ["g"]
    assert members.consumers.groups_of("u") == []


def test_the_highest_version_of_a_subscription_stays() -> None:
    members = Members()
    members.beat("a", sub("t", 5, sub_string="new"))
    for version in (4, 5):
        members.beat("b", sub("t", version, sub_string="old"))
        found = members.consumers.subscription("g", "t")
        assert found is not None
        assert found.sub_string == "new"


def test_a_heartbeat_without_subscriptions_leaves_them() -> None:
    members = Members()
    members.beat("a", sub("t"))
    members.beat("a", without_sub=True)
    assert members.consumers.subscription("g", "t") is not None
    members.beat("a")
    assert members.consumers.subscription("g", "t") is None


def test_who_goes_is_told_to_the_others() -> None:
    members = Members()
    for name in ("a", "b", "c"):
        members.beat(name, sub("t"))
        members.beat(name, sub("t"), group="h")
    members.told()
    members.consumers.unregister("g", members.channel("a"), now_ms=members.now_ms)
    assert members.told() == {"b": ["g"], "c": ["g"]}
    members.consumers.channel_closed(members.channel("b"), members.now_ms)
    assert members.told() == {"c": ["g", "h"], "a": ["h"]}
    members.consumers.channel_closed(members.channel("c"), members.now_ms)
    assert members.consumers.group("g") is None
    assert members.told() == {"a": ["h"]}


@pytest.mark.parametrize("how", ["broadcasting", "group", "broker"])
def test_who_is_never_told(how: str) -> None:
    """A group that broadcasts has nothing to share out; the group's or the broker's settings may forbid it."""
    members = Members(notify=how != "broker")
    model = BROADCASTING if how == "broadcasting" else CLUSTERING
    for name in ("a", "b"):
        members.beat(name, sub("t"), model=model, notify=how != "group")
    members.consumers.unregister(
        "g", members.channel("b"), notify=how != "group", now_ms=members.now_ms
    )
    assert members.told() == {}


def test_silence_of_more_than_two_minutes_drops() -> None:
    members = Members()
    members.beat("a", sub("t"))
    members.beat("b", sub("t"))
    members.now_ms += TIMEOUT_MS
    members.beat("b", sub("t"))
    members.told()
    members.consumers.drop_silent(members.now_ms)
    assert members.told() == {}
    members.now_ms += 1
    members.consumers.drop_silent(members.now_ms)
    assert members.channel("a").closed
    assert not members.channel("b").closed
    assert members.told() == {"b": ["g"]}


def test_fingerprints() -> None:
    members = Members()
    assert not members.consumers.note_fingerprint("g", 7)
    assert not members.consumers.note_fingerprint("g", 7)
    assert members.consumers.note_fingerprint("g", 8)


def test_filters_come_and_die_with_the_group() -> None:
    members = Members()
    members.beat("a", sub("t", 3, sub_string="a > 1", expression_type=SQL92))
    data = members.filters.get("g", "t")
    assert data is not None
    assert (data.client_version, data.dead_ms) == (3, 0)
    members.consumers.channel_closed(members.channel("a"), 2_000)
    assert data.dead_ms == 2_000
    members.beat("a", sub("t", 3, sub_string="a > 1", expression_type=SQL92))
    assert members.filters.get("g", "t") is data
    assert data.dead_ms == 0


@dataclass
class SlowGroup:
    """A group as a list of what happened: every answer is computed from the start."""

    members: dict[str, int] = field(default_factory=dict)
    wanted: dict[str, tuple[int, str]] = field(default_factory=dict)


NAMES = st.sampled_from("abc")
GROUPS = st.sampled_from("gh")
WANTED = st.dictionaries(st.sampled_from("tuv"), st.integers(1, 3), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), NAMES, GROUPS, WANTED),
        st.tuples(st.just("bye"), NAMES, GROUPS),
        st.tuples(st.just("closed"), NAMES),
        st.tuples(st.just("time"), st.sampled_from([1, 60_000, TIMEOUT_MS])),
    ),
    max_size=30,
)


@given(STEPS)
def test_any_sequence_is_as_a_slow_model_says(steps: list[tuple[object, ...]]) -> None:
    members = Members()
    groups: dict[str, SlowGroup] = {}
    for number, step in enumerate(steps):
        expected: dict[str, list[str]] = {}

        def tell(name: str, expected: dict[str, list[str]] = expected) -> None:
            for member in groups[name].members:
                expected.setdefault(member, []).append(name)
            if not groups[name].members:
                del groups[name]

        match step:
            case ("beat", str(who), str(name), dict(wanted)):
                group = groups.setdefault(name, SlowGroup())
                is_new, before = who not in group.members, set(group.wanted)
                group.members[who] = members.now_ms
                group.wanted = {
                    topic: max(
                        group.wanted.get(topic, (0, "")), (version, str(number)), key=lambda v: v[0]
                    )
                    for topic, version in wanted.items()
                }
                changed = is_new or before != set(group.wanted)
                given_subs = [sub(t, v, sub_string=str(number)) for t, v in wanted.items()]
                assert members.beat(who, *given_subs, group=name) == changed
                if changed:
                    tell(name)
            case ("bye", str(who), str(name)):
                members.consumers.unregister(name, members.channel(who), now_ms=members.now_ms)
                if name in groups:
                    groups[name].members.pop(who, None)
                    tell(name)
            case ("closed", str(who)):
                members.consumers.channel_closed(members.channel(who), members.now_ms)
                for name in [n for n, group in groups.items() if who in group.members]:
                    del groups[name].members[who]
                    tell(name)
            case ("time", int(passed)):
                members.now_ms += passed
                members.consumers.drop_silent(members.now_ms)
                for name, group in list(groups.items()):
                    silent = [
                        who for who, at in group.members.items() if members.now_ms - at > TIMEOUT_MS
                    ]
                    for who in silent:
                        del group.members[who]
                        members.channels.pop(who, None)
                    if silent:
                        tell(name)
        reached = {who: told for who, told in expected.items() if who in members.channels}
        assert members.told() == reached
        assert set(members.consumers.groups()) == set(groups)
        for name, group in groups.items():
            found = members.consumers.group(name)
            assert found is not None
            assert found.client_ids() == [f"id-{who}" for who in group.members]
            assert {
                topic: (one.sub_version, one.sub_string)
                for topic, one in found.subscriptions.items()
            } == group.wanted


# ---- memory ----------------------------------------------------------------------------------------


def wide(count: int, version: int = 1, letters: int = 100) -> list[SubscriptionData]:
    return [
        SubscriptionData(f"t{number}", "x" * letters, sub_version=version)
        for number in range(count)
    ]


def test_subscriptions_of_a_connection_have_a_bound() -> None:
    """A connection subscribed until the broker's memory was full, each heartbeat with another group."""
    members = Members(most_of_connection=50_000)
    groups = (members.beat("one", *wide(10), group=f"g{number}") for number in range(100))
    with pytest.raises(ClientMemoryError, match="maxClientBytesPerConnection"):
        list(groups)
    kept = len(members.consumers.groups())
    assert set(members.consumers.groups()) == {f"g{number}" for number in range(kept)}
    assert 3 <= kept <= 6
    assert members.memory.total <= 50_000
    members.beat("one", *wide(10, version=2), group="g0")  # what it has may change
    members.beat("one", group="g1")
    members.beat("one", *wide(9), group="new")
    members.consumers.channel_closed(members.channel("one"), 0)
    assert members.memory.total == 0


def test_the_connection_leaves_that_takes_most() -> None:
    members = Members(most_of_connection=50_000, most_of_all=100_000)
    for number in range(9):
        members.beat("quiet", *wide(1), group=f"q{number}")
    for number in range(3):
        members.beat("large", *wide(10), group=f"l{number}")
    for number in range(4):
        members.beat(f"new {number}", *wide(10), group=f"n{number}")
    assert members.memory.total <= 100_000
    assert members.evicted == ["large"]
    assert members.channel("large").closed
    assert {name[0] for name in members.consumers.groups()} == {"q", "n"}
    held = members.memory.held_by
    assert sum(held(channel) for channel in members.channels.values()) == members.memory.total


def test_a_heartbeat_that_would_take_most_is_refused() -> None:
    members = Members(most_of_all=50_000)
    for name in ("a", "b", "c"):
        members.beat(name, *wide(10), group=name)
    with pytest.raises(ClientMemoryError, match="maxClientBytes\\)"):
        members.beat("d", *wide(40), group="d")
    assert members.evicted == []
    assert set(members.consumers.groups()) == {"a", "b", "c"}


def test_subscriptions_count_for_a_member_that_stays() -> None:
    members = Members()
    members.beat("one", *wide(10))
    members.beat("two", *wide(10))
    one, two = members.channel("one"), members.channel("two")
    held = members.memory.held_by
    assert held(two) < held(one) < members.memory.total
    members.consumers.unregister("g", one, now_ms=0)
    assert held(two) == members.memory.total > 1_000
    assert held(one) == 0
    members.consumers.unregister("g", two, now_ms=0)
    assert members.memory.total == 0


def test_a_heartbeat_as_the_one_before_is_not_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 500 subscriptions that took the loop 2 ms, twice, each half minute and of each member."""
    measured: list[str] = []
    measure = consumers_module._group_bytes

    def noted(name: str, subscriptions: Iterable[SubscriptionData]) -> int:
        measured.append(name)
        return measure(name, subscriptions)

    monkeypatch.setattr(consumers_module, "_group_bytes", noted)
    members = Members()
    members.beat("one", *wide(10))
    held = members.memory.total
    measured.clear()
    for name in ("one", "two", "one"):
        members.beat(name, *wide(10))
    assert not measured
    members.beat("two", *wide(10, version=2, letters=2_000))
    assert measured
    assert members.memory.held_by(members.channel("two")) > held
    members.beat("two", *wide(9, version=2))
    assert members.memory.total < 2 * held + 20_000


def test_the_subscriptions_stay_where_their_owner_leaves_for_a_new_member() -> None:
    members = Members(most_of_all=20_000)
    members.beat("one", *wide(10))
    members.beat("one", *wide(3), group="other")
    rest = 20_000 - members.memory.total
    members.beat("two", *wide(10), client_id="i" * rest)
    assert members.evicted == ["one"]
    found = members.consumers.group("g")
    assert found is not None
    assert set(found.subscriptions) == {f"t{number}" for number in range(10)}
    assert members.memory.total == members.memory.held_by(members.channel("two"))


def test_expressions_count_with_what_is_compiled_of_them() -> None:
    sizes = []
    for kind in ("TAG", SQL92):
        members = Members()
        members.beat("one", SubscriptionData("t", "a > 1 and b < 2", expression_type=kind))
        sizes.append(members.memory.total)
    assert sizes[1] > sizes[0] + 500
