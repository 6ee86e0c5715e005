"""What docs/compat.md says of rmqcore, where a row can be tried without Java; what it says of Java is not tested."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.oracle import records as oracle

import rmqcore
from rmqcore import Message, MessageStoreConfig, codec
from rmqcore.errors import CorruptMessageError
from rmqcore.offline.lookup import StoreLookup

if TYPE_CHECKING:
    from conftest import StoreCopy

TOPIC, KEY = "TopicBasicA", "key-0-0"
SLOTS = 500


def encode(message: Message) -> bytes:
    return codec.encode(message, phy_offset=0, queue_offset=0, store_timestamp_ms=1)


def patch(path: Path, pos: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(pos)
        file.write(data)


# ---- records ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "v2"), [("t" * 127, False), ("t" * 128, True), ("\u4e16" * 43, True)]
)
def test_v2_goes_by_bytes(topic: str, v2: bool) -> None:
    view = codec.decode(encode(Message(topic, b"")))
    assert (view.topic, view.magic == oracle.V2) == (topic, v2)


@pytest.mark.parametrize(
    ("pos", "width", "field"), [(84, 4, "BODYLENGTH"), (-2, 2, "PROPERTIESLENGTH")]
)
def test_negative_lengths_are_refused(pos: int, width: int, field: str) -> None:
    raw = bytearray(encode(Message("T", b"")))
    pos %= len(raw)
    raw[pos : pos + width] = b"\xff" * width
    with pytest.raises(CorruptMessageError) as caught:
        codec.decode(raw)
    assert caught.value.field == field


def test_properties_keep_their_order() -> None:
    properties = {"z": "1", "a": "2", "m": "3"}
    assert list(codec.decode(encode(Message("T", b"", properties=properties))).properties) == [
        "z",
        "a",
        "m",
    ]


@pytest.mark.parametrize("properties", [{"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x02"}])
def test_separators_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="separator"):
        codec.encode_properties(properties)


def test_lengths_that_only_a_configuration_forbids_are_encoded() -> None:
    assert codec.decode(encode(Message("t" * 300, bytes(5 << 20)))).msg_size > 5 << 20


def test_malformed_text_is_what_java_makes_of_it() -> None:
    assert codec.decode_properties(b"a\x01\xed\xa0\x80\x02") == {"a": "\ufffd"}
    assert codec.decode_properties(codec.encode_properties({"a": ""})) == {}


# ---- queues and index -------------------------------------------------------------------------------


def colliding(key: str) -> str:
    """Another text of the same hash: a character lower by 1 is made up by 31 more in the next place."""
    other = chr(ord(key[0]) - 1) + chr(ord(key[1]) + 31) + key[2:]
    assert codec.java_hash(other) == codec.java_hash(key)
    return other


def test_collisions_are_left_out(golden: Path) -> None:
    reader = rmqcore.read(golden / "basic" / "store")
    assert [message.phy_offset for message in reader.query(TOPIC, KEY)] == [0]
    assert StoreLookup(reader).query_offsets(TOPIC, colliding(KEY)).phy_offsets == [0]
    assert reader.query(TOPIC, colliding(KEY)) == []


@pytest.mark.parametrize("link", ["itself", "upwards", "outside"])
def test_a_broken_chain_ends(store_copy: StoreCopy, link: str) -> None:
    store = store_copy("basic")
    for path in sorted((store / "index").iterdir()):
        key_hash = oracle.index_key_hash(TOPIC, KEY)
        (head,) = struct.unpack(">i", path.read_bytes()[40 + 4 * (key_hash % SLOTS) :][:4])
        to = {"itself": head, "upwards": head + 1, "outside": sys.maxsize >> 32}[link]
        patch(path, 40 + 4 * SLOTS + 20 * head + 16, struct.pack(">i", to))
    with pytest.warns(rmqcore.DamageWarning, match="does not lead to an older entry"):
        assert len(rmqcore.read(store).query(TOPIC, KEY)) <= 1


def test_slots_are_found_from_the_file(golden: Path) -> None:
    assert {info.slot_count for info in rmqcore.read(golden / "basic" / "store").index_files()} == {
        SLOTS
    }


def test_a_wrong_queue_entry_is_left_out(store_copy: StoreCopy) -> None:
    store = store_copy("basic")
    reader = rmqcore.read(store)
    sound = reader.get(TOPIC, 1, 0, 3)
    assert [message.queue_offset for message in sound.messages] == [0, 1, 2]
    entries = store / "consumequeue" / TOPIC / "1" / f"{0:020d}"
    patch(entries, 20 + 7, b"\x01")
    found = reader.get(TOPIC, 1, 0, 3)
    assert [message.queue_offset for message in found.messages] == [0, 2, 3]
    patch(entries, 8, struct.pack(">i", 91))
    found = reader.get(TOPIC, 1, 0, 1)
    assert [message.queue_offset for message in found.messages] == [2]
    assert found.next_begin_offset == 3


def test_there_is_no_message_in_the_middle_of_a_record(golden: Path) -> None:
    reader = rmqcore.read(golden / "basic" / "store")
    first = reader.lookup(0)
    assert first is not None
    assert [reader.lookup(pos) for pos in range(1, first.msg_size)] == [None] * (first.msg_size - 1)


def test_a_record_that_two_entries_name_comes_once(golden: Path) -> None:
    """One message has the word hot0 twice in its KEYS."""
    reader = rmqcore.read(golden / "basic" / "store")
    entries = StoreLookup(reader).query_offsets("TopicBasicC", "hot0").phy_offsets
    offsets = [message.phy_offset for message in reader.query("TopicBasicC", "hot0")]
    assert (len(entries), len(offsets)) == (18, 17)
    assert offsets == sorted(set(entries))


# ---- configuration ----------------------------------------------------------------------------------


def test_configuration() -> None:
    assert MessageStoreConfig().check_commit_log_offset_on_recover is True
    with pytest.raises(ValueError, match="max_message_size"):
        MessageStoreConfig(max_message_size=-1)
