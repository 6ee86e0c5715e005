"""The engine against the real store, both with their default configuration, in one run.

Both sides do the same steps in turn, several rounds of each; the rows show medians. They count CPU seconds of the thread that
does the work, without the machine's other work, the garbage collectors, and the threads that flush and allocate. Opening a store
waits for the disk too, so those rows count wall time; so do those of the group "by the clock", for work that one thread
begins and ends.
"""

from __future__ import annotations

import gc
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable

from bench import build
from bench.java_steps import JavaSteps
from bench.report import Row
from rmqcore import Message, MessageStore
from rmqcore import open as open_store

TOPIC = "BenchTopic"
QUEUES = 4
BODY = 128
PART = 10_240  # messages that are made at a time and then put
COUNT = 20 * PART
KEYS = 50_000
ROUNDS = 3
WARM_UP = 2  # rounds that do not count: Java's compiler has two stages
BATCH = 256
# Our step, Java's steps (the quickest of them counts), the ratio that is required.
PAIRS: list[tuple[str, tuple[str, ...], float | None]] = [
    ("put", ("put",), 4.0),
    ("put_many", ("batch32", "batch256"), 8.0),
    ("put_batch of 256", ("batch32", "batch256"), None),
    ("dispatch", ("dispatched",), 8.0),
    ("get 32", ("get",), None),
    ("get 32, bodies", ("get+decode",), 4.0),
    ("query hit", ("query-hit",), 1.5),
    ("query miss", ("query-miss",), None),
    ("rebuild queues and index", ("rebuild",), 8.0),
]
# What is shown by the clock too, and the ratio that is required there.
CLOCKED = {
    "get 32": None,
    "get 32, bodies": 4.0,
    "query hit": None,
    "rebuild queues and index": 10.0,
}
OPENS = [("open after a clean exit", "load"), ("open after a crash", "load after a crash")]


def engine() -> list[Row]:
    command = build.java_command("EngineBench")
    if command is None:
        return [Row("engine / Java", "skipped", "needs java, javac and mvn")]
    with tempfile.TemporaryDirectory(dir=build.BUILD) as folder:
        roots = pathlib.Path(folder, "java"), pathlib.Path(folder, "ours")
        java, ours = JavaEngine([*command, roots[0], str(BODY)], roots[0]), Engine(roots[1])
        try:
            both(java, ours)
        finally:
            java.stop()
    return [*rates(java, ours), *opens(java, ours)]


def rates(java: JavaEngine, ours: Engine) -> list[Row]:
    rows = []
    for name, theirs, required in PAIRS:
        mine, best = ours.median(name), min(java.median(other) for other in theirs)
        measured = f"{mine:.0f} ns, Java {best:.0f} ns"
        rows.append(Row("engine / Java", name, measured, best / mine, required))
    for name, steps, _ in PAIRS:
        if name in CLOCKED:
            mine, best = ours.wall(name), min(java.wall(step) for step in steps)
            measured = f"{mine:.0f} ns, Java {best:.0f} ns"
            rows.append(Row("engine, by the clock", name, measured, best / mine, CLOCKED[name]))
    return rows


def opens(java: JavaEngine, ours: Engine) -> list[Row]:
    rows = []
    for name, theirs in OPENS:
        mine, other = (
            side.median(step) * side.made / 1e6 for side, step in ((ours, name), (java, theirs))
        )
        measured = f"{mine:.0f} ms, Java {other:.0f} ms, {ours.made:,} messages"
        rows.append(Row("engine / Java", name, measured, other / mine))
    return rows


def both(java: JavaEngine, ours: Engine) -> None:
    """Do all steps on both sides. Java dispatches while it puts, in a thread of its own; ours dispatches when told to."""
    java.step("open", 0)
    ours.open(services=True)
    for round_ in range(-WARM_UP, ROUNDS):
        for step in ("put", "dispatched", "batch32", "batch256", "dispatched"):
            java.step(step, (2 if step == "dispatched" else 1) * COUNT, round_)
        for name in ("put", "put_many", "put_batch of 256"):
            ours.put(name, round_)
    # Ours gets messages in its dispatch step too. Java gets as many: index chains as long, and as many files.
    for _ in range(ROUNDS):
        java.step("batch256", COUNT)
    ours.open(services=False)
    for round_ in range(ROUNDS):
        ours.dispatch(round_)
    for round_ in range(-1, ROUNDS):
        for step, count in (
            ("get", 0),
            ("get+decode", 0),
            ("query-hit", KEYS),
            ("query-miss", KEYS),
        ):
            java.step(step, count, round_)
        ours.get("get 32", round_, bodies=False)
        ours.get("get 32, bodies", round_, bodies=True)
        ours.query("query hit", "k", round_)
        ours.query("query miss", "miss", round_)
    java.step("close", 0)
    ours.close()
    for round_ in range(ROUNDS):
        java.step("load", 0, round_)
        ours.reopen("open after a clean exit", round_)
    for round_ in range(ROUNDS):
        java.step("rebuild", 0, round_)
        ours.rebuild(round_)
    for round_ in range(ROUNDS):
        (java.root / "abort").touch()
        java.step("load", 0, round_, "load after a crash")
        (ours.root / "abort").touch()
        ours.reopen("open after a crash", round_)


class Side:
    """One of the two stores. Keeps the nanoseconds a message that each round of a step took, of the thread's and of wall time."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}
        self.walls: dict[str, list[float]] = {}
        self.made = 0

    def note(self, name: str, round_: int, seconds: float, count: int, wall: float = 0) -> None:
        if round_ >= 0:
            self.found.setdefault(name, []).append(seconds / count * 1e9)
            self.walls.setdefault(name, []).append(wall / count * 1e9)

    def median(self, name: str) -> float:
        return statistics.median(self.found[name])

    def wall(self, name: str) -> float:
        return statistics.median(self.walls[name])


class JavaEngine(Side):
    """Java's store: EngineBench.java in a process of its own, to which each step is a line."""

    def __init__(self, command: list[str | pathlib.Path], root: pathlib.Path) -> None:
        super().__init__()
        self.root = root
        self._java = JavaSteps(command)

    def step(self, step: str, count: int, round_: int = -1, name: str = "") -> None:
        """Do a step and note its time as `name`. `count` is a number of messages or keys; 0 stands for all messages."""
        seconds, counted, wall = self._java.ask(step, count)
        self.made += count if step in {"put", "batch32", "batch256"} else 0
        if int(counted):
            self.note(name or step, round_, float(seconds), int(counted), float(wall))

    def stop(self) -> None:
        self._java.stop()


class Engine(Side):
    """Our store, which does the same steps in this process."""

    def __init__(self, root: pathlib.Path) -> None:
        super().__init__()
        self.root = root
        self.body = b"x" * BODY
        self.store: MessageStore | None = None

    def open(self, *, services: bool) -> None:
        self.close()
        self.store = open_store(self.root, services=services)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()
        self.store = None

    @property
    def opened(self) -> MessageStore:
        assert self.store is not None
        return self.store

    def timed(self, name: str, round_: int, count: int, work: Callable[[], object]) -> None:
        before, began = time.thread_time(), time.perf_counter()
        work()
        wall = time.perf_counter() - began
        self.note(name, round_, time.thread_time() - before, count, wall)

    def messages(self, *, batched: bool) -> list[Message]:
        """Make new messages: a user's messages have not been put before either."""
        first = self.made
        self.made += PART
        queue_ids = [(i // BATCH if batched else i) % QUEUES for i in range(PART)]
        return [
            Message(TOPIC, self.body, queue_id, "TagA", f"k{first + i}")
            for i, queue_id in enumerate(queue_ids)
        ]

    def put(self, name: str, round_: int) -> None:
        store, seconds = self.opened, 0.0
        gc.disable()
        for _ in range(COUNT // PART):
            messages = self.messages(batched=name.startswith("put_batch"))
            lists = [messages[i : i + BATCH] for i in range(0, PART, BATCH)]
            before = time.thread_time()
            if name == "put":
                for message in messages:
                    store.put(message)
            elif name == "put_many":
                store.put_many(messages)
            else:
                for part in lists:
                    store.put_batch(part)
            seconds += time.thread_time() - before
        gc.enable()
        store.wait_dispatched()
        self.note(name, round_, seconds, COUNT)

    def dispatch(self, round_: int) -> None:
        for _ in range(COUNT // PART):
            self.opened.put_many(self.messages(batched=False))
        self.timed("dispatch", round_, COUNT, lambda: dispatch(self.opened))

    def get(self, name: str, round_: int, *, bodies: bool) -> None:
        count = 0
        store = self.opened
        before, began = time.thread_time(), time.perf_counter()
        for queue_id in range(QUEUES):
            offset, end = 0, store.max_offset(TOPIC, queue_id)
            while offset < end:
                result = store.get(TOPIC, queue_id, offset)
                offset = result.next_begin_offset
                if bodies:
                    count += len(result.bodies())
                else:
                    count += len(result.messages)
        wall = time.perf_counter() - began
        self.note(name, round_, time.thread_time() - before, count, wall)

    def query(self, name: str, prefix: str, round_: int) -> None:
        step = 7919  # a prime, so that the keys lie all over the store, and are the same every time
        keys = [f"{prefix}{i * step % self.made}" for i in range(KEYS)]
        store = self.opened

        def work() -> None:
            # No answer is kept, as in Java: with 50,000 answers kept this would measure the garbage collector.
            for key in keys:
                store.query(TOPIC, key)

        self.timed(name, round_, KEYS, work)

    def reopen(self, name: str, round_: int) -> None:
        """Open the store until all messages can be asked for."""
        before = time.perf_counter()
        self.open(services=False)
        dispatch(self.opened)
        self.note(name, round_, time.perf_counter() - before, self.made)
        self.close()

    def rebuild(self, round_: int) -> None:
        for part in ("consumequeue", "index"):
            shutil.rmtree(self.root / part)

        def work() -> None:
            self.open(services=False)
            dispatch(self.opened)
            self.close()

        self.timed("rebuild queues and index", round_, self.made, work)


def dispatch(store: MessageStore) -> None:
    while store.dispatch_behind_bytes:
        store.dispatch_once()
