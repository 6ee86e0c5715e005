"""A store that an old RocketMQ gets back: `for_version` refuses each message at which that release would cut its log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.engine.store.store import MessageStore
from rmqcore.vocabulary.status import PutMessageStatus

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 16,
    "max_index_num": 64,
}
V6 = "[2001:db8::7]:9"
LONG = "t" * 128
HEARD = {
    "born": (Message("T", b"x", born_host=V6), "born_host is an IPv6 address"),
    "store": (Message("T", b"x", store_host=V6), "store_host is an IPv6 address"),
    "both": (
        Message("T", b"x", born_host=V6, store_host=V6),
        "born_host and store_host are IPv6 addresses",
    ),
    "topic": (Message(LONG, b"x"), "topic of 128 bytes"),
    "utf8": (Message("é" * 64, b"x"), "topic of 128 bytes"),
}
"""Messages, and the begin of what is said of each that is refused."""
READS = {
    "4.5.2": set(),
    "4.5": set(),
    "4.6": {"born", "store", "both"},
    "4.9.8": {"born", "store", "both"},
    "5.0.0": {"born", "store", "both"},
    "5.1": set(HEARD),
    "5.5.1": set(HEARD),
    None: set(HEARD),
}
"""Which of them each release reads."""


def put(store: MessageStore, message: Message) -> tuple[PutMessageStatus, str | None]:
    result = store.put(message)
    return result.status, result.reason


def put_batch(store: MessageStore, message: Message) -> tuple[PutMessageStatus, str | None]:
    result = store.put_batch([message])
    return result.status, result.reason


@pytest.mark.parametrize("way", [put, put_batch])
@pytest.mark.parametrize("version", READS)
def test_what_a_release_cannot_read_is_refused(
    tmp_path: Path,
    version: str | None,
    way: Callable[[MessageStore, Message], tuple[PutMessageStatus, str | None]],
) -> None:
    """RocketMQ 4.5.2 cut 368 messages of a store that it got back: all from the first with an IPv6 host on."""
    with rmqcore.open(tmp_path, services=False, for_version=version, **SIZES) as store:
        for name, (message, reason) in HEARD.items():
            end = store.max_phy_offset
            status, said = way(store, message)
            if name in READS[version]:
                assert (status, said) == (PutMessageStatus.PUT_OK, None)
                continue
            assert status is PutMessageStatus.MESSAGE_ILLEGAL
            assert said is not None
            assert said.startswith(reason)
            assert "for_version" in said
            assert store.max_phy_offset == end
        assert way(store, Message("t" * 127, b"x"))[0] is PutMessageStatus.PUT_OK


def test_many_at_once(tmp_path: Path) -> None:
    messages = [Message("T", b"x"), Message(LONG, b"x"), Message("T", b"x", born_host=V6)]
    with rmqcore.open(tmp_path, services=False, for_version="4.5", **SIZES) as store:
        result = store.put_many(messages)
    assert list(result.statuses) == [
        PutMessageStatus.PUT_OK,
        PutMessageStatus.MESSAGE_ILLEGAL,
        PutMessageStatus.MESSAGE_ILLEGAL,
    ]


def test_rows_of_arrow(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = pa.table({"topic": ["T", LONG], "body": [b"x", b"x"], "queue_id": [0, 0]})
    with rmqcore.open(tmp_path, services=False, for_version="4.9", **SIZES) as store:
        result = store.put_arrow(rows)
    assert list(result.statuses) == [
        PutMessageStatus.PUT_OK,
        PutMessageStatus.MESSAGE_ILLEGAL,
    ]


def test_light_queues(tmp_path: Path) -> None:
    light = Message("T", b"x", born_host=V6, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    with rmqcore.open(
        tmp_path,
        services=False,
        for_version="4.5",
        enable_lmq=True,
        enable_multi_dispatch=True,
        **SIZES,
    ) as store:
        assert store.put(light).status is PutMessageStatus.MESSAGE_ILLEGAL


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("version", "count"), [("4.5", 4), ("4.9", 2), ("5.1", 0), (None, 0)])
def test_what_is_in_the_store_already(
    tmp_path: Path, version: str | None, count: int, clean: bool
) -> None:
    """An open with `for_version` refused such messages, and said nothing of those that were there."""
    places = []
    with rmqcore.open(tmp_path, services=False, **SIZES) as store:
        store.put(Message("T", b"x")).raise_for_status()
        for name in ("born", "topic", "store", "utf8"):
            places.append(store.max_phy_offset)
            store.put(HEARD[name][0]).raise_for_status()
    if not clean:
        (tmp_path / "abort").touch()
    with rmqcore.open(tmp_path, services=False, for_version=version, **SIZES) as store:
        found = store.recovery.unread
        if not count:
            assert found is None
            return
        assert found is not None
        assert (found.count, found.first_phy_offset) == (count, places[count == 2])
        assert f"RocketMQ {version} cannot read" in str(store.recovery)


@pytest.mark.parametrize("version", ["4", "4.x", "", "4.9.8.1", "3.2.6", "-4.9", "V4_9_8"])
def test_what_is_not_a_release(version: str) -> None:
    with pytest.raises(ValueError, match="for_version"):
        MessageStoreConfig(for_version=version)


def test_a_slave_has_the_log_of_its_master() -> None:
    with pytest.raises(ValueError, match="set for_version at the master"):
        MessageStoreConfig(for_version="4.9", broker_role="SLAVE")


def test_of_a_broker_conf(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("forVersion=4.9\n")
    assert MessageStoreConfig.from_broker_conf(conf).for_version == "4.9"
    conf.write_text("forVersion=four\n")
    with pytest.raises(ValueError, match=r"broker.conf:1: forVersion.*such as '4\.9'"):
        MessageStoreConfig.from_broker_conf(conf)
