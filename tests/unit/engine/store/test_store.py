"""A store as its users meet it: the whole interface on a small one, every kind of bad input, and the ends of its life."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually

import rmqcore
from rmqcore import Message, MessageStore, MessageStoreConfig
from rmqcore.errors import (
    NotAStoreError,
    PutFailedError,
    StoreClosedError,
    StoreFailedError,
    StoreFormatError,
    StoreLockedError,
)
from rmqcore.vocabulary.status import PutMessageStatus as Status

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 20 * 50,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}
NOW = 1_700_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Iterator[MessageStore]:
    """300 messages of queue 0, dispatched; no threads."""
    ticks = iter(range(NOW, NOW + 10**9, 1000))
    with rmqcore.open(root, services=False, clock=lambda: next(ticks), **SMALL) as opened:
        for i in range(300):
            opened.put(
                Message("t", b"%d" % i, 0, "A" if i % 2 else "B", f"k{i}")
            ).raise_for_status()
        opened.wait_dispatched()
        yield opened


def test_everything_that_was_put_comes_back_by_every_way(store: MessageStore) -> None:
    assert (store.topics(), store.queues()) == (["t"], [("t", 0)])
    assert (store.min_offset("t", 0), store.max_offset("t", 0)) == (0, 300)
    offset, bodies = 0, []
    while offset < 300:
        with store.get("t", 0, offset) as found:
            bodies += [view.body for view in found.messages]
            assert found.next_begin_offset > offset
            offset = found.next_begin_offset
    assert bodies == [b"%d" % i for i in range(300)]
    [hit] = store.query("t", "k77").messages
    assert (hit.body, hit.queue_offset, hit.store_timestamp_ms) == (b"77", 77, NOW + 77_000)
    assert (
        store.lookup(hit.phy_offset) is not None
        and store.phy_offset_of("t", 0, 77) == hit.phy_offset
    )
    again = store.lookup_id(hit.msg_id)
    assert again is not None and again.raw == hit.raw
    assert store.lookup_id("0" * 16 + hit.msg_id[16:]) is None, "another broker's id"
    assert store.offset_by_time("t", 0, NOW + 76_500) == 77
    assert store.offset_by_time("t", 0, NOW + 76_500, "UPPER") == 76
    tagged = store.get("t", 0, 0, tags="A || C")
    assert {view.tags for view in tagged.messages} == {"A"} and len(tagged.messages) == 25
    assert len(store.query("t", "A", 64, index_type="T").messages) == 64


@pytest.mark.parametrize(
    ("place", "status", "next_begin_offset"),
    [
        (("unknown", 0, 5), "NO_MESSAGE_IN_QUEUE", 0),
        (("../t", 0, 5), "NO_MESSAGE_IN_QUEUE", 0),
        (("t", 1, 0), "NO_MESSAGE_IN_QUEUE", 0),
        (("t", -1, 0), "NO_MESSAGE_IN_QUEUE", 0),
        (("t", 2**80, 0), "NO_MESSAGE_IN_QUEUE", 0),
        (("t", 0, -1), "OFFSET_TOO_SMALL", 0),
        (("t", 0, -(2**80)), "OFFSET_TOO_SMALL", 0),
        (("t", 0, 300), "OFFSET_OVERFLOW_ONE", 300),
        (("t", 0, 301), "OFFSET_OVERFLOW_BADLY", 300),
        (("t", 0, 2**80), "OFFSET_OVERFLOW_BADLY", 300),
        (("t", 0, 299), "FOUND", 300),
    ],
)
def test_any_place_has_a_status(
    store: MessageStore, place: tuple[str, int, int], status: str, next_begin_offset: int
) -> None:
    found = store.get(*place)
    assert (found.status.name, found.next_begin_offset) == (status, next_begin_offset)


def test_wrong_arguments_are_errors_and_wrong_offsets_are_none(store: MessageStore) -> None:
    refused: tuple[Callable[[], object], ...] = (
        lambda: store.get("t", 0, 0, 0),
        lambda: store.get("t", 0, 0, tags=" || "),
        lambda: store.query("t", "k1", -1),
        lambda: store.query("t", "k1", index_type="Q"),
        lambda: store.offset_by_time("t", 0, 0, "MIDDLE"),
        lambda: store.lookup_id("not an id"),
        lambda: store.put_batch([]),
        lambda: store.put_batch([Message("a", b""), Message("b", b"")]),
    )
    for call in refused:
        with pytest.raises(ValueError, match=r".+"):
            call()
    mistaken: tuple[Callable[[], object], ...] = (
        lambda: store.put(None),  # type: ignore[arg-type]
        lambda: store.put_many([Message("t", b""), "text"]),  # type: ignore[list-item]
        lambda: store.put_batch([None]),  # type: ignore[list-item]
    )
    for call in mistaken:
        with pytest.raises(TypeError):
            call()
    assert [store.lookup(offset) for offset in (-1, 1, 50, 2**63, 2**70, store.max_phy_offset)] == [
        None
    ] * 6
    assert store.phy_offset_of("t", 0, 300) is None and store.phy_offset_of("t", 0, -1) is None
    assert store.query("t", "no such key").messages == [] == store.query("t", "\ud800").messages
    assert store.max_offset("t", 0) == 300, "nothing was stored meanwhile"


def test_what_a_batch_does_not_share_is_named(store: MessageStore) -> None:
    with pytest.raises(
        ValueError, match=r"message 1 differs from message 0 in queue_id \(2, not 1\)"
    ):
        store.put_batch([Message("t", b"", 1), Message("t", b"", 2)])
    with pytest.raises(ValueError, match="born_host"):
        store.put_batch([Message("t", b""), Message("t", b"", born_host="1.2.3.4:5")])


def test_put_many_stores_what_can_be_stored(store: MessageStore) -> None:
    result = store.put_many([Message("t", b"1", 5), Message("t", b"", -1), Message("t", b"2", 5)])
    assert [status.name for status in result.statuses] == ["PUT_OK", "MESSAGE_ILLEGAL", "PUT_OK"]
    assert (result.count, len(result)) == (2, 3)
    assert result.queue_offsets.tolist() == [0, -1, 1]
    assert result.end_offset == store.max_phy_offset
    with pytest.raises(PutFailedError, match="MESSAGE_ILLEGAL"):
        result.raise_for_status()
    assert len(store.put_many(iter([]))) == 0


def test_a_store_closes_once_opens_again_and_says_what_it_did(
    root: Path, store: MessageStore
) -> None:
    assert str(store.recovery).startswith("normal recovery from 0")
    view = store.lookup(0)
    assert (root / "abort").exists()
    store.close()
    store.close()
    assert not (root / "abort").exists()
    assert view is not None and view.body == b"0", "a view outlives its store"
    for call in (
        lambda: store.put(Message("t", b"")),
        lambda: store.put_many([Message("t", b"")]),
        lambda: store.put_batch([Message("t", b"")]),
        lambda: store.get("t", 0, 0),
        lambda: store.query("t", "k1"),
        lambda: store.lookup(0),
        store.dispatch_once,
        store.flush,
        store.topics,
    ):
        with pytest.raises(StoreClosedError, match=f"closed in process {os.getpid()}"):
            call()
    with rmqcore.open(root, services=False, **SMALL) as again:
        assert (again.max_offset("t", 0), again.dispatch_behind_bytes) == (300, 0)
        assert again.recovery.cut_bytes == 0
        assert again.put(Message("t", b"next")).queue_offset == 300


def test_close_dispatches_what_is_left(root: Path) -> None:
    with rmqcore.open(root, services=False, **SMALL) as store:
        store.put(Message("t", b"", keys="k"))
        assert store.max_offset("t", 0) == 0
    with rmqcore.open(root, services=False, **SMALL) as store:
        assert store.max_offset("t", 0) == 1 and len(store.query("t", "k").messages) == 1


def test_one_writer(root: Path, store: MessageStore) -> None:
    with pytest.raises(StoreLockedError, match="already open in this process"):
        rmqcore.open(root)
    program = f"import rmqcore; rmqcore.open({str(root)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert f"StoreLockedError: {root} is in use by process {os.getpid()}" in done.stderr
    store.put(Message("t", b"")).raise_for_status()


def in_child(work: Callable[[], None]) -> int:
    """Exit code of a forked child: 0 when `work` came to its end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("services", [True, False])
@pytest.mark.forks
def test_a_forked_child_cannot_use_or_harm_the_store(root: Path, services: bool) -> None:
    """A child that wrote through the parent's mapping would mix its records with the parent's."""
    with rmqcore.open(root, services=services, **SMALL) as store:
        store.put(Message("t", b"parent"))

        def work() -> None:
            for call in (
                lambda: store.put(Message("t", b"child")),
                lambda: store.get("t", 0, 0),
                store.flush,
                store.stats,
            ):
                with pytest.raises(StoreClosedError, match="of which this is a fork"):
                    call()
            store.close()
            with pytest.raises(StoreLockedError):
                rmqcore.open(root)

        assert in_child(work) == 0
        assert (root / "abort").exists()
        store.put(Message("t", b"parent")).raise_for_status()
    with rmqcore.open(root, services=False, **SMALL) as again:
        assert again.recovery.cut_bytes == 0 and again.max_offset("t", 0) == 2


def test_settings_that_do_not_fit_the_files_are_refused_and_nothing_is_touched(
    root: Path, store: MessageStore
) -> None:
    store.close()
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    for field, value in (
        ("mapped_file_size_commit_log", 1 << 17),
        ("mapped_file_size_consume_queue", 2000),
    ):
        with pytest.raises(StoreFormatError, match=rf"file size is \d+, expected {value}"):
            rmqcore.open(root, **{**SMALL, field: value})
    del before[root / "lock"]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    with pytest.raises(ValueError, match="flush_disk_type"):
        rmqcore.open(root, flush_disk_type="SOMETIMES")


def test_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="commitlog"):
        rmqcore.open(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        rmqcore.open(tmp_path / "file")


def test_a_broker_conf_and_overrides(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "mappedFileSizeCommitLog=65536\nmapedFileSizeConsumeQueue=1000\nslaveTimeout=48\n"
    )
    with rmqcore.open(tmp_path / "store", conf, services=False, max_index_num=500) as store:
        config = store.config
        assert (config.mapped_file_size_commit_log, config.mapped_file_size_consume_queue) == (
            65536,
            1000,
        )
        assert (config.slave_timeout, config.max_index_num) == (48, 500)
    given = MessageStoreConfig(mapped_file_size_commit_log=65536, max_message_size=10)
    with rmqcore.open(tmp_path / "other", given, services=False, max_message_size=20) as store:
        assert store.put(Message("t", b"x" * 20)).status is Status.PUT_OK


def test_a_slave_takes_no_messages(root: Path) -> None:
    with rmqcore.open(root, services=False, broker_role="SLAVE", **SMALL) as store:
        assert store.put(Message("t", b"")).status is Status.SERVICE_NOT_AVAILABLE
        assert store.put_batch([Message("t", b"")]).status is Status.SERVICE_NOT_AVAILABLE
        assert store.put_many([Message("t", b"")]).statuses[0] is Status.SERVICE_NOT_AVAILABLE


def test_after_a_failure_reads_go_on_and_writes_do_not(root: Path, store: MessageStore) -> None:
    store.fail(OSError(5, "Input/output error"))
    store.fail(OSError(28, "No space left on device"))
    for call in (
        lambda: store.put(Message("t", b"")),
        lambda: store.put_many([Message("t", b"")]),
        store.flush,
    ):
        with pytest.raises(StoreFailedError, match="Input/output error"):
            call()
    assert store.get("t", 0, 0).status.name == "FOUND" and len(store.query("t", "k1").messages) == 1
    assert store.stats()["failed"] is not None
    store.close()
    assert (root / "abort").exists(), "the next open recovers"
    with rmqcore.open(root, services=False, **SMALL) as again:
        assert again.max_offset("t", 0) == 300
        again.put(Message("t", b"")).raise_for_status()


def test_a_failure_is_an_exception(store: MessageStore) -> None:
    """A text was kept as one: every later call, the close too, ended with a TypeError about something else."""
    reasons: list[Any] = ["no disk", OSError, None]
    for reason in reasons:
        with pytest.raises(TypeError, match="error: expected an exception"):
            store.fail(reason)
    assert not store.failed


def test_a_hook_of_the_program_takes_no_ring_from_the_threads(root: Path) -> None:
    """The log had one hook: a program that set it kept the dispatch asleep, and its messages were not visible."""
    rung: list[str] = []

    def fails() -> None:
        rung.append("fails")
        raise ZeroDivisionError

    with rmqcore.open(root) as store:
        for hook in (lambda: rung.append("rung"), fails, store.close):
            store.on_append(hook)
            if hook is fails:
                with pytest.raises(ZeroDivisionError):
                    store.put(Message("t", b""))
            else:
                store.put(Message("t", b"")).raise_for_status()
            if hook == store.close:
                break
            eventually(lambda: store.max_offset("t", 0) == len(rung))
        assert rung == ["rung", "fails"]
        with pytest.raises(StoreClosedError):
            store.put(Message("t", b""))
        wrong: Any = 5
        with pytest.raises(TypeError, match="expected a callable, got int"):
            store.on_append(wrong)


def test_sync_flush_without_threads_flushes_in_the_put(root: Path) -> None:
    options: dict[str, Any] = {**SMALL, "flush_disk_type": "SYNC_FLUSH"}
    with rmqcore.open(root, services=False, **options) as store:
        store.put(Message("t", b"", properties={"WAIT": "false"})).raise_for_status()
        assert (store.flushed_phy_offset, store.confirm_offset) == (0, 0)
        assert store.dispatch_once() == 0, "what is not on disk is not shown"
        store.put(Message("t", b"")).raise_for_status()
        assert store.flushed_phy_offset == store.max_phy_offset == store.confirm_offset
        store.put_many([Message("t", b"")] * 3).raise_for_status()
        store.put_batch([Message("t", b"")] * 3).raise_for_status()
        assert store.flushed_phy_offset == store.max_phy_offset


def test_bodies_and_views_say_the_same_in_any_order_and_until_release(store: MessageStore) -> None:
    """The records found become views when somebody asks for them; bodies come without any view."""
    first, second = store.get("t", 0, 0), store.get("t", 0, 0)
    bodies = [b"%d" % i for i in range(32)]
    assert (len(first), first.bodies(), len(first)) == (32, bodies, 32)
    assert [view.body for view in second] == bodies == second.bodies()
    assert first.messages is first.messages
    assert [view.queue_offset for view in first.messages] == list(range(32))
    first.messages.pop()
    assert (len(first), first.bodies()) == (31, bodies[:31])  # the list is the caller's
    kept = second.messages[3]
    for result in (first, second, store.get("t", 0, 0)):
        result.release()
        assert (len(result), result.messages, result.bodies()) == (0, [], [])
    assert kept.body == b"3"
    assert store.get("t", 0, 300).bodies() == []


def test_put_many_counts_the_offsets_of_every_queue_for_itself(root: Path) -> None:
    """Queues found a moment ago are kept by queue id modulo 16 and for one topic text; new queues move their table."""
    queue_ids = [0, 16, 32, 1, 17, 0, 16, *range(300), 0, 16]
    topics = ["a", "b", "a", "a" * 20, "ä", "a"]
    messages = [
        Message(topics[i % len(topics)] + ("" if i % 5 else "x"), b"", queue_id)
        for i, queue_id in enumerate(queue_ids)
    ] * 2
    seen: dict[tuple[str, int], int] = {}
    expected = []
    for message in messages:
        queue = (message.topic, message.queue_id)
        expected.append(seen.get(queue, 0))
        seen[queue] = expected[-1] + 1
    with rmqcore.open(root, services=False, **SMALL) as opened:
        assert opened.put_many(messages).queue_offsets.tolist() == expected
        assert opened.put_many(messages[:1]).queue_offsets[0] == seen[messages[0].topic, 0]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100])
def test_properties_of_any_length_and_low_bytes_at_any_place_come_back(
    root: Path, length: int
) -> None:
    """Texts are copied in words that overlap; only a byte below 4 makes somebody look for separators."""
    with rmqcore.open(root, services=False, **SMALL) as opened:
        for place in range(length):
            for low in "\x00\x01\x03\x04é":
                text = "v" * place + low + "v" * (length - place - 1)
                result = opened.put(Message("t" * length, text.encode(), properties={"n": text}))
                view = opened.lookup(result.phy_offset)
                assert view is not None
                assert (view.topic, view.body) == ("t" * length, text.encode())
                assert view.properties == {"n": text}
            name = "v" * place + "\x01" + "v" * (length - place - 1)
            for bad in ({name: "v"}, {"n": name.replace("\x01", "\x02")}):
                with pytest.raises(ValueError, match="separator"):
                    opened.put(Message("t", b"", properties=bad))
            for bad_topic in (name.replace("\x01", "/"), name.replace("\x01", "\0")):
                assert opened.put(Message(bad_topic, b"")).status is Status.MESSAGE_ILLEGAL


def test_a_subclass_of_str_is_its_text(store: MessageStore) -> None:
    """One that denies its separator brought a property of its own into the record; a member of a StrEnum was no topic."""

    class Denying(str):
        __slots__ = ()

        def __contains__(self, other: object) -> bool:
            return False

    class Topic(StrEnum):
        ORDERS = "orders"

    denying: list[dict[str, str | None]] = [{"n": Denying("a\2b\1c")}, {Denying("n\1"): "v"}]
    for properties in denying:
        with pytest.raises(ValueError, match="separator"):
            store.put(Message("t", b"", properties=properties))
    assert type(Message(Topic.ORDERS, b"").topic) is str
    assert store.put(Message(Topic.ORDERS, b"", tags=Topic.ORDERS)).queue_offset == 0
    assert store.wait_dispatched(60)
    assert store.get("orders", 0, 0).messages[0].properties == {"TAGS": "orders"}


def test_put_many_takes_messages_of_a_subclass_and_names_the_first_that_is_none(
    store: MessageStore,
) -> None:
    class Own(Message):
        pass

    class Row(list[Message]):
        pass

    every: list[Any] = [Message("t", b""), Own("t", b""), Message("t", b"")]
    assert store.put_many(every).count == 3
    assert store.put_many(Row(every)).count == 3
    before = store.max_phy_offset
    lists: list[list[Any]] = [
        [*every, 1, *every, "x", *every],
        [*every, 1],
        ["x", 1, Own("t", b"")],
    ]
    for bad in lists:
        place = next(i for i, item in enumerate(bad) if not isinstance(item, Message))
        kind = type(bad[place]).__name__
        with pytest.raises(TypeError, match=f"message {place} is a {kind}, expected a Message"):
            store.put_many(bad)
    assert store.max_phy_offset == before
