"""--format with a template: a line for each message."""

from __future__ import annotations

import base64
import json
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cli.cli_runs import Run, in_terminal
from support.stores.live_log import LiveLog

pytest.importorskip("typer")

import typer

from rmqcore.cli.typed.line_template import NAMES, format_or_template

ZLIB = 1 | 3 << 8


@pytest.fixture
def store(tmp_path: Path) -> Path:
    log = LiveLog(tmp_path / "store")
    log.append(body=b"one", tags="TagA", keys=["k1", "k2"], properties={"P": "ü"})
    log.append("Other", body=b"\xff\x00")
    log.append(body=zlib.compress("zwölf".encode()), sys_flag=ZLIB)
    return log.root


@pytest.mark.parametrize(
    ("template", "lines"),
    [
        ("{topic} {queue_id} {queue_offset} {keys} {body}",
         ["Orders 0 0 k1 k2 one", "Other 0 1  /wA=", "Orders 0 2  zwölf"]),
        (r"{tags}\t{body}", ["TagA\tone", "\t/wA=", "\tzwölf"]),
        ("{{{queue_offset:>3}|{topic:<7}}}", ["{  0|Orders }", "{  1|Other  }", "{  2|Orders }"]),
        (r"{queue_offset}\n", ["0", "1", "2"]),
        (r"a\\n{queue_offset}", [r"a\n0", r"a\n1", r"a\n2"]),
        ("{body_size:>3} <{properties[P]:>2}>{properties[no such]}", ["  3 < ü>", "  2 <  >", " 14 <  >"]),
    ],
)  # fmt: skip
def test_a_line_for_each_message(
    rmqcore: Run, store: Path, template: str, lines: list[str]
) -> None:
    for verb in ("cat", "tail"):
        done = rmqcore(verb, store, "--format", template)
        assert (done.code, done.err) == (0, "")
        assert done.out.decode().split("\n") == [*lines, ""]


def test_lines_for_xargs_0(rmqcore: Run, store: Path) -> None:
    assert rmqcore("cat", store, "--format", r"{queue_offset}\0").out == b"0\x001\x002\x00"


def test_every_field_of_json_has_its_value(rmqcore: Run, golden: Path) -> None:
    store = golden / "basic" / "store"
    [row] = rmqcore("cat", store, "--limit", "1").lines
    for name in NAMES:
        text = rmqcore("cat", store, "--limit", "1", "--format", f"<{{{name}}}>").out.decode()
        value = row.get(name)
        if name == "properties":
            assert json.loads(text[1:-2]) == value
        elif name == "keys":
            assert text == f"<{' '.join(value)}>\n"
        elif name == "body_size":
            (stored,) = rmqcore("cat", store, "--limit", "1", "--body", "base64").lines
            assert text == f"<{len(base64.b64decode(stored['body']))}>\n"
        elif name in row:
            assert text == f"<{'' if value is None else value}>\n"
        else:
            assert text.startswith("<20")


def test_times_in_words_can_be_typed(rmqcore: Run, store: Path) -> None:
    text = rmqcore("cat", store, "--format", "{store_time}", "--limit", "1").out.decode().strip()
    assert len(rmqcore("cat", store, "--since", text).lines) == 3
    assert len(rmqcore("cat", store, "--until", text).lines) == 0


def test_bodies_as_asked(rmqcore: Run, store: Path) -> None:
    done = rmqcore("cat", store, "--format", "{body}", "--body", "text", "--topic", "Other")
    assert done.out.decode() == "\ufffd\0\n"
    done = rmqcore("cat", store, "--format", "{body}", "--body", "base64")
    assert base64.b64decode(done.out.split()[-1]) == zlib.compress("zwölf".encode())
    assert rmqcore("cat", store, "--format", "{body}", "--body", "none").out == b"\n\n\n"


def test_a_shortened_body_is_text_also_where_a_letter_is_cut(rmqcore: Run, store: Path) -> None:
    done = rmqcore("cat", store, "--format", "{body}", "--max-body", "3")
    assert done.out.decode().split("\n")[2] == "zw"


def test_a_file_gets_lines_too(rmqcore: Run, store: Path, tmp_path: Path) -> None:
    assert rmqcore("cat", store, "--format", "{topic}", "-o", tmp_path / "topics.txt").code == 0
    assert (tmp_path / "topics.txt").read_text() == "Orders\nOther\nOrders\n"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{topics}", "did you mean 'topic'?"),
        ("{nothing_like_it}", "fields are phy_offset, msg_size"),
        ("{topic.upper}", "unknown field 'topic.upper'"),
        ("{body.__class__}", "unknown field"),
        ("{0}", "unknown field '0'"),
        ("{}", "unknown field ''"),
        ("{topic", "expected '}'"),
        ("topic}", "Single '}'"),
        ("{topic!r}", "omit !r"),
        ("{topic:d}", "{topic:d}"),
        ("{topic:{queue_id}}", "expected a width"),
        ("{topic:1111111111}", "below 10000"),
        (r"{topic}\q", "is not an escape"),
        ("josnl", "did you mean 'jsonl'?"),
        ("xml", "expected one of table, jsonl, csv, arrow, parquet"),
    ],
)
def test_a_wrong_template_says_what_there_is(
    rmqcore: Run, store: Path, template: str, said: str
) -> None:
    done = rmqcore("cat", store, "--format", template, "--limit", "0")
    assert done.code == 64
    plain = " ".join(done.err.replace("│", " ").split())
    assert said in plain
    assert not done.out


@given(st.text(alphabet=r"{}topicbdy:!<>0123.\n[]x", max_size=30))
def test_any_text_is_a_template_or_wrong_usage(text: str) -> None:
    with suppress(typer.BadParameter):
        kind, template = format_or_template(text)
        assert (kind is None) != (template is None)


def test_options_that_do_not_go_together(rmqcore: Run, store: Path) -> None:
    for words in (["--json"], ["--blank"], ["--csv-safe"]):
        done = rmqcore("cat", store, "--format", "{topic}", *words)
        assert done.code == 64
        assert words[0] in done.err


def test_a_terminal_obeys_no_body(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "store")
    log.append(body=b"\x1b[31mred\nline")
    code, text, _ = in_terminal("cat", log.root, "--format", r"{topic}\t{body}", streams="stdout")
    assert code == 0
    assert text == "Orders\t\\x1b[31mred\\nline\r\n"


def test_a_terminal_shows_compressed_bodies_unpacked(store: Path) -> None:
    """They were mojibake: the bytes of zlib, read as UTF-8."""
    code, text, _ = in_terminal("cat", store, streams="stdout", COLUMNS="200")
    assert code == 0
    assert "zwölf" in text


def test_a_table_shows_a_body_that_does_not_unpack_as_it_is(rmqcore: Run, tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "store")
    log.append(body=b"no zlib", sys_flag=ZLIB)
    asked: list[list[str | Path]] = [
        ["cat", log.root],
        ["tail", log.root],
        ["lookup", log.root, "0"],
    ]
    for words in asked:
        done = rmqcore(*words, "--format", "table")
        assert done.code == 0
        assert b"no zlib" in done.out
        assert "shown as it is stored" in done.err
        assert rmqcore(*words, "--format", "table", "--decompress").code == 2


@pytest.mark.parametrize("verb", ["cat", "tail"])
def test_tables_as_asked(rmqcore: Run, store: Path, verb: str) -> None:
    done = rmqcore(verb, store, "--columns", "queue_offset,topic", "--wide")
    assert done.code == 0
    head, *rows = done.out.decode().splitlines()
    assert head.split() == ["queue_offset", "topic"]
    assert [row.split() for row in rows] == [["0", "Orders"], ["1", "Other"], ["2", "Orders"]]
    for words in (["--wide"], ["--columns", "topic"]):
        done = rmqcore(verb, store, "--format", "{topic}", *words)
        assert done.code == 64
        assert words[0] in done.err
