"""The Typer application: its verbs, and exit codes for what Typer answers itself."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmqcore.cli import print_version
from rmqcore.cli.cat import cat
from rmqcore.cli.errors import FAILED, INTERRUPTED, OK, USAGE, explain, guarded, say, silence_stdout
from rmqcore.cli.export import export
from rmqcore.cli.fsck import fsck
from rmqcore.cli.get import get
from rmqcore.cli.info import info
from rmqcore.cli.lookup import lookup
from rmqcore.cli.mqadmin import verb_for
from rmqcore.cli.query import query
from rmqcore.cli.rebuild import rebuild
from rmqcore.cli.recover import recover
from rmqcore.cli.spark import spark_app
from rmqcore.cli.tail import tail

VERBS: tuple[Callable[..., int], ...] = (
    info, cat, get, query, lookup, fsck, export, tail, recover, rebuild,
)  # fmt: skip

# Typer uses click, or in newer versions a copy of its own: the classes are found without naming either.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
ClickException: type[Exception] = UsageError.__bases__[0]


class Verbs(TyperGroup):
    """Verbs, and a hint for those who type what another tool calls it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that was typed, or an error that says what to type."""
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


def _help(verb: Callable[..., int]) -> str:
    """The docstring, with its example kept line by line."""
    return (inspect.getdoc(verb) or "").replace("\nExample:", "\n\b\nExample:")


app = typer.Typer(
    cls=Verbs,
    help="Read, check, export and repair RocketMQ stores. Without --apply no file of a store is changed.",
    epilog=(
        "Exit codes: 0 fine, 1 failed, 2 damaged or partial, 64 wrong usage, 130 Ctrl-C. "
        "`rmqcore VERB --help` has an example."
    ),
    subcommand_metavar="VERB ...",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for _verb in VERBS:
    app.command(help=_help(_verb))(guarded(_verb))
app.add_typer(spark_app)


def version(asked: bool) -> None:
    """Print the version and end."""
    if asked:
        print_version()
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=version, is_eager=True)
    ] = False,
) -> None:
    """Options before the verb."""


def run(words: Sequence[str]) -> int:
    """Run the command line with these words and answer its exit code."""
    code = _run(words)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:  # what was still buffered does not fit: the answer is not whole
        silence_stdout()
        return explain(error) if code == OK else code
    return code


def _run(words: Sequence[str]) -> int:
    command = typer.main.get_command(app)
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
