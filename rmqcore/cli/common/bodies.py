"""How bodies are shown, also bodies that cannot be decompressed."""

from __future__ import annotations

from enum import StrEnum

import typer

from rmqcore.cli.common.errors import note
from rmqcore.cli.common.output import BINARY, RowFormat
from rmqcore.errors import CompressionError
from rmqcore.message import MessageView
from rmqcore.offline.export.message_rows import MAX_BODY, Stored, body_encoder, most_body


class BodyMode(StrEnum):
    """Values of ``--body``."""

    none = "none"
    text = "text"
    base64 = "base64"
    sha256 = "sha256"


def refuse_text_in_columns(kind: RowFormat, body: BodyMode | None, *, decompress: bool) -> None:
    """Raise ``typer.BadParameter`` when Arrow or Parquet is asked for bodies in another form than the stored bytes."""
    if kind in BINARY and (decompress or body not in (None, BodyMode.none)):
        raise typer.BadParameter(
            f"{kind} holds bodies as they are stored, or none",
            param_hint="--decompress" if decompress else "--body",
        )


class Bodies:
    """Bodies as text for one run of a verb; the parameters are those of `body_encoder`.

    Attributes
    ----------
    shown : bool
        False for ``--body none``.
    failures : int
        How many bodies could not be decompressed; each is left out, with a line on stderr.
    most_body : int or None
        How many bytes of each stored body are looked at; None: all of them.
    """

    def __init__(
        self,
        mode: BodyMode,
        *,
        decompress: bool,
        max_body: int | None = MAX_BODY,
        stored: Stored | None = None,
    ) -> None:
        self.shown = mode != BodyMode.none
        self.failures = 0
        self._max_body = max_body
        self.most_body = most_body(mode.value, max_body=max_body)
        self._encode = body_encoder(
            mode.value,
            plain=decompress,
            max_body=max_body,
            on_shortened=self.tell_shortened,
            stored=stored,
        )

    def tell_shortened(self, phy_offset: int) -> None:
        """Say that only the beginning of a body is shown."""
        note(
            f"body of the message at {phy_offset} shortened to {self._max_body} bytes: --max-body shows more"
        )

    def text(self, view: MessageView) -> str | None:
        """Give the body as ``--body`` says; None when it is not shown or cannot be decompressed."""
        try:
            return self._encode(view)
        except CompressionError as error:
            self.failures += 1
            note(f"body of the message at {view.phy_offset} left out: {error}")
            if self.failures == 1 and error.hint:
                note(f"Hint: {error.hint}")
            return None
