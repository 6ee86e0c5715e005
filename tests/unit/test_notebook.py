"""What a notebook shows of readers, stores, messages and answers: short tables, in which a stranger's text is only text."""

from __future__ import annotations

import re
import shutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rmqcore
from rmqcore import Message, codec, sysflag
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.pull_message import PullResult, PullStatus
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.send_result import SendResult, SendStatus
from rmqcore.shown.html_tables import SHOWN_ROWS
from rmqcore.shown.notebook import (
    MOST_BODY,
    MOST_CELL,
    get_html,
    message_html,
    new_message_html,
    query_html,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import StoreCopy

HOSTILE = "<script>alert(1)</script>"
HOSTILE_NAME = "<script>alert(1)<&script>"  # a topic is the name of a directory, so it has no slash
OURS = re.compile(r"</?(?:table|tr|th|td|b|pre)>")


def shown(thing: Any) -> str:
    """The HTML of a thing, in which no tag is but ours."""
    text: str = thing if isinstance(thing, str) else thing._repr_html_()
    assert "<" not in OURS.sub("", text)
    text.encode()  # Jupyter sends it as UTF-8
    return text


@pytest.fixture
def store(tmp_path: Path) -> Iterator[rmqcore.MessageStore]:
    """A store in which all text is hostile."""
    with rmqcore.open(tmp_path / "<b>store", mapped_file_size_commit_log=1 << 20) as opened:
        message = Message(
            HOSTILE_NAME,
            HOSTILE.encode(),
            tags="<i>tag",
            keys=["<i>key"],
            properties={"<i>name": HOSTILE},
        )
        opened.put(message).raise_for_status()
        assert opened.wait_dispatched(60)
        yield opened


def view_of(body: bytes, **options: Any) -> rmqcore.MessageView:
    message = Message("Orders", body, **options)
    return codec.decode(
        codec.encode(message, phy_offset=0, queue_offset=0, store_timestamp_ms=1_700_000_000_123)
    )


def test_a_hostile_store_is_text(store: rmqcore.MessageStore) -> None:
    """A cell ran the script that a topic was named for."""
    topic = "&lt;script&gt;alert(1)&lt;&amp;script&gt;"
    assert topic in shown(store)
    reader = rmqcore.read(store.paths.root)
    found = shown(reader)
    assert topic in found
    assert "&lt;b&gt;store" in found
    for answer in (store.get(HOSTILE_NAME, 0, 0), reader.get(HOSTILE_NAME, 0, 0)):
        text = shown(answer)
        assert topic in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "FOUND" in text
    for asked in (store.query(HOSTILE_NAME, "<i>key"), reader.query(HOSTILE_NAME, "<i>key")):
        text = shown(asked)
        assert "<b>messages</b> (1)" in text
        assert "&lt;i&gt;key" in text
    (view,) = reader.messages()
    text = shown(view)
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2  # the property and the body
    for queue in (store.queues()[0], reader.queues()[0]):
        assert topic in shown(queue)


def test_answers_of_a_reader_have_it_themselves(store: rmqcore.MessageStore) -> None:
    reader = rmqcore.read(store.paths.root)
    answer = reader.get(HOSTILE_NAME, 0, 0)
    assert shown(answer) == get_html(answer)
    found = reader.query(HOSTILE_NAME, "<i>key")
    assert shown(found) == query_html(found)


def test_the_parts_of_a_store(golden: Path) -> None:
    reader = rmqcore.read(golden / "basic" / "store")
    found = shown(reader)
    assert "<tr><td>log_file_count</td><td>7</td></tr>" in found
    assert "<td>2023-11-15 22:13:20.018 UTC</td>" in found
    assert "<b>queues</b> (12)" in found
    checkpoint = reader.checkpoint()
    assert "2023-11-15 22:22:54.565 UTC" in shown(checkpoint)
    assert "20261121024846792" in shown(reader.index_files()[0])
    assert "StoreInfo" in shown(reader.info())
    assert "TopicBasicA" in shown(reader.queues()[0])


def test_of_very_many_queues_none_is_looked_up(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcore.shown.notebook.SHOWN_ROWS", 11)
    found = shown(rmqcore.read(golden / "basic" / "store"))
    assert "<td>queue_count</td><td>12</td>" in found
    assert "<b>queues</b>" not in found


def test_batches_show_their_columns(golden: Path) -> None:
    batches = rmqcore.read(golden / "basic" / "store").batches(columns=["topic", "body"])
    assert repr(batches) == "<BatchStream of topic, body>"
    assert "<td>topic, body</td>" in shown(batches)


def test_damage_is_a_table(golden: Path) -> None:
    reader = rmqcore.read(golden / "crash_flipped" / "input")
    list(reader.messages())
    found = shown(reader.damage)
    assert "<b>damage</b> (1)" in found
    assert "<td>204236</td>" in found
    assert "BODYCRC" in shown(reader.damage[0])


def test_what_cannot_be_read_is_said(store_copy: StoreCopy) -> None:
    """An error in place of the table would hide which store it is."""
    path = store_copy("basic")
    shutil.copytree(path / "commitlog", path / "again")
    found = shown(rmqcore.read(path, commitlog=[path / "commitlog", path / "again"]))
    assert "not read" in found
    assert str(path) in found


def test_a_store_that_is_closed(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path / "store", mapped_file_size_commit_log=1 << 20) as store:
        pass
    assert "closed" in shown(store)


def test_what_became_of_puts(store: rmqcore.MessageStore) -> None:
    assert "PUT_OK" in shown(store.put(Message("Orders", b"paid")))
    refused = shown(store.put(Message("Orders", bytes(5 << 20))))
    assert "maxMessageSize" in refused
    assert "phy_offset" not in refused
    many = shown(store.put_many([Message("Orders", b"paid")] * (SHOWN_ROWS + 1)))
    assert f"{SHOWN_ROWS + 1}, showing the first {SHOWN_ROWS}" in many
    assert "<td>stored</td><td>51</td>" in many
    assert "RecoveryReport" in shown(store.recovery)
    assert "CleanReport" in shown(store.clean_once())


def test_a_long_body_is_cut_and_this_is_said() -> None:
    view = view_of(b"x" * 5_000)
    text = shown(view)
    assert "(5,000 bytes, the first 2,000 bytes)" in text
    assert "x" * MOST_BODY in text
    assert "x" * (MOST_BODY + 1) not in text


def test_a_body_that_is_no_text() -> None:
    assert "(3 bytes, base64)\n<pre>/wAB</pre>" in shown(message_html(view_of(b"\xff\x00\x01")))


def test_a_body_is_not_cut_within_a_character() -> None:
    text = shown(message_html(view_of("é".encode() * 1_001 + b"e")))
    assert "é" * 1_000 in text
    assert "base64" not in text


def test_a_body_in_lines_keeps_them_and_obeys_nothing() -> None:
    text = shown(message_html(view_of(b"one\n  two\x1b[31m\x00")))
    assert "<pre>one\n  two\\x1b[31m\\x00</pre>" in text


def test_a_compressed_body_is_shown_plain() -> None:
    flags = sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB
    plain = view_of(zlib.compress(b"order " * 1_000), sys_flag=flags)
    text = shown(message_html(plain))
    assert "decompressed, the first 2,000 bytes" in text
    assert "<pre>order order" in text
    broken = shown(message_html(view_of(b"<no zlib>", sys_flag=flags)))
    assert "as it is stored: " in broken
    assert "<pre>&lt;no zlib&gt;</pre>" in broken


def test_a_line_of_a_table_has_a_short_body(store: rmqcore.MessageStore) -> None:
    for body in (b"y" * 1_000, b"\xff" * 1_000):
        store.put(Message("Long", body))
    assert store.wait_dispatched(60)
    text = shown(store.get("Long", 0, 0))
    assert f"{'y' * MOST_CELL} (the first 80 bytes)" in text
    assert "base64, the first 80 bytes" in text


def test_a_message_to_be_put() -> None:
    text = shown(Message("<script>", b"<b>" * 1_000, tags="<i>", keys=["<k>"]))
    assert "(3,000 bytes, the first 2,000 bytes)" in text
    assert "&lt;script&gt;" in text
    assert "(0 bytes)" in shown(new_message_html(Message("T", None)))  # type: ignore[arg-type]
    assert "(3 bytes)" in shown(new_message_html(Message("T", bytearray(b"abc"))))


def test_a_configuration_shows_what_was_given(golden: Path) -> None:
    """The answer of `rmqcore.find_config`, which has 100 more fields than anybody has set."""
    found = rmqcore.find_config(golden / "basic" / "store")
    text = shown(found)
    assert "<td>mapped_file_size_commit_log</td><td>131,072</td>" in text
    assert text.count("<tr>") == len(found.given) + 1
    assert found.as_dict()["flush_disk_type"] == "ASYNC_FLUSH"
    hostile = rmqcore.MessageStoreConfig(store_path_root_dir="/<script>")
    assert "&lt;script&gt;" in shown(hostile)


def test_what_a_client_gets() -> None:
    queue = MessageQueue("<i>Orders", "<i>broker", 0)
    sent = SendResult(SendStatus.SEND_OK, "AB", queue, 7, "CD")
    assert "&lt;i&gt;broker" in shown(sent)
    message = ReceivedMessage(view_of(HOSTILE.encode()), queue, 7)
    assert "&lt;script&gt;" in shown(message)
    pulled = shown(PullResult(PullStatus.FOUND, (message,), 8, 0, 8, 0))
    assert "<b>messages</b> (1)" in pulled
    assert "&lt;script&gt;" in pulled
