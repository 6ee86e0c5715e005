"""An existing store is opened with the file sizes that its files have.

`rmqcore.open` of a store with other sizes than Java's defaults said "file size is 131072, expected 1073741824 as configured" and
sent its user to `fsck`, which said "sound".
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import StoreCopy
from support.stores.golden_stores import CLEAN

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.errors import NotAStoreError, StoreFormatError

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 200,
    "max_hash_slot_num": 30,
    "max_index_num": 90,
}
SIZES = (*SMALL,)


def made(root: Path, messages: int = 30, **settings: Any) -> dict[str, Any]:
    with rmqcore.open(root, services=False, **{**SMALL, **settings}) as store:
        for number in range(messages):
            store.put(Message("T", bytes(4000), keys=f"k{number}")).raise_for_status()
        store.wait_dispatched()
    return {**SMALL, **settings}


def sizes_of(config: MessageStoreConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in SIZES}


@pytest.mark.parametrize("case", CLEAN)
def test_a_store_that_java_wrote(store_copy: StoreCopy, case: str) -> None:
    root = store_copy(case)
    found = rmqcore.find_config(root)
    before = {path.name: path.stat().st_size for path in root.rglob("0*") if path.is_file()}
    with rmqcore.open(root, services=False) as store:
        assert sizes_of(store.config) == sizes_of(found) != sizes_of(MessageStoreConfig())
        assert store.recovery.cut_bytes == 0
        store.put(Message("T", b"one more")).raise_for_status()
    after = {path.name: path.stat().st_size for path in root.rglob("0*") if path.is_file()}
    assert before.items() <= after.items()


@pytest.mark.parametrize("form", ["none", "config", "broker.conf"])
def test_sizes_that_nobody_gave(tmp_path: Path, form: str) -> None:
    root = tmp_path / "store"
    made(root)
    (tmp_path / "broker.conf").write_text("fileReservedTime=48\n")
    config: Any = {
        "none": None,
        "config": MessageStoreConfig(file_reserved_time=48),
        "broker.conf": tmp_path / "broker.conf",
    }[form]
    with rmqcore.open(root, config, services=False) as store:
        assert sizes_of(store.config) == SMALL
        assert store.config.file_reserved_time == (72 if config is None else 48)
        assert store.max_offset("T", 0) == 30
        store.put(Message("T", bytes(60_000))).raise_for_status()  # rolls to a new file
    assert {path.stat().st_size for path in (root / "commitlog").iterdir()} == {1 << 16}


@pytest.mark.parametrize("form", ["override", "config", "broker.conf", "changed"])
@pytest.mark.parametrize(
    ("field", "key", "value", "folder"),
    [
        ("mapped_file_size_commit_log", "mappedFileSizeCommitLog", 1 << 30, "commitlog"),
        (
            "mapped_file_size_consume_queue",
            "mappedFileSizeConsumeQueue",
            6_000_000,
            "consumequeue/T/0",
        ),
    ],
)
def test_a_given_size_that_contradicts(
    tmp_path: Path, form: str, field: str, key: str, value: int, folder: str
) -> None:
    """Also where the value is the default: who writes it down means it."""
    root = tmp_path / "store"
    made(root)
    file = min((root / folder).iterdir())
    (tmp_path / "broker.conf").write_text(f"{key}={value}\n")
    given: Any = {field: value}
    config: Any = {
        "override": None,
        "config": MessageStoreConfig(**given),
        "broker.conf": tmp_path / "broker.conf",
        "changed": MessageStoreConfig().changed(**given),
    }[form]
    given = given if form == "override" else {}
    with pytest.raises(StoreFormatError) as caught:
        rmqcore.open(root, config, services=False, **given)
    size = file.stat().st_size
    assert str(caught.value) == f"{file}: file size is {size}, expected {value} as configured"
    assert "rmqcore.find_config" in caught.value.hint
    assert "rmqcore.find_config" in pickle.loads(pickle.dumps(caught.value)).hint


def test_files_of_two_sizes(tmp_path: Path) -> None:
    """The error names one file of each size."""
    root = tmp_path / "store"
    made(root)
    odd, *_, sound = sorted((root / "commitlog").iterdir())
    with odd.open("r+b") as file:
        file.truncate(5000)
    told = f"{odd}: file size is 5000, expected 65536 as configured, the size of "
    for look in (rmqcore.find_config, rmqcore.open):
        with pytest.raises(StoreFormatError) as caught:
            look(root)
        assert str(caught.value).startswith(told)
        assert str(caught.value).removeprefix(told) in map(str, (root / "commitlog").iterdir())
        assert "fsck" in caught.value.hint
    assert sound.stat().st_size == 1 << 16


def test_the_only_log_file_lost_its_end(tmp_path: Path) -> None:
    """A copy that was broken off would give its length to every later file, and no Java broker would open the store again."""
    made(tmp_path, 10)
    (file,) = (tmp_path / "commitlog").iterdir()
    whole = file.read_bytes()
    with file.open("r+b") as opened:
        opened.truncate(10_000)  # within the third record
    with pytest.raises(
        StoreFormatError, match=r"file size is 10000, expected 1073741824.*its end may be lost"
    ):
        rmqcore.open(tmp_path, services=False)
    assert file.stat().st_size == 10_000
    file.write_bytes(whole)
    with rmqcore.open(tmp_path, services=False) as store:
        assert store.config.mapped_file_size_commit_log == 1 << 16
        assert store.max_offset("T", 0) == 10


def test_the_only_log_file_is_full(tmp_path: Path) -> None:
    """It ends with a BLANK, here of no more than its eight bytes."""
    record = 91 + len("T") + 4000
    size = record + 8
    with rmqcore.open(
        tmp_path, services=False, **{**SMALL, "mapped_file_size_commit_log": size}
    ) as store:
        store.put(Message("T", bytes(4000))).raise_for_status()
        store.put(Message("T", bytes(4000))).raise_for_status()
        first, second = (tmp_path / "commitlog").iterdir()
    max(first, second).unlink()
    assert min(first, second).read_bytes()[-8:].strip(b"\0")
    with rmqcore.open(tmp_path, services=False, recover_without_commit_log=True) as store:
        assert store.config.mapped_file_size_commit_log == size


def test_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        rmqcore.find_config(tmp_path)
    with pytest.raises(FileNotFoundError):
        rmqcore.find_config(tmp_path / "none")
    with rmqcore.open(tmp_path, services=False) as store:
        assert sizes_of(store.config) == sizes_of(MessageStoreConfig())


def test_a_store_with_only_a_log(tmp_path: Path) -> None:
    """What no file tells is Java's default; a `commitlog` directory may be named itself."""
    root = tmp_path / "store"
    made(root)
    alone = tmp_path / "alone"
    alone.mkdir()
    (root / "commitlog").rename(alone / "commitlog")
    wanted = {**sizes_of(MessageStoreConfig()), "mapped_file_size_commit_log": 1 << 16}
    assert sizes_of(rmqcore.find_config(alone)) == wanted
    assert sizes_of(rmqcore.find_config(alone / "commitlog")) == wanted
    with rmqcore.open(alone, services=False) as store:
        store.wait_dispatched()
        assert sizes_of(store.config) == wanted
        assert store.max_offset("T", 0) == 30


def test_one_number_of_the_index_is_given(tmp_path: Path) -> None:
    """The files tell the other one; older files answer queries, new ones are as configured, as where a broker.conf changes."""
    made(tmp_path)
    with rmqcore.open(tmp_path, services=False, max_index_num=50) as store:
        assert (store.config.max_hash_slot_num, store.config.max_index_num) == (30, 50)
        assert [view.queue_offset for view in store.query("T", "k7").messages] == [7]
    with pytest.raises(StoreFormatError, match="find_config"):
        rmqcore.open(tmp_path, services=False, max_hash_slot_num=77, max_index_num=77)


def test_the_only_queue_file_lost_its_end(tmp_path: Path) -> None:
    """Its length is no setting after a power cut: all queue files of the store would get it, for good."""
    made(
        tmp_path,
        5,
        mapped_file_size_consume_queue=MessageStoreConfig().mapped_file_size_consume_queue,
    )
    (file,) = (tmp_path / "consumequeue" / "T" / "0").iterdir()
    with file.open("r+b") as opened:
        opened.truncate(40)
    (tmp_path / "abort").touch()
    with rmqcore.open(tmp_path, services=False) as store:
        store.wait_dispatched()
        assert store.config.mapped_file_size_consume_queue == 6_000_000
        assert store.get("T", 0, 0).next_begin_offset == 5
    assert file.stat().st_size == 6_000_000


def test_the_only_queue_file_has_room_left(tmp_path: Path) -> None:
    """Small stores after a crash were refused, with the hint to leave out sizes that nobody had given."""
    made(tmp_path, 5)
    (tmp_path / "abort").touch()
    with rmqcore.open(tmp_path, services=False) as store:
        assert sizes_of(store.config) == SMALL
        assert store.max_offset("T", 0) == 5


def test_what_was_given() -> None:
    config = MessageStoreConfig(file_reserved_time=72)
    assert MessageStoreConfig().given == frozenset()
    assert config.given == {"file_reserved_time"}
    changed = config.changed(max_index_num=5)
    assert changed.given == {"file_reserved_time", "max_index_num"}
    for same in (copy.copy(changed), copy.deepcopy(changed), pickle.loads(pickle.dumps(changed))):
        assert same == changed
        assert same.given == changed.given
    assert config == MessageStoreConfig()  # how a value came about is no part of it
