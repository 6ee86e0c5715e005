"""Writers, readers, rolling files, flushes and a close, all at once."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import StoreClosedError
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY, Acked, body_of, check_directory, make_message, put
from rmqcore.vocabulary.status import PutMessageStatus

MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")


@pytest.mark.parametrize("mode", MODES)
def test_writers_and_readers(folder: Path, mode: str) -> None:
    root, each = folder / "store", 400 if mode == "SYNC_FLUSH" else 1500
    acked: list[Acked] = []
    over = threading.Event()
    with rmqcore.open(
        root,
        flush_interval_commit_log=1,
        flush_interval_consume_queue=1,
        **{**TINY, "flush_disk_type": mode},
    ) as store:

        def write(first: int) -> None:
            for number in range(first, 4 * each, 4):
                if number % 5:
                    answer = put(store, number)
                    assert answer is not None
                    acked.append(answer)
                else:
                    result = store.put_many([make_message(number)])
                    assert result.statuses[0] is PutMessageStatus.PUT_OK
                    message = make_message(number)
                    acked.append(
                        Acked(
                            message.topic,
                            message.queue_id,
                            int(result.queue_offsets[0]),
                            int(result.phy_offsets[0]),
                            number,
                        )
                    )

        def read(topic: str, queue_id: int) -> int:
            """Read as a consumer: every offset in order, each message once, and no message before it is confirmed."""
            at = 0
            while not over.is_set() or at < store.max_offset(topic, queue_id):
                with store.get(topic, queue_id, at) as result:
                    for view in result.messages:
                        assert view.queue_offset == at
                        number = int(view.body.split(b":", 1)[0])
                        assert view.body == body_of(number)
                        assert view.phy_offset + view.msg_size <= store.confirm_offset
                        at += 1
                    if not result.messages:
                        over.wait(0.001)
            return at

        def look() -> int:
            found = 0
            while not over.is_set():
                for answer in acked[-3:]:
                    view = store.lookup(answer.phy_offset)
                    assert view is not None and view.body == answer.body
                    found += len(store.query(answer.topic, answer.key).messages)
                store.stats()
                over.wait(0.001)
            return found

        with ThreadPoolExecutor(16) as pool:
            readers = [pool.submit(read, f"T{t}", q) for t in range(2) for q in range(2)]
            lookers = [pool.submit(look) for _ in range(2)]
            writers = [pool.submit(write, first) for first in range(4)]
            try:
                for writer in writers:
                    writer.result(300)
                assert store.wait_dispatched(60)
            finally:
                over.set()
            assert sum(reader.result(60) for reader in readers) == 4 * each
            assert all(looker.result(60) >= 0 for looker in lookers)
        assert len(store.stats()) > 5
    assert fsck(root).exit_code == 0
    check_directory(root, acked, twice=False)


@pytest.mark.parametrize("mode", MODES)
def test_close_under_load(folder: Path, mode: str) -> None:
    """Every put is answered or refused; no put is lost, and no put hangs."""
    acked: list[Acked] = []
    for round_ in range(5):
        store = rmqcore.open(folder / "store", **{**TINY, "flush_disk_type": mode})
        begun = threading.Barrier(5)

        def work(first: int, store: MessageStore = store, begun: threading.Barrier = begun) -> None:
            number = first
            begun.wait()
            while True:
                try:
                    answer = put(store, number)
                except StoreClosedError:
                    return
                assert answer is not None
                acked.append(answer)
                number += 1

        threads = [
            threading.Thread(target=work, args=(round_ * 1_000_000 + first * 200_000,))
            for first in range(4)
        ]
        for thread in threads:
            thread.start()
        begun.wait()
        threading.Event().wait(0.05)  # the load; the close may come at any moment of it
        store.close()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert not (folder / "store" / "abort").exists()
    check_directory(folder / "store", acked)


IDLE = """
import os, resource, sys, threading, time
import rmqcore
stores = [rmqcore.open(f"{sys.argv[1]}/{n}", flush_disk_type=sys.argv[2], mapped_file_size_commit_log=1 << 20) for n in range(3)]
for store in stores:
    store.put(rmqcore.Message("T", b"x"))
    assert store.wait_dispatched(60)
for _ in range(3):  # the first period has the end of the work in it
    before = time.process_time()
    time.sleep(5)  # the period in which nothing is to be done
    seconds = time.process_time() - before
    if seconds < 0.05:
        break
print(seconds, threading.active_count())
for store in stores:
    store.close()
"""


@pytest.mark.parametrize("mode", MODES)
def test_an_idle_store_uses_no_processor(tmp_path: Path, mode: str) -> None:
    """Three stores that rest use less than 50 milliseconds of processor together in five seconds: no thread runs in a loop."""
    done = subprocess.run(
        [sys.executable, "-c", IDLE, str(tmp_path), mode],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    seconds, threads = done.stdout.split()
    assert float(seconds) < 0.05
    assert int(threads) == 1 + 3 * 6
