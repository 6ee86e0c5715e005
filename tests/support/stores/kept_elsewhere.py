"""Stores whose messages lie in part where rmqcore does not read."""

from __future__ import annotations

from pathlib import Path

from support.places import ROOT
from support.stores.archives import unpack


def compacted(folder: Path) -> Path:
    """Return a store of RocketMQ, and in it the topic Old whose messages the cleaner has taken out of the log."""
    root = unpack(ROOT / "tests/conformance/compaction.tar.xz", folder) / "compaction"
    (root / "compaction/compactionLog/Compact").rename(root / "compaction/compactionLog/Old")
    return root


def tiered(root: Path) -> None:
    """Let a store look as one whose old files went to a tiered store."""
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "tieredStoreMetadata.json").write_text("{}")
