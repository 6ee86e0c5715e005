"""Text of peers in messages and logs: of bounded length, without control characters."""

from __future__ import annotations

import re

MOST_LETTERS = 500
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def shortened(text: str) -> str:
    """Return a line of at most about `MOST_LETTERS`; control characters, which could look like another line, are escaped."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], cut(text, MOST_LETTERS))


def cut(text: str, most: int) -> str:
    """Return a text of at most `most` letters, and behind it how many there were."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"
