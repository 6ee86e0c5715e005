"""An index that is not complete: a query found nothing, said "the index has no message", and ended with 0."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.remote.memory_stores import memory_stores

import rmqcore
from rmqcore import Message
from rmqcore.cli import main

SLOTS = 100
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": SLOTS,
    "max_index_num": 40,
}
FIRST_ENTRY = 40 + 4 * SLOTS


def put(root: Path, first: int, count: int, *, body: int = 300, key: str = "k") -> None:
    with rmqcore.open(root, services=False, **SIZES) as store:
        for number in range(first, first + count):
            store.put(Message("T", b"x" * body, keys=[f"{key}{number}"])).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path / "store", 0, 150)
    return tmp_path / "store"


def files(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


def ask(root: Path, key: str = "k3") -> int:
    return main(["query", str(root), "--topic", "T", "--key", key])


def an_older_file_is_missing(root: Path) -> None:
    files(root)[0].unlink()


def an_older_file_of_no_bytes(root: Path) -> None:
    os.truncate(files(root)[0], 0)


def all_files_are_zeros(root: Path) -> None:
    for path in files(root):
        path.write_bytes(bytes(path.stat().st_size))


def files_of_another_store(root: Path) -> None:
    other = root.with_name("other")
    put(other, 0, 150, body=310, key="other")
    shutil.rmtree(root / "index")
    (other / "index").rename(root / "index")


def a_file_of_another_store(root: Path) -> None:
    other = root.with_name("other")
    put(other, 0, 150, body=310, key="other")
    shutil.copy(files(other)[0], files(root)[0])


def an_older_copy(root: Path) -> None:
    kept = Path(shutil.copytree(root / "index", root.with_name("kept")))
    put(root, 500, 60)
    shutil.rmtree(root / "index")
    kept.rename(root / "index")


def a_chain_that_leads_to_itself(root: Path) -> None:
    data = bytearray(files(root)[0].read_bytes())
    for entry in range(40):
        struct.pack_into(">i", data, FIRST_ENTRY + 20 * entry + 16, entry)
        struct.pack_into(
            ">i", data, FIRST_ENTRY + 20 * entry, 7
        )  # no entry has the hash of the key
    files(root)[0].write_bytes(data)


def a_count_below_that_of_the_slots(root: Path) -> None:
    data = bytearray(files(root)[0].read_bytes())
    struct.pack_into(">i", data, 36, 2)
    files(root)[0].write_bytes(data)


HARMS: list[Callable[[Path], None]] = [
    an_older_file_is_missing,
    an_older_file_of_no_bytes,
    all_files_are_zeros,
    files_of_another_store,
    a_file_of_another_store,
    an_older_copy,
    a_chain_that_leads_to_itself,
    a_count_below_that_of_the_slots,
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_the_exit_code_is_2(
    root: Path, harm: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(root) == 0
    assert ask(root, "unknown") == 0
    harm(root)
    capsys.readouterr()
    key = "k510" if harm is an_older_copy else "k3"
    assert ask(root, key) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "the answer may lack messages" in err
    with pytest.warns(rmqcore.DamageWarning, match="may lack messages"):
        assert rmqcore.read(root).query("T", key).unasked_files


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_a_store_behind_a_url(
    root: Path, harm: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """There, the index was not compared with the log."""
    with memory_stores() as memory:
        words = ["query", memory.put(root), "--topic", "T", "--key", "k3"]
        assert main(words) == 0
        harm(root)
        memory.clear()
        words[1] = memory.put(root)
        words[-1] = "k510" if harm is an_older_copy else "k3"
        capsys.readouterr()
        assert main(words) == 2
        assert "the answer may lack messages" in capsys.readouterr().err
        memory.clear()


def test_a_part_without_the_key_does_not_matter(root: Path) -> None:
    an_older_copy(root)
    assert ask(root) == 0
    assert ask(root, "unknown") == 0
    assert ask(root, "k559") == 2


def test_messages_without_keys_need_no_index(root: Path) -> None:
    with rmqcore.open(root, services=False, **SIZES) as store:
        for _ in range(50):
            store.put(Message("T", b"x" * 300)).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    put(root, 200, 3)
    with rmqcore.open(root, services=False, **SIZES) as store:
        store.put(Message("T", b"x" * 300)).raise_for_status()
    assert ask(root) == 0


def test_a_broker_that_has_not_come_so_far(root: Path) -> None:
    """The newest messages of a store in use have no entry yet."""
    an_older_copy(root)
    (root / "abort").touch()
    assert ask(root) == 0


def test_old_files_of_the_log_are_deleted_before_those_of_the_index(root: Path) -> None:
    (root / "commitlog" / f"{0:020}").unlink()
    assert ask(root, "unknown") == 0


def test_a_hole_in_the_log_is_no_hole_in_the_index(root: Path) -> None:
    (root / "commitlog" / f"{16 << 10:020}").unlink()
    assert ask(root, "unknown") == 0
