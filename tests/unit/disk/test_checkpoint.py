"""The checkpoint file: six longs, and bytes that are no checkpoint."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rmqcore.disk.checkpoint import StoreCheckpoint, read_checkpoint
from rmqcore.errors import CorruptionError

LONGS = (1, -2, 1 << 62, 0, -(1 << 63), (1 << 63) - 1)


def test_six_big_endian_longs_and_zeros() -> None:
    data = StoreCheckpoint(*LONGS).encode()
    assert data == struct.pack(">6q", *LONGS) + bytes(4096 - 48)
    assert StoreCheckpoint.decode(data) == StoreCheckpoint(*LONGS)


def test_bytes_after_the_longs_do_not_matter() -> None:
    data = struct.pack(">6q", *LONGS)
    assert (
        StoreCheckpoint.decode(data)
        == StoreCheckpoint.decode(data + b"\xff" * 10)
        == StoreCheckpoint(*LONGS)
    )


@pytest.mark.parametrize("length", [0, 1, 40, 47])
def test_a_short_file_is_damage_with_its_path(tmp_path: Path, length: int) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(StoreCheckpoint(*LONGS).encode()[:length])
    with pytest.raises(CorruptionError) as caught:
        read_checkpoint(path)
    assert (caught.value.path, caught.value.phy_offset) == (str(path), length)


def test_no_file_is_none(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "checkpoint") is None


def test_a_directory_in_its_place_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(OSError, match="checkpoint"):
        read_checkpoint(tmp_path / "checkpoint")


def test_a_value_without_room_is_refused() -> None:
    with pytest.raises(OverflowError):
        StoreCheckpoint(physic_msg_timestamp_ms=1 << 63).encode()
