"""Stores of each kind that RocketMQ made, and everything that a store says of itself when RocketMQ opens it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop.java_store import JavaStore
from interop.questions import FOREVER, NO_LIMIT
from support.places import ROOT
from support.ports import PortBlock
from support.stores.archives import unpack

import rmqcore
from rmqcore import MessageStoreConfig

ARCHIVES = ROOT / "tests" / "conformance"
PORTS = PortBlock()  # DLedger listens, also where it has no peer
MOST = 1000  # messages of a queue or key that are asked for at once
SIZES: dict[str, Any] = {
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
}
Settings = Callable[[Path], dict[str, Any]]


def plain(root: Path) -> dict[str, Any]:
    return {**SIZES, "mappedFileSizeCommitLog": 1 << 20}


def two_folders(root: Path) -> dict[str, Any]:
    log = f"{root / 'log1'},{root / 'log2'}"
    return {**SIZES, "mappedFileSizeCommitLog": 16 << 10, "storePathCommitLog": log}


def dledger(root: Path) -> dict[str, Any]:
    peers = f"n0-127.0.0.1:{PORTS.first}"
    group = {"dLegerGroup": "g", "dLegerPeers": peers, "dLegerSelfId": "n0"}
    size = {"mappedFileSizeCommitLog": 16 << 10}
    return {**plain(root), **size, "enableDLegerCommitLog": True, **group}


@dataclass(frozen=True)
class Kind:
    """A store of `ARCHIVES`, and the settings that RocketMQ made it with."""

    name: str
    settings: Settings = plain
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    writable: bool = True
    log: tuple[str, ...] = ()

    def unpack(self, into: Path) -> Path:
        """A fresh copy in a directory that is made."""
        unpack(ARCHIVES / f"{self.name}.tar.xz", into)
        (root,) = into.iterdir()
        return root

    def reader(self, root: Path) -> rmqcore.StoreReader:
        return rmqcore.read(root, commitlog=[root / one for one in self.log] or None)

    def log_words(self, root: Path) -> tuple[str, ...]:
        """The option of a command that names the directories of the log."""
        return ("--commitlog", ",".join(str(root / one) for one in self.log)) if self.log else ()

    def config(self, root: Path) -> MessageStoreConfig:
        sizes = {
            "mapped_file_size_commit_log": self.settings(root)["mappedFileSizeCommitLog"],
            "mapped_file_size_consume_queue": SIZES["mappedFileSizeConsumeQueue"],
            "max_hash_slot_num": SIZES["maxHashSlotNum"],
            "max_index_num": SIZES["maxIndexNum"],
        }
        if self.log:
            sizes["store_path_commit_log"] = ",".join(str(root / one) for one in self.log)
        return MessageStoreConfig(**sizes)


KINDS = (
    Kind(
        "rocksdb-queues",
        lambda root: {**plain(root), "storeType": "defaultRocksDB"},
        writable=False,
    ),
    Kind("dledger", dledger, writable=False),
    Kind("batch-queues", attributes={"BatchT": {"queue.type": "BatchCQ"}}),
    Kind(
        "compaction",
        lambda root: {**plain(root), "enableCompaction": True},
        attributes={"Compact": {"cleanup.policy": "COMPACTION"}},
    ),
    Kind("timer-broker"),
    Kind("two-log-folders", two_folders, log=("log1", "log2")),
    Kind("write-without-mmap"),
)


@dataclass(frozen=True)
class Questions:
    """What is asked of a store: taken from what it holds before anything was done with it."""

    queues: tuple[tuple[str, int, int, int], ...]
    keys: tuple[tuple[str, str], ...]
    phy_offsets: tuple[int, ...]

    @classmethod
    def of(cls, reader: rmqcore.StoreReader) -> Questions:
        views = list(reader.messages())
        keys = {(view.topic, key) for view in views for key in [*view.keys, view.uniq_key] if key}
        queues = [
            (one.topic, one.queue_id, one.min_offset, one.max_offset) for one in reader.queues()
        ]
        return cls(
            tuple(sorted(queues)), tuple(sorted(keys)), tuple(one.phy_offset for one in views)
        )


def answers(java: JavaStore, asked: Questions) -> dict[tuple[Any, ...], Any]:
    """Where each queue begins and ends, and its messages; the messages of each key; each message by its place."""
    gets = [
        {"topic": t, "queueId": q, "queueOffset": at, "maxMessages": MOST, "maxBytes": NO_LIMIT}
        for t, q, first, end in asked.queues
        for at in sorted({0, first, (first + end) // 2, end - 1})
    ]
    queries = [
        {"topic": t, "key": key, "maxMessages": MOST, "beginMs": 0, "endMs": FOREVER}
        for t, key in asked.keys
    ]
    found = java.query(queries)
    return {
        **{
            ("get", one["topic"], one["queueId"], one["queueOffset"]): answer
            for one, answer in zip(gets, java.get(gets), strict=True)
        },
        **{
            ("query", one["topic"], one["key"]): answer["messages"]
            for one, answer in zip(queries, found, strict=True)
        },
        **{
            ("lookup", place): answer
            for place, answer in zip(asked.phy_offsets, java.lookup(asked.phy_offsets), strict=True)
        },
    }
