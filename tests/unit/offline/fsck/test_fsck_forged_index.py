"""Index files that were made up: chains in a circle, all slots at one chain, all entries with one hash.

A check or a query reads each about once, and ends. Where slots and entries do not fit each other no entry is read at all.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import rmqcore
from rmqcore._native.format.layout import INDEX_HEADER_SIZE
from rmqcore.codec import index_key_hash
from rmqcore.codec.message import Message
from rmqcore.offline.fsck import fsck

SLOTS, KEYS = 1000, 20_000
ENTRY = np.dtype([("hash", ">i4"), ("phy_offset", ">i8"), ("time", ">i4"), ("previous", ">i4")])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("index") / "store"
    with rmqcore.open(
        root,
        services=False,
        max_hash_slot_num=SLOTS,
        max_index_num=KEYS + 10,
        mapped_file_size_commit_log=16 << 20,
    ) as store:
        store.put_many([Message("T", b"", keys=[f"k{number}"]) for number in range(KEYS)])
    return root


def forge(data: bytearray, kind: str) -> None:
    """Write over slots and entries; their number stays."""
    count = int.from_bytes(data[36:40], "big")
    slots = np.ndarray((SLOTS,), ">i4", data, INDEX_HEADER_SIZE)
    entries = np.ndarray((count,), ENTRY, data, INDEX_HEADER_SIZE + 4 * SLOTS)
    numbers = np.arange(count)
    if kind == "circle":
        entries["previous"] = (numbers + 1) % count
    elif kind == "far ahead":
        entries["phy_offset"] = numbers[::-1] << 40
    else:
        slots[:] = count - 1
        entries["previous"] = np.maximum(numbers - 1, 0)
    if kind == "one hash":
        entries["hash"] = index_key_hash("T", "nowhere")


@pytest.mark.parametrize("kind", ["one chain", "circle", "one hash", "far ahead"])
def test_it_is_read_about_once(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    root = tmp_path / "store"
    (root / "index").mkdir(parents=True)
    for part in ("commitlog", "consumequeue"):
        (root / part).symlink_to(sound / part)
    (own,) = (sound / "index").iterdir()
    data = bytearray(own.read_bytes())
    forge(data, kind)
    (root / "index" / own.name).write_bytes(data)
    count = [0]
    pread = os.pread

    def counted(fd: int, length: int, pos: int) -> bytes:
        found = pread(fd, length, pos)
        if os.fstat(fd).st_size == len(data):
            count[0] += len(found)
        return found

    monkeypatch.setattr(os, "pread", counted)
    report = fsck(root, follow_links=True)
    assert any(kind.startswith("index_") for kind in report.totals)
    assert report.counts["records"] == KEYS
    assert "cq_missing" not in report.totals
    assert 0 < count[0] <= 6 * len(data)
    count[0] = 0
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", rmqcore.DamageWarning
        )  # of files whose entries cannot be asked
        assert list(rmqcore.read(root, follow_links=True).query("T", "nowhere")) == []
    assert count[0] <= 6 * len(data)
