"""Index files whose entries cannot be found: no answer passes for "there is no such message"."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from support.oracle import records as oracle

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


SLOTS = 100
FIRST_ENTRY = 40 + 4 * SLOTS
SLOT = oracle.index_key_hash("T", "k340") % SLOTS


def write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def entries(path: Path) -> list[tuple[int, int, int, int]]:
    """Hash, offset, seconds and previous entry, from entry 0 on."""
    return list(struct.iter_unpack(">iqii", path.read_bytes()[FIRST_ENTRY:]))


def zero_slots(path: Path) -> None:
    write(path, 40, bytes(4 * SLOTS))


def zero_slot(path: Path) -> None:
    write(path, 40 + 4 * SLOT, bytes(4))


def swap_slots(path: Path) -> None:
    slots = path.read_bytes()[40:FIRST_ENTRY]
    write(path, 40, slots[4:] + slots[:4])


def zero_entry(path: Path) -> None:
    (head,) = struct.unpack_from(">i", path.read_bytes(), 40 + 4 * SLOT)
    write(path, FIRST_ENTRY + 20 * head, bytes(20))


def other_message(path: Path) -> None:
    (number,) = (
        at for at, one in enumerate(entries(path)) if one[0] == oracle.index_key_hash("T", "k340")
    )
    first = entries(path)[1][1]
    write(path, FIRST_ENTRY + 20 * number + 4, struct.pack(">q", first))


@pytest.mark.parametrize("old_count", [False, True], ids=["counts slots", "counts entries"])
@pytest.mark.parametrize("harm", [zero_slots, zero_slot, swap_slots, zero_entry, other_message])
def test_a_sound_header_above_lost_slots_and_entries(
    harm: Callable[[Path], None], old_count: bool, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`query` said that the index has no message with the key, exit code 0; RocketMQ before 4.7.1 counts entries as slots."""
    words = ["query", str(store), "--topic", "T", "--key", "k340"]
    path = newest(store)
    if old_count:
        write(path, 32, path.read_bytes()[36:40])
        assert main(words) == 0
        assert main([*words[:-1], "unknown"]) == 0
    harm(path)
    capsys.readouterr()
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "the answer may lack messages" in err
    assert main(["fsck", str(store)]) == 2
    if harm is not other_message:  # which shows beside the log alone
        assert "index_files" in [one.name for one in rmqcore.doctor(store).diagnoses]


def test_an_unknown_key_reads_no_entries_of_a_sound_file(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("entries were read")

    monkeypatch.setattr("rmqcore.disk.index.lost_slots.read_entries", refuse)
    reader = rmqcore.read(store)
    for number in range(200):
        assert reader.query("T", f"unknown{number}").unasked_files == []
