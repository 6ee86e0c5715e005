"""RocketMQ's own store for tests: the methods of a MessageStore, answered by Java."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from interop.java_process import JavaProcess

from rmqcore import Message, codec

Request = Mapping[str, Any]
# A store that is not Java's default, so that every test says what it means by its sizes alone.
FIXED = {
    "enableCompaction": False,
    "flushCommitLogTimed": False,
    "flushIntervalCommitLog": 50,
    "flushIntervalConsumeQueue": 100,
    "flushCommitLogLeastPages": 0,
    "flushConsumeQueueLeastPages": 0,
    "flushCommitLogThoroughInterval": 200,
    "flushConsumeQueueThoroughInterval": 200,
}
BATCH = 500  # messages a request, so that no line gets very long


def as_json(message: Message, now_ms: int) -> dict[str, Any]:
    """What the driver needs to put a message at a time."""
    born_ms = message.born_timestamp_ms
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "body": base64.b64encode(bytes(message.body)).decode(),
        "properties": codec.encode_properties(message.properties).decode(),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": now_ms if born_ms is None else born_ms,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "nowMs": now_ms,
    }


class JavaStore:
    """A store that RocketMQ has open, in a JVM that other stores may share.

    Parameters
    ----------
    process : JavaProcess
    path : Path
        The store's root; RocketMQ makes what is not there.
    config : mapping
        Fields of MessageStoreConfig by their Java names.
    load_only : bool
        Only load and recover: nothing is dispatched and no service runs.
    attributes : mapping
        Attributes of topics that have any, such as ``{"T": {"queue.type": "BatchCQ"}}``.
    """

    def __init__(
        self,
        process: JavaProcess,
        path: Path,
        config: Mapping[str, Any],
        *,
        load_only: bool = False,
        attributes: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        self._process = process
        self.path = path
        self._store: int | None = process.call(
            "open",
            dir=str(path),
            config={**FIXED, **config},
            loadOnly=load_only,
            attributes={topic: dict(given) for topic, given in attributes.items()},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, call: str, **arguments: Any) -> Any:
        assert self._store is not None, "the store is closed"
        return self._process.call(call, store=self._store, **arguments)

    def _ask(self, call: str, requests: Iterable[Request]) -> list[Any]:
        answers: list[Any] = self._call(call, requests=list(requests))
        return answers

    def put(self, messages: Iterable[tuple[Message, int]]) -> list[dict[str, Any]]:
        """Put each message at its own time in milliseconds; answer the fields of a PutResult each."""
        pending = [as_json(message, now_ms) for message, now_ms in messages]
        results: list[dict[str, Any]] = []
        for start in range(0, len(pending), BATCH):
            results += self._call("put", messages=pending[start : start + BATCH])
        return results

    def put_batch(self, messages: Iterable[Message], now_ms: int) -> dict[str, Any]:
        """Put one MessageExtBatch."""
        result: dict[str, Any] = self._call(
            "putBatch", messages=[as_json(message, now_ms) for message in messages]
        )
        return result

    def get(self, requests: Iterable[Request]) -> list[dict[str, Any]]:
        """getMessage: topic, queueId, queueOffset, maxMessages, maxBytes, tags."""
        return self._ask("get", requests)

    def query(self, requests: Iterable[Request]) -> list[dict[str, Any]]:
        """queryMessage: topic, key, maxMessages, beginMs, endMs, indexType."""
        return self._ask("query", requests)

    def offset_by_time(self, requests: Iterable[Request]) -> list[dict[str, int]]:
        """getOffsetInQueueByTime: topic, queueId, timestampMs; with the default, the LOWER and the UPPER boundary."""
        return self._ask("offsetByTime", requests)

    def lookup(self, phy_offsets: Iterable[int]) -> list[dict[str, Any] | None]:
        """lookMessageByOffset; None where there is no message, and where Java throws."""
        return self._ask("lookup", [{"phyOffset": offset} for offset in phy_offsets])

    def phy_offset_of(self, requests: Iterable[Request]) -> list[dict[str, int]]:
        """Answer of getCommitLogOffsetInQueue, and the time of that message: topic, queueId, queueOffset."""
        return self._ask("phyOffset", requests)

    def offsets(self) -> dict[str, Any]:
        """Ends of the log and of every queue."""
        offsets: dict[str, Any] = self._call("offsets")
        return offsets

    def records(self) -> list[dict[str, Any]]:
        """All fields of all records, as Java decodes them."""
        records: list[dict[str, Any]] = self._call("records")
        return records

    def verify(self) -> dict[str, Any]:
        """Counts of records, BLANKs and queue entries, and what of them is wrong."""
        verdict: dict[str, Any] = self._call("verify")
        return verdict

    def await_dispatch(self) -> None:
        """Wait until queues and index hold everything."""
        self._call("awaitDispatch")

    def flush(self) -> None:
        self._call("flush")

    def clean(self, *, hour: bool, manual: bool = False) -> dict[str, Any]:
        """Make a round of cleaning, at an hour of `deleteWhen` or not; answer where the log begins and whether puts are taken."""
        answer: dict[str, Any] = self._call("clean", hour=hour, manual=manual)
        return answer

    def clean_expired_consume_queues(self) -> None:
        """Delete the queues without a message, as an admin asks for it."""
        self._call("cleanExpiredConsumerQueue")

    def set_now(self, now_ms: int) -> None:
        """Set its clock; 0 lets it run."""
        self._call("setNow", nowMs=now_ms)

    def close(self) -> None:
        """Shut it down cleanly; nothing when it is closed, or its JVM has ended."""
        if self._store is not None and self._process.alive:
            self._call("close")
        self._store = None
