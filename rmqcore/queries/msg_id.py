"""The offset message id: store host and phy offset in hex."""

from __future__ import annotations

from rmqcore.errors.arguments import check_texts

MSG_ID_DIGITS = (32, 56)


def phy_offset_of_msg_id(msg_id: str) -> int:
    """Give the phy offset in an offset message id of 32 hex digits, or 56 (IPv6).

    Raises
    ------
    TypeError
        It is no text.
    ValueError
        The text is not 32 or 56 hex digits.

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageDecoder#decodeMessageId.
    """
    check_texts(msg_id=msg_id)
    digits = msg_id.strip()
    try:
        packed = bytes.fromhex(digits) if len(digits) in MSG_ID_DIGITS else b""
    except ValueError:
        packed = b""
    if len(packed) * 2 not in MSG_ID_DIGITS:
        raise ValueError(f"message id {msg_id!r}: expected 32 or 56 hex digits")
    return int.from_bytes(packed[-8:], "big", signed=True)
