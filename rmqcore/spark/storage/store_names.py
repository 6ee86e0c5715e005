"""Names of stores: the same for every way to reach a store, and different among the stores of a read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rmqcore.spark.storage.directories import utf8_text

DEFAULT_ROOT = "store"
"""RocketMQ's name for the root of a store (storePathRootDir is ``~/store``): it does not identify the store."""
_SCHEME = re.compile(r"[^/]+://")


def names_by_path(path: str, end: str = "") -> tuple[str, ...]:
    """Return the names that a store may have by its path, shortest first; it has the first that no other store has.

    ``broker-a`` for ``/data/broker-a`` and for ``/data/broker-a/store``, then ``data/broker-a``, at last the path itself.

    Parameters
    ----------
    path : str
        An absolute path or a URI.
    end : str
        Text added to each name.
    """
    whole = utf8_text(path)
    parts = [part for part in _SCHEME.sub("", whole).split("/") if part]
    if len(parts) > 1 and parts[-1] == DEFAULT_ROOT:
        parts.pop()
    tails = ["/".join(parts[first:]) for first in reversed(range(len(parts)))]
    return tuple(f"{name}{end}" for name in [*tails, whole])


def unique_names(stores: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Return a unique name for each store.

    Parameters
    ----------
    stores : sequence of (str, tuple of str)
        The name that the user gave, which stays, or an empty text; and the names by path. Only given names can be alike.
    """
    longer = [0] * len(stores)
    while True:
        names = [
            given or by_path[more] for (given, by_path), more in zip(stores, longer, strict=True)
        ]
        count = Counter(names)
        alike = [
            number
            for number, (given, by_path) in enumerate(stores)
            if not given and count[names[number]] > 1 and longer[number] + 1 < len(by_path)
        ]
        if not alike:
            return names
        for number in alike:
            longer[number] += 1
