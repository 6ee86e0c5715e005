"""A value that an option does not take: the error names the option, the value and what is expected, in our own words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, get_args, get_origin

import pytest
import typer
from support.cli.cli_runs import Run

from rmqcore.cli.app import VERBS
from rmqcore.cli.spark.app import VERBS as SPARK_VERBS
from rmqcore.cli.values import choice, none_of, number, whole_number

BODIES = "expected one of none, text, base64, sha256"
INT32 = "to 2147483647"
NEEDED = {
    "get": "--topic T --queue 0 --offset 0",
    "query": "--topic T --key K",
    "backup": "OUT",
    "export": "-o OUT",
    "spark find": "--key K",
    "spark export": "-o OUT",
}


@pytest.mark.parametrize(
    ("verb", "option", "value", "expected"),
    [
        ("cat", "--limit", "-1", "expected a whole number from 0 to 9223372036854775807"),
        ("cat", "--limit", "x", "expected a whole number from 0 to 9223372036854775807"),
        ("cat", "--limit", "1.5", "expected a whole number from 0 to 9223372036854775807"),
        ("cat", "--body", "foo", BODIES),
        ("cat", "--body", "base46", BODIES + "; did you mean 'base64'?"),
        ("cat", "--max-body", "x", "expected a whole number of bytes from 1 to 9223372036854775807"),
        ("cat", "--format", "foo", "expected one of table, jsonl, csv, arrow, parquet, or a template with names in braces"),
        ("cat", "--queue", "x", f"expected a whole number from -2147483648 {INT32}"),
        ("cat", "--to-phy", "-1", "expected a whole number from 0 to 9223372036854775807"),
        ("get", "--format", "josnl", "expected one of table, jsonl, csv, arrow, parquet; did you mean 'jsonl'?"),
        ("get", "--max", "0", f"expected a whole number from 1 {INT32}"),
        ("get", "--offset", "x", "expected a whole number from 0 to 9223372036854775807"),
        ("tail", "--lines", "x", f"expected a whole number from 0 {INT32}"),
        ("info", "--format", "foo", "expected one of table, jsonl"),
        ("export", "--format", "foo", "expected one of parquet, csv, jsonl"),
        ("export", "--compression", "foo", "expected one of zstd, snappy, none"),
        ("export", "--body", "TEXT", BODIES + "; did you mean 'text'?"),
        ("export", "--max-body", "0", "expected a whole number of bytes from 1 to 9223372036854775807"),
        ("stats", "--by", "foo", "expected one of hour, queue"),
        ("stats", "--rows", "x", f"expected a whole number from 1 {INT32}"),
        ("query", "--index-type", "foo", "expected T"),
        ("query", "--limit", "2147483648", f"expected a whole number from 1 {INT32}"),
        ("top", "--sort", "foo", "expected one of bytes, messages, average, lag, topic"),
        ("top", "--interval", "x", "expected a number of seconds from 0.1 to 86400"),
        ("top", "--interval", "inf", "expected a number of seconds from 0.1 to 86400"),
        ("top", "--count", "x", f"expected a whole number from 1 {INT32}"),
        ("retention", "--horizon", "x", "expected a number of days above 0 and up to 3650"),
        ("retention", "--horizon", "0", "expected a number of days above 0 and up to 3650"),
        ("retention", "--rate", "x", "expected a number of bytes per second from 0 to 1125899906842624"),
        ("retention", "--rate", "nan", "expected a number of bytes per second from 0 to 1125899906842624"),
        ("backup", "--limit", "x", f"expected a whole number of MiB from 1 {INT32}"),
        ("fsck", "--max-findings", "x", f"expected a whole number from 1 {INT32}"),
        ("serve", "--port", "x", "expected a port from 0 to 65535"),
        ("serve", "--port", "65536", "expected a port from 0 to 65535"),
        ("serve", "--ha-port", "65536", "expected a port from 0 to 65535"),
        ("serve", "--role", "x", "expected one of ASYNC_MASTER, SYNC_MASTER, SLAVE"),
        ("serve", "--max-connections", "0", f"expected a whole number from 1 {INT32}"),
        ("serve", "--namesrv-port", "x", "expected a port from 1 to 65535, 0 or free"),
        ("serve", "--namesrv", "host:x", "expected host:port, with a port from 1 to 65535"),
        ("ping", "--timeout", "x", "expected a number of seconds from 0.01 to 3600"),
        ("ping", "--timeout", "nan", "expected a number of seconds from 0.01 to 3600"),
        ("serve", "--allow", "x", "expected a network, such as 192.0.2.0/24"),
        ("serve", "--allow", "10.0.0.1/8", "expected a network, such as 10.0.0.0/8"),
        ("spark find", "--limit", "0", f"expected a whole number from 1 {INT32}"),
        ("spark find", "--body", "foo", BODIES),
        ("spark export-table", "--format", "foo", "expected one of parquet, delta, iceberg"),
        ("spark export-parquet", "--compression", "foo", "expected one of zstd, snappy, none"),
        ("spark export-parquet", "--target-file-size", "foo", "expected a number of bytes in 65536..1099511627776"),
    ],
)  # fmt: skip
def test_a_wrong_value(
    rmqcore: Run,
    golden: Path,
    tmp_path: Path,
    verb: str,
    option: str,
    value: str,
    expected: str,
) -> None:
    """The errors were in the words of the library that Typer parses with, and most did not name the value.

    "Input should be a valid integer, unable to parse string as an integer", "Value error, 'foo' is not one of ...". For
    `retention --horizon 0` it was "0.0 is not in 0..3650", for `top --interval inf` a traceback.
    """
    store = golden / "basic" / "store"
    needed = NEEDED.get(verb.partition("-")[0], "").split()
    words = [str(tmp_path / "out") if word == "OUT" else word for word in needed]
    done = rmqcore(*verb.split(), store, *words, option, value)
    assert (done.code, done.out) == (64, b"")
    error = done.err.partition("Error: Invalid value for ")[2]
    assert re.match(rf"('-\w' / )?'?{option}'?: got '{re.escape(value)}', expected ", error)
    assert error.partition(f"got '{value}', ")[2].startswith(expected)
    assert not re.search("Input should|Value error|Traceback", done.err)
    assert not any(tmp_path.iterdir())


def test_the_values_at_the_ends_are_taken() -> None:
    parse = whole_number(-3, 7)
    assert [parse(text) for text in ("-3", "0", "7")] == [-3, 0, 7]
    for text in ("-4", "8", "", "0x1", "1e0", "9" * 5000):
        with pytest.raises(typer.BadParameter, match="expected a whole number from -3 to 7"):
            parse(text)
    seconds = number(lambda found: 0 < found <= 2, "a number of seconds")
    assert [seconds(text) for text in ("2", "0.5", "1e-3")] == [2, 0.5, 0.001]
    for text in ("0", "2.1", "nan", "inf", "-inf", "two", ""):
        with pytest.raises(typer.BadParameter, match="expected a number of seconds"):
            seconds(text)


class Colour(StrEnum):
    """Words of an option."""

    red = "red"
    green = "green"


def test_a_choice_takes_its_words_and_completes_them() -> None:
    option = choice(Colour, "--colour", help="A colour.", show_default="red")
    assert isinstance(option, type(typer.Option()))
    assert [option.parser(text) for text in ("red", Colour.green)] == [Colour.red, Colour.green]
    assert option.autocompletion() == ["red", "green"]
    assert (option.metavar, option.help, option.show_default) == ("red|green", "A colour.", "red")
    with pytest.raises(typer.BadParameter) as refused:
        option.parser("gren")
    assert refused.value.message == "got 'gren', expected one of red, green; did you mean 'green'?"
    assert none_of("x", ["only"]).message == "got 'x', expected only"


COMMANDS: dict[str, Callable[..., int]] = {
    **{verb: getattr(import_module(f"rmqcore.cli.verbs.{verb}"), verb) for verb in VERBS},
    **{f"spark {name}": run for name, run in SPARK_VERBS.items()},
}


def takes_text(annotation: object) -> bool:
    """Whether Typer makes this of any text: str, a list of these, a path; and flags, which have no value."""
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not type(None)]
    return all(
        kind in (str, bool, Path) or (get_origin(kind) is list and takes_text(kind))
        for kind in kinds
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_that_takes_no_text_has_a_parser_of_ours(name: str) -> None:
    """An option that Typer parses by itself tells what is wrong in other words, and not which value."""
    without = []
    for parameter in inspect.signature(COMMANDS[name], eval_str=True).parameters.values():
        assert get_origin(parameter.annotation) is Annotated, (name, parameter)
        kind, *told = get_args(parameter.annotation)
        if not takes_text(kind) and not any(getattr(one, "parser", None) for one in told):
            without.append(parameter.name)
    assert without == []


def test_no_port_lies_two_below_the_first_ones(rmqcore: Run, tmp_path: Path) -> None:
    """It said that it cannot listen on port -1."""
    done = rmqcore("serve", tmp_path / "store", "--vip", "--port", "2")
    assert (done.code, done.out) == (64, b"")
    assert (
        "got '2', expected a port above 2, because --vip also listens 2 ports below it"
        in " ".join(done.err.split())
    )
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ha-master", "h:1"), "--ha-master needs --role SLAVE"),
        (("--role", "slave", "--ha-master", "h"), "expected host:port"),
        (("--ha-from", "first"), "--ha-from needs --role SLAVE"),
        (("--role", "slave", "--ha-from", "begin"), "got 'begin', expected first or last"),
        (("--role", "slave", "--ha-port", "1"), "--ha-port needs a master's role"),
    ],
)
def test_options_of_replication_that_do_not_fit(
    rmqcore: Run, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = rmqcore("serve", tmp_path / "store", *options)
    assert (done.code, done.out) == (64, b"")
    assert said in " ".join(done.err.replace("│", " ").split())
    assert not (tmp_path / "store").exists()
