"""A MessageView as an object among others: `Pool.map` could not send one, two of the same message were not equal."""

from __future__ import annotations

import copy
import json
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rmqcore
from rmqcore import Message, MessageView, codec
from rmqcore._native.format.codec import DelayLevels, decode_with_levels

NAMES = (
    "phy_offset msg_size magic body_crc queue_id flag queue_offset sys_flag born_timestamp_ms born_host store_timestamp_ms "
    "store_host reconsume_times prepared_transaction_offset body topic properties tags keys uniq_key msg_id tags_code"
).split()


def view_of(message: Message, **place: int) -> MessageView:
    where: Any = {
        "phy_offset": 7,
        "queue_offset": 3,
        "store_timestamp_ms": 1_700_000_000_000,
        **place,
    }
    return codec.decode(codec.encode(message, **where))


MESSAGE = Message("TopicA", b"hello", 2, "TagA", ["k1", "k2"], {"UNIQ_KEY": "u1", "a": "ä"})


def test_a_pool_takes_views(golden: Path) -> None:
    views = list(rmqcore.read(golden / "basic" / "store").messages())[:20]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(attrgetter("body"), views)) == [view.body for view in views]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_a_copy_owns_its_bytes(how: Any) -> None:
    record = codec.encode(MESSAGE, phy_offset=7, queue_offset=3, store_timestamp_ms=5)
    buffer = bytearray(b"xx" + record)
    view = codec.decode(buffer, 2)
    other = how(view)
    assert other == view and other.raw == record and hash(other) == hash(view)
    del view
    buffer += b"x"  # nobody holds it any more
    buffer[:] = bytes(len(buffer))
    assert other.raw == record


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_a_copy_outlives_a_store_and_its_result(tmp_path: Path, how: Any) -> None:
    with rmqcore.open(tmp_path, services=False, mapped_file_size_commit_log=1 << 16) as store:
        store.put(MESSAGE)
        store.wait_dispatched()
        with store.get("TopicA", 2, 0) as found:
            kept = how(found.messages[0])
    assert kept.as_dict()["properties"] == dict(MESSAGE.properties)


def test_delay_levels_go_along() -> None:
    message = Message("SCHEDULE_TOPIC_XXXX", b"", properties={"DELAY": "1"})
    record = codec.encode(message, phy_offset=0, queue_offset=0, store_timestamp_ms=1000)
    view = decode_with_levels(record, 0, DelayLevels([77_000]))
    assert pickle.loads(pickle.dumps(view)).tags_code == view.tags_code


def test_equal_are_the_same_bytes_at_the_same_place() -> None:
    view = view_of(MESSAGE)
    assert view == view_of(MESSAGE) and hash(view) == hash(view_of(MESSAGE))
    others = [
        view_of(MESSAGE, phy_offset=8),
        view_of(MESSAGE, queue_offset=4),
        view_of(MESSAGE, store_timestamp_ms=1),
        view_of(Message("TopicA", b"hellO", 2, "TagA", ["k1", "k2"], {"UNIQ_KEY": "u1", "a": "ä"})),
    ]
    assert len({view, view_of(MESSAGE), *others}) == 5
    assert view not in (view.raw, None)


def test_the_views_of_a_store_and_of_its_reader_are_equal(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, services=False, mapped_file_size_commit_log=1 << 16) as store:
        store.put(MESSAGE)
        store.wait_dispatched()
        with store.get("TopicA", 2, 0) as found:
            assert list(found.messages) == list(rmqcore.read(tmp_path).messages())


def test_as_dict() -> None:
    view = view_of(MESSAGE)
    found = view.as_dict()
    assert list(found) == NAMES
    assert found == {name: getattr(view, name) for name in NAMES} | {"keys": ["k1", "k2"]}
    body = found.pop("body")
    assert json.loads(json.dumps(found)) == found and body == b"hello"
    found["properties"]["a"] = "changed"
    assert view.properties["a"] == "ä"


def test_a_repr_says_what_it_is() -> None:
    assert repr(view_of(MESSAGE)) == (
        "<MessageView TopicA/2@3 phy_offset=7 tags=TagA keys=k1 k2 body=5 bytes: b'hello'>"
    )
    assert repr(view_of(Message("t", b""))) == "<MessageView t/0@3 phy_offset=7 body=0 bytes: b''>"


@given(
    st.text(
        st.characters(exclude_characters="\x01\x02/\0", codec="utf-8"), min_size=1, max_size=60
    ),
    st.binary(max_size=300),
    st.text(st.characters(exclude_characters="\x01\x02 ", codec="utf-8"), max_size=40),
    st.integers(0, 2**62),
)
def test_a_repr_fits_a_line(topic: str, body: bytes, text: str, phy_offset: int) -> None:
    view = view_of(Message(topic, body, 2**31 - 1, text, text), phy_offset=phy_offset)
    assert len(repr(view)) <= 99
    assert repr(view).isprintable()
    assert pickle.loads(pickle.dumps(view)) == view
