"""Suggests the nearest known name for an unknown one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

LIKENESS = 0.6
"""Least similarity, from 0 to 1, at which a known name is suggested."""
LIKENESS_OF_SETTINGS = 0.7
"""The same for the settings of a broker: there are hundreds, many with common words."""


def nearest_names(
    name: str, known: Iterable[str], *, most: int = 1, likeness: float = LIKENESS
) -> list[str]:
    """Return the known names most like another one, the most like first; case is ignored.

    Parameters
    ----------
    name : str
        The unknown name.
    known : iterable of str
    most : int
        Number of names to return at most.
    likeness : float
        Least similarity, from 0 to 1.
    """
    import difflib  # here: only unknown names need it

    by_letters: dict[str, str] = {}
    for other in known:
        by_letters.setdefault(other.casefold(), str(other))  # an enum is written as its value
    near = difflib.get_close_matches(name.casefold(), by_letters, n=most, cutoff=likeness)
    return [by_letters[one] for one in near]


def nearest(name: str, known: Iterable[str], *, likeness: float = LIKENESS) -> str | None:
    """Return the known name most like another one; None if none is like it."""
    return next(iter(nearest_names(name, known, likeness=likeness)), None)


def did_you_mean(
    name: str,
    known: Iterable[str],
    *,
    likeness: float = LIKENESS,
    shown: Callable[[str], str] = str,
    otherwise: str = "",
) -> str:
    """Return the end of an error: ``; did you mean Orders?``.

    Parameters
    ----------
    name, known, likeness
        As `nearest_names`.
    shown : callable
        How a known name is written: `repr` for names that may have spaces.
    otherwise : str
        Text to return if no known name is similar.
    """
    near = nearest(name, known, likeness=likeness)
    return otherwise if near is None else f"; did you mean {shown(near)}?"


def with_the_meant(names: Iterable[object], known: Iterable[str]) -> str:
    """Return the middle of an error about several names, before a list of all: ``'topc' (did you mean 'topic'?), 'zzz'``."""
    every = [*known]
    told = []
    for name in names:
        near = nearest(str(name), every)
        told.append(repr(name) if near is None else f"{name!r} (did you mean {near!r}?)")
    return ", ".join(told)
