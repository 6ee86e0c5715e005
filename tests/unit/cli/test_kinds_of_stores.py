"""The table of docs/store-kinds.md: what each command does with each kind of store, four of which real brokers made."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.stores.archives import unpack
from support.stores.rocksdb_index import index_in_rocksdb

import rmqcore
from rmqcore import Message
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import RULES, find_kinds
from rmqcore.errors import StoreKindError

ARCHIVES = {
    "rocksdb_queues": "rocksdb-queues",
    "dledger": "dledger",
    "batch_queues": "batch-queues",
    "compaction": "compaction",
}
PAGE = ROOT / "docs" / "store-kinds.md"
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}


def touch(path: Path, data: bytes = b"x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def double_write(root: Path) -> None:
    (other,) = unpack(
        ROOT / "tests/conformance/rocksdb-queues.tar.xz", root.parent / "other"
    ).iterdir()
    for file in (other / "consumequeue").iterdir():
        file.rename(root / "consumequeue" / file.name)


MADE: dict[str, Callable[[Path], object]] = {
    "double_write": double_write,
    "consumequeue_ext": lambda root: touch(root / "consumequeue_ext" / "T" / "0" / f"{0:020d}"),
    "log_elsewhere": lambda root: touch(
        root / "log2" / f"{0:020d}", (root / "commitlog" / f"{0:020d}").read_bytes()
    ),
    "timer": lambda root: touch(root / "timerwheel", bytes(64)),
    "pop": lambda root: (root / "consumequeue" / "rmq_sys_REVIVE_LOG_C").mkdir(),
    "lmq": lambda root: touch(root / "config" / "lmqConsumerOffset.json", b"{}"),
    "tiered": lambda root: touch(root / "config" / "tieredStoreMetadata.json", b"{}"),
    "controller": lambda root: touch(root / "epochFileCheckpoint"),
    "rocksdb_index": index_in_rocksdb,
    "rocksdb_config": lambda root: touch(root / "config" / "rdb" / "CURRENT"),
}
READING = {
    "info": ("info", "STORE"),
    "doctor": ("doctor", "STORE"),
    "cat": ("cat", "STORE", "--limit", "1"),
    "tail": ("tail", "STORE", "-n", "1"),
    "export": ("export", "STORE", "--format", "jsonl", "--out", "OUT"),
    "stats": ("stats", "STORE"),
    "get": ("get", "STORE", "--topic", "TOPIC", "--queue", "QUEUE", "--offset", "0"),
    "query": ("query", "STORE", "--topic", "TOPIC", "--key", "k"),
    "lookup": ("lookup", "STORE", "ID"),
    "fsck": ("fsck", "STORE"),
    "diff": ("diff", "STORE", "STORE"),
    "retention": ("retention", "STORE"),
    "rebuild --out": ("rebuild", "STORE", "--out", "OUT"),
    "salvage": ("salvage", "STORE", "OUT"),
    "backup": ("backup", "STORE", "OUT"),
    "convert": ("convert", "STORE", "OUT", "--queues", "file"),
    "recover": ("recover", "STORE"),
    "rebuild --apply": ("rebuild", "STORE", "--apply"),
}
COLUMNS = (*READING, "open")
Run = Callable[..., Any]


def store_of(kind: str, tmp_path: Path) -> Path:
    name = ARCHIVES.get(kind)
    if name is not None:
        archive = ROOT / "tests/conformance" / f"{name}.tar.xz"
        (root,) = unpack(archive, tmp_path / "stores").iterdir()
        return root
    root = tmp_path / "store"
    with rmqcore.open(root, **SIZES) as store:
        for n in range(40):
            message = Message("Orders", b"x" * 900, queue_id=n % 4, keys=["k"])
            message.properties["UNIQ_KEY"] = f"U{n}"
            store.put(message).raise_for_status()
        store.wait_dispatched()
    MADE[kind](root)
    return root


def row_of(kind: str, tmp_path: Path, run: Run) -> list[str]:
    """What the commands answer: yes, or the code of the refusal."""
    cells = []
    for number, words in enumerate(READING.values()):
        home = tmp_path / str(number)
        home.mkdir()
        root = store_of(kind, home)
        with rmqcore.read(root) as reader:
            view = next(iter(reader.messages()))
        given = {
            "STORE": root,
            "OUT": home / "out",
            "TOPIC": view.topic,
            "QUEUE": str(view.queue_id),
            "ID": view.msg_id,
        }
        done = run(*(given.get(word, word) for word in words))
        refused = "Error: " in done.err
        assert refused or not done.code, (words, done.err)
        cells.append("no" if refused else "yes")
    home = tmp_path / "open"
    home.mkdir()
    try:
        rmqcore.open(store_of(kind, home)).close()
        cells.append("yes")
    except StoreKindError:
        cells.append("no")
    return cells


@pytest.mark.parametrize("kind", RULES)
def test_the_table_says_what_the_commands_do(kind: str, tmp_path: Path, rmqcore: Run) -> None:
    (tmp_path / "look").mkdir()
    assert [one.name for one in find_kinds(StorePaths(store_of(kind, tmp_path / "look")))] == [kind]
    lines = re.findall(rf"^\| `{kind}` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    cells = row_of(kind, tmp_path, rmqcore)
    assert " | ".join(cells) in lines, f"| `{kind}` | {' | '.join(cells)} |"


def test_the_table_has_these_columns() -> None:
    assert f"| kind | {' | '.join(COLUMNS)} |" in PAGE.read_text(encoding="utf-8")
