"""The golden stores as the tests of the engine see them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rmqcore.config import MessageStoreConfig

CLEAN = ["basic", "batch", "compressed", "delay", "ipv6", "longtopic", "propcrc", "transaction"]
"""Closed cleanly; so is ``lmq``, whose light queues no log alone can give."""


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
