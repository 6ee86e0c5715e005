"""Stores of one large CommitLog file of which little is written, as Java allocates files."""

from __future__ import annotations

from pathlib import Path

from support.stores.split_logs import record


def sparse_store(root: Path, live_bytes: int, size: int, *, body_size: int = 65536) -> Path:
    """Make a store of one sparse file of `size` bytes that has records in about the first `live_bytes`."""
    (root / "commitlog").mkdir(parents=True)
    with open(root / "commitlog" / f"{0:020}", "wb") as file:
        at, body = 0, bytes(body_size)
        while at < live_bytes:
            raw = record(body, at)
            file.write(raw)
            at += len(raw)
        file.truncate(size)
    return root
