"""The offset of a stream: for each store, the CommitLog offset at which the next batch begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERSION = 1


def to_offset(stores: Mapping[str, int]) -> dict[str, Any]:
    """The offset as Spark writes it into a checkpoint: ``{"v": 1, "stores": {"broker-a": 1073741824}}``."""
    return {"v": VERSION, "stores": dict(sorted(stores.items()))}


def from_offset(offset: Mapping[str, Any]) -> dict[str, int]:
    """CommitLog offsets by store name.

    Raises
    ------
    ValueError
        It is no offset of this source, or one of a later version.
    """
    stores = offset.get("stores")
    if offset.get("v") != VERSION or not isinstance(stores, Mapping):
        raise ValueError(f"a stream offset of version {VERSION} was expected, found {offset!r}")
    for broker, phy_offset in stores.items():
        if type(phy_offset) is not int or phy_offset < 0:
            raise ValueError(
                f"stream offset of store {broker!r} is {phy_offset!r}, expected a CommitLog offset"
            )
    return dict(stores)
