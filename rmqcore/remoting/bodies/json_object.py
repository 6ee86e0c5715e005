"""A JSON object from a body, read member by member: each type is checked, and an error names the member."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from rmqcore.errors import RequestError
from rmqcore.vocabulary.java_json import parse_json, shown_value
from rmqcore.vocabulary.units import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

MAX_DEPTH = 8
TABLE_DEPTH = 3
"""Levels of a body above the entries of its tables: in a registration the tables are members of a member."""
_NUMBER = re.compile("[+-]?[0-9]{1,19}")


class JsonObject:
    """An object inside a body. A member that is null counts as missing, because Java leaves null members out.

    Parameters
    ----------
    request : str
        Name of the request, for errors.
    where : str
        Path of the object in the body; empty for the body itself.
    members : dict
    """

    def __init__(self, request: str, where: str, members: dict[str, Any]) -> None:
        self._request = request
        self._where = where
        self._members = members

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text; without a default it is required."""
        value = self._given(name, default)
        if not isinstance(value, str):
            self.refuse(name, "a text", value)
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """Return a number of at most 64 bits, which may be written as a text; without a default it is required."""
        value = _as_number(self._given(name, default))
        if type(value) is not int or not LONG_MIN <= value <= LONG_MAX:
            self.refuse(name, "a whole number of 64 bits", value)
        return value

    def int32(self, name: str, default: int) -> int:
        """Return a number of at most 32 bits, which may be written as a text."""
        value = self.number(name, default)
        if not INT_MIN <= value <= INT_MAX:
            self.refuse(name, "a whole number of 32 bits", value)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self._given(name, default)
        if not isinstance(value, bool):
            self.refuse(name, "true or false", value)
        return value

    def has(self, name: str) -> bool:
        """Return True if the member exists."""
        return self._members.get(name) is not None

    def child(self, name: str) -> JsonObject:
        """Return an object; an empty one if it is missing."""
        return self._object(name, self._given(name, {}))

    def table(self, name: str) -> Iterator[tuple[str, JsonObject]]:
        """Yield the keys and objects of an object of objects."""
        for key, value in self._table(name):
            yield key, self._object(f"{name}.{shown_value(key)}", value)

    def text_table(self, name: str) -> dict[str, str]:
        """Return an object of texts."""
        found = dict(self._table(name))
        for key, value in found.items():
            if not isinstance(value, str):
                self.refuse(f"{name}.{shown_value(key)}", "a text", value)
        return found

    def number_table(self) -> dict[str, int]:
        """Return all members of this object, which are numbers."""
        return {
            name: self.number(name) for name, value in self._members.items() if value is not None
        }

    def objects(self, name: str) -> list[JsonObject]:
        """Return a list of objects; an empty one if it is missing."""
        return [self._object(f"{name}[{i}]", value) for i, value in enumerate(self._list(name))]

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; an empty one if it is missing."""
        return [
            value if isinstance(value, str) else self.refuse(f"{name}[{i}]", "a text", value)
            for i, value in enumerate(self._list(name))
        ]

    def numbers(self, name: str) -> list[int]:
        """Return a list of numbers, which may be written as texts; an empty one if it is missing."""
        return [
            value if type(value) is int else self.refuse(f"{name}[{i}]", "a number", value)
            for i, value in enumerate(map(_as_number, self._list(name)))
        ]

    def enum_name(self, name: str, names: tuple[str, ...]) -> str:
        """Return the name of an enum's value; clients in C++ write its number. It is required."""
        value = self._given(name, None)
        if type(value) is int and 0 <= value < len(names):
            return names[value]
        return self.text(name)

    def _given(self, name: str, default: object) -> Any:
        value = self._members.get(name)
        return default if value is None else value

    def _table(self, name: str) -> Iterator[tuple[str, Any]]:
        value = self._given(name, {})
        if not isinstance(value, dict):
            self.refuse(name, "an object", value)
        yield from value.items()

    def _list(self, name: str) -> list[Any]:
        value = self._given(name, [])
        if not isinstance(value, list):
            self.refuse(name, "a list", value)
        return value

    def _object(self, name: str, value: object) -> JsonObject:
        if not isinstance(value, dict):
            self.refuse(name, "an object", value)
        return JsonObject(self._request, self._path(name), value)

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def refuse(self, name: str, expected: str, value: object) -> NoReturn:
        """Raise the error that names a member of this object."""
        found = "missing" if value is None else shown_value(value)
        raise RequestError(self._request, self._path(name), expected, found)


def _as_number(value: object) -> object:
    """Return a text of digits as a number, and other values unchanged, as fastjson: clients in Go and C++ rely on it.

    Source: fastjson 1.2.83 TypeUtils#castToInt, #castToLong.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return value


def parse_body(request: str, data: bytes, most_values: int | None = None) -> JsonObject:
    """Read a body that is a JSON object; numbers may be keys without quotes, as fastjson writes them.

    Parameters
    ----------
    request : str
        Name of the request, for errors.
    data : bytes
    most_values : int, optional
        Most values in the body, as `parse_json` counts them.

    Raises
    ------
    RequestError
        The bytes are not a JSON object in UTF-8, are nested too deeply, or have too many values.
    """
    try:
        value = parse_json(data, MAX_DEPTH, most_values)
    except ValueError as error:
        raise RequestError(request, "body", "a JSON object", f"unreadable: {error}") from None
    if not isinstance(value, dict):
        raise RequestError(request, "body", "a JSON object", shown_value(value))
    return JsonObject(request, "", value)


def encode_json(value: Any) -> bytes:
    """Write JSON as Java does, without blanks: the Go client would read a blank as part of an address."""
    return _ENCODER.encode(value).encode("utf-8")


def encode_long_json(value: Any) -> bytes:
    """Write as `encode_json` does, one entry of a table at a time, so that other threads run in between.

    Parameters
    ----------
    value : dict, list or scalar
        Keys are texts. It must not change during the call.
    """
    return "".join(_pieces(value, TABLE_DEPTH)).encode("utf-8")


def _pieces(value: Any, depth: int) -> Iterator[str]:
    if depth and isinstance(value, dict):
        yield "{"
        for number, (key, member) in enumerate(value.items()):
            yield f"{',' if number else ''}{_ENCODER.encode(key)}:"
            yield from _pieces(member, depth - 1)
        yield "}"
    elif depth and isinstance(value, list):
        yield "["
        for number, member in enumerate(value):
            if number:
                yield ","
            yield from _pieces(member, depth - 1)
        yield "]"
    else:
        yield _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
