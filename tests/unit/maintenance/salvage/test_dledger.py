"""An ordinary store of a DLedger one: all messages, in their queues, with nothing between them that is no record."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support.stores.dledger_store import HEAD, REAL_MESSAGES, DLedgerLog, numbered, unpack_real

import rmqcore
from rmqcore import Message, codec
from rmqcore._native.format.codec import MessageView
from rmqcore.maintenance.salvage.close_gaps import moved_to, with_longer_properties
from rmqcore.maintenance.salvage.salvage import salvage
from rmqcore.offline.fsck import fsck

FILE = 4096


def told(view: MessageView) -> tuple[object, ...]:
    """What a consumer is given of a message, but for its id."""
    place = view.topic, view.queue_id, view.queue_offset, view.tags_code
    times = view.born_timestamp_ms, view.store_timestamp_ms, view.reconsume_times, view.sys_flag
    return *place, *times, view.body, view.properties


def messages_of(root: Path) -> list[MessageView]:
    with rmqcore.read(root) as reader:
        found = list(reader.messages())
        assert list(reader.damage) == []
        return found


def check_salvaged(old: Path, out: Path) -> None:
    before, after = messages_of(old), [view for view in messages_of(out) if view.topic != "LOST"]
    assert [told(view) for view in after] == [told(view) for view in before]
    size = rmqcore.read(out).info().mapped_file_size
    for one, other in zip(before, after, strict=True):
        at_begin = one.phy_offset % size == HEAD
        assert other.phy_offset == one.phy_offset - (HEAD if at_begin else 0)
    assert fsck(out).findings == []


def test_the_store_of_a_real_broker(tmp_path: Path) -> None:
    real = unpack_real(tmp_path)
    report = salvage(real, tmp_path / "out")
    assert (report.exit_code, report.messages, report.moved_messages) == (0, REAL_MESSAGES, 8)
    assert (report.lost, report.missing, report.left_behind) == ([], [], ())
    check_salvaged(real, tmp_path / "out")
    for path in sorted(real.glob("consumequeue/*/*")):
        topic, queue_id = path.parts[-2:]
        if topic == "SCHEDULE_TOPIC_XXXX":
            continue
        with rmqcore.read(real) as old, rmqcore.read(tmp_path / "out") as new:
            one, other = (side.get(topic, int(queue_id), 0, 32) for side in (old, new))
            assert [told(view) for view in one.messages] == [told(view) for view in other.messages]


def test_an_upgraded_store(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with rmqcore.open(root, mapped_file_size_commit_log=FILE) as store:
        for number in range(5):
            store.put(Message("T", b"body%d" % number)).raise_for_status()
        store.wait_dispatched()
        end = store.max_phy_offset
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(end)
        file.write(struct.pack(">ii", FILE - end, -875286124))
    numbered(15, FILE, begin=FILE, first=5).write(root)
    report = salvage(root, tmp_path / "out")
    assert (report.exit_code, report.messages, report.moved_messages) == (0, 20, 1)
    check_salvaged(root, tmp_path / "out")
    with rmqcore.open(tmp_path / "out") as store:
        assert store.put(Message("T", b"next")).queue_offset == 20


def test_what_is_damaged_is_lost_and_nothing_else(tmp_path: Path) -> None:
    log = numbered(60, FILE)
    for number in (1, 20, 21, 40):
        log.data[log.at(log.places[number]) + 90] ^= 1
    log.data[log.at(log.places[30]) - HEAD] ^= 1  # a head alone
    log.write(tmp_path / "store")
    report = salvage(tmp_path / "store", tmp_path / "out")
    assert report.messages == 56
    kept = [
        int(bytes(view.body)[4:]) for view in messages_of(tmp_path / "out") if view.topic == "T"
    ]
    assert kept == [number for number in range(60) if number not in (1, 20, 21, 40)]
    assert fsck(tmp_path / "out").exit_code == 0


def test_heads_without_a_message_take_no_place_from_others(tmp_path: Path) -> None:
    log = DLedgerLog(FILE)
    for number in range(60):
        for _ in range(number % 4):
            log.no_op()
        log.put(Message("T", b"body%d" % number), number)
    log.write(tmp_path / "store")
    report = salvage(tmp_path / "store", tmp_path / "out")
    assert (report.exit_code, report.messages) == (0, 60)
    assert fsck(tmp_path / "out").findings == []


@pytest.mark.parametrize("append_prop_crc", [False, True])
@pytest.mark.parametrize("topic", ["T", "T" * 200])
def test_a_longer_record_is_the_same_message(topic: str, append_prop_crc: bool) -> None:
    message = Message(topic, b"body", keys=["K"], tags="TagA")
    record = codec.encode(
        message,
        phy_offset=1000,
        queue_offset=0,
        store_timestamp_ms=1,
        append_prop_crc=append_prop_crc,
    )
    longer = with_longer_properties(moved_to(record, 952), HEAD)
    assert longer is not None
    one, other = codec.decode(record), codec.decode(longer)
    assert len(longer) == len(record) + HEAD == other.msg_size
    assert other.phy_offset == 952
    assert {**other.properties, "__CRC32#": ""} == {**one.properties, "__CRC32#": ""}
    assert (other.keys, other.tags, other.body) == (one.keys, one.tags, one.body)
    assert (other.topic, other.prop_crc_ok()) == (topic, True if append_prop_crc else None)


def test_a_record_whose_properties_are_full_stays_as_it_is() -> None:
    message = Message("T", b"body", properties={"P": "x" * 32_730})
    record = codec.encode(message, phy_offset=0, queue_offset=0, store_timestamp_ms=1)
    assert with_longer_properties(record, HEAD) is None
