"""Quick sends and requests for handlers on one connection, in whatever pieces they come."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from support.doses import examples
from support.fake_peer import Peer
from support.sends import Sender, send

from rmqcore.broker import requests
from rmqcore.broker.network.connection import Connections
from rmqcore.broker.quick_sends import QuickSends
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.header import encode_command

PLAIN, ASKED = "plain", "asked"


@examples(0.6)
@given(
    kinds=st.lists(st.sampled_from([PLAIN, ASKED]), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 700), max_size=8),
)
@example(kinds=[ASKED, PLAIN, ASKED], cuts=[])
@example(kinds=[ASKED, ASKED, PLAIN, PLAIN], cuts=[500])
def test_every_request_is_answered_once_and_in_its_order(kinds: list[str], cuts: list[int]) -> None:
    """A send behind another request in one read moved the connection too far: the next frame was cut in its middle."""
    with tempfile.TemporaryDirectory() as folder:
        sender = Sender(Path(folder))
        try:
            broker = sender.broker
            broker.topics.update_all([TopicConfig("orders", 4, 4)])
            connections = Connections(
                partial(requests.handle, broker),
                broker.channel_closed,
                lambda host: True,
                9,
                QuickSends(broker),
            )
            peer = Peer(partial(requests.handle, broker), connections=connections)
            commands = [_command(kind, number) for number, kind in enumerate(kinds)]
            data = b"".join(map(encode_command, commands))
            for cut in cuts:
                peer.comes(data[:cut])
                data = data[cut:]
            peer.comes(data)
            answers = peer.answers()
            assert [answer.opaque for answer in answers] == list(range(len(kinds)))
            assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
            assert peer.connection.unanswered == 0
            assert peer.transport.ended is None
            stored = [bytes(message.body) for message in sender.messages("orders")]
            assert stored == [b"%d" % n for n, kind in enumerate(kinds) if kind == PLAIN]
        finally:
            sender.close()


def _command(kind: str, number: int) -> RemotingCommand:
    if kind == ASKED:
        fields = {"topic": "orders", "queueId": "0"}
        return RemotingCommand(RequestCode.GET_MAX_OFFSET, opaque=number, ext_fields=fields)
    command = send("orders", b"%d" % number, queueId=0)
    command.opaque = number
    return command
