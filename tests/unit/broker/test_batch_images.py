"""Bodies of batches from whoever sends them: what is whole is stored message by message, what is not is refused whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.sends import Sender, image, send

from rmqcore.remoting.codes import RequestCode, ResponseCode

BATCH = RequestCode.SEND_BATCH_MESSAGE
TOPIC = "many"
NAMES = st.text("abcTAGSKEY_", min_size=1, max_size=8).filter(
    lambda name: name not in {"DELAY", "INNER_NUM"}
)
MESSAGES = st.lists(
    st.tuples(
        st.binary(max_size=40),
        st.dictionaries(NAMES, st.text("xyz \u00e4\x01", min_size=1, max_size=9), max_size=4),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sender]:
    sender = Sender(tmp_path_factory.mktemp("batches"))
    sender.ask(send(TOPIC))
    yield sender
    sender.close()


@examples(0.6)
@given(MESSAGES)
def test_each_message_is_stored_as_it_lies_in_the_body(
    sender: Sender, messages: list[tuple[bytes, dict[str, str]]]
) -> None:
    before = len(sender.messages(TOPIC))
    response = sender.ask(send(TOPIC, image(messages), code=BATCH, batch=True))
    assert response.code == 0
    assert response.ext_fields["queueOffset"] == str(before)
    stored = sender.messages(TOPIC)[before:]
    assert [(m.body, m.properties) for m in stored] == messages
    assert response.ext_fields["msgId"] == ",".join(m.msg_id for m in stored)


@examples(1.5)
@given(MESSAGES, st.data())
def test_a_damaged_body_is_stored_whole_or_not_at_all(
    sender: Sender, messages: list[tuple[bytes, dict[str, str]]], data: st.DataObject
) -> None:
    body = bytearray(image(messages))
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(1, len(body) - 1)) :]
    else:
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255))
    log_end = sender.store.max_phy_offset
    response = sender.ask(send(TOPIC, bytes(body), code=BATCH, batch=True))
    if response.code == 0:
        ids = response.ext_fields["msgId"].split(",")
        assert all(sender.store.lookup_id(msg_id) for msg_id in ids)
    else:
        assert response.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL)
        assert sender.store.max_phy_offset == log_end
