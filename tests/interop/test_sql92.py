"""Filter expressions asked of RocketMQ's SqlFilter and of ours: the same are refused, the rest have the same values."""

from __future__ import annotations

import random
from typing import Any

import pytest
from interop.java_process import JavaProcess

from rmqcore.broker.sql92.sql_filter import SqlFilter
from rmqcore.errors import FilterExpressionError

NAMES = ["a", "b", "$c", "_d1", "Tags", "missing"]
TEXTS = """
'' 'x' 'abc' 'a''b' 'true' '5' '5.0' '-3' '\u4e2d\U0001f600'
""".split()
NUMBERS = """
0 1 5 5l 7L 2147483647 2147483648 9223372036854775807 9223372036854775808 1.5 5. .5 5E1 1e-3 0.1 1e400 1e-400 0.0 007 0L 12x
99999999999999999999
""".split()
VALUES = [
    *["", "x", "abc", "a'b", "true", "TRUE", "false", "0", "5", "+5", "-3", "5.0", " 5", "5 "],
    *["5L", "5d", "1e1", "0x1p3", "NaN", "-NaN", "Infinity", "-Infinity", "-0.0", "0.0", "1e999"],
    *["2147483647", "2147483648", "-2147483649", "9223372036854775808", "1_0", "\u0665", "\uff15"],
    *[
        "\U0001d7d3",
        "\u4e2d\U0001f600",
        ".5",
        "5.",
        ".",
        "+",
        "",
        "0" * 5000 + "5",
        "9" * 5000,
        "inf",
        "nan",
    ],
    *["\x005\x1f", "\u00a05", "0x.8p1", "0x8", "1e", "1f", "1.5F"],
]
SPACES = [" ", "  ", "\t", "\n", "\f", " /* x */ ", " /***/ ", " -- y\n", "--\r\n"]
ODD = [
    "#",
    "'",
    "''",
    ";",
    "\u00e9",
    "/*",
    "--",
    "LIKE",
    "==",
    "!=",
    "\x00",
    ".",
    "*",
    "/",
    "+",
    "-",
    ")",
    "(",
]


class Expressions:
    """Random expressions: most are valid, some are nearly."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)

    def text(self) -> str:
        words = self.either(3).split(" ")
        if self.choose.random() < 0.25:
            place = self.choose.randrange(len(words) + 1)
            drop = self.choose.randrange(3)
            put = self.choose.choice([[], [self.choose.choice(ODD)], [self.word()]])
            words[place : place + drop] = put
        return "".join(self.cased(word) + self.space() for word in words)

    def cased(self, word: str) -> str:
        if word.isupper() and word.isalpha():
            return self.choose.choice([word, word, word.lower(), word.title()])
        return word

    def space(self) -> str:
        return self.choose.choice(SPACES) if self.choose.random() < 0.15 else " "

    def word(self) -> str:
        words = "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH = <> > >= < <= ( ) , + -"
        return self.choose.choice([*words.split(), *NAMES, *TEXTS, *NUMBERS])

    def either(self, depth: int) -> str:
        kind = self.choose.random()
        if depth == 0 or kind < 0.35:
            return self.condition(depth)
        if kind < 0.75:
            word = self.choose.choice(["AND", "OR"])
            return f"{self.either(depth - 1)} {word} {self.either(depth - 1)}"
        if kind < 0.9:
            return f"( {self.either(depth - 1)} )"
        return f"NOT ( {self.either(depth - 1)} )"

    def condition(self, depth: int) -> str:
        value, word = self.value(depth), self.choose.choice(["", "", "NOT "])
        match self.choose.randrange(9):
            case 0 | 1:
                return f"{value} {self.choose.choice(['=', '<>'])} {self.value(depth)}"
            case 2 | 3:
                sign = self.choose.choice([">", ">=", "<", "<="])
                return f"{self.value(depth)} {sign} {self.value(depth)}"
            case 4:
                return f"{value} {word}BETWEEN {self.value(depth)} AND {self.value(depth)}"
            case 5:
                listed = " , ".join(self.choose.choices(TEXTS, k=self.choose.randint(1, 6)))
                return f"{self.choose.choice(NAMES)} {word}IN ( {listed} )"
            case 6:
                test = self.choose.choice(["CONTAINS", "STARTSWITH", "ENDSWITH"])
                return f"{value} {word}{test} {self.choose.choice(TEXTS)}"
            case 7:
                return f"{value} IS {word}NULL"
        return self.choose.choice([value, "TRUE", "FALSE", "NULL", f"NOT {value}"])

    def value(self, depth: int) -> str:
        kind = self.choose.random()
        if kind < 0.55:
            return self.choose.choice(NAMES)
        if kind < 0.75:
            sign = self.choose.choice(["", "", "", "- ", "+ ", "-", "- - "])
            return sign + self.choose.choice(NUMBERS)
        if kind < 0.87:
            return self.choose.choice(TEXTS)
        if kind < 0.93 or depth == 0:
            return self.choose.choice(["TRUE", "FALSE", "NULL", "- a", "( b )"])
        return f"( {self.either(depth - 1)} )"

    def message(self) -> dict[str, str]:
        names = self.choose.sample(NAMES[:-1], self.choose.randint(0, 5))
        return {name: self.choose.choice(VALUES) for name in names}


def ours(text: str, messages: list[dict[str, str]]) -> Any:
    try:
        compiled = SqlFilter(text)
    except FilterExpressionError:
        return "refused"
    answers: list[bool | str | None] = []
    for message in messages:
        try:
            answers.append(compiled.evaluate(message))
        except ValueError:
            answers.append("throws")
    assert [answer is True for answer in answers] == list(map(compiled.matches, messages))
    return answers


def both(java: JavaProcess, asked: list[tuple[str, list[dict[str, str]]]]) -> list[Any]:
    requests = [{"text": text, "messages": messages} for text, messages in asked]
    theirs: list[Any] = java.call("filter", requests=requests)
    for (text, messages), answers in zip(asked, theirs, strict=True):
        found = ours(text, messages)
        if found != answers:
            if "refused" in (found, answers):
                raise AssertionError(f"{text!r}: {found!r:.200}, Java says {answers!r:.200}")
            cases = zip(messages, found, answers, strict=True)
            raise AssertionError((text, [case for case in cases if case[1] != case[2]][:3]))
    return theirs


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions(java: JavaProcess, seed: int) -> None:
    make = Expressions(seed)
    asked = [(make.text(), [make.message() for _ in range(12)]) for _ in range(1000)]
    theirs = both(java, asked)
    answers = [answer for one in theirs if one != "refused" for answer in one]
    assert 200 < theirs.count("refused") < 800
    for answer in (True, False, None, "throws"):
        assert answers.count(answer) > 50


def test_a_property_against_every_kind_of_value(java: JavaProcess) -> None:
    messages = [{"a": value, "b": other} for value in VALUES for other in ("5", "x")]
    constants = ["5", "2147483648", "5.0", "'5'", "TRUE", "b", "(b = '5')", "-5", "-2147483648"]
    for sign in ("=", "<>", "<", ">="):
        texts = [f"a {sign} {one}" for one in constants] + [f"{one} {sign} a" for one in constants]
        both(java, [(text, messages) for text in texts])


def test_constants_among_themselves(java: JavaProcess) -> None:
    constants = [
        "1",
        "1l",
        "2147483648",
        "1.0",
        "1.5",
        "'1'",
        "'x'",
        "TRUE",
        "FALSE",
        "NULL",
        "-1",
        "(1 = 1)",
        "(a)",
    ]
    texts = [
        f"{left} {sign} {right}"
        for left in constants
        for right in constants
        for sign in ("=", "<>", "<", ">=")
    ]
    texts += [
        f"a {word} {left} AND {right}"
        for left in constants
        for right in constants
        for word in ("BETWEEN", "NOT BETWEEN")
    ]
    both(java, [(text, [{}, {"a": "1"}]) for text in texts])


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            " ",
            "a",
            "a b",
            "a = 1 b #",
            "a = 1 # b",
            "a = 1 ) #",
            "a = 1 NOT",
            "a = 1 NOT #",
            "a IS",
            "a IS NOT",
        ],
        *[
            "a IN ()",
            "a IN ('x',)",
            "a IN 'x'",
            "1 IN ('1')",
            "(a) IN ('x')",
            "a = 1 IS NULL",
            "a IS NULL IS NULL",
        ],
        *[
            "NOT a = 1",
            "NOT NOT a",
            "- - 5 = 5",
            "+a = 1",
            "+ + 5 = 5",
            "+",
            "-'x' = 1",
            "-TRUE = TRUE",
            "- a IS NULL",
        ],
        *[
            "a=1--x",
            "a=1--x\n",
            "a=1/*x",
            "a=1/*x*/",
            "/**/a=1/* * / **/",
            "a --\r= 1",
            "a<>1",
            "a < > 1",
            "a>=1",
            "a= >1",
        ],
        *[
            "a = 'x",
            "a = 'x'''",
            "a = ''''",
            "a = 'x''",
            "a LIKE 'x'",
            "a == 1",
            "a != 1",
            "a + 1 = 2",
            "a.b = 1",
            "1a = 1",
        ],
        *[
            "a > 1 > 2",
            "a > 'x'",
            "TRUE > 1",
            "a BETWEEN 2 AND 1",
            "a BETWEEN 1 AND 2 AND b = 1",
            "a CONTAINS b",
            "5 CONTAINS '5'",
        ],
        *[
            "a CONTAINS ''",
            "TRUE CONTAINS 'T'",
            "a NOT CONTAINS ''",
            "'abc' STARTSWITH 'ab'",
            "a is not null",
            "nOt(a = 1)",
        ],
        *[
            "9223372036854775807 = a",
            "-9223372036854775808 = a",
            "1e308 = a",
            "1e309 = a",
            "4.9e-324 = a",
            "1e-324 = a",
            "0e0 = a",
        ],
        *[
            "a = TRUE",
            "TRUE = 1",
            "1 = TRUE",
            "TRUE = FALSE",
            "(a = 1) = TRUE",
            "(a = 1) = 'true'",
            "'true' = (a = 1)",
            "a = (b)",
        ],
    ],
)
def test_the_corners(java: JavaProcess, text: str) -> None:
    values = ["1", "x", "true", "5", "-9223372036854775808", "9223372036854775807"]
    both(java, [(text, [{}, *({"a": value, "b": "1"} for value in values)])])
