"""A producer of transactions, and a broker whose clock and disk a test drives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.sends import Sender, send

from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.codec import parse_msg_id
from rmqcore.codec.message import MessageView
from rmqcore.remoting.codes import LanguageCode, RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.vocabulary.status import PutMessageStatus
from rmqcore.vocabulary.topics import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
END = RequestCode.END_TRANSACTION
STEP_MS = 1_000


class Transacting(Sender):
    """A broker that checks transactions, with a producer of group ``pg``."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.store.on_flushed = self._flushed_at_once  # type: ignore[method-assign]
        self.broker.start()
        self.connect()

    def _flushed_at_once(
        self,
        end_phy_offset: int,
        callback: Callable[[PutMessageStatus], object],
        timeout_ms: int | None = None,
    ) -> None:
        self.store.flush()
        callback(PutMessageStatus.PUT_OK)

    def connect(self) -> None:
        """Register the producer."""
        client = ClientChannelInfo(self.channel, "client", LanguageCode.JAVA, 513, 1 << 60)
        self.broker.producers.register("pg", client)

    def kill(self) -> None:
        """End without a word, as far as a test can: the log is there, what waited in memory is not."""
        self.broker.config_files.close()
        self.store.close()

    def half(self, name: str, **properties: str) -> RemotingCommand:
        """Send the half of a transaction, and give the answer."""
        given = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": name, **properties}
        born = self.loop.now_ms
        request = send("deals", name.encode(), given, sysFlag=4, bornTimestamp=born)
        response = self.ask(request)
        self.dispatch()
        return response

    def dispatch(self) -> None:
        assert self.store.wait_dispatched(60)
        self.loop.run()

    def advance(self, milliseconds: int) -> None:
        """Let time pass in steps; what is stored in one is in its queue in the next."""
        for at in range(0, milliseconds, STEP_MS):
            self.loop.advance(min(STEP_MS, milliseconds - at))
            self.dispatch()

    def questions(self) -> list[RemotingCommand]:
        """Take what the broker asked the producer."""
        code = RequestCode.CHECK_TRANSACTION_STATE
        asked = [c for c in self.channel.sent if not c.is_response and c.code == code]
        self.channel.sent.clear()
        return asked

    def bodies(self, topic: str = "deals") -> list[bytes]:
        return [message.body for message in self.messages(topic)]

    def halves(self) -> list[MessageView]:
        return self.messages(TRANS_HALF_TOPIC)

    def marks(self) -> list[bytes]:
        return self.bodies(TRANS_OP_HALF_TOPIC)


def end(
    half: RemotingCommand, how: int, *, oneway: bool = False, **changed: Value
) -> RemotingCommand:
    """End a transaction, by the answer to the send of its half."""
    fields = half.ext_fields
    given: dict[str, Value] = {
        "producerGroup": "pg",
        "tranStateTableOffset": int(fields["queueOffset"]),
        "commitLogOffset": parse_msg_id(fields["msgId"]).phy_offset,
        "commitOrRollback": how,
        "fromTransactionCheck": False,
        "msgId": fields["transactionId"],
        **changed,
    }
    flag = ONEWAY_FLAG if oneway else 0
    return RemotingCommand(END, flag=flag, ext_fields=encode_fields(END, given))


def end_asked(question: RemotingCommand, how: int) -> RemotingCommand:
    """End a transaction that the broker asked about."""
    fields = question.ext_fields
    given: dict[str, Value] = {
        "producerGroup": "pg",
        "tranStateTableOffset": int(fields["tranStateTableOffset"]),
        "commitLogOffset": int(fields["commitLogOffset"]),
        "commitOrRollback": how,
        "fromTransactionCheck": True,
        "msgId": fields["msgId"],
    }
    return RemotingCommand(END, flag=ONEWAY_FLAG, ext_fields=encode_fields(END, given))
