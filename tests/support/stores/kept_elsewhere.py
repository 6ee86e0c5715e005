"""Stores whose messages lie in part outside of the log."""

from __future__ import annotations

from pathlib import Path

from support.stores.compacted import clean, make_store


def cleaned(folder: Path) -> Path:
    """Return a store whose log has deleted messages of the compacted topic Keys: they are in compaction/ alone."""
    return clean(make_store(folder / "store"))


def tiered(root: Path) -> None:
    """Let a store look as one whose old files went to a tiered store."""
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "tieredStoreMetadata.json").write_text("{}")
