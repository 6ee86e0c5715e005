"""A writer to be killed: each message that was answered with PUT_OK is one line on standard output, written at once."""

from __future__ import annotations

import json
import os
import random
import threading
from pathlib import Path

from crash_check import TINY, put

import rmqcore


def write(root: str, mode: str, first: int, seed: int, count: int = 100_000) -> None:
    """Four threads put until the process is killed, while another one closes and opens the store now and then."""
    rng = random.Random(seed)
    config = {
        **TINY,
        "flush_disk_type": mode,
        "flush_interval_commit_log": rng.choice((1, 20, 500)),
        "flush_interval_consume_queue": rng.choice((1, 20, 1000)),
        "flush_consume_queue_thorough_interval": rng.choice((1, 50, 60_000)),
    }
    numbers = iter(range(first, first + count))
    guard = threading.Lock()

    def work() -> None:
        for _ in range(quota):
            with guard:
                number = next(numbers)
            one = put(store, number)
            assert one is not None
            os.write(1, json.dumps(one.as_dict()).encode() + b"\n")

    while True:
        quota = rng.choice((1, 10, 200, 1000))
        store = rmqcore.open(Path(root), **config)
        os.write(1, b"{}\n")
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()
