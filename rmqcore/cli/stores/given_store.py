"""The store that a verb reads: a directory, or files fetched from a URL until the verb ends."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

import typer

from rmqcore.cli.common.arguments import pairs
from rmqcore.disk.paths import is_url
from rmqcore.offline.elsewhere import ElsewhereWarning
from rmqcore.offline.log.damage import DamageWarning
from rmqcore.offline.reader import StoreReader, read


@contextmanager
def opened_store(
    store: str, storage: Sequence[str] | None, commitlog: str | None, *, follow_links: bool
) -> Iterator[StoreReader]:
    """Yield the reader of a store; the parameters are the options of those names.

    Raises
    ------
    typer.BadParameter
        As `storage_options`.
    """
    options = storage_options(store, storage)
    with (
        fetching(store),
        read(
            store, commitlog=commitlog, follow_links=follow_links, storage_options=options
        ) as reader,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ElsewhereWarning)  # `UnknownTopics` prints it
        warnings.simplefilter("ignore", DamageWarning)  # the verbs print it
        yield reader


def storage_options(store: str, storage: Sequence[str] | None) -> dict[str, Any] | None:
    """Parse ``--storage``.

    Raises
    ------
    typer.BadParameter
        The store is a directory; or a text is not ``NAME=VALUE``.
    """
    if storage and not is_url(store):
        raise typer.BadParameter(f"{store} is a local directory", param_hint="--storage")
    return pairs(storage, "--storage") or None


def fetching(store: str) -> AbstractContextManager[None]:
    """Remove files fetched from a URL when SIGTERM arrives; a local directory needs nothing."""
    return ended_like_ctrl_c() if is_url(store) else nullcontext()


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Make SIGTERM end the verb as Ctrl-C does, so that incomplete and fetched files are removed."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
