"""How much a test tries: a little with `make test`, all of it with `make verify`, new and more of it at night."""

from __future__ import annotations

import os

from hypothesis import settings

LEVELS = ("test", "verify", "night")
LEVEL = os.environ.get("RMQCORE_DOSE", "test")
"""What this run is. `make verify` and the night set the variable; the Hypothesis profiles have the same names."""
if LEVEL not in LEVELS:
    raise ValueError(f"RMQCORE_DOSE is {LEVEL!r}, expected one of {', '.join(LEVELS)}")

given: set[str] = set()
"""Variables of the environment that set the number of a dose."""


def dose(name: str, *, test: int, verify: int, night: int) -> int:
    """Return how much this run tries of something: rounds, kills, seconds, or the stride through what there is.

    Parameters
    ----------
    name
        The environment variable that sets another number for one run.
    test, verify, night
        The number for each level.
    """
    if name in os.environ:
        given.add(name)
    return int(os.environ.get(name, {"test": test, "verify": verify, "night": night}[LEVEL]))


def may_take_hours() -> bool:
    """Return whether doses of this run are the night's, or chosen by hand: no test of it is stopped for its time."""
    return LEVEL == "night" or bool(given)


def examples(share: float) -> settings:
    """Return settings with a share of the profile's examples, for a test whose examples cost more or less than others'.

    Hypothesis takes a number in `@settings(max_examples=)` for every profile: the night would try nothing new there.
    """
    return settings(max_examples=max(1, round(share * settings().max_examples)))
