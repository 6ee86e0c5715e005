"""Arguments that are wrong: which one it is, what it may be and what it was. Imports nothing of the package."""

from __future__ import annotations

from collections.abc import Mapping


class SettingError(ValueError):
    """A setting cannot take a value.

    Parameters
    ----------
    names : tuple of str
        The setting, or those that make no sense together: fields, or keys of a file.
    problem : str
        What was expected, and what was given.
    """

    def __init__(self, names: tuple[str, ...], problem: str) -> None:
        super().__init__(names, problem)
        self.names = names
        self.problem = problem

    def __str__(self) -> str:
        return f"{', '.join(self.names)}: {self.problem}"

    def renamed(self, names: Mapping[str, str]) -> SettingError:
        """Give the error with the names that whoever wrote the values knows; a name that is not in `names` stays."""
        return SettingError(tuple(names.get(name, name) for name in self.names), self.problem)


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
