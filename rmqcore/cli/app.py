"""The Typer application: its verbs, and exit codes for the errors that Typer reports itself.

Only the verb that was typed is imported: all of them take half a second, which a broker's start does not have.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmqcore.cli.common.commands import add_command
from rmqcore.cli.common.errors import explain, guarded, say, silence_stdout
from rmqcore.cli.common.version import print_version
from rmqcore.cli.mqadmin import verb_for
from rmqcore.cli.names import COMPLETES, words_to_complete
from rmqcore.errors.exit_codes import FAILED, INTERRUPTED, OK, USAGE

VERBS = (
    "info", "stats", "cat", "get", "query", "lookup", "fsck", "export", "tail", "top", "recover", "rebuild",
    "retention", "doctor", "backup", "diff", "salvage", "serve",
)  # fmt: skip
"""In the order of the help. Each is the function of that name in the module of that name in `rmqcore.cli.verbs`."""
SPARK = "spark"

# Typer uses click, or in newer versions a copy of its own: the classes are found without naming either.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
ClickException: type[Exception] = UsageError.__bases__[0]


class Verbs(TyperGroup):
    """The group of the verbs, with a hint for names that other tools use."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Give the verb that was typed; raise with a hint when it is a command of another tool."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            instead = verb_for(args[0]) if args else None
            if instead is not None:
                raise typer.BadParameter(
                    f"{args[0]!r} is not a verb of rmqcore; use: {instead}",
                    ctx=ctx,
                    param_hint="VERB",
                ) from error
            raise


def version(asked: bool) -> None:
    """Print the version and end."""
    if asked:
        print_version()
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=version, is_eager=True)
    ] = False,
) -> None:
    """Options before the verb."""


def application(words: Sequence[str]) -> typer.Typer:
    """Make the application for some words: with the verb that they begin with, or with all where they begin with none."""
    app = typer.Typer(
        cls=Verbs,
        help="Read, check, export, repair and serve RocketMQ stores. Without --apply no file of a store is changed.",
        epilog=(
            "Exit codes: 0 fine, 1 failed, 2 damaged or partial, 64 wrong usage, 130 Ctrl-C. "
            "`rmqcore VERB --help` has an example."
        ),
        subcommand_metavar="VERB ...",
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    typed = words[0] if words and words[0] in {*VERBS, SPARK} else None
    for verb in VERBS if typed is None else {typed} - {SPARK}:
        add_command(app, getattr(import_module(f"rmqcore.cli.verbs.{verb}"), verb))
    if typed in (SPARK, None):
        app.add_typer(import_module("rmqcore.cli.spark.app").spark_app)
    app.callback()(options)
    return app


def run(words: Sequence[str]) -> int:
    """Run the command line with these words and answer its exit code.

    Without words, in a store's directory, it tells what is there; elsewhere the help.
    """
    code = None if words or COMPLETES in os.environ else _tell_what_is_here()
    if code is None:
        code = _run(words)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    except (
        OSError
    ) as error:  # the disk has no room for the rest of the buffer: the answer is not whole
        silence_stdout()
        return explain(error) if code == OK else code
    return code


def _tell_what_is_here() -> int | None:
    """Tell of the store that the working directory is, and answer the exit code; None where there is none."""
    here = import_module("rmqcore.cli.typed.here")
    reader = here.store_here(Path.cwd())
    return None if reader is None else guarded(here.tell)(reader)


def _run(words: Sequence[str]) -> int:
    command = typer.main.get_command(application(words or words_to_complete()))
    try:
        answer = command.main(args=list(words), prog_name="rmqcore", standalone_mode=False)
    except UsageError as error:
        error.show(file=sys.stderr)  # type: ignore[attr-defined]
        return USAGE
    except ClickException as error:
        say(str(error))
        return FAILED
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else OK
    return answer if isinstance(answer, int) else OK
