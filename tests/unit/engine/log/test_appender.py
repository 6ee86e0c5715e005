"""The native append against the oracle: every byte of the log, every status, every offset."""

from __future__ import annotations

import struct
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import records as oracle
from support.oracle.strategies import Sample, samples

from rmqcore import Message
from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.put.appender import Appender
from rmqcore._native.put.message_fill import encoded_size
from rmqcore._native.put.put_result import STATUSES
from rmqcore.disk.paths import file_name
from rmqcore.errors import PutFailedError
from rmqcore.vocabulary.status import PutMessageStatus as Status

FILE_SIZE = 8192
NOW = 1_700_000_000_000


class Log:
    """An appender over files that are made when it asks for them."""

    def __init__(self, folder: Path, file_size: int = FILE_SIZE, **options: object) -> None:
        self.folder, self.file_size, self.most_files = folder, file_size, 1 << 30
        self.files: list[MappedFile] = []
        self.asked: list[int] = []
        settings = {"max_message_size": 4096, "append_prop_crc": False, "clock": lambda: NOW}
        self.appender = Appender(
            file_size=file_size,
            make_room=self.make_room,
            **{**settings, **options},  # type: ignore[arg-type]
        )

    def make_room(self, needed: int) -> bool:
        self.asked.append(needed)
        if len(self.files) >= self.most_files:
            return False
        path = self.folder / file_name(len(self.files) * self.file_size)
        path.write_bytes(b"")
        with path.open("r+b") as file:
            file.truncate(self.file_size)
        start = len(self.files) * self.file_size
        self.files.append(MappedFile(str(path), self.file_size, start, writable=True))
        self.appender.set_next_file(self.files[-1], start + self.file_size)
        return True

    def bytes(self) -> bytes:
        return b"".join(bytes(memoryview(file)) for file in self.files)


def expected_log(records: list[oracle.Record], *, append_prop_crc: bool = False) -> bytes:
    """Roll rules and offsets, from the description of the format."""
    log = bytearray()
    offsets: Counter[tuple[bytes, int]] = Counter()
    for record in records:
        counted = record.sys_flag & 0xC in (0, 8)
        size = len(oracle.encode_record(record, append_prop_crc=append_prop_crc))
        room = FILE_SIZE - len(log) % FILE_SIZE
        if size + 8 > room:
            log += oracle.blank(room).ljust(room, b"\0")
        place = record.topic, record.queue_id
        placed = replace(
            record,
            phy_offset=len(log),
            queue_offset=offsets[place] if counted else 0,
            store_timestamp_ms=NOW,
        )
        offsets[place] += counted
        log += oracle.encode_record(placed, append_prop_crc=append_prop_crc)
    return bytes(log)


def storable(sample: Sample) -> Sample:
    """The sample within the limits of a store, which are narrower than the limits of a record."""
    record = sample.record
    topic = record.topic.replace(b"/", b"-").replace(b"\0", b"-").replace(b".", b"-")
    properties = {k: v for k, v in sample.properties.items() if k != "INNER_NUM"}
    changed = replace(
        record,
        topic=topic,
        body=record.body[:4096],
        queue_id=record.queue_id & 0x7FFFFFFF,
        sys_flag=record.sys_flag & ~0x80,
    )
    return Sample(changed, properties, sample.append_prop_crc)


@given(st.booleans(), st.booleans(), st.data())
def test_the_log_is_what_the_description_of_the_format_makes(
    tmp_path_factory: pytest.TempPathFactory, many: bool, prop_crc: bool, data: st.DataObject
) -> None:
    storable_samples = samples(appended=st.just(prop_crc)).map(storable)
    sampled = data.draw(st.lists(storable_samples, min_size=1, max_size=12))
    log = Log(tmp_path_factory.mktemp("log"), append_prop_crc=prop_crc)
    messages = [sample.message for sample in sampled]
    want = expected_log([sample.record for sample in sampled], append_prop_crc=prop_crc)
    if many:
        codes, phy_offsets, _, timestamps, end, *_ = log.appender.put_many(messages)
        assert not codes.any() and set(timestamps.tolist()) == {NOW} and end == len(want)
        offsets = phy_offsets.tolist()
    else:
        results = [log.appender.put(message) for message in messages]
        assert {result.status for result in results} == {Status.PUT_OK}
        offsets = [result.phy_offset for result in results]
        for result, sample in zip(results, sampled, strict=True):
            packed = sample.record.store_host.packed + struct.pack(">q", result.phy_offset)
            assert result.msg_id == packed.hex().upper()
    assert log.bytes()[: len(want)] == want
    assert not any(log.bytes()[len(want) :])
    assert log.appender.max_phy_offset == len(want)
    starts = range(0, len(want), FILE_SIZE)
    found = [r.phy_offset for i in starts for r in oracle.scan(want[i : i + FILE_SIZE]).records]
    assert offsets == found


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (Message("t", b"x" * 4096), Status.PUT_OK),
        (Message("t", b"x" * 4097), Status.MESSAGE_ILLEGAL),
        (Message("t", None), Status.MESSAGE_ILLEGAL),  # type: ignore[arg-type]
        (Message("t", b""), Status.PUT_OK),
        (Message("t" * 255, b""), Status.PUT_OK),
        (Message("t" * 256, b""), Status.MESSAGE_ILLEGAL),
        (Message("\N{SNOWMAN}" * 86, b""), Status.MESSAGE_ILLEGAL),
        (Message("", b""), Status.MESSAGE_ILLEGAL),
        (Message("..", b""), Status.MESSAGE_ILLEGAL),
        (Message("a/b", b""), Status.MESSAGE_ILLEGAL),
        (Message("a\0b", b""), Status.MESSAGE_ILLEGAL),
        (Message("t", b"", -1), Status.MESSAGE_ILLEGAL),
        (Message("t", b"", 2**31 - 1), Status.PUT_OK),
        (Message("t", b"", 2**31), Status.MESSAGE_ILLEGAL),
        (Message("t", b"", properties={"a": "x" * 32764}), Status.PUT_OK),
        (Message("t", b"", properties={"a": "x" * 32765}), Status.PROPERTIES_SIZE_EXCEEDED),
        (Message("t", b"", properties={"a": "x" * 99999}), Status.PROPERTIES_SIZE_EXCEEDED),
        (Message("t", b"", sys_flag=0x80), Status.MESSAGE_ILLEGAL),
        (Message("t", b"", properties={"INNER_NUM": "2"}), Status.MESSAGE_ILLEGAL),
    ],
)  # fmt: skip
def test_every_limit_has_its_status(tmp_path: Path, message: Message, status: Status) -> None:
    log = Log(tmp_path, 1 << 17)
    result = log.appender.put(message)
    assert result.status is status
    code, phy_offset, queue_offset, *_ = log.appender.put_many([message])
    assert STATUSES[code[0]] is status
    if status is Status.PUT_OK:
        assert (result.phy_offset, result.queue_offset, result.count) == (0, 0, 1)
        assert (phy_offset[0], queue_offset[0]) == (result.msg_size, 1)
        result.raise_for_status()
        return
    assert (result.phy_offset, result.queue_offset, result.count, result.msg_id) == (
        -1,
        -1,
        0,
        None,
    )
    assert (phy_offset[0], queue_offset[0], log.files) == (-1, -1, [])
    with pytest.raises(PutFailedError, match=f"{status.name}, nothing was stored"):
        result.raise_for_status()


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"", properties={"a\x01": "b"}),
        Message("t", b"", properties={"a": "b\x02"}),
        Message("t\ud800", b""),
        Message("t", b"", properties={"a": "\ud800"}),
    ],
)
def test_text_that_would_not_read_back_is_an_error_and_stores_nothing(
    tmp_path: Path, message: Message
) -> None:
    log = Log(tmp_path)
    with pytest.raises(ValueError, match=r"separator|surrogates"):
        log.appender.put(message)
    codes, *_ = log.appender.put_many([Message("t", b"1"), message, Message("t", b"2")])
    assert [STATUSES[code] for code in codes] == [
        Status.PUT_OK, Status.MESSAGE_ILLEGAL, Status.PUT_OK,
    ]  # fmt: skip
    assert [r.body for r in oracle.scan(log.bytes()).records] == [b"1", b"2"]


def test_a_body_of_another_type_is_no_crash(tmp_path: Path) -> None:
    log = Log(tmp_path)
    with pytest.raises(TypeError):
        log.appender.put(Message("t", "text"))  # type: ignore[arg-type]
    for body in (bytearray(b"abc"), memoryview(b"abc"), np.frombuffer(b"abc", np.uint8)):
        log.appender.put(Message("t", body)).raise_for_status()  # type: ignore[arg-type]
    assert {r.body for r in oracle.scan(log.bytes()).records} == {b"abc"}


def test_where_no_room_can_be_made_nothing_is_written_and_nothing_counted(tmp_path: Path) -> None:
    log = Log(tmp_path, 1024)
    log.most_files = 1
    message = Message("t", b"x" * 300)
    results = [log.appender.put(message) for _ in range(4)]
    assert [r.status for r in results[2:]] == [Status.CREATE_MAPPED_FILE_FAILED] * 2
    assert log.appender.next_queue_offset("t", 0) == 2
    assert log.appender.max_phy_offset == 2 * encoded_size(message)
    assert not any(log.bytes()[2 * encoded_size(message) :]), "not even a BLANK"
    codes, phy_offsets, *_ = log.appender.put_many([message] * 3)
    assert [STATUSES[code] for code in codes] == [Status.CREATE_MAPPED_FILE_FAILED] * 3
    assert set(phy_offsets) == {-1}
    log.most_files = 2
    assert log.appender.put(message).phy_offset == 1024


@given(st.integers(1, 12), st.integers(0, 900), st.integers(0, 200))
@examples(0.5)
def test_a_batch_is_in_one_file_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, count: int, before: int, body: int
) -> None:
    log = Log(tmp_path_factory.mktemp("log"), 1024)
    if before:
        log.appender.put(Message("other", b"x" * min(before, 900 - 100)))
    start = log.appender.max_phy_offset
    batch = [Message("t", bytes([i]) * body, 1) for i in range(count)]
    size = encoded_size(batch[0])
    result = log.appender.put_batch(batch)
    if size * count + 8 > 1024 or count * (22 + body) > 4096:
        assert result.status is Status.MESSAGE_ILLEGAL
        assert log.appender.max_phy_offset == start
        assert log.appender.next_queue_offset("t", 1) == 0
        return
    result.raise_for_status()
    rolled = start + size * count + 8 > 1024
    assert result.phy_offset == (1024 if rolled and start else start)
    assert (result.msg_size, result.count, result.queue_offset) == (size * count, count, 0)
    ids = (result.msg_id or "").split(",")
    assert [int(text[16:], 16) for text in ids] == [
        result.phy_offset + i * size for i in range(count)
    ]
    data = log.bytes()[result.phy_offset :]
    found = oracle.scan(data, result.phy_offset, check_crc=True).records
    assert [(r.queue_offset, r.body) for r in found] == [(i, m.body) for i, m in enumerate(batch)]
    if rolled and start:
        assert oracle.decode_record(log.bytes(), start) == oracle.Blank(1024 - start)


def test_a_batch_with_a_transaction_or_a_delay_is_illegal(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for message in (Message("t", b"", sys_flag=8), Message("t", b"", properties={"DELAY": "3"})):
        assert log.appender.put_batch([message]).status is Status.MESSAGE_ILLEGAL
    assert log.files == []


def test_a_clock_that_fails_lets_the_lock_go(tmp_path: Path) -> None:
    broken = [True]

    def clock() -> int:
        if broken[0]:
            raise ZeroDivisionError
        return NOW

    log = Log(tmp_path, clock=clock)
    for put in (
        log.appender.put,
        lambda m: log.appender.put_many([m]),
        lambda m: log.appender.put_batch([m]),
    ):
        with pytest.raises(ZeroDivisionError):
            put(Message("t", b""))
    broken[0] = False
    assert log.appender.put(Message("t", b"")).store_timestamp_ms == NOW


def test_a_stopped_appender_appends_nothing_and_says_why(tmp_path: Path) -> None:
    class GoneError(Exception):
        pass

    def refuse() -> None:
        raise GoneError

    log = Log(tmp_path)
    log.appender.put(Message("t", b"")).raise_for_status()
    end = log.appender.max_phy_offset
    log.appender.stop(refuse)  # type: ignore[arg-type]
    for put in (
        log.appender.put,
        lambda m: log.appender.put_many([m]),
        lambda m: log.appender.put_batch([m]),
    ):
        with pytest.raises(GoneError):
            put(Message("t", b""))
    assert log.appender.max_phy_offset == end


def test_many_messages_that_a_close_cuts_off_say_so(tmp_path: Path) -> None:
    """`put_many` during a close said CREATE_MAPPED_FILE_FAILED of the rest: as if the disk was full."""
    log = Log(tmp_path)
    roomy = log.make_room
    no_refusal: Any = None

    def make_room(needed: int) -> bool:
        if log.files:
            log.appender.stop(no_refusal)  # as a close by another thread
        return roomy(needed)

    log.appender = Appender(
        file_size=FILE_SIZE, max_message_size=4096, append_prop_crc=False, make_room=make_room
    )
    codes, phy_offsets, *_ = log.appender.put_many([Message("t", bytes(1000))] * 2000)
    stored = int((phy_offsets >= 0).sum())
    assert 0 < stored < 10
    told = [STATUSES[code] for code in codes]
    assert told == [Status.PUT_OK] * stored + [Status.SERVICE_NOT_AVAILABLE] * (2000 - stored)


def test_messages_that_leave_the_list_during_the_put_are_illegal(tmp_path: Path) -> None:
    """They were CREATE_MAPPED_FILE_FAILED, as if the disk was full."""
    log = Log(tmp_path)
    messages = [Message("t", bytes(100))] * 2000
    roomy = log.make_room

    def make_room(needed: int) -> bool:
        del messages[600:]
        return roomy(needed)

    log.appender = Appender(
        file_size=FILE_SIZE, max_message_size=4096, append_prop_crc=False, make_room=make_room
    )
    codes, *_ = log.appender.put_many(messages)
    told = [STATUSES[code] for code in codes]
    assert told == [Status.PUT_OK] * 600 + [Status.MESSAGE_ILLEGAL] * 1400


def test_a_closed_topic_takes_no_message_of_any_queue(tmp_path: Path) -> None:
    """Queues that were known before, and those that come when the table of counters has grown."""
    log = Log(tmp_path)
    appender = log.appender
    assert appender.put(Message("Closed", b"x", queue_id=3)).status is Status.PUT_OK
    appender.close_topic("Closed")
    for queue_id in range(300):
        assert appender.put(Message("Open", b"x", queue_id=queue_id)).status is Status.PUT_OK
        assert (
            appender.put(Message("Closed", b"x", queue_id=queue_id)).status
            is Status.MESSAGE_ILLEGAL
        )
    assert appender.next_queue_offset("Open", 299) == 1
    assert appender.is_closed("Closed")
    appender.set_next_queue_offset(
        "Closed", 3, 7
    )  # as a recovery that finds ordinary queues of the topic
    assert appender.put(Message("Closed", b"x", queue_id=3)).status is Status.MESSAGE_ILLEGAL
    assert not appender.is_closed("Open")
    end = appender.max_phy_offset
    assert (
        appender.put_batch([Message("Closed", b"x", queue_id=900)]).status is Status.MESSAGE_ILLEGAL
    )
    assert appender.max_phy_offset == end


def test_hooks_ring_once_and_in_time(tmp_path: Path) -> None:
    log, rung = Log(tmp_path), []
    log.appender.put(Message("t", b""))
    log.appender.arm_append(lambda: rung.append("append"))
    log.appender.arm_low_space(lambda: rung.append("space"), 500)
    assert rung == []
    log.appender.put(Message("t", b""))
    assert rung == ["append"]
    while log.appender.max_phy_offset < 500:
        assert rung == ["append"]
        log.appender.put(Message("t", b""))
    assert rung == ["append", "space"]
    log.appender.put(Message("t", b""))
    assert rung == ["append", "space"]


def test_threads_that_put_at_once_leave_a_dense_log(tmp_path: Path) -> None:
    """Every message once, offsets dense in each queue, whichever of the three ways it came in by."""
    log = Log(tmp_path, 1 << 16, clock=None)
    room = threading.Lock()
    plain = log.make_room

    def make_room(needed: int) -> bool:
        with room:
            return True if log.appender.has_next_file else plain(needed)

    log.appender = Appender(
        file_size=1 << 16, max_message_size=4096, append_prop_crc=False, make_room=make_room
    )
    each = 3000

    def write(number: int) -> None:
        messages = [Message(f"t{i % 3}", b"%d-%d" % (number, i), i % 2) for i in range(each)]
        if number % 3 == 0:
            for message in messages:
                log.appender.put(message)
        elif number % 3 == 1:
            for at in range(0, each, 100):
                log.appender.put_many(messages[at : at + 100])
        else:
            for topic in range(3):
                for queue in range(2):
                    own = [m for m in messages if (m.topic, m.queue_id) == (f"t{topic}", queue)]
                    for at in range(0, len(own), 50):
                        log.appender.put_batch(own[at : at + 50])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = [
        record
        for start, file in ((f.file_from_offset, f) for f in log.files)
        for record in oracle.scan(bytes(memoryview(file)), start, check_crc=True).records
    ]
    assert len(records) == 6 * each == len({record.body for record in records})
    seen: Counter[tuple[bytes, int]] = Counter()
    for record in records:
        assert record.queue_offset == seen[record.topic, record.queue_id]
        seen[record.topic, record.queue_id] += 1
