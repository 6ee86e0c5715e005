"""Stale bytes behind the end of a cleanly closed log, as writeWithoutMmap leaves them, are no row of `corrupt`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.places import ROOT
from support.spark.spark_tables import read_table
from support.stores.archives import unpack

import rmqcore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return (
        unpack(ROOT / "tests/conformance/write-without-mmap.tar.xz", tmp_path)
        / "write-without-mmap"
    )


def corrupt(root: Path, **options: str) -> list[dict[str, object]]:
    return read_table(root, table="corrupt", **options)


@pytest.mark.parametrize("mode", ["auto", "walk"])
def test_they_are_no_corrupt_row(root: Path, mode: str) -> None:
    """2,501 bytes were a torn tail."""
    assert corrupt(root, splitMode=mode) == []
    reader = rmqcore.read(root)
    assert len(list(reader.messages())) == 350
    assert reader.damage == []


def test_of_a_store_that_was_not_closed_they_are(root: Path) -> None:
    (root / "abort").touch()
    (row,) = corrupt(root)
    assert (row["kind"], row["start_phy_offset"]) == ("torn_tail", 123306)


def test_a_record_behind_the_end_is(root: Path) -> None:
    """Half a record begins with its MAGIC: it was being written."""
    path = root / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[123306:123406] = data[:100]
    path.write_bytes(data)
    assert [row["kind"] for row in corrupt(root)] == ["torn_tail"]
