"""What `stats()` of an open store tells."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from support.places import ROOT
from support.stores.keyed_store import KeyedStore, overwrite

import rmqcore
from rmqcore.engine.store import stats


def test_places_over_which_dispatch_went_on_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rotten old message got no index entry when a lost index was made again, and nobody heard of it: `failed` was None."""
    made = KeyedStore(tmp_path)
    root = made.copy("store")
    log = root / "commitlog" / f"{0:020}"
    at = log.read_bytes().index(b"body 7") - 84
    overwrite(log, at, b"\0\0")
    shutil.rmtree(root / "index")
    with made.open(root) as store:
        told = store.stats()["dispatch_skipped"]
        assert store.stats()["failed"] is None
        monkeypatch.setattr(stats, "MOST_SKIPPED", 0)  # of much damage only the first places
        assert store.stats()["dispatch_skipped"] == {"count": 1, "ranges": []}
        assert b"body 7" not in [bytes(v.body) for v in store.query("T", "k7").messages]
        assert [bytes(v.body) for v in store.query("T", "k8").messages] == [b"body 8"]
    (one,) = told["ranges"]
    assert told["count"] == 1
    json.dumps(told)
    reader = rmqcore.read(root)
    list(reader.messages())
    (damage,) = reader.damage
    assert one["start_phy_offset"] == damage.start_phy_offset
    assert one["start_phy_offset"] <= at < one["end_phy_offset"] == damage.end_phy_offset
    assert ": expected " in one["what"]


def test_a_sound_store(tmp_path: Path) -> None:
    made = KeyedStore(tmp_path)
    root = made.copy("store")
    shutil.rmtree(root / "index")
    with made.open(root) as store:
        assert store.stats()["dispatch_skipped"] == {"count": 0, "ranges": []}


def test_every_key_is_on_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "durability.md").read_text(encoding="utf-8")
    table = page[page.index("## What `stats()` reports") : page.index("## Closing")]
    first_cells = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    documented = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    with rmqcore.open(tmp_path / "store", services=False) as store:
        assert sorted(documented) == sorted(store.stats())
