"""The golden stores: their names, and the configuration that each was made with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rmqcore.config import MessageStoreConfig

CLEAN = [
    "basic",
    "batch",
    "compressed",
    "delay",
    "ipv6",
    "lmq",
    "longtopic",
    "propcrc",
    "transaction",
]
"""Closed cleanly."""
WITHOUT_LIGHT_QUEUES = [case for case in CLEAN if case != "lmq"]
"""The light queues of ``lmq`` cannot be made from its log alone."""
CRASHED = [
    f"crash_{name}"
    for name in (
        "cp90 cq_garbage cq_hole expired flipped flipped_clean_exit garbage_tail last_file_missing no_checkpoint no_cq "
        "no_cq_clean_exit no_index no_index_clean_exit old_checkpoint running_copy stale_tail torn torn_clean_exit "
        "zero_checkpoint"
    ).split()
]
"""Damaged after a crash or a clean exit, each with what Java's recovery made of it."""


def manifest_of(golden: Path, case: str) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((golden / case / "manifest.json").read_text())
    return manifest


def config_of(manifest: dict[str, Any]) -> MessageStoreConfig:
    """The sizes and switches that a store was made with."""
    names = {
        name: re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
        for name in manifest["storeConfig"]
    }
    known = MessageStoreConfig.__dataclass_fields__
    return MessageStoreConfig(
        **{names[k]: v for k, v in manifest["storeConfig"].items() if names[k] in known}
    )
