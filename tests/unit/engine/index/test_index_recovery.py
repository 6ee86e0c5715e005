"""Index files after a crash: what is kept was certainly on disk, and going on from there gives what a fresh build gives."""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.stores.index_batches import (
    MOST,
    START_MS,
    Clock,
    Opened,
    end_of,
    expected_contents,
    index_contents,
    lay_out,
    logs,
    make_record,
    quick_folder,
)

import rmqcore
from rmqcore import MessageStoreConfig
from rmqcore.engine.index.index_file import IndexFile
from rmqcore.engine.index.index_folder import IndexFolder
from rmqcore.errors import StoreFormatError

SLOTS, CAPACITY = 7, 5
SIZE = 40 + 4 * SLOTS + 20 * CAPACITY


def numbered(count: int, keys: str = "k{0}", step_ms: int = 1000) -> list[oracle.Record]:
    return lay_out(
        make_record(keys=keys.format(number), store_timestamp_ms=START_MS + step_ms * number)
        for number in range(count)
    )


def find_all(opened: Opened, records: list[oracle.Record]) -> None:
    """Every key answers exactly what a fresh build answers."""
    for topic in ("T", "日本"):
        for key in {key for record in records for key in oracle.index_keys(record)}:
            wanted = sorted(
                record.phy_offset
                for record in records
                for own in oracle.index_keys(record)
                if oracle.index_key_hash(oracle.text_of(record.topic), own)
                == oracle.index_key_hash(topic, key)
            )
            assert opened.find(topic, key, 64) == wanted[-64:]


@dataclass
class Power:
    """A machine that can lose its power: remembers each file as it was when it was last synced."""

    synced: dict[str, bytes] = field(default_factory=dict)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        flush = IndexFile.flush

        def flushed(file: IndexFile) -> None:
            flush(file)
            self.synced[file.name] = file.path.read_bytes()

        monkeypatch.setattr(IndexFile, "flush", flushed)


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[int, bytes]]:
    """Places in a file and what is there instead: pages that did not make it, or made it too early."""
    junk = st.binary(min_size=4, max_size=4) | st.sampled_from(
        [b"\0" * 4, b"\0\0\0\5", b"\xff" * 4]
    )
    return draw(st.lists(st.tuples(st.integers(0, SIZE // 4 - 1), junk), max_size=60))


@given(
    records=logs(),
    rows=st.integers(1, 9),
    stop=st.integers(0, 30),
    checkpoint=st.integers(0, 9),
    damage=st.lists(damages(), max_size=12),
    gone=st.sets(st.integers(0, 12)),
    log_end=st.integers(0, 30),
)
def test_after_any_crash_it_becomes_what_a_fresh_build_is(
    records: list[oracle.Record],
    rows: int,
    stop: int,
    checkpoint: int,
    damage: list[list[tuple[int, bytes]]],
    gone: set[int],
    log_end: int,
) -> None:
    """Files that were never synced can hold anything or be gone, the checkpoint can be older, the log can lose its end."""
    with quick_folder() as name, pytest.MonkeyPatch.context() as monkeypatch:
        power = Power()
        power.watch(monkeypatch)
        root = Path(name)
        opened = Opened(root).put(records[:stop], rows)
        # There is no close: the process is gone. A file that was synced holds what it held at its sync.
        index_msg_timestamp_ms = opened.full_ms[-1 - checkpoint % len(opened.full_ms)]
        for number, path in enumerate(sorted((root / "index").glob("*"))):
            if path.name in power.synced:
                assert path.read_bytes() == power.synced[path.name]
            elif number in gone:
                path.unlink()
            elif number < len(damage):
                data = bytearray(path.read_bytes())
                for word, junk in damage[number]:
                    data[4 * word : 4 * word + 4] = junk
                path.write_bytes(data)
        kept_log = records[: max(stop - log_end, 0)] if log_end % 2 else records

        again = Opened(root, clean=False, index_msg_timestamp_ms=index_msg_timestamp_ms)
        again.service.trim(end_of(kept_log))
        offset = again.service.resume_offset
        assert offset is not None
        assert offset <= end_of(kept_log)
        again.resume(kept_log, rows)
        find_all(again, kept_log)
        assert again.contents() == expected_contents(kept_log)


@given(records=logs(rising=True), stop=st.integers(0, 40), rows=st.integers(1, 9))
def test_a_killed_process_leaves_a_message_half_indexed(
    records: list[oracle.Record], stop: int, rows: int
) -> None:
    """Killed while it indexed one message: the first keys of the message are in a full file, the others are not."""
    files = oracle.build_index(records, SLOTS, CAPACITY)
    full = [file for file in files if file.index_count == CAPACITY]
    ends = [file.end_timestamp_ms for file in full]
    # Two files that one message filled have the same end time: then only the first is known to be on disk.
    rising = next((n for n in range(1, len(ends)) if ends[n] == ends[n - 1]), len(ends))
    kept = stop % (rising + 1)
    with quick_folder() as name:
        root = Path(name)
        (root / "index").mkdir()
        for number, file in enumerate(files):
            (root / "index" / f"2023111422132{number:04d}").write_bytes(file.encode())
        opened = Opened(root, clean=False, index_msg_timestamp_ms=ends[kept - 1] if kept else 0)
        assert len(opened.service.files) == kept
        assert opened.service.resume_offset == (full[kept - 1].end_phy_offset if kept else 0)
        assert opened.resume(records, rows).contents() == expected_contents(records)


def test_only_full_files_up_to_the_checkpoint_are_kept(tmp_path: Path) -> None:
    records = numbered(14)
    opened = Opened(tmp_path).put(records)
    opened.service.close()
    ends = [oracle.INDEX_HEADER.unpack_from(data)[1] for data in index_contents(tmp_path)]
    assert len(ends) == 4
    for timestamp_ms, kept in [(MOST, 3), (ends[2], 3), (ends[2] - 1, 2), (ends[0], 1), (0, 0)]:
        copy = tmp_path / f"copy{timestamp_ms}"
        shutil.copytree(tmp_path / "index", copy / "index")
        again = Opened(copy, clean=False, index_msg_timestamp_ms=timestamp_ms)
        assert len(again.service.files) == kept
        assert again.service.resume_offset == (records[4 * kept - 1].phy_offset if kept else 0)
        assert (copy / "index").is_dir() == bool(kept)
        # A second crash on the spot changes nothing more.
        before = index_contents(copy)
        Opened(copy, clean=False, index_msg_timestamp_ms=timestamp_ms)
        assert index_contents(copy) == before
        assert again.resume(records).contents() == expected_contents(records)


def test_a_clock_that_goes_back_keeps_nothing_unproven(tmp_path: Path) -> None:
    """The checkpoint holds one time: of a later file with an earlier end nobody knows whether it was synced."""
    times = [4, 4, 4, 4, 2, 2, 2, 2, 9, 9, 9, 9]
    records = lay_out(make_record(keys="k", store_timestamp_ms=START_MS + time) for time in times)
    Opened(tmp_path).put(records).service.close()
    again = Opened(tmp_path, clean=False, index_msg_timestamp_ms=START_MS + 4)
    assert len(again.service.files) == 1
    assert again.resume(records).contents() == expected_contents(records)


def test_a_clean_exit_keeps_everything(tmp_path: Path) -> None:
    records = numbered(14)
    Opened(tmp_path).put(records).service.close()
    before = index_contents(tmp_path)
    opened = Opened(tmp_path, clean=True, index_msg_timestamp_ms=0)
    opened.service.trim(end_of(records))
    assert opened.service.resume_offset is None
    find_all(opened, records)
    assert opened.contents() == before


def test_resume_offset_without_files(tmp_path: Path) -> None:
    """No folder means that nothing was ever indexed, or that a recovery removed all; an empty folder is somebody's choice."""
    assert Opened(tmp_path).service.resume_offset == 0
    (tmp_path / "index").mkdir()
    assert Opened(tmp_path).service.resume_offset is None
    assert Opened(tmp_path, clean=False).service.resume_offset == 0


def test_trim_deletes_what_points_behind_the_log(tmp_path: Path) -> None:
    records = numbered(14)
    Opened(tmp_path).put(records).service.close()
    opened = Opened(tmp_path)
    opened.service.trim(records[7].phy_offset)  # the newest message of the second file starts there
    assert len(opened.service.files) == 1
    assert opened.service.resume_offset == records[3].phy_offset
    assert len(index_contents(tmp_path)) == 1
    assert opened.resume(records[:7]).contents() == expected_contents(records[:7])
    opened = Opened(tmp_path)
    opened.service.trim(0)
    assert opened.service.resume_offset == 0
    assert not (tmp_path / "index").exists()


def test_new_names_lie_behind_deleted_ones(tmp_path: Path) -> None:
    """Else a file whose deletion did not reach the disk could come back between the new files."""
    records = numbered(14)
    opened = Opened(tmp_path).put(records)
    names = [file.name for file in opened.service.files]
    opened.service.close()
    again = Opened(tmp_path, clean=False).resume(records)
    assert min(file.name for file in again.service.files) > max(names)


@pytest.mark.parametrize("clean", [True, False])
def test_a_file_without_bytes_is_what_a_crash_while_creating_leaves(
    tmp_path: Path, *, clean: bool
) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "20231114221320000").touch()
    opened = Opened(tmp_path, clean=clean)
    assert opened.service.files == ()
    assert opened.service.resume_offset == 0


def test_names_that_are_no_number_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("notes.txt", "-5", "123456789012345678901", "9999999999999999999"):
        (folder / name).write_bytes(b"x")
    (folder / "777").mkdir()
    records = numbered(3)
    opened = Opened(tmp_path, clean=False).resume(records)
    find_all(opened, records)
    opened.service.close()
    assert Opened(tmp_path, clean=False).service.files == ()
    assert sorted(os.listdir(folder)) == [
        "-5",
        "123456789012345678901",
        "777",
        "9999999999999999999",
        "notes.txt",
    ]


def test_a_file_cut_short_goes_with_all_newer_ones(tmp_path: Path) -> None:
    """A program cut an index file by three bytes: every open of the store was an error, until somebody deleted the file."""
    records = numbered(14)
    for clean in (True, False):
        root = tmp_path / str(clean)
        opened = Opened(root).put(records)
        full_ms = opened.full_ms[-1]
        opened.service.close()
        path = sorted((root / "index").iterdir())[1]
        os.truncate(path, SIZE - 3)
        again = Opened(root, clean=clean, index_msg_timestamp_ms=full_ms)
        assert len(again.service.files) == 1
        assert again.service.resume_offset == records[3].phy_offset
        assert again.resume(records).contents() == expected_contents(records)


def test_files_of_other_numbers_are_an_error_with_both_sizes(tmp_path: Path) -> None:
    Opened(tmp_path).put(numbered(14)).service.close()
    folder = IndexFolder(tmp_path / "index", MessageStoreConfig(), Clock())
    with pytest.raises(StoreFormatError, match=f"file size is {SIZE}, expected 420000040"):
        folder.check()


def test_a_store_that_cannot_be_opened_for_its_index_is_not_changed(tmp_path: Path) -> None:
    """With an abort file left behind the next open, with the right numbers, would delete index files."""
    config = MessageStoreConfig(max_hash_slot_num=SLOTS, max_index_num=CAPACITY)
    with rmqcore.open(tmp_path, config, services=False) as store:
        store.put(rmqcore.Message("T", b"body", keys=["k"]))
        while store.dispatch_once():
            pass
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreFormatError, match="max_hash_slot_num 8 and max_index_num 9"):
        rmqcore.open(tmp_path, services=False, max_hash_slot_num=8, max_index_num=9)
    assert sorted(tmp_path.rglob("*")) == before
    with rmqcore.open(tmp_path, config, services=False) as store:
        assert len(store.query("T", "k").messages) == 1
        assert store.dispatch_behind_bytes == 0


@pytest.mark.parametrize(
    ("slots", "capacity"), [(SLOTS, 9), (SLOTS, 3), (3, CAPACITY), (90, CAPACITY)]
)
def test_files_of_before_a_number_was_changed_still_answer(
    tmp_path: Path, slots: int, capacity: int
) -> None:
    """A user who changes maxIndexNum or maxHashSlotNum wants old messages found; Java then finds no message, or rubbish."""
    records = numbered(14)
    Opened(tmp_path).put(records[:6]).service.close()
    before = index_contents(tmp_path)
    opened = Opened(tmp_path, slots, capacity).put(records[6:])
    find_all(opened, records)
    assert opened.contents()[:2] == before
    again = Opened(tmp_path, slots, capacity)
    find_all(again, records)
    crashed = Opened(tmp_path, slots, capacity, clean=False, index_msg_timestamp_ms=MOST)
    assert crashed.service.files[0].native.slot_count == SLOTS
    find_all(crashed.resume(records), records)


def test_both_numbers_changed_cannot_be_told(tmp_path: Path) -> None:
    Opened(tmp_path).put(numbered(6)).service.close()
    with pytest.raises(StoreFormatError, match="max_hash_slot_num 8 and max_index_num 9"):
        Opened(tmp_path, 8, 9)


def test_an_empty_file_of_another_capacity_is_no_trouble(tmp_path: Path) -> None:
    Opened(tmp_path).put(lay_out([make_record()])).service.close()
    records = numbered(3)
    opened = Opened(tmp_path, SLOTS, 12).put(records)
    assert [file.native.capacity for file in opened.service.files] == [CAPACITY, 12]
    find_all(opened, records)


def test_a_header_with_wild_counts_is_bounded_by_the_file(tmp_path: Path) -> None:
    records = numbered(3)
    for count in (-1, 0, CAPACITY, CAPACITY + 1, 0x7FFFFFFF):
        root = tmp_path / str(count)
        Opened(root).put(records).service.close()
        (path,) = (root / "index").iterdir()
        data = bytearray(path.read_bytes())
        struct.pack_into(">i", data, 36, count)
        path.write_bytes(data)
        opened = Opened(root)
        assert 1 <= opened.service.files[0].native.index_count <= CAPACITY
        later = lay_out([make_record(keys="later")], start=end_of(records))
        opened.put(later)
        assert opened.find("T", "later") == [later[0].phy_offset]


@pytest.mark.parametrize(
    ("slots", "capacity"),
    [((1 << 32) + 3, CAPACITY), (SLOTS, (1 << 31) + 5)],
    ids=["slots", "entries"],
)
def test_a_hole_of_gigabytes_is_no_index_file(tmp_path: Path, slots: int, capacity: int) -> None:
    """An open ended with OverflowError: a sparse file of 16 GiB in ``index/`` had room for more slots than 32 bits count."""
    config = MessageStoreConfig(max_hash_slot_num=SLOTS, max_index_num=CAPACITY)
    root = tmp_path / "store"
    with rmqcore.open(root, config=config, services=False) as store:
        store.put(rmqcore.Message("T", b"x", keys="k")).raise_for_status()
        while store.dispatch_once():
            pass
    name = "20990101000000000"
    with (root / "index" / name).open("wb") as file:
        file.truncate(40 + 4 * slots + 20 * capacity)
    with rmqcore.open(root, config=config, services=False) as store:
        while store.dispatch_once():
            pass
        assert len(store.query("T", "k").messages) == 1
    assert name not in os.listdir(root / "index")
