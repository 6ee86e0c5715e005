"""Producer groups: who can be asked."""

from __future__ import annotations

from support.broker import FakeChannel, ample

from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.broker.state.producers import Producers
from rmqcore.remoting.codes import LanguageCode

TIMEOUT_MS = 120_000


def client(channel: FakeChannel, at_ms: int = 0) -> ClientChannelInfo:
    return ClientChannelInfo(channel, f"id-{channel.peer}", LanguageCode.JAVA, 513, at_ms)


def test_members_come_and_go() -> None:
    producers = Producers(TIMEOUT_MS, ample())
    one, two = FakeChannel("1"), FakeChannel("2")
    producers.register("g", client(one))
    producers.register("g", client(two))
    producers.register("h", client(one))
    assert producers.channels("g") == [one, two]
    assert [found.client_id for found in producers.clients("h")] == ["id-1"]
    producers.unregister("g", one)
    producers.unregister("g", FakeChannel("3"))
    assert producers.channels("g") == [two]
    producers.channel_closed(two)
    assert set(producers.groups()) == {"h"}
    assert producers.find_channel("id-2") is None


def test_each_member_is_asked_in_turn_and_none_that_is_closed() -> None:
    producers = Producers(TIMEOUT_MS, ample())
    channels = [FakeChannel(str(number)) for number in range(3)]
    for channel in channels:
        producers.register("g", client(channel))
    channels[1].close()
    asked = {id(producers.available_channel("g")) for _ in range(4)}
    assert asked == {id(channels[0]), id(channels[2])}
    assert producers.available_channel("unknown") is None


def test_silence_drops() -> None:
    producers = Producers(TIMEOUT_MS, ample())
    old, new = FakeChannel("1"), FakeChannel("2")
    producers.register("g", client(old))
    producers.register("g", client(new, 1))
    producers.drop_silent(TIMEOUT_MS + 1)
    assert producers.channels("g") == [new]
    assert (old.closed, new.closed) == (True, False)


def test_a_client_is_found_by_what_it_calls_itself() -> None:
    producers = Producers(TIMEOUT_MS, ample())
    before, after = FakeChannel("1"), FakeChannel("2")
    producers.register("g", ClientChannelInfo(before, "c", LanguageCode.JAVA, 513, 0))
    producers.register("g", ClientChannelInfo(after, "c", LanguageCode.JAVA, 513, 0))
    assert producers.find_channel("c") is after
    producers.channel_closed(before)
    assert producers.find_channel("c") is after
