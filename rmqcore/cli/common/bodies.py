"""How bodies are shown, also bodies that cannot be decompressed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, StrEnum, auto

import typer

from rmqcore.cli.common.errors import note
from rmqcore.cli.common.output import BINARY, RowFormat
from rmqcore.codec.message import MessageView
from rmqcore.errors import CompressionError
from rmqcore.offline.export.message_rows import MAX_BODY, Body, body_encoder, most_body
from rmqcore.offline.export.unwrapped import Item, unwrapped
from rmqcore.shown.body_text import Stored


class BodyMode(StrEnum):
    """Values of ``--body``."""

    none = "none"
    text = "text"
    base64 = "base64"
    sha256 = "sha256"


def refuse_text_in_columns(kind: RowFormat, body: BodyMode | None, *, decompress: bool) -> None:
    """Raise ``typer.BadParameter`` if the options ask for Arrow or Parquet with bodies other than the stored bytes."""
    if kind in BINARY and (decompress or body not in (None, BodyMode.none)):
        raise typer.BadParameter(
            f"{kind} holds bodies only as stored: omit this option for stored bodies, or use "
            "--body none",
            param_hint="--decompress" if decompress else "--body",
        )


class Decompress(Enum):
    """Which bodies `Bodies` decompresses."""

    NEVER = auto()
    WHERE_POSSIBLE = auto()
    """A body that does not decompress is shown as it is stored, with a line on stderr."""
    ALWAYS = auto()
    """A body that does not decompress is left out, with a line on stderr."""


def decompressing(asked: bool, kind: RowFormat | None, body: BodyMode | None) -> Decompress:
    """Return the bodies to decompress: in output for people (tables; None: templates), those that decompress.

    Programs get the stored bytes unless ``--decompress`` was given; so do base64 and SHA-256.
    """
    if asked:
        return Decompress.ALWAYS
    for_people = body in (None, BodyMode.text) and kind in (None, RowFormat.table)
    return Decompress.WHERE_POSSIBLE if for_people else Decompress.NEVER


class Bodies:
    """Bodies as text for one run of a verb; the parameters are those of `body_encoder`.

    Parameters
    ----------
    mode : BodyMode or None
        None: text if a body is UTF-8, otherwise base64.
    decompress : Decompress

    Attributes
    ----------
    shown : bool
        False for ``--body none``.
    failures : int
        Number of bodies left out, and of batches that could not be split; each is named on stderr.
    most_body : int or None
        Bytes of each stored body to read; None: all.
    """

    def __init__(
        self,
        mode: BodyMode | None,
        *,
        decompress: Decompress,
        max_body: int | None = MAX_BODY,
        stored: Stored | None = None,
    ) -> None:
        self.shown = mode != BodyMode.none
        self.failures = 0
        self._max_body = max_body
        way: Body = "text_or_base64" if mode is None else mode.value
        self.most_body = most_body(way, max_body=max_body)

        def encoder(*, plain: bool) -> Callable[[MessageView], str | None]:
            return body_encoder(
                way,
                plain=plain,
                max_body=max_body,
                on_shortened=self.tell_shortened,
                stored=stored,
            )

        self._encode = encoder(plain=decompress is not Decompress.NEVER)
        self._as_stored = encoder(plain=False) if decompress is Decompress.WHERE_POSSIBLE else None
        self._hinted = False

    def tell_shortened(self, phy_offset: int) -> None:
        """Print that only the first part of a body is shown."""
        note(
            f"body of the message at {phy_offset} shortened to {self._max_body} bytes: --max-body N shows more"
        )

    def text(self, view: MessageView) -> str | None:
        """Return the body in the form of ``--body``; None if it is not shown or cannot be decompressed."""
        try:
            return self._encode(view)
        except CompressionError as error:
            if self._as_stored is not None:
                self._tell(view, "shown as it is stored", error)
                return self._as_stored(view)
            self.failures += 1
            self._tell(view, "left out", error)
            return None

    def unwrapped(self, items: Iterable[Item]) -> Iterator[Item | MessageView]:
        """Yield the messages of stored batches in place of the batches, for ``--unwrap``."""
        return unwrapped(items, self.tell_wrapped)

    def tell_wrapped(self, phy_offset: int, error: Exception) -> None:
        """Print that a batch cannot be taken apart, and count it."""
        self.failures += 1
        note(f"batch at {phy_offset} shown as one message, since it cannot be taken apart: {error}")

    def _tell(self, view: MessageView, what: str, error: CompressionError) -> None:
        note(f"body of the message at {view.phy_offset} {what}: {error}")
        if not self._hinted and error.hint:
            note(f"Hint: {error.hint}")
            self._hinted = True
