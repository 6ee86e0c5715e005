"""The Typer application: its verbs, and exit codes for the errors that Typer reports itself.

Only the typed verb is imported: importing all of them takes half a second, too long for the start of a broker.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from rmqcore.cli.common.commands import add_command
from rmqcore.cli.common.errors import explain, guarded, say, silence_stdout
from rmqcore.cli.common.version import print_version
from rmqcore.cli.mqadmin import verb_for
from rmqcore.cli.names import COMPLETES, words_to_complete
from rmqcore.errors.exit_codes import INTERRUPTED, OK, USAGE
from rmqcore.errors.near_names import did_you_mean

VERBS = (
    "info",
    "stats",
    "cat",
    "get",
    "query",
    "lookup",
    "fsck",
    "export",
    "tail",
    "top",
    "recover",
    "rebuild",
    "retention",
    "doctor",
    "backup",
    "diff",
    "salvage",
    "convert",
    "serve",
    "ping",
)
"""The verbs in the order of the help. Each is a function in the module of the same name in `rmqcore.cli.verbs`."""
SPARK = "spark"

USAGE_OF_TYPER = 2
"""Typer's exit code for wrong usage; here this code means a damaged store."""


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


def application(words: Sequence[str], answer: Callable[[int], object]) -> typer.Typer:
    """Return the application for some words: with the verb that is the first word, or with all verbs.

    `answer` is called with the verb's result.
    """
    app = typer.Typer(
        help=(
            "Read, check, export, repair and serve RocketMQ stores. Files of a store are only "
            "changed with --apply."
        ),
        epilog=(
            "Exit codes: 0 fine, 1 failed, 2 damaged or partial, 64 wrong usage, 130 Ctrl-C. "
            "`rmqcore VERB --help` has an example."
        ),
        subcommand_metavar="VERB ...",
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},
        result_callback=lambda code, **_: answer(code),
        rich_markup_mode=None,  # Rich's boxes leave 28 columns of 80 for the meaning of an option
        pretty_exceptions_enable=False,
    )
    typed = words[0] if words and words[0] in {*VERBS, SPARK} else None
    for verb in VERBS if typed is None else {typed} - {SPARK}:
        add_command(app, getattr(import_module(f"rmqcore.cli.verbs.{verb}"), verb))
    if typed in (SPARK, None):
        app.add_typer(import_module("rmqcore.cli.spark.app").spark_app)
    app.callback()(options)
    return app


def run(words: Sequence[str]) -> int:
    """Run the command line with these words and return its exit code.

    Without words it describes the store in the working directory, or prints the help if that is not a store.
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
    ) as error:  # the disk has no room for the rest of the buffer: the output is incomplete
        silence_stdout()
        return explain(error) if code == OK else code
    return code


def _tell_what_is_here() -> int | None:
    """Describe the store in the working directory, and return the exit code; None if there is no store."""
    here = import_module("rmqcore.cli.typed.here")
    reader = here.store_here(Path.cwd())
    return None if reader is None else guarded(here.tell)(reader)


def _run(words: Sequence[str]) -> int:
    if words and not words[0].startswith("-") and words[0] not in {*VERBS, SPARK}:
        return _no_verb(words[0])
    answers: list[int] = []
    app = application(words or words_to_complete(), answers.append)
    hook = sys.excepthook
    try:
        app(list(words), prog_name="rmqcore")
    except SystemExit as end:
        if answers:
            return answers[0]
        if end.code == USAGE_OF_TYPER:
            return USAGE
        return end.code if isinstance(end.code, int) else OK
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        sys.excepthook = hook  # Typer sets its own hook
    return OK


def _no_verb(word: str) -> int:
    """Report an unknown verb, with the verb to type instead; users know the verbs of other tools."""
    instead = verb_for(word)
    if instead is not None:
        say(f"unknown command {word!r}", instead)
    else:
        meant = did_you_mean(word, [*VERBS, SPARK], shown=repr)
        say(f"unknown command {word!r}{meant}", "`rmqcore --help` lists the commands")
    return USAGE
