"""A header in RocketMQ's own binary form, which a Java peer uses if ROCKETMQ_SERIALIZE_TYPE selects it.

Source: RocketMQ 5.5.0 RocketMQSerializable.
"""

from __future__ import annotations

import struct

from rmqcore.errors import ProtocolError
from rmqcore.remoting.codes import LanguageCode, SerializeType
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.java_json import shown_value

PART = "binary header"
_START = struct.Struct(">hbhii")
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


def decode_binary_header(data: bytes) -> RemotingCommand:
    """Read a header.

    Raises
    ------
    ProtocolError
        A length exceeds the bytes left, a text is not UTF-8, or bytes are left at the end.
    """
    reader = _Reader(data)
    code, language, version, opaque, flag = reader.numbers(_START, "code")
    remark = reader.text(_INT, "remark")
    end = reader.pos + 4 + reader.length(_INT, "extFields")
    reader.pos += 4
    fields = {}
    while reader.pos < end:
        name = reader.text(_SHORT, "extFields name")
        value = reader.text(_INT, "extFields value")
        if name and value:  # Java reads an empty text as null, and drops the field
            fields[name] = value
    if end != reader.pos or end != len(data):
        raise ProtocolError(PART, reader.pos, "extFields end", end, f"{reader.pos} of {len(data)}")
    known = 0 <= language <= max(LanguageCode)
    return RemotingCommand(
        code=code,
        language=LanguageCode(language) if known else LanguageCode.OTHER,
        version=version,
        opaque=opaque,
        flag=flag,
        remark=remark or None,
        ext_fields=fields,
        serialize_type=SerializeType.ROCKETMQ,
    )


def encode_binary_header(command: RemotingCommand) -> bytes:
    """Write a header; a field with an empty value is left out, because a reader would drop it.

    Raises
    ------
    ValueError
        A number does not fit, or a text has half of a surrogate pair.
    """
    fields = b"".join(
        _sized(_SHORT, name) + _sized(_INT, value)
        for name, value in command.ext_fields.items()
        if name and value
    )
    try:
        start = _START.pack(
            command.code, command.language, command.version, command.opaque, command.flag
        )
    except struct.error as error:
        raise ValueError(f"{command!r} does not fit a binary header: {error}") from None
    return start + _sized(_INT, command.remark or "") + _INT.pack(len(fields)) + fields


def _sized(length: struct.Struct, text: str) -> bytes:
    data = text.encode("utf-8")
    try:
        return length.pack(len(data)) + data
    except struct.error:
        raise ValueError(
            f"a text of {len(data)} bytes, whose length does not fit {length.size} bytes"
        ) from None


class _Reader:
    """Reads field by field; each length is compared with the bytes left before it is used."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.pos = 0

    def numbers(self, layout: struct.Struct, field: str) -> tuple[int, ...]:
        self._need(layout.size, field)
        numbers = layout.unpack_from(self._data, self.pos)
        self.pos += layout.size
        return numbers

    def length(self, layout: struct.Struct, field: str) -> int:
        """Read the length at the position without moving, and check that enough bytes follow it."""
        self._need(layout.size, field)
        length: int = layout.unpack_from(self._data, self.pos)[0]
        left = len(self._data) - self.pos - layout.size
        if not 0 <= length <= left:
            raise ProtocolError(PART, self.pos, f"{field} length", f"0 to {left}", length)
        return length

    def text(self, layout: struct.Struct, field: str) -> str:
        length = self.length(layout, field)
        start = self.pos + layout.size
        self.pos = start + length
        data = self._data[start : self.pos]
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise ProtocolError(PART, start, field, "UTF-8", shown_value(data[:60])) from None

    def _need(self, size: int, field: str) -> None:
        left = len(self._data) - self.pos
        if left < size:
            raise ProtocolError(PART, self.pos, field, f"{size} bytes", f"{left} bytes")
