"""A request or a response, and the responses to a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rmqcore.remoting.codes import (
    OUR_VERSION,
    LanguageCode,
    RequestCode,
    ResponseCode,
    SerializeType,
)

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
FIRST_POP_CODE = 200050
LAST_POP_CODE = 200199


@dataclass(slots=True)
class RemotingCommand:
    """A decoded frame.

    Attributes
    ----------
    code : int
        In a request a `RequestCode`, in a response a `ResponseCode`; unknown numbers are possible.
    language : LanguageCode
        Language of the writer.
    version : int
        Ordinal of the writer's RocketMQ version.
    opaque : int
        The requester's number of the request, which the response repeats.
    flag : int
        Bit 0 is set in a response, bit 1 in a request that wants no response.
    remark : str or None
        Text for people.
    ext_fields : dict
        The request's or response's own fields, all as text.
    body : bytes
    serialize_type : SerializeType
        Format of the header.
    """

    code: int
    language: LanguageCode = LanguageCode.PYTHON
    version: int = OUR_VERSION
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext_fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    serialize_type: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        """True if the command is a response."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """True if the command is a request that must not be answered."""
        return bool(self.flag & ONEWAY_FLAG)

    def response(
        self,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
        *,
        ext_fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """Return the response to this request, with its number.

        Its header is JSON, whatever the request's format: every client reads JSON, and it holds every code.
        """
        return RemotingCommand(
            code,
            opaque=self.opaque,
            flag=RESPONSE_FLAG,
            remark=remark,
            ext_fields=dict(ext_fields or {}),
            body=body,
        )

    def not_supported(self) -> RemotingCommand:
        """Return the response to a request that is not served, with the request's code as text."""
        remark = f"request type {code_name(self.code)} not supported"
        if FIRST_POP_CODE <= self.code <= LAST_POP_CODE:
            remark += ": POP is not supported; use a remoting client"
        return self.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


def code_name(code: int) -> str:
    """Return number and name of a request code: ``310 SEND_MESSAGE_V2``."""
    try:
        return f"{code} {RequestCode(code).name}"
    except ValueError:
        return str(code)
