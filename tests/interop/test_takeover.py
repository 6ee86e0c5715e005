"""A broker that is killed with messages that wait and halves that are open; the other one takes over, Java's or ours."""

from __future__ import annotations

from pathlib import Path

from interop.broker import Broker
from interop.test_sends import CHECKS, COMMIT, OUR_SIZES, OURS, SIZES, JavaSide, OurSide, Side, end
from support.broker import FakeLoop
from support.raw_client import RawClient
from support.sends import Sender, send

from rmqcore.remoting.bodies.heartbeat import Heartbeat, encode_heartbeat
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand

OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
WANTED = {b"delivered", b"ended", b"open", b"late"}
HEARTBEAT = encode_heartbeat(Heartbeat("client", ("pg",)))


def before(side: Side) -> None:
    """What the first broker is told: one transaction ends and one stays open, one message waits."""

    def half(name: str) -> RemotingCommand:
        properties = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": name}
        born = side.now_ms()
        return side.ask(send("deals", name.encode(), properties, sysFlag=4, bornTimestamp=born))

    ended = half("ended")
    assert half("open").code == 0
    assert side.ask(end(ended, COMMIT)).code == 0
    assert side.ask(send("deals", b"delivered", {"DELAY": "1"})).code == 0
    side.settle("deals", 2)
    side.settle(OP_TOPIC, 1)
    assert side.ask(send("late", b"late", {"DELAY": "2"})).code == 0


def after(side: Side) -> None:
    """What the second one must do: ask about the open transaction alone, and deliver what waits."""
    side.ask(RemotingCommand(RequestCode.HEART_BEAT, body=HEARTBEAT))
    question = side.pushed(RequestCode.CHECK_TRANSACTION_STATE)
    assert question.ext_fields["msgId"] == "open"
    assert side.ask(end(question, COMMIT, checked=True)).code == 0
    side.settle("deals", 3)
    side.settle("late", 1)


def bodies(sender: Sender) -> set[bytes]:
    """What was delivered; what was is delivered again where nobody had saved how far it went."""
    return {message.body for topic in ("deals", "late") for message in sender.messages(topic)}


def our_side(folder: Path, address: str, loop: FakeLoop | None = None) -> Sender:
    sender = Sender(folder, store=OUR_SIZES, loop=loop, address=address, **OURS)
    sender.broker.start()
    return sender


def test_java_takes_over(tmp_path: Path) -> None:
    java = Broker(tmp_path, SIZES | CHECKS)
    now = FakeLoop(JavaSide.clock_ms())
    killed = our_side(java.store, java.address, now)
    before(OurSide(killed))
    killed.broker.config_files.close()
    killed.store.close()
    with java.running(may_move=False) as server, RawClient(java.address) as wire:
        after(JavaSide(wire))
        server.stop()
    last = our_side(java.store, java.address, FakeLoop(JavaSide.clock_ms()))
    assert bodies(last) == WANTED
    last.close()


def test_we_take_over(tmp_path: Path) -> None:
    java = Broker(tmp_path, SIZES | CHECKS)
    with java.running() as server, RawClient(java.address) as wire:
        before(JavaSide(wire))
        server.kill()
    ours = our_side(java.store, java.address, FakeLoop(JavaSide.clock_ms()))
    after(OurSide(ours))
    assert bodies(ours) == WANTED
    ours.close()
