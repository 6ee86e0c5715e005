"""In which file a recovery begins to read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.engine.recovery.start_file import Start, choose_start, read_first_record

FILE_SIZE = 512


@pytest.fixture
def store(tmp_path: Path) -> BuiltStore:
    """Twelve files of two or three records each."""
    made = BuiltStore(tmp_path, log_file_size=FILE_SIZE)
    while len(made.log) < 11 * FILE_SIZE + 50:
        made.put("T", 0, body=b"b" * 40)
    made.write_log()
    return made


def files_of(store: BuiltStore) -> list[MappedFile]:
    return [
        MappedFile(str(path), FILE_SIZE, int(path.name))
        for path in sorted((store.root / "commitlog").iterdir())
    ]


def choose(
    store: BuiltStore,
    dispatch_from: int = -1,
    *,
    clean: bool = True,
    checkpoint: StoreCheckpoint | None = None,
    **config: object,
) -> Start:
    settings = MessageStoreConfig(**config)  # type: ignore[arg-type]
    files = files_of(store)
    return choose_start(
        files, FILE_SIZE, checkpoint or StoreCheckpoint(), dispatch_from, settings, clean_exit=clean
    )


def first_time(store: BuiltStore, number: int) -> int:
    return next(r.store_timestamp_ms for r in store.records if r.phy_offset == number * FILE_SIZE)


def test_a_clean_exit_begins_where_the_queues_reach_to(store: BuiltStore) -> None:
    assert len(files_of(store)) == 12
    for number in (11, 7, 3):
        assert choose(store, number * FILE_SIZE).number == number
        assert (
            choose(store, number * FILE_SIZE - 1, commit_log_recover_max_num=99).number
            == number - 1
        )


def test_without_queues_the_newest_ten_are_read(store: BuiltStore) -> None:
    chosen = choose(store)
    assert (chosen.number, chosen.matched, chosen.files_looked_at) == (2, False, 10)
    assert choose(store, commit_log_recover_max_num=1).number == 11
    oldest = choose(store, commit_log_recover_max_num=100)
    assert (oldest.number, oldest.matched, oldest.files_looked_at) == (0, False, 12)


def test_where_queues_end_earlier_more_files_are_read(store: BuiltStore) -> None:
    """Dispatch was more files behind than a recovery looks at: the entries between were never made again."""
    chosen = choose(store, FILE_SIZE + 5, commit_log_recover_max_num=3)
    assert (chosen.number, chosen.matched, chosen.files_looked_at) == (1, True, 11)


def test_the_tenth_newest_is_taken_whether_it_matches_or_not(store: BuiltStore) -> None:
    assert choose(store, 2 * FILE_SIZE).matched
    assert not choose(store).matched
    assert choose(store).number == 2


def test_a_crash_begins_by_the_checkpoint(store: BuiltStore) -> None:
    by_offset = StoreCheckpoint(logics_physical_offset=8 * FILE_SIZE + 7)
    assert choose(store, 11 * FILE_SIZE, clean=False, checkpoint=by_offset).number == 8
    by_time = StoreCheckpoint(logics_msg_timestamp_ms=first_time(store, 6))
    assert choose(store, 11 * FILE_SIZE, clean=False, checkpoint=by_time).number == 6
    both = replace(by_time, logics_physical_offset=8 * FILE_SIZE)
    assert choose(store, clean=False, checkpoint=both).number == 8


def test_the_index_can_hold_it_back(store: BuiltStore) -> None:
    checkpoint = StoreCheckpoint(index_msg_timestamp_ms=first_time(store, 5))
    assert choose(store, 11 * FILE_SIZE, checkpoint=checkpoint).number == 11
    safe = choose(store, 11 * FILE_SIZE, checkpoint=checkpoint, message_index_safe=True)
    assert safe.number == 5
    off = choose(
        store,
        11 * FILE_SIZE,
        checkpoint=checkpoint,
        message_index_safe=True,
        message_index_enable=False,
    )
    assert off.number == 11


@pytest.mark.parametrize(
    "head",
    [bytes(8), oracle.blank(FILE_SIZE), b"\x7f" * 8],
    ids=["nothing", "blank", "noise"],
)
def test_a_file_without_a_first_record_never_matches(store: BuiltStore, head: bytes) -> None:
    store.change_log(11 * FILE_SIZE, head)
    assert choose(store, 1 << 40).number == 10


def test_damage_of_the_first_record(store: BuiltStore) -> None:
    store.change_log(11 * FILE_SIZE + 90, b"X")  # its body
    assert choose(store, 1 << 40).number == 10
    assert choose(store, 1 << 40, check_crc_on_recover=False).number == 11
    assert (
        choose(store, 1 << 40, force_verify_prop_crc=True).number == 2
    )  # no record has a property CRC


def test_a_store_time_of_zero_never_matches(store: BuiltStore) -> None:
    store.change_log(11 * FILE_SIZE + 56, bytes(8))
    assert choose(store, 1 << 40).number == 10


def test_a_record_of_another_place(store: BuiltStore) -> None:
    store.change_log(11 * FILE_SIZE + 28, (5).to_bytes(8, "big"))
    assert choose(store, 6).number == 0
    assert choose(store, 6, check_commit_log_offset_on_recover=False).number == 11


def test_a_large_first_record_is_read_whole(tmp_path: Path) -> None:
    raw = oracle.encode_record(oracle.Record(b"T", bytes(100_000), b"", store_timestamp_ms=3))
    path = tmp_path / "0"
    path.write_bytes(raw.ljust(200_000, b"\0"))
    found = read_first_record(MappedFile(str(path), 200_000), 200_000, MessageStoreConfig())
    assert found is not None
    assert (found.phy_offset, found.store_timestamp_ms) == (0, 3)
