"""Real signals at random moments: a process forks children that put, roll and flush, signals each, and judges what it left.

It runs as a process of its own, since a test process has threads and may not fork: ``python -m support.faults.signal_rounds DIR
ROUNDS SEED``. It prints what is wrong, a line a round.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from support.eventually import eventually

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import StoreClosedError
from rmqcore.testing.crash_check import TINY, Acked, check_directory, make_message, put

LATEST_MS = 60.0
SMALL: dict[str, Any] = {**TINY, "mapped_file_size_commit_log": 64 * 1024}
KINDS = ("default", "close", "close and _exit", "raise", "time out")


class Handler:
    """What a program does with its signals."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.store: MessageStore | None = None
        self.came = 0

    def __call__(self, signum: int, _: FrameType | None) -> None:
        self.came += 1
        if self.kind == "default":
            signal.default_int_handler(signum, None)
        if self.kind == "raise":
            raise RuntimeError("the handler raises")
        if self.kind == "time out":
            raise TimeoutError("the handler raises")
        if self.store is not None:
            self.store.close()
        if self.kind == "close":
            sys.exit(0)
        os._exit(0)


def run_child(root: Path, kind: str, config: dict[str, Any], acks: int, ready: int) -> None:
    """Work until the signal comes; each acknowledged message is a line in `acks`."""
    handler = Handler(kind)
    signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGTERM, handler)
    numbers = itertools.count(1)
    while not handler.came:
        try:
            os.write(ready, b"!")
            with rmqcore.open(root, **config) as handler.store:
                work(handler, acks, numbers)
        except (RuntimeError, TimeoutError) as error:  # the open was interrupted, or the close
            if "the handler" not in str(error):
                raise
    if handler.store is not None:
        handler.store.close()


def work(handler: Handler, acks: int, numbers: Any) -> None:
    store = handler.store
    assert store is not None
    left = 30  # puts after the handler has raised
    while left:
        left -= handler.came > 0
        number = next(numbers)
        try:
            if number % 10 == 0:
                many = [make_message(number * 1000 + i) for i in range(number % 7)]
                store.put_many(many)
            answer = put(store, number)
            assert answer is not None
            os.write(acks, json.dumps(answer.as_dict()).encode() + b"\n")
            if number % 25 == 0:
                store.flush()
            if number % 40 == 0:
                store.flush_consume_queues()
        except (RuntimeError, TimeoutError) as error:
            if "the handler" not in str(error):
                raise
        except StoreClosedError:
            assert handler.kind == "close", handler.kind
            raise


def judge(
    root: Path, kind: str, config: dict[str, Any], acks: Path, status: int, signals: int
) -> None:
    """Raise unless the child ended as it should, and all of its acknowledged messages are there once."""
    code = os.waitstatus_to_exitcode(status)
    expected = [-signal.SIGINT if kind == "default" else 0]
    if signals > 1:  # at its very end Python takes the handlers away: a late second signal kills
        expected += [-signal.SIGINT, -signal.SIGTERM]
    assert code in expected, f"exit code {code}, expected {expected}"
    if not (root / "commitlog").is_dir():
        return  # the signal came before the store
    lines = acks.read_bytes().split(b"\n")[:-1]
    if signals == 1 and kind != "close and _exit" and lines:
        assert not (root / "abort").exists(), "the exit was not clean"
    check_directory(root, [Acked(**json.loads(line)) for line in lines], config, twice=False)


def wait(pid: int) -> int:
    """The exit status of a child, which must end."""
    ended = [0, 0]

    def has_ended() -> bool:
        ended[:] = os.waitpid(pid, os.WNOHANG)
        return ended[0] == pid

    try:
        eventually(has_ended, poll_s=0.001)
    except AssertionError:
        os.kill(pid, signal.SIGABRT)  # it hangs
        os.waitpid(pid, 0)
        raise
    return ended[1]


def report(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    folder, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    bad = 0
    for number in range(rounds):
        root, acks, errors = (folder / f"{number}{end}" for end in ("", ".acks", ".err"))
        kind = rng.choice(KINDS)
        config = {
            **rng.choice(({}, SMALL)),
            "flush_disk_type": rng.choice(("ASYNC_FLUSH", "SYNC_FLUSH")),
        }
        signals = (
            [signal.SIGINT, signal.SIGTERM]
            if rng.random() < 0.2 and kind == "close"
            else [rng.choice((signal.SIGINT, signal.SIGTERM))]
        )
        begun, ready = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(begun)
            os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
            out = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            run_child(root, kind, config, out, ready)  # and then to the end of the interpreter
            return
        os.close(ready)
        os.read(begun, 1)
        os.close(begun)
        # The signal comes at any moment, and a second one at any moment of what the first began.
        time.sleep(rng.choice((0.005, LATEST_MS / 1000)) * rng.random())
        for signum in signals:
            os.kill(pid, signum)
            time.sleep(rng.random() * 0.005)
        try:
            judge(root, kind, config, acks, wait(pid), len(signals))
        except Exception as error:  # noqa: BLE001 the other rounds go on
            bad += 1
            text = errors.read_text(errors="replace")[-2000:]
            report(f"seed {seed}, round {number}, {kind}, {config}: {error!r}\n{text}")
            continue
        shutil.rmtree(root, ignore_errors=True)
        acks.unlink()
        errors.unlink()
    report(f"{rounds} signals, {bad} bad")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
