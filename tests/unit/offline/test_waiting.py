"""What waits for a Java broker: timed messages, and those of POP; from sound, damaged and hostile files."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest
from conftest import StoreCopy
from support.server_process import ServerProcess
from support.stores.sick_stores import SLOT, SLOTS, popped_body, put_popped, write_wheel

import rmqcore
from rmqcore import Message
from rmqcore.cli import main
from rmqcore.offline import waiting
from rmqcore.offline.reader import store_paths
from rmqcore.offline.waiting import Waiting, count_waiting

SECOND = 1_800_000_000


def waits(root: Path) -> Waiting:
    return count_waiting(store_paths(root))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with rmqcore.open(root, mapped_file_size_commit_log=1 << 20) as opened:
        for number in range(5):
            opened.put(Message("rmq_sys_wheel_timer", b"%d" % number)).raise_for_status()
        opened.wait_dispatched()
    return root


def test_a_store_without_any(store_copy: StoreCopy) -> None:
    found = waits(store_copy("basic"))
    assert (found.timer_messages, found.pop_messages, found.sentences) == (0, 0, [])


def test_slots_that_were_delivered_do_not_count(store: Path) -> None:
    """Java leaves their numbers where they are."""
    slots = {SECOND: 375, SECOND + 10: 60, SECOND + 86_400: 40}
    write_wheel(store, slots, read_to_ms=(SECOND + 5) * 1000, queue_offset=5)
    found = waits(store)
    assert (found.timer_messages, found.timer_until_ms) == (100, (SECOND + 86_400) * 1000)
    assert found.sentences == [
        "100 timed messages wait until 2027-01-16 08:00:00 UTC; rmqcore does not deliver them"
    ]


def test_messages_that_are_not_in_the_wheel_yet(store: Path) -> None:
    write_wheel(store, {}, read_to_ms=SECOND * 1000, queue_offset=2)
    found = waits(store)
    assert (found.timer_messages, found.timer_until_ms) == (3, None)
    assert found.sentences == ["3 timed messages wait; rmqcore does not deliver them"]


def test_check_points_without_acknowledgements(tmp_path: Path) -> None:
    bodies = [
        ("ck", popped_body(bm=0b10, d=[0, 1, 5], n=3)),  # 1 is acknowledged
        ("ck", popped_body(bm=0, n=2, so=100)),  # 100 and 101
        ("ack", popped_body(ao=15)),
        ("ack", popped_body(ao=999)),
        ("bAck", popped_body(aol=[100])),
    ]
    put_popped(tmp_path / "store", bodies)
    found = waits(tmp_path / "store")
    assert (found.pop_messages, found.pop_at_least, found.problems) == (2, False, [])
    assert "2 messages wait for a POP consumer" in found.pop_sentence


def test_what_was_revived_does_not_count(tmp_path: Path) -> None:
    root = tmp_path / "store"
    put_popped(root, [("ck", popped_body(bm=0, n=2, so=at)) for at in (0, 10, 20)])
    (root / "config").mkdir(exist_ok=True)
    table = {"rmq_sys_REVIVE_LOG_C@CID_RMQ_SYS_REVIVE_GROUP": {"0": 2}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    assert waits(root).pop_messages == 2


def test_very_many_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST_READ", 3)
    bodies = [("ck", popped_body(bm=0, n=1, so=at)) for at in range(6)]
    put_popped(tmp_path / "store", bodies)
    found = waits(tmp_path / "store")
    assert (found.pop_messages, found.pop_at_least) == (3, True)
    assert found.pop_sentence.startswith("at least 3 messages wait")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"7", b"\xff", b"[" * 5000, popped_body(bm="x", n=1), popped_body(n=10**9, bm=0),
     popped_body(n=1, bm=0, d=[[1]]), popped_body(n=-1, bm=0), popped_body(ao=None), popped_body(aol=7)],
)  # fmt: skip
def test_odd_bodies_are_named(tmp_path: Path, body: bytes) -> None:
    put_popped(tmp_path / "store", [("ck", body), ("ack", body)])
    found = waits(tmp_path / "store")
    assert found.pop_messages == 0
    assert any("rmq_sys_REVIVE_LOG_C 0" in problem for problem in found.problems)


@pytest.mark.parametrize("size", [1, 31, 32 * 100, SLOTS * 32 - 1, SLOTS * 32 + 1])
def test_a_wheel_of_another_size_is_named(store: Path, size: int) -> None:
    write_wheel(store, {SECOND: 3}, read_to_ms=0, queue_offset=5)
    with (store / "timerwheel").open("r+b") as file:
        file.truncate(size)
    assert any("timerwheel: file size is" in problem for problem in waits(store).problems)


def test_damaged_slots_are_named_and_left_out(store: Path) -> None:
    write_wheel(store, {SECOND: 3}, read_to_ms=0, queue_offset=5)
    with (store / "timerwheel").open("r+b") as file:
        for number, slot in enumerate([(SECOND, 0, 0, 9, 0), (-5, 0, 0, 9, 0), (7, 0, 0, -9, 0)]):
            file.seek((number + 40) * SLOT.size)
            file.write(SLOT.pack(*slot))
    found = waits(store)
    assert found.timer_messages == 3
    assert found.problems == [f"timerwheel at {40 * SLOT.size}: 3 slots are damaged"]


@pytest.mark.parametrize("data", [b"x", bytes(31), struct.pack(">qqqq", -1, 0, -1, 0)])
def test_a_damaged_timercheck_is_named(store: Path, data: bytes) -> None:
    write_wheel(store, {SECOND: 3}, read_to_ms=0, queue_offset=0)
    (store / "config" / "timercheck").write_bytes(data)
    found = waits(store)
    assert found.timer_messages == 8
    assert any("config/timercheck" in problem for problem in found.problems)


def test_noise_raises_nothing(store: Path) -> None:
    noise = random.Random(7)
    (store / "timerwheel").write_bytes(noise.randbytes(1 << 20))
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "timercheck").write_bytes(noise.randbytes(4096))
    assert waits(store).problems


def test_info_counts_them(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_wheel(store, {SECOND: 3}, read_to_ms=0, queue_offset=5)
    assert main(["info", str(store), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["waiting"]["timer_messages"] == 3
    assert main(["info", str(store), "--format", "table"]) == 0
    assert "3 timed messages wait until" in capfd.readouterr().out


def test_serve_says_so_when_it_starts(store: Path, tmp_path: Path) -> None:
    write_wheel(store, {SECOND + 10: 5}, read_to_ms=SECOND * 1000, queue_offset=5)
    sizes = {
        "mappedFileSizeConsumeQueue": 6_000_000,
        "maxHashSlotNum": 5_000_000,
        "maxIndexNum": 20_000_000,
    }
    with ServerProcess(tmp_path, settings=sizes) as server:
        assert "5 timed messages wait until" in server.log
        assert server.stop() == 0
