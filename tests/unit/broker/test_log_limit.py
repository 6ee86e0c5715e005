"""What a peer can make the broker log: one connection made 185 MB of log in 8 s by deleting a topic with a name of 60 KB."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fake_peer import Clock
from support.served_broker import ServedBroker

import rmqcore.broker
from rmqcore.broker.log_limit import MOST_LINES, MOST_NAME, LogLimit
from rmqcore.errors.foreign_text import MOST_LETTERS


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock) -> Iterator[logging.Logger]:
    made = logging.getLogger("rmqcore.tests.log_limit")
    made.setLevel(logging.INFO)
    limit, handler = LogLimit(clock), Lines()
    made.addFilter(limit)
    made.addHandler(handler)
    yield made
    made.removeFilter(limit)
    made.removeHandler(handler)


def lines(log: logging.Logger) -> list[str]:
    (handler,) = log.handlers
    assert isinstance(handler, Lines)
    return handler.lines


def test_a_long_line_is_shortened(log: logging.Logger) -> None:
    log.warning("topic %s is not there", "x" * 60_000)
    log.warning("settings %s", {"x" * 60_000: 1})
    name, table = lines(log)
    assert name == f"topic {'x' * MOST_NAME}... (60,000 characters) is not there"
    assert len(table) < MOST_LETTERS + 50


def test_a_name_cannot_look_like_another_line(log: logging.Logger) -> None:
    log.warning("topic %s", "a\n2026 ERROR forged\r\x1b[2J\u2028")
    assert lines(log) == ["topic a\\n2026 ERROR forged\\r\\x1b[2J\\u2028"]


def test_one_place_logs_few_lines_per_second(log: logging.Logger, clock: Clock) -> None:
    for number in range(1_000):
        log.info("line %d", number)
        if number == 500:
            log.info("another place")
    assert len(lines(log)) == MOST_LINES + 1
    clock.now += 1
    for number in range(2):
        log.info("line %d", number)
    assert len(lines(log)) == MOST_LINES + 3


def test_the_next_line_says_how_many_were_left_out(log: logging.Logger, clock: Clock) -> None:
    for number in range(2 * MOST_LINES):
        if number == MOST_LINES + 5:
            clock.now += 1
        log.info("line %d", number)
    assert lines(log)[MOST_LINES] == (f"line {MOST_LINES + 5} (5 similar lines were not logged)")
    assert lines(log)[-1] == f"line {2 * MOST_LINES - 1}"


def test_the_log_of_a_broker_is_limited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = list(logging.getLogger("rmqcore.broker").filters)
    with ServedBroker(tmp_path) as served:
        for _ in range(50):
            served.broker.topics.begin_delete("x" * 60_000)
            served.broker.topics.end_delete("x" * 60_000, lambda: None)
    assert logging.getLogger("rmqcore.broker").filters == before
    found = [one for one in caplog.records if "is unknown" in one.getMessage()]
    assert 1 <= len(found) < 50
    assert max(len(one.getMessage()) for one in found) < MOST_LETTERS + 100


def test_every_module_of_the_broker_logs_through_the_limit() -> None:
    """A filter holds for its own logger alone, not for those below it."""
    root = Path(rmqcore.broker.__file__).parent
    names = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger"):
                names.add(ast.literal_eval(node.args[0]))
    assert names == {"rmqcore.broker"}
