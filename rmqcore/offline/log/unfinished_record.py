"""Recognises an incomplete newest record of a log in use."""

from __future__ import annotations

from rmqcore._native.format.codec import MessageView, property_bytes, topic_bytes


def is_unfinished(view: MessageView) -> bool:
    """Return True if a sound record at the end of a log (offset, lengths and CRC) still lacks its last bytes.

    Topic and properties come last, and no CRC covers them unless the properties hold one. They are text, and a place that was not
    written yet holds zeros: a zero at their end is such a place.
    """
    last = property_bytes(view) or topic_bytes(view)
    return last.endswith(b"\0") or view.prop_crc_ok() is False
