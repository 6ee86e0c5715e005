"""Reading a ``broker.conf``: a Java properties file whose keys are Java's field names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from rmqcore.config.broker_keys import IGNORED_KEYS
from rmqcore.errors.arguments import SettingError
from rmqcore.errors.near_names import LIKENESS_OF_SETTINGS, did_you_mean

MOST_BYTES = 1 << 20
"""Largest configuration file. A larger file is not one: perhaps a CommitLog file, by mistake."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
# Python itself would also take 1_000, nan, and digits of other scripts.
_INT = re.compile(r"[+-]?[0-9]{1,1000}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors write it at the start of a UTF-8 file
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# The key goes up to the first unescaped '=', ':' or white space. One '=' or ':' with white space around it follows.
_LINE = re.compile(r"((?:\\.|[^\\=: \t\f])*)(?:[ \t\f]*[=:]|[ \t\f])?[ \t\f]*(.*)", re.DOTALL)

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Java names that cannot be made from the name in snake_case.
_ACRONYMS = {
    "broker_ip1": "brokerIP1",
    "check_crc_on_recover": "checkCRCOnRecover",
    "enabled_append_prop_crc": "enabledAppendPropCRC",
    "force_verify_prop_crc": "forceVerifyPropCRC",
    "use_abs_lock": "useABSLock",
}


def snake_case(java_name: str) -> str:
    """Turn a Java field name into ours: checkCRCOnRecover -> check_crc_on_recover."""
    return _WORD_BREAK.sub("_", java_name).lower()


def java_name(name: str) -> str:
    """Return Java's name of a field: check_crc_on_recover -> checkCRCOnRecover."""
    return _ACRONYMS.get(name) or re.sub("_([a-z0-9])", lambda match: match[1].upper(), name)


def field_of(key: str, names: AbstractSet[str]) -> str | None:
    """Return the field for a key, in its ``maped`` or its ``mapped`` spelling; None for a key without a field."""
    for spelling in (
        key,
        re.sub("([Mm])aped", r"\1apped", key),
        re.sub("([Mm])apped", r"\1aped", key),
    ):
        name = snake_case(spelling)
        if name in names and "_" not in spelling:
            return name
    return None


def describe_unknown(key: str, names: AbstractSet[str]) -> str:
    """Return a sentence that names an unknown key, and the known key nearest to it."""
    known = {java_name(name) for name in names} | IGNORED_KEYS
    meant = did_you_mean(key, known, likeness=LIKENESS_OF_SETTINGS)
    return f"RocketMQ has no setting {key}{meant}"


def parse_value(name: str, kind: str, text: str) -> object:
    """Parse a value of a file; `kind` is the field's type as annotated.

    Raises
    ------
    SettingError
        The text is not a value of this type.
    """
    value: object = text
    if kind == "bool":
        value = {"true": True, "false": False}.get(text.lower())
    elif kind == "int":
        value = int(text) if _INT.fullmatch(text) else None
    elif kind == "float":
        value = float(text) if _FLOAT.fullmatch(text) else None
    elif kind == "str | None":
        return text or None  # a key without a value, as in templates of files
    if value is None:
        expected = {"bool": "true or false", "int": "a whole number", "float": "a number"}[kind]
        raise SettingError((name,), f"expected {expected}, got {text!r}")
    return value


class Written(NamedTuple):
    """A value as written in a file."""

    text: str
    line: int


def wrong_in_file(
    path: str | os.PathLike[str], error: SettingError, places: Mapping[str, tuple[str, int]]
) -> ValueError:
    """Return the error for a wrong value in a file: it names file, line and key as they are written there.

    Parameters
    ----------
    path : path-like
    error : SettingError
    places : mapping
        The key and the line of each name in the file. An error about other names is returned unchanged.
    """
    lines = [places[name][1] for name in error.names if name in places]
    if not lines:
        return error
    told = error.renamed({name: key for name, (key, _) in places.items()})
    return ValueError(f"{os.fspath(path)}:{max(lines)}: {told}")


def read_properties(path: str | os.PathLike[str]) -> dict[str, Written]:
    """Read a properties file as Java does (ISO 8859-1); white space around a value is dropped, and a byte order mark before all.

    Raises
    ------
    ValueError
        The file has NUL bytes or is very large, so it is not a settings file.
    OSError
        The file cannot be read.
    """
    with Path(path).open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"not a configuration file: it has more than {MOST_BYTES} bytes")
    if b"\0" in data:
        raise ValueError("not a configuration file: it has NUL bytes")
    return _parsed(data.removeprefix(_BYTE_ORDER_MARK).decode("iso-8859-1"))


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse the text of a properties file: comments with # or !, ``\`` at a line's end, ``\uXXXX``.

    The last value of a repeated key counts. Source: java.util.Properties#load.
    """
    return {key: written.text for key, written in _parsed(text).items()}


def _parsed(text: str) -> dict[str, Written]:
    found = {}
    for number, line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        if match is not None and match[1]:
            try:
                found[_unescape(match[1])] = Written(_unescape(match[2]).strip(), number)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their continuations joined, without comments and blank lines; each with the number of its first line."""
    lines: list[tuple[int, str]] = []
    pending, begin = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = raw.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            begin = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        lines.append((begin, pending + line))
        pending = ""
    if pending:
        lines.append((begin, pending))
    return lines


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise ValueError(f"expected four hex digits after \\u in {text!r}")
        return _CONTROL.get(match[2], match[2])

    return _ESCAPE.sub(replace, text)
