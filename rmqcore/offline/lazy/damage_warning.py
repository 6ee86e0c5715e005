"""What a query of a lazy frame does about damage that it meets: a `DamageWarning`, or a call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from rmqcore.offline.log.damage import DamageRange, DamageWarning

OnDamage = Callable[[Sequence[DamageRange]], object]


def warn_of_damage(store: str, damage: Sequence[DamageRange]) -> None:
    """Warn of what a scan of a store has met."""
    ranges = sum(found.range_count for found in damage)
    damaged_bytes = sum(found.byte_count for found in damage)
    many = "a damaged range" if ranges == 1 else f"{ranges} damaged ranges"
    first = "it is" if ranges == 1 else "the first is"
    warnings.warn(
        f"{store} has {many} ({damaged_bytes} bytes) where a query has read it; {first} "
        f"{damage[0]}. `rmqcore fsck {store}` lists all damage; on_damage= receives the ranges "
        "instead of this warning",
        DamageWarning,
        stacklevel=2,
    )
