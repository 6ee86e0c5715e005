"""The checkpoint of a store that is open: values in memory, on disk after a flush."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from rmqcore.disk import checkpoint as checkpoint_module
from rmqcore.disk.checkpoint import CheckpointFile, StoreCheckpoint, read_checkpoint


def test_no_file_is_all_zeros_until_the_first_flush(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "checkpoint")
    assert file.values == StoreCheckpoint()
    file.update(logics_physical_offset=7, physic_msg_timestamp_ms=8)
    assert not file.path.exists()
    file.flush()
    assert read_checkpoint(file.path) == file.values == StoreCheckpoint(8, 0, 0, 0, 0, 7)
    assert file.path.stat().st_size == 4096
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_values_are_kept_and_changed_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(StoreCheckpoint(1, 2, 3, 4, 5, 6).encode())
    file = CheckpointFile(path)
    file.update(index_msg_timestamp_ms=30)
    file.flush()
    assert read_checkpoint(path) == StoreCheckpoint(1, 2, 30, 4, 5, 6)


@pytest.mark.parametrize("length", [0, 39, 40, 48, 4095])
def test_a_short_file_reads_as_java_reads_it_and_is_made_whole(tmp_path: Path, length: int) -> None:
    path = tmp_path / "checkpoint"
    data = StoreCheckpoint(1, 2, 3, 4, 5, 6).encode()[:length]
    path.write_bytes(data)
    file = CheckpointFile(path)
    assert file.values == StoreCheckpoint.decode(data.ljust(4096, b"\0"))
    file.flush()
    assert path.read_bytes() == file.values.encode()


def test_an_unknown_name_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        CheckpointFile(tmp_path / "checkpoint").update(nonsense=1)


def test_after_a_failed_sync_the_next_flush_writes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that failed once is not taken for done because the next sync finds nothing to do."""
    file = CheckpointFile(tmp_path / "checkpoint")
    file.flush()
    synced = []

    def failing(fd: int) -> None:
        synced.append(fd)
        if len(synced) == 1:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(checkpoint_module, "sync_data", failing)
    file.update(confirm_phy_offset=9)
    with pytest.raises(OSError, match="Input"):
        file.flush()
    file.flush()
    assert len(synced) == 2
    file.flush()
    assert len(synced) == 2  # nothing has changed since
    assert CheckpointFile(file.path).values.confirm_phy_offset == 9


def test_updates_from_many_threads_are_all_there(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "checkpoint")
    names = list(StoreCheckpoint.__dataclass_fields__)

    def work(number: int) -> None:
        for value in range(50):
            file.update(**{names[number]: value})
            file.flush()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.values == StoreCheckpoint(*[49] * len(names)) == read_checkpoint(file.path)
