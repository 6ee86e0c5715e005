"""Ways to damage a database of RocksDB, each called with its directory."""

from __future__ import annotations

import os
from pathlib import Path


def no_manifest(place: Path) -> None:
    next(place.glob("MANIFEST-*")).unlink()


def current_leads_nowhere(place: Path) -> None:
    (place / "CURRENT").write_text("MANIFEST-999999\n")


def current_is_garbage(place: Path) -> None:
    (place / "CURRENT").write_bytes(b"\xff" * 100)


def no_current(place: Path) -> None:
    (place / "CURRENT").unlink()


def short_table(place: Path) -> None:
    table = next(place.glob("*.sst"))
    os.truncate(table, table.stat().st_size // 2)


def no_table(place: Path) -> None:
    next(place.glob("*.sst")).unlink()


def link_to_a_table(place: Path) -> None:
    table = next(place.glob("*.sst"))
    table.rename(place.parent / "elsewhere")
    table.symlink_to(place.parent / "elsewhere")


def fifo(place: Path) -> None:
    manifest = next(place.glob("MANIFEST-*"))
    manifest.unlink()
    os.mkfifo(manifest)


def recycled_type(place: Path) -> None:
    """One bit of a record's type: RocksDB never comes back from reading it."""
    manifest = next(place.glob("MANIFEST-*"))
    data = bytearray(manifest.read_bytes())
    data[6] = 5
    manifest.write_bytes(data)


def flipped_manifest(place: Path) -> None:
    manifest = next(place.glob("MANIFEST-*"))
    data = bytearray(manifest.read_bytes())
    data[20] ^= 4
    manifest.write_bytes(data)


def flipped_table(place: Path) -> None:
    for table in place.glob("*.sst"):
        data = bytearray(table.read_bytes())
        data[10] ^= 4
        table.write_bytes(data)


HALVES = (
    no_manifest,
    current_leads_nowhere,
    current_is_garbage,
    no_current,
    short_table,
    no_table,
    link_to_a_table,
    fifo,
    recycled_type,
    flipped_manifest,
    flipped_table,
)
