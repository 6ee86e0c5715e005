"""Stored names, keys and bodies on a terminal: text, whatever they hold.

`info` took a topic's folder for markup: ``[link=https:evil]Orders`` was a hyperlink, ``[/x]`` in a path a traceback, ``:bomb:``
an emoji. JSON and CSV gave a terminal what C1, bidirectional marks and OSC 52 (which writes the clipboard) ask it to do.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.cli.one_process import each_in_terminal
from support.stores.live_log import LiveLog

from rmqcore.cli.common.shown import printable
from rmqcore.offline.export.export import export
from rmqcore.offline.reader import StoreReader

MARKUP = "[link=https:evil]Orders[/x] :bomb:"
EVIL = "\x1b]52;c;ZXZpbA==\x07 \x9b31m \u202egnp \u2066 \U000e0041 \x7f \u2028 é 世"
DUMB = {"TERM": "dumb", "NO_COLOR": "1"}
WIDE = {"COLUMNS": "300"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    log = LiveLog(tmp_path / f"sent {MARKUP.replace('/', '_')}" / "store")
    for topic in (MARKUP.replace("/", "|"), f"T{EVIL}"):
        log.append(topic, f"=1+1 {EVIL}".encode(), tags=EVIL, keys=f"@{MARKUP} {EVIL}".split())
        (log.root / "consumequeue" / topic.replace("/", "_") / "0").mkdir(parents=True)
    return log.root


SHOWN = [
    ["info"],
    ["info", "--json"],
    ["fsck"],
    ["fsck", "--json"],
    ["fsck", "--format", "jsonl"],
    ["cat"],
    ["cat", "--format", "jsonl"],
    ["cat", "--format", "csv"],
    ["cat", "--json"],
    ["tail"],
    ["tail", "--format", "csv"],
    ["lookup", "0", "--json"],
    ["lookup", "0"],
    ["recover"],
]


def test_nothing_that_a_terminal_obeys(rmqcore: Run, store: Path) -> None:
    """JSON has the same values as elsewhere, too."""
    runs: list[tuple[list[str | Path], dict[str, str]]]
    runs = [([verb, store, *words], DUMB) for verb, *words in SHOWN]
    for (words, _), (code, text) in zip(runs, each_in_terminal(*runs), strict=True):
        assert code in (0, 2), text
        odd = [char for char in text if not char.isprintable() and char not in "\r\n"]
        assert odd == [], words
        assert "Traceback" not in text, words
        if words[0] in ("info", "cat") and words[-1] == "--json":
            assert json.loads(text) == rmqcore(*words).object, words


def test_a_pipe_gets_what_is_stored(rmqcore: Run, store: Path) -> None:
    assert EVIL in rmqcore("cat", store).lines[1]["topic"]
    assert "\u202e" in rmqcore("cat", store).out.decode()


def test_names_are_no_markup(store: Path) -> None:
    (_, found), (code, text) = each_in_terminal(
        (("info", store), WIDE), (("info", store.parent / "[/x] none"), DUMB)
    )
    assert MARKUP.replace("/", "_") in found  # the store's path
    assert MARKUP.replace("/", "|") in found  # the topic
    assert code == 1
    assert "[/x] none" in text


def test_lines_for_people() -> None:
    assert printable("Orders é 世 [x]") == "Orders é 世 [x]"
    assert printable("a\x1b\x9b\u202e\n\udcff") == "a\\x1b\\x9b\\u202e\\n\\udcff"


def test_csv_for_a_spreadsheet(rmqcore: Run, store: Path, tmp_path: Path) -> None:
    """A cell that begins with =, +, - or @ runs as a formula where a spreadsheet opens the file."""
    plain = rmqcore("cat", store, "--format", "csv").out.decode()
    safe = rmqcore("cat", store, "--format", "csv", "--csv-safe").out.decode()
    for row, safe_row in zip(*(csv.DictReader(io.StringIO(t)) for t in (plain, safe)), strict=True):
        assert row["body"].startswith("=1+1")
        assert safe_row["body"] == f"'{row['body']}"
        assert safe_row["keys"] == f"'{row['keys']}"
        assert safe_row["topic"] == row["topic"]
        assert safe_row["magic"] == row["magic"]  # a negative number is a number
    done = rmqcore("cat", store, "--format", "jsonl", "--csv-safe")
    assert done.code == 64
    assert "--csv-safe" in done.err
    report = export(StoreReader(store), tmp_path / "out", file_format="csv", csv_safe=True)
    assert report.rows == 2
    for part in (tmp_path / "out").rglob("*.csv"):
        assert "'=1+1" in part.read_text()
