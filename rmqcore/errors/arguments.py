"""Checks of arguments: their errors name the argument, the values expected and found. Imports nothing of the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import index


class SettingError(ValueError):
    """The value of a setting is invalid.

    Parameters
    ----------
    names : tuple of str
        The setting, or settings whose values contradict each other: fields, or keys of a file.
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
        """Return the error with other names for the settings, for example a file's keys; other names are kept."""
        return SettingError(tuple(names.get(name, name) for name in self.names), self.problem)


def wrong_type(name: str, expected: str, found: object) -> TypeError:
    """Return the error for an argument of the wrong type; for a point in time it says how to convert the value to ``..._ms``.

    Examples
    --------
    >>> wrong_type("tags", "str or None", 3)
    TypeError('tags: expected str or None, got int')
    """
    text = f"{name}: expected {expected}, got {type(found).__name__}"
    if name.endswith("_ms") and not name.startswith("timeout"):  # a timeout is not a point in time
        text += ": milliseconds since the epoch"
        if hasattr(found, "timestamp"):
            text += "; use int(when.timestamp() * 1000)"
    return TypeError(text)


def check_texts(**given: object) -> None:
    """Check that arguments are texts.

    Raises
    ------
    TypeError
        An argument has another type; the message names it.
    """
    for name, value in given.items():
        if not isinstance(value, str):
            raise wrong_type(name, "str", value)


def check_ints(**given: object) -> None:
    """Check that arguments are whole numbers.

    Raises
    ------
    TypeError
        An argument has another type; the message names it.
    """
    for name, value in given.items():
        if not hasattr(value, "__index__"):
            raise wrong_type(name, "int", value)


def check_longs(**given: object) -> None:
    """Check that arguments are None or whole numbers that fit Java's long.

    Raises
    ------
    TypeError
        An argument is not a whole number; the message names it.
    ValueError
        An argument is too large or too small.
    """
    for name, value in given.items():
        if value is None:
            continue
        if not hasattr(value, "__index__"):
            raise wrong_type(name, "int or None", value)
        check_within(name, index(value), -(1 << 63), (1 << 63) - 1)


def check_numbers(**given: object) -> None:
    """Check that arguments are None or numbers, whole or not.

    Raises
    ------
    TypeError
        An argument has another type; the message names it.
    """
    for name, value in given.items():
        if value is not None and not hasattr(value, "__float__"):
            raise wrong_type(name, "a number or None", value)


def check_callables(**given: object) -> None:
    """Check that arguments can be called.

    Raises
    ------
    TypeError
        An argument is not callable; the message names it.
    """
    for name, value in given.items():
        if not callable(value):
            raise wrong_type(name, "a callable", value)


def check_iterable(name: str, expected: str, value: object) -> None:
    """Check that an argument is iterable.

    Raises
    ------
    TypeError
        The argument is not iterable; the message says that an iterable of `expected` was expected.
    """
    if not isinstance(value, Iterable):
        raise wrong_type(name, f"an iterable of {expected}", value)


def check_within(name: str, value: int, least: int, most: int) -> None:
    """Check that a number is from `least` to `most`, both included.

    Raises
    ------
    ValueError
        The number is outside the range; the message names argument and number.
    """
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}, expected {least} to {most}")


def named(error: Exception, check: Callable[..., None], *given: object) -> Exception:
    """Return the error of the check that fails, which names the wrong argument; `error` if none fails.

    For fast calls that do not check their arguments first; Python's own errors do not name the
    argument: ``raise named(error, ...) from None``.
    """
    try:
        check(*given)
    except (TypeError, ValueError) as told:
        return told
    return error
