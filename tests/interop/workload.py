"""Messages of every kind that a store knows, the same ones for a seed, and stores small enough that everything rolls."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lz4.frame
import zstandard

from rmqcore import Message

START_MS = 1_700_000_000_000
PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC
ZIPPED, LZ4, ZSTD, ZLIB = 0x1, 0x100, 0x200, 0x300
TOPICS = ("Orders", "Payments", "%RETRY%group", "Заказы")
WORDS = "order payment cart user stock refund héllo 世界 Привет 😀 ключ".split()
# By their Java names, which is what the driver takes; `ours` gives rmqcore's.
SIZES: dict[str, Any] = {
    "mappedFileSizeCommitLog": 32 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 25,
    "maxHashSlotNum": 101,
    "maxIndexNum": 1200,
}
PLAIN = SIZES
PROP_CRC = {**SIZES, "enabledAppendPropCRC": True, "forceVerifyPropCRC": True}
LIGHT = {**SIZES, "enableLmq": True, "enableMultiDispatch": True}
CONFIGS = {"plain": PLAIN, "prop_crc": PROP_CRC, "light": LIGHT}
OUR_NAMES = {
    "mappedFileSizeCommitLog": "mapped_file_size_commit_log",
    "mappedFileSizeConsumeQueue": "mapped_file_size_consume_queue",
    "maxHashSlotNum": "max_hash_slot_num",
    "maxIndexNum": "max_index_num",
    "enabledAppendPropCRC": "enabled_append_prop_crc",
    "forceVerifyPropCRC": "force_verify_prop_crc",
    "enableLmq": "enable_lmq",
    "enableMultiDispatch": "enable_multi_dispatch",
    "checkCommitLogOffsetOnRecover": "check_commit_log_offset_on_recover",
    "maxMessageSize": "max_message_size",
}


def ours(config: dict[str, Any]) -> dict[str, Any]:
    """The same fields as rmqcore names them. Java never refuses a log that lacks its last files."""
    same = {OUR_NAMES[name]: value for name, value in config.items()}
    return {**same, "recover_without_commit_log": True}


@dataclass
class Put:
    """One call: a message, or a batch of one topic and queue, at one time."""

    messages: list[Message]
    now_ms: int

    @property
    def is_batch(self) -> bool:
        return len(self.messages) > 1


class Workload:
    """Puts without an end. Two of one seed and one config give the same ones.

    Parameters
    ----------
    seed : int
    config : dict
        Which kinds there can be: light queues (LMQ) only where they are switched on.
    topics : sequence of str
        Of the plain messages.
    """

    def __init__(self, seed: int, config: dict[str, Any], topics: Sequence[str] = TOPICS) -> None:
        self._topics = topics
        self._random = random.Random(seed)
        self._light = bool(config.get("enableLmq"))
        self._now_ms = START_MS
        self._count = 0
        self._kinds: list[Callable[[], list[Message]]] = [
            *[self._plain] * 8,
            self._batch,
            self._transaction,
            self._long_topic,
            self._compressed,
            self._delayed,
            self._operation,
            *[self._to_light_queues] * (3 * self._light),
        ]

    def take(self, count: int) -> Iterator[Put]:
        """The next `count` puts."""
        for _ in range(count):
            leap = self._random.random() < 0.1
            self._now_ms += (
                self._random.randrange(1000, 4000) if leap else self._random.randrange(40)
            )
            yield Put(self._random.choice(self._kinds)(), self._now_ms)

    # ---- parts of a message

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _body(self, most: int = 700) -> bytes:
        size = self._random.choice([0, 1, 20, 100, 300, most])
        if self._chance(0.3):
            return self._random.randbytes(size)
        text = " ".join(self._random.choices(WORDS, k=size // 4 + 1))
        return text.encode()[:size]

    def _host(self) -> str:
        port = self._random.randrange(65536)
        if self._chance(0.2):
            return f"[2001:db8::{self._random.randrange(1, 65536):x}]:{port}"
        return f"10.{self._random.randrange(256)}.0.{self._random.randrange(1, 255)}:{port}"

    def _properties(self) -> dict[str, str]:
        self._count += 1
        if self._chance(0.05):
            return {}
        made = {}
        if self._chance(0.8):
            made["TAGS"] = self._random.choice(["TagA", "TagB", "Тег", "tag3"])
        if self._chance(0.7):
            hot = f"hot{self._random.randrange(9)}"
            made["KEYS"] = self._random.choice(
                [hot, f"{hot}  key{self._count}", f"ключ{self._count}"]
            )
        if self._chance(0.7):
            made["UNIQ_KEY"] = f"{self._random.getrandbits(128):032X}"
        if self._chance(0.2):
            made["имя"] = self._random.choice(WORDS)
        if self._chance(0.2):
            made["WAIT"] = self._random.choice(["true", "false"])
        return made

    def _message(
        self,
        topic: str | None = None,
        body: bytes | None = None,
        *,
        queue_id: int | None = None,
        **properties: str,
    ) -> Message:
        return Message(
            topic or self._random.choice(self._topics),
            self._body() if body is None else body,
            self._random.randrange(3) if queue_id is None else queue_id,
            properties={**self._properties(), **properties},
            flag=self._random.choice([0, 0, -1, 77]),
            born_timestamp_ms=self._now_ms - self._random.randrange(5000),
            born_host=self._host(),
            store_host=self._random.choice(["127.0.0.1:10911", "[::1]:10911"]),
            reconsume_times=self._random.choice([0, 0, 3]),
        )

    # ---- kinds

    def _plain(self) -> list[Message]:
        return [self._message()]

    def _batch(self) -> list[Message]:
        first = self._message("Batches", self._body(200))
        messages = [first]
        for _ in range(self._random.randrange(1, 30)):
            inner = self._message("Batches", self._body(200), queue_id=first.queue_id)
            inner.born_host, inner.store_host = first.born_host, first.store_host
            inner.born_timestamp_ms = first.born_timestamp_ms
            inner.reconsume_times = first.reconsume_times
            messages.append(inner)
        return messages

    def _transaction(self) -> list[Message]:
        message = self._message("Deals", TRAN_MSG="true", PGROUP="group")
        message.sys_flag = self._random.choice([PREPARED, COMMIT, ROLLBACK])
        if message.sys_flag != PREPARED:
            message.prepared_transaction_offset = self._random.randrange(1 << 20)
        return [message]

    def _operation(self) -> list[Message]:
        if self._chance(0.5):
            return [self._message("RMQ_SYS_TRANS_HALF_TOPIC", queue_id=0, REAL_TOPIC="Deals")]
        return [self._message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"12,15,", queue_id=0, TAGS="d")]

    def _long_topic(self) -> list[Message]:
        return [self._message("%RETRY%" + "n" * self._random.choice([120, 121, 200, 248]))]

    def _compressed(self) -> list[Message]:
        plain = self._body(2000) * 3
        body, flags = self._random.choice(
            [
                (zlib.compress(plain), ZIPPED),
                (zlib.compress(plain, 5), ZIPPED | ZLIB),
                (lz4.frame.compress(plain), ZIPPED | LZ4),
                (zstandard.compress(plain), ZIPPED | ZSTD),
            ]
        )
        message = self._message("Zipped", body)
        message.sys_flag = flags
        return [message]

    def _delayed(self) -> list[Message]:
        level = self._random.randrange(21)
        topic = self._random.choice(["SCHEDULE_TOPIC_XXXX"] * 3 + ["Orders"])
        queue_id = max(0, min(level, 18) - 1)
        return [self._message(topic, queue_id=queue_id, DELAY=str(level), REAL_TOPIC="Orders")]

    def _to_light_queues(self) -> list[Message]:
        names = self._random.sample(["%LMQ%a", "%LMQ%b", "%LMQ%c"], self._random.randrange(1, 4))
        return [self._message("Light", INNER_MULTI_DISPATCH=",".join(names))]
