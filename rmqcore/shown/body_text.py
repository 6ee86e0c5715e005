"""Which bytes of a body people are shown, and when these are text: for lines, tables and notebooks."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from rmqcore.codec.compression import Packed, plain_pieces
from rmqcore.codec.message import MessageView
from rmqcore.vocabulary.sysflag import COMPRESSED

Stored = Callable[[MessageView], AbstractContextManager[Packed]]
"""Opens the stored bytes of a body."""


def stored_in_view(view: MessageView) -> AbstractContextManager[Packed]:
    """Return the body that a view has whole."""
    return nullcontext(view.body)


def body_start(
    view: MessageView, most: int | None, stored: Stored = stored_in_view, *, plain: bool
) -> tuple[bytes, bool]:
    """Return the first bytes of a body, and whether these are all of them.

    Parameters
    ----------
    view : MessageView
    most : int or None
        Number of bytes; None: all.
    stored : callable
        As for `rmqcore.offline.export.message_rows.body_encoder`.
    plain : bool
        Decompress the body, only as far as needed.

    Raises
    ------
    CompressionError
        The body does not decompress.
    """
    if not (plain and view.sys_flag & COMPRESSED):
        if most is None or view.body_size <= most:
            return view.body, True
        return view.body_start(most), False
    if most is None:
        return view.decompress(), True
    pieces, left = [], most
    with stored(view) as body:
        for piece in plain_pieces(body, view.sys_flag):
            pieces.append(piece[:left])
            if len(piece) > left:
                return b"".join(pieces), False
            left -= len(piece)
    return b"".join(pieces), True


def utf8_text(body: bytes, *, whole: bool) -> str | None:
    """Return a body as text; None if it is not UTF-8. A body that is not `whole` may end within a character."""
    try:
        return codecs.utf_8_decode(body, "strict", whole)[0]
    except UnicodeDecodeError:
        return None
