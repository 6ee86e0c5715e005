"""Long JSON texts: parsed in steps that other threads need not wait for, with the values and errors of one step."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from support.doses import dose

from rmqcore.errors import RequestError
from rmqcore.remoting.bodies.json_object import encode_json, encode_long_json, parse_body
from rmqcore.vocabulary import java_json
from rmqcore.vocabulary.java_json import MOST_LETTERS, PIECE, parse_json

DEPTH = 8
ODD = ('"', "[", "]", "}", ",", "1", ":", "")


def test_no_step_of_the_parser_in_c_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    scan = java_json._DECODER.scan_once

    def noted(text: str, at: int) -> tuple[Any, int]:
        value, end = scan(text, at)
        steps.append(end - at)
        return value, end

    monkeypatch.setattr(java_json._DECODER, "scan_once", noted)
    table = {f"topic {number}": {"perm": 6, "attributes": {}} for number in range(5_000)}
    body: dict[str, Any] = {"table": table, "list": ["x"] * 50_000, "text": "y" * 100_000}
    assert parse_json(json.dumps(body).encode(), DEPTH) == body
    assert max(steps) == 100_002, "one string is one step"
    assert sorted(steps)[-2] <= PIECE + 1


def parsed(text: str) -> object:
    try:
        return parse_json(text.encode(), DEPTH)
    except ValueError as error:
        return str(error)


def test_steps_change_neither_values_nor_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(1)
    for _ in range(dose("LONG_JSON_TEXTS", test=1_000, verify=5_000, night=50_000)):
        text = json.dumps(
            some_value(source, 0), ensure_ascii=False, indent=source.choice((None, 1))
        )
        text = text.replace('"5"', "5")  # a key without quotes
        if source.random() < 0.4:
            at = source.randrange(len(text))
            text = text[:at] + source.choice(ODD) + text[at + 1 :]
        whole = parsed(text)
        with monkeypatch.context() as short:
            short.setattr(java_json, "PIECE", 20)
            assert parsed(text) == whole
            short.setattr(java_json, "MOST_LETTERS", 40)
            in_pieces = parsed(text)
        assert in_pieces == whole or "more than 40 characters" in str(in_pieces)


def some_value(source: random.Random, depth: int) -> object:
    if depth > DEPTH - 3 or source.random() < 0.3:
        return source.choice((1, -3, "a", 'x"y\\', "[{", None, True, "é" * 5, 10**30, ""))
    if source.random() < 0.4:
        return [some_value(source, depth + 1) for _ in range(source.randrange(5))]
    keys = [source.choice("abc€[5") for _ in range(source.randrange(6))]
    return {key: some_value(source, depth + 1) for key in keys}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('{"a":"' + "x" * MOST_LETTERS + '"}', "a string has more than 262,144 characters"),
        ('{"a":"' + "\\n" * MOST_LETTERS + '"}', "a string has more than 262,144 characters"),
        ("{1:" + " " * MOST_LETTERS + "1,}", "neither a string nor a bracket"),
        ("[" * PIECE, "more than 8 nested levels"),
        ('{"a":[' + '"",' * PIECE, "Expecting value"),
        ('{"a":"' + "x" * PIECE, "Unterminated string"),
        (f'{{"a":"{"x" * PIECE}"}} 1', "Extra data"),
        (f'["{"x" * PIECE}", "\\ud800"]', "surrogates not allowed"),
        (f'{{"{"x" * PIECE}\\udfff":1}}', "surrogates not allowed"),
        (" " * (PIECE + 1), "Expecting value"),
    ],
)
def test_what_is_wrong_with_a_long_text_is_an_error(text: str, wrong: str) -> None:
    assert wrong in str(parsed(text))


def test_the_values_of_a_body_are_bounded_before_it_is_parsed() -> None:
    body = b'{"a":[[],[],"x"]}'
    assert parse_body("R", body, most_values=6).has("a")
    with pytest.raises(RequestError, match="more than 5 values"):
        parse_body("R", body, most_values=5)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        'é"',
        {"a": {}, "b": [], "c": None},
        {"t": {"é\n": {"x": [1, {"y": {"z": [True]}}]}, "": 1}, "u": ["a", ["b", ["c", ["d"]]]]},
    ],
)
def test_a_long_table_is_written_as_a_short_one(value: object) -> None:
    assert encode_long_json(value) == encode_json(value)
