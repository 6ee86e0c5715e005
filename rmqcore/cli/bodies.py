"""How bodies are shown, and what becomes of those that cannot be decompressed."""

from __future__ import annotations

from enum import StrEnum

from rmqcore.cli.errors import note
from rmqcore.errors import CompressionError
from rmqcore.message import MessageView
from rmqcore.offline.message_rows import body_encoder


class BodyMode(StrEnum):
    """The values of ``--body``."""

    none = "none"
    text = "text"
    base64 = "base64"
    sha256 = "sha256"


class Bodies:
    """Bodies as text for one run of a verb.

    Attributes
    ----------
    shown : bool
        False for ``--body none``.
    failures : int
        Bodies that could not be decompressed; they are left out, with a line on stderr each.
    """

    def __init__(self, mode: BodyMode, *, decompress: bool) -> None:
        self.shown = mode != BodyMode.none
        self.failures = 0
        self._encode = body_encoder(mode.value, plain=decompress)

    def text(self, view: MessageView) -> str | None:
        """The body as ``--body`` says; None when it is not shown or not to be had."""
        try:
            return self._encode(view)
        except CompressionError as error:
            self.failures += 1
            note(f"body of the message at {view.phy_offset} left out: {error}")
            if self.failures == 1 and error.hint:
                note(f"Hint: {error.hint}")
            return None
