"""The TypeError of an argument: which one it is, what it may be and what it was. Imports nothing of the package."""

from __future__ import annotations


def wrong_type(name: str, expected: str, found: object) -> TypeError:
    """Give the error for an argument of another type; a point in time is told how to become ``..._ms``.

    Examples
    --------
    >>> wrong_type("tags", "str or None", 3)
    TypeError('tags: expected str or None, got int')
    """
    text = f"{name}: expected {expected}, got {type(found).__name__}"
    if name.endswith("_ms"):
        text += ": milliseconds since the epoch"
        if hasattr(found, "timestamp"):
            text += "; use int(when.timestamp() * 1000)"
    return TypeError(text)


def check_ms(**given: object) -> None:
    """Check that points in time are whole numbers, or None.

    Raises
    ------
    TypeError
        One is not; it is named.
    """
    for name, value in given.items():
        if value is not None and not hasattr(value, "__index__"):
            raise wrong_type(name, "int or None", value)
