"""``--grep``: messages by texts in their bodies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from rmqcore.cli.common.errors import note
from rmqcore.cli.common.output import BINARY, RowFormat
from rmqcore.codec.message import MessageView
from rmqcore.errors import CompressionError

Grep = Annotated[
    list[str] | None,
    typer.Option(
        "--grep",
        metavar="TEXT",
        help=(
            "Only messages whose decompressed body contains this text; keys, tags and properties "
            "are not searched. Repeated: any of the texts."
        ),
    ),
]
Regexp = Annotated[
    bool, typer.Option("-E", "--regexp", help="--grep is a regular expression (Python's).")
]
IgnoreCase = Annotated[bool, typer.Option("-i", "--ignore-case", help="--grep ignores case.")]


class BodyPattern:
    """Finds messages by texts in their bodies.

    Parameters
    ----------
    texts : sequence of str
        A body matches when it has any of them.
    regexp : bool
        The texts are regular expressions, which see a body as UTF-8; `ignore_case` applies to both kinds.

    Raises
    ------
    typer.BadParameter
        A text is empty, or not a regular expression.
    """

    def __init__(self, texts: Sequence[str], *, regexp: bool, ignore_case: bool) -> None:
        self._failed: set[int] = set()
        self._hinted = False
        if not all(texts):
            raise typer.BadParameter("an empty text matches every body", param_hint="--grep")
        self._matches: Callable[[bytes], bool]
        if not regexp and not ignore_case:
            plain = [text.encode("utf-8", "surrogateescape") for text in texts]
            self._matches = lambda body: any(text in body for text in plain)
            return
        searches = [
            _compiled(text if regexp else re.escape(text), ignore_case).search for text in texts
        ]

        def found(body: bytes) -> bool:
            text = body.decode("utf-8", "replace")
            return any(search(text) is not None for search in searches)

        self._matches = found

    def __call__(self, view: MessageView) -> bool:
        """Return True if a message matches."""
        try:
            return self._matches(view.decompress())
        except CompressionError as error:
            if view.phy_offset not in self._failed:
                note(f"body of the message at {view.phy_offset} not searched: {error}")
                if not self._hinted and error.hint:
                    note(f"Hint: {error.hint}")
                    self._hinted = True
                self._failed.add(view.phy_offset)
            return False

    @property
    def failures(self) -> int:
        """Bodies that could not be unpacked, each with a line on stderr: they do not match."""
        return len(self._failed)


def body_pattern(
    texts: Sequence[str] | None, *, regexp: bool, ignore_case: bool, kind: RowFormat | None
) -> BodyPattern | None:
    """Compile ``--grep``; None if it was not given.

    Raises
    ------
    typer.BadParameter
        As `BodyPattern`; columns are asked for, or the other options stand without ``--grep``.
    """
    if not texts:
        if regexp or ignore_case:
            raise typer.BadParameter(
                "only --grep uses this", param_hint="--regexp" if regexp else "--ignore-case"
            )
        return None
    if kind in BINARY:
        raise typer.BadParameter(
            f"{kind} is written by column without looking into bodies: use table, jsonl or csv",
            param_hint="--grep",
        )
    return BodyPattern(texts, regexp=regexp, ignore_case=ignore_case)


def _compiled(text: str, ignore_case: bool) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise typer.BadParameter(
            f"{text!r} is not a regular expression: {error}", param_hint="--grep"
        ) from error
