"""Index files whose entries cannot be found: no answer passes for "there is no such message"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.cli import main

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}


def zero_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\0" * 4096)


def zero_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\0" * 40)


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 4)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, **SIZES) as opened:
        for number in range(350):
            opened.put(Message("T", b"x", keys=[f"k{number}"])).raise_for_status()
        while opened.dispatch_behind_bytes:
            opened.dispatch_once()
    return root


def newest(root: Path) -> Path:
    return max((root / "index").iterdir())


@pytest.mark.parametrize("harm", [zero_page, zero_header, cut])
def test_query_fsck_and_doctor_name_the_file(
    harm: Callable[[Path], None], store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`query` said that the index has no message with the key, exit code 0; fsck had a warning, doctor nothing."""
    words = ["query", str(store), "--topic", "T", "--key", "k340"]
    assert main(words) == 0
    path = newest(store)
    harm(path)
    capsys.readouterr()
    assert main(words) == 2
    assert f"index/{path.name}: " in capsys.readouterr().err
    assert main(["fsck", str(store)]) == 2
    assert f"index/{path.name}" in capsys.readouterr().out
    found = [one.name for one in rmqcore.doctor(store).diagnoses]
    assert "index_files" in found


@pytest.mark.parametrize("harm", [zero_page, zero_header, cut])
def test_a_reader_warns(harm: Callable[[Path], None], store: Path) -> None:
    """`StoreReader.query` gave an empty list and said nothing, where the command named the file."""
    reader = rmqcore.read(store)
    assert reader.query("T", "k340").unasked_files == []
    path = newest(store)
    harm(path)
    with pytest.warns(rmqcore.DamageWarning, match=rf"index/{path.name}: .* may lack messages"):
        (line,) = rmqcore.read(store).query("T", "k340").unasked_files
    assert line.startswith(f"index/{path.name}: ")


def test_files_without_entries_are_sound(
    tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RocketMQ leaves a file of zeros that it has made and not written yet."""
    path = newest(store)
    (path.parent / f"{int(path.name) + 1:017}").write_bytes(b"\0" * path.stat().st_size)
    words = ["query", str(store), "--topic", "T", "--key", "k340"]
    assert main(words) == 0
    assert main(["fsck", str(store)]) == 0
