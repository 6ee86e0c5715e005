"""How a verb becomes a command of a Typer application."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import typer

from rmqcore.cli.common.errors import guarded


def add_command(
    app: typer.Typer, verb: Callable[..., int], name: str | None = None, *, hidden: bool = False
) -> None:
    """Add a verb: its docstring is the help, with the example kept line by line, and its errors become exit codes."""
    text = (inspect.getdoc(verb) or "").replace("\nExample:", "\n\b\nExample:")
    app.command(name, help=text, hidden=hidden)(guarded(verb))
