"""The present stores for the names in a stream's offset, whose stores may have been renamed since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from rmqcore.spark.storage.store_location import StoreLocation


def present_names(
    names: Iterable[str], paths: Mapping[str, str], stores: Iterable[StoreLocation]
) -> dict[str, str]:
    """Return the present name of each store that an offset names; names of removed stores are unchanged.

    The path that the offset has for a name decides. An offset of an earlier version has no paths: then a name means the
    store of that name, else the store that had it by an older rule.

    Parameters
    ----------
    names : iterable of str
        The names in the offset.
    paths : mapping of str to str
        Where each store lay, for the stores whose path the offset has.
    stores : iterable of StoreLocation

    Raises
    ------
    ValueError
        A name may mean several stores, or another store has it now: the stream would repeat or lose rows.
    """
    by_name = {store.broker: store for store in stores}
    by_root = {store.root: store for store in by_name.values()}
    found: dict[str, str] = {}
    for name in names:
        store = by_root.get(paths.get(name, ""))
        if store is None:
            store = _without_path(name, paths.get(name), by_name)
        found[name] = name if store is None else store.broker
    for broker, count in Counter(found.values()).items():
        if count > 1:
            meant = sorted(name for name, present in found.items() if present == broker)
            raise ValueError(
                f"the checkpoint has {' and '.join(meant)}, and either could be the store "
                f"{_where(by_name.get(broker), broker)}: name the stores as in the checkpoint, "
                "such as broker-a=/data/a/store"
            )
    return found


def _without_path(
    name: str, path: str | None, by_name: Mapping[str, StoreLocation]
) -> StoreLocation | None:
    """Return the store for a name whose path is unknown, or is not the path of a present store."""
    store = by_name.get(name)
    if store is not None and path is not None and not store.is_named:
        raise ValueError(
            f"the checkpoint has the store {name} at {path}, which is not read now, but "
            f"{store.root} has that name: use {name}={store.root} if it is the same store, or "
            "another name if not"
        )
    if store is not None or path is not None:
        return store
    former = [store for store in by_name.values() if store.former_name == name]
    if len(former) > 1:
        raise ValueError(
            f"the checkpoint has the store {name}, which could be "
            f"{' or '.join(store.root for store in former)}: name it, as in {name}={former[0].root}"
        )
    return former[0] if former else None


def _where(store: StoreLocation | None, broker: str) -> str:
    return broker if store is None else f"{broker} at {store.root}"
