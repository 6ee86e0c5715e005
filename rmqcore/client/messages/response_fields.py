"""The fields of responses, which a peer may leave out or fill with anything."""

from __future__ import annotations

import re

from rmqcore.errors import RequestError
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.java_json import shown_value
from rmqcore.vocabulary.units import LONG_MAX, LONG_MIN

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")


def text_field(response: RemotingCommand, request: str, name: str) -> str:
    """Return a required field.

    Raises
    ------
    RequestError
        The field is missing.
    """
    text = response.ext_fields.get(name)
    if text is None:
        raise RequestError(request, name, "a value in the response", "missing")
    return text


def int_field(
    response: RemotingCommand, request: str, name: str, default: int | None = None
) -> int:
    """Return a number of 64 bits; without a default it is required.

    Raises
    ------
    RequestError
        The field is missing, or not a number of 64 bits.
    """
    if default is not None and name not in response.ext_fields:
        return default
    text = text_field(response, request, name)
    number = int(text) if _NUMBER.fullmatch(text) else None
    if number is None or not LONG_MIN <= number <= LONG_MAX:
        raise RequestError(request, name, "a 64-bit integer in the response", shown_value(text))
    return number


def queue_offset_field(response: RemotingCommand, request: str, name: str) -> int:
    """Return a required queue offset, which is never negative.

    Raises
    ------
    RequestError
        The field is missing, or not a queue offset.
    """
    found = int_field(response, request, name)
    if found < 0:
        raise RequestError(request, name, "0 or more in the answer", found)
    return found
