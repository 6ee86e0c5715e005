"""The engine against the real store, both with their default configuration, in one run.

CPU seconds of the thread that does the work on both sides: the machine's other work, the garbage collector, and the threads that
flush and allocate do not count.
"""

from __future__ import annotations

import gc
import pathlib
import random
import shutil
import tempfile
import time
from collections.abc import Callable

from bench import build
from bench.report import Row
from rmqcore import Message, MessageStore
from rmqcore import open as open_store

TOPIC = "BenchTopic"
QUEUES = 4
BODY = 128
COUNT = 600_000
PART = 10_000
KEYS = 100_000
# Of ours, of Java's, what the ratio has to be.
PAIRS = [
    ("put", "put", 4.0),
    ("put_many", "batch", 8.0),
    ("put_batch of 256", "batch", None),
    ("dispatch", "dispatch", 8.0),
    ("get 32", "get", None),
    ("get 32, bodies", "get+decode", 4.0),
    ("query hit", "query-hit", 1.5),
    ("query miss", "query-miss", None),
    ("rebuild queues and index", "rebuild", 8.0),
]


def engine() -> list[Row]:
    command = build.java_command("EngineBench")
    if command is None:
        return [Row("engine / Java", "skipped", "needs java, javac and mvn")]
    with tempfile.TemporaryDirectory(dir=build.BUILD) as folder:
        theirs = {
            name: float(seconds) / int(count) * 1e9
            for name, seconds, count in build.output([*command, folder, str(BODY), str(COUNT)])
        }
    with tempfile.TemporaryDirectory(dir=build.BUILD) as folder:
        ours = Engine(pathlib.Path(folder)).run()
    return [
        Row(
            "engine / Java",
            name,
            f"{ours[name]:.0f} ns, Java {theirs[java]:.0f} ns",
            theirs[java] / ours[name],
            required,
        )
        for name, java, required in PAIRS
    ]


class Engine:
    """What EngineBench.java does, with ours; nanoseconds of CPU a message by name."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.body = b"x" * BODY
        self.made = 0
        self.found: dict[str, float] = {}

    def run(self) -> dict[str, float]:
        store = open_store(self.root)
        self.put(store, "", COUNT // 4)
        for name in ("put", "put_many", "put_batch of 256"):
            self.put(store, name, COUNT)
        store.wait_dispatched()
        self.get(store, "")
        self.get(store, "get 32")
        self.get(store, "get 32, bodies")
        self.query(store, "k", "")
        self.query(store, "k", "query hit")
        self.query(store, "miss", "query miss")
        store.close()
        with open_store(self.root, services=False) as store:
            self.put(store, "", COUNT)
            self.timed("dispatch", COUNT, lambda: dispatch(store))
        for part in ("consumequeue", "index"):
            shutil.rmtree(self.root / part)
        self.timed("rebuild queues and index", self.made, self.rebuild)
        return self.found

    def timed(self, name: str, count: int, work: Callable[[], object]) -> None:
        before = time.thread_time()
        work()
        self.found[name] = (time.thread_time() - before) / count * 1e9

    def put(self, store: MessageStore, name: str, count: int) -> None:
        """In parts: messages that were made just now, as a user's are."""
        seconds = 0.0
        gc.disable()
        for _ in range(count // PART):
            batched = name.startswith("put_batch")
            messages = [
                Message(TOPIC, self.body, 0 if batched else i % QUEUES, "TagA", f"k{self.made + i}")
                for i in range(PART)
            ]
            self.made += PART
            lists = [messages[i : i + 256] for i in range(0, PART, 256)]
            before = time.thread_time()
            if name == "put":
                for message in messages:
                    store.put(message)
            elif batched:
                for part in lists:
                    store.put_batch(part)
            else:
                store.put_many(messages)
            seconds += time.thread_time() - before
        gc.enable()
        self.found[name] = seconds / count * 1e9

    def get(self, store: MessageStore, name: str) -> None:
        count = 0
        before = time.thread_time()
        for queue in range(QUEUES):
            offset, end = 0, store.max_offset(TOPIC, queue)
            while offset < end:
                result = store.get(TOPIC, queue, offset)
                offset = result.next_begin_offset
                if name.endswith("bodies"):
                    for view in result.messages:
                        count += len(view.body) > 0
                else:
                    count += len(result.messages)
        self.found[name] = (time.thread_time() - before) / count * 1e9

    def query(self, store: MessageStore, prefix: str, name: str) -> None:
        chosen = random.Random(5)
        before = time.thread_time()
        for _ in range(KEYS):
            store.query(TOPIC, f"{prefix}{chosen.randrange(self.made)}")
        self.found[name] = (time.thread_time() - before) / KEYS * 1e9

    def rebuild(self) -> None:
        store = open_store(self.root, services=False)
        dispatch(store)
        store.close()


def dispatch(store: MessageStore) -> None:
    while store.dispatch_behind_bytes:
        store.dispatch_once()
