"""A header as JSON, which all clients and servers understand.

Source: RocketMQ 5.5.0 RemotingCommand, RemotingSerializable.
"""

from __future__ import annotations

import json
from typing import Any

from rmqcore.errors import ProtocolError
from rmqcore.remoting.codes import LanguageCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.java_json import parse_json, shown_value
from rmqcore.vocabulary.units import INT_MAX, INT_MIN

PART = "JSON header"
MAX_DEPTH = 8
# Made once: json.dumps would make one for each header.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def decode_json_header(data: bytes) -> RemotingCommand:
    """Decode a header; unknown members are ignored.

    Raises
    ------
    ProtocolError
        The header is not a JSON object in UTF-8, is nested too deeply, or has a member of a wrong type.
    """
    try:
        found = parse_json(data, MAX_DEPTH)
    except ValueError as error:
        raise ProtocolError(PART, 0, "text", "JSON in UTF-8", f"unreadable: {error}") from None
    if not isinstance(found, dict):
        raise _wrong("text", "an object", found)
    return RemotingCommand(
        code=_int(found, "code", None),
        language=_language(found.get("language")),
        version=_int(found, "version", 0),
        opaque=_int(found, "opaque", None),
        flag=_int(found, "flag", 0),
        remark=_remark(found.get("remark")),
        ext_fields=_ext_fields(found.get("extFields")),
    )


def encode_json_header(command: RemotingCommand) -> bytes:
    """Write a header as Java does: members sorted by name, without blanks and null members.

    Raises
    ------
    ValueError
        A number is not an int, or a text has half of a surrogate pair.
    """
    members: dict[str, Any] = {
        "code": _checked(command.code, "code"),
        "extFields": command.ext_fields,  # even if empty: clients read it without checking for it
        "flag": _checked(command.flag, "flag"),
        "language": command.language.name,
        "opaque": _checked(command.opaque, "opaque"),
    }
    if command.remark is not None:
        members["remark"] = command.remark
    members["serializeTypeCurrentRPC"] = "JSON"
    members["version"] = _checked(command.version, "version")
    return _ENCODER.encode(members).encode("utf-8")


def _wrong(field: str, expected: str, found: object) -> ProtocolError:
    return ProtocolError(PART, 0, field, expected, shown_value(found))


def _checked(number: int, field: str) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise ValueError(f"{field} is {number}, expected an int of 32 bits")
    return int(number)


def _int(found: dict[str, Any], name: str, default: int | None) -> int:
    value = found.get(name, default)
    if type(value) is not int or not INT_MIN <= value <= INT_MAX:
        raise _wrong(name, "an int of 32 bits", value)
    return value


def _language(value: object) -> LanguageCode:
    """Return a language from its name, or its number, which some clients write; OTHER if unknown: nothing needs it."""
    if value is None:
        return LanguageCode.OTHER
    if type(value) is int:
        return LanguageCode(value) if 0 <= value <= max(LanguageCode) else LanguageCode.OTHER
    if not isinstance(value, str):
        raise _wrong("language", "a name", value)
    return LanguageCode.__members__.get(value, LanguageCode.OTHER)


def _remark(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise _wrong("remark", "a text", value)


def _ext_fields(value: object) -> dict[str, str]:
    """Return the fields as text. Numbers and booleans become text as in Java; a field that is null is left out."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong("extFields", "an object", value)
    fields = {}
    for name, text in value.items():
        if type(text) is str:  # nearly all are
            fields[name] = text
        elif isinstance(text, bool):
            fields[name] = "true" if text else "false"
        elif isinstance(text, int):
            fields[name] = str(text)
        elif text is not None:
            raise _wrong(f"extFields.{shown_value(name)}", "a text", text)
    return fields
