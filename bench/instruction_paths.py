"""The hot paths whose instructions are counted, each done a known number of times.

`bench.instruction_benches` runs it in callgrind.

Arguments: the library of ``bench/native/marks.c``, and an empty folder. Each path prints how many messages it
took, and its name.
"""

from __future__ import annotations

import ctypes
import gc
import pathlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import rmqcore
from bench import sends, served
from rmqcore import Message, MessageStore, codec
from rmqcore._native.queues.get import GetResult
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.offline.fsck import fsck

TOPIC = "BenchTopic"
QUEUES = 4
BODY = b"x" * 128
COUNT = 2_000
LIST = 500
KEYS = 50
SCANNED = 2 << 20
STORED_MS = 1_700_000_000_000


class Paths:
    """One store for all paths, in the order in which they stand here."""

    def __init__(self, marks: ctypes.CDLL, root: pathlib.Path) -> None:
        self._marks = marks
        self._root = root
        self._arguments = [(TOPIC, BODY, i % QUEUES, "TagA", f"k{i}") for i in range(COUNT)]
        self._messages = [Message(*arguments) for arguments in self._arguments]

    def counted(self, name: str, count: int, work: Callable[[], object]) -> None:
        """Do it twice, and count the second time: what is done once is done then."""
        work()
        self.counted_once(name, count, work)

    def counted_once(self, name: str, count: int, work: Callable[[], object]) -> None:
        """Count a work that leaves nothing to do a second time."""
        self._marks.mark_begin()
        work()
        self._marks.mark_end(name.encode())
        print(count, name, flush=True)

    def all(self) -> None:
        self.counted("Message", COUNT, self.make)
        with rmqcore.open(self._root, services=False) as store:
            self.puts(store)
            self.gets(store)
        self.reads()
        with rmqcore.open(self._root / "sends", services=False) as store:
            self.sends(store)
        with rmqcore.open(self._root / "requests", services=False) as store:
            self.requests(store)
        self.codec()

    def make(self) -> None:
        for topic, body, queue_id, tags, keys in self._arguments:
            Message(topic, body, queue_id, tags, keys)

    def puts(self, store: MessageStore) -> None:
        messages = self._messages

        def put() -> None:
            for message in messages:
                store.put(message)

        def put_many() -> None:
            for at in range(0, COUNT, LIST):
                store.put_many(messages[at : at + LIST])

        def dispatch() -> None:
            while store.dispatch_behind_bytes:
                store.dispatch_once()

        for _ in range(10):  # makes room for all that follows
            put_many()
        self.counted("put", COUNT, put)
        self.counted("put_many", COUNT, put_many)
        dispatch()
        for _ in range(5):
            put_many()
        self.counted_once("dispatch", 5 * COUNT, dispatch)

    def sends(self, store: MessageStore) -> None:
        """Count what a broker's kernel does, in a store of its own: the others are counted over the messages that they know."""
        for _ in range(10):  # makes room for all that follows
            store.put_many(self._messages)
        for name, reads in sends.reads().items():
            self.counted(name, COUNT, partial(sends.feed_all, sends.kernel(store), reads))

    def requests(self, store: MessageStore) -> None:
        """Count requests from the bytes of a connection to those of the answers: what a broker adds in Python is in these."""
        store.put_many([Message(TOPIC, BODY, 0) for _ in range(COUNT)])
        for _ in range(10):  # makes room for all that follows
            store.put_many(self._messages)
        while store.dispatch_behind_bytes:
            store.dispatch_once()
        connection = served.Connection(store)
        found = -(-COUNT // served.PULLED) * served.PULLED
        frames = sends.reads()
        try:
            for name, reads, count in (
                ("quick send", frames["send"], COUNT),
                ("quick sends, 32 in a read", frames["sends in a window of 32"], COUNT),
                ("quick pull of 32", served.pulls(1, found), found),
                ("quick pull of 32 neighbours", served.pulls(0, found), found),
            ):
                self.counted(name, count, partial(connection.feed, reads))
        finally:
            connection.close()

    def gets(self, store: MessageStore) -> None:
        def results() -> Iterator[GetResult]:
            for queue_offset in range(0, COUNT, 32):
                yield store.get(TOPIC, 0, queue_offset)

        def bodies() -> None:
            for result in results():
                result.bodies()

        def keys() -> None:
            for result in results():
                for message in result.messages:
                    message.keys  # noqa: B018 - decodes the properties

        def query() -> None:
            for i in range(KEYS):
                store.query(TOPIC, f"k{i}", max_messages=1)

        count = -(-COUNT // 32) * 32
        self.counted("get of 32, bodies", count, bodies)
        self.counted("get of 32, keys of messages", count, keys)
        self.counted("query", KEYS, query)

    def reads(self) -> None:
        paths = StorePaths(self._root)
        (log,) = paths.commitlog.iterdir()
        with log.open("rb") as file:
            data = file.read(SCANNED)
        rows = codec.scan(data).num_rows
        self.counted("codec.scan", rows, lambda: codec.scan(data))
        with rmqcore.read(self._root) as reader:
            rows = sum(batch.num_rows for batch in reader.batches())
            self.counted_once("batches", rows, lambda: deque(reader.batches(), 0))
            self.counted_once("messages", rows, lambda: deque(reader.messages(), 0))
        self.counted("fsck", rows, lambda: fsck(self._root))
        out = self._root / "rebuilt"
        self.counted("rebuild", rows, lambda: rebuild(paths, out, overwrite=True))

    def codec(self) -> None:
        """Count the codec alone: one record or entry a call, and lists of them."""
        messages = self._messages
        records = [
            codec.encode(message, phy_offset=0, queue_offset=i, store_timestamp_ms=STORED_MS)
            for i, message in enumerate(messages)
        ]
        log = b"".join(records)
        properties = [message.properties for message in messages]
        texts = [codec.encode_properties(each) for each in properties]
        entries = b"".join(codec.pack_cq(i, 300, i) for i in range(COUNT))

        def encode() -> None:
            for i, message in enumerate(messages):
                codec.encode(message, phy_offset=0, queue_offset=i, store_timestamp_ms=STORED_MS)

        def encode_many() -> None:
            for at in range(0, COUNT, LIST):
                codec.encode_many(
                    messages[at : at + LIST], phy_offset=0, store_timestamp_ms=STORED_MS
                )

        def decode() -> None:
            for record in records:
                view = codec.decode(record)
                view.topic, view.body, view.properties  # noqa: B018 - decodes each

        def encode_properties() -> None:
            for each in properties:
                codec.encode_properties(each)

        def decode_properties() -> None:
            for text in texts:
                codec.decode_properties(text)

        def pack_cq() -> None:
            for i in range(COUNT):
                codec.pack_cq(i, 300, i)

        def unpack_cq() -> None:
            for pos in range(0, len(entries), 20):
                codec.unpack_cq(entries, pos)

        self.counted("codec.encode", COUNT, encode)
        self.counted("codec.encode_many", COUNT, encode_many)
        self.counted("codec.decode", COUNT, decode)
        self.counted("codec.decode_all", COUNT, lambda: codec.decode_all(log))
        self.counted("codec.encode_properties", COUNT, encode_properties)
        self.counted("codec.decode_properties", COUNT, decode_properties)
        self.counted("codec.pack_cq", COUNT, pack_cq)
        self.counted("codec.unpack_cq", COUNT, unpack_cq)


if __name__ == "__main__":
    gc.disable()
    Paths(ctypes.CDLL(sys.argv[1]), pathlib.Path(sys.argv[2])).all()
