"""Which files a sequence is loaded from: one rule for the log and the queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcore.disk.load_files import load_files
from rmqcore.disk.queue_files import load_queue_files
from rmqcore.engine.log.mapped_files import find_mapped_files
from rmqcore.errors import StoreFormatError

SIZE = 40


def make(folder: Path, start: int, size: int = SIZE) -> str:
    path = folder / f"{start:020}"
    path.write_bytes(bytes(size))
    return str(path)


def test_the_log_and_a_queue_load_the_same_files(tmp_path: Path) -> None:
    second, first, empty = make(tmp_path, 40), make(tmp_path, 0), make(tmp_path, 80, 0)
    (tmp_path / f"{120:020}").mkdir()
    (tmp_path / "notes").write_text("mine")
    assert load_files(tmp_path, SIZE) == ([(0, first), (40, second)], [empty])
    mapped, empty_files = find_mapped_files(tmp_path, SIZE)
    assert [(file.file_from_offset, file.path) for file in mapped] == [(0, first), (40, second)]
    assert empty_files == [Path(empty)]
    queue_files, empty_names = load_queue_files(tmp_path, SIZE)
    assert [(file.file_from_offset, file.path, file.entry_count) for file in queue_files] == [
        (0, first, 2),
        (40, second, 2),
    ]
    assert empty_names == [empty]


def test_no_directory(tmp_path: Path) -> None:
    assert load_files(tmp_path / "none", SIZE) == ([], [])


@pytest.mark.parametrize(("start", "size"), [(0, 0), (0, 39), (40, 41)])
def test_another_size(tmp_path: Path, start: int, size: int) -> None:
    """Empty is forgiven in the last file alone."""
    make(tmp_path, 40)
    make(tmp_path, start, size)
    with pytest.raises(StoreFormatError, match=f"file size is {size}, expected 40"):
        load_files(tmp_path, SIZE)


def test_a_queue_file_begins_at_a_multiple_of_its_size(tmp_path: Path) -> None:
    make(tmp_path, 20)
    with pytest.raises(StoreFormatError, match="starts at byte 20"):
        load_queue_files(tmp_path, SIZE)
