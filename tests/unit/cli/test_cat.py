"""cat: every record with every name, filters, bodies, formats, damage."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from support.cli.cli_runs import Run
from support.stores.golden_stores import CLEAN
from support.stores.live_log import LiveLog

from rmqcore import MessageView
from rmqcore.offline.export.message_rows import FIELDS
from rmqcore.offline.reader import StoreReader


def views_of(store: Path, **filters: Any) -> list[MessageView]:
    return [
        view for view in StoreReader(store).messages(**filters) if isinstance(view, MessageView)
    ]


def value_of(view: MessageView, name: str) -> Any:
    value = getattr(view, name)
    if name == "body":
        return base64.b64encode(value).decode()
    return list(value) if name == "keys" else value


@pytest.mark.parametrize("case", CLEAN)
def test_every_value_of_every_message(rmqcore: Run, golden: Path, case: str) -> None:
    store = golden / case / "store"
    done = rmqcore("cat", store, "--body", "base64")
    assert (done.code, done.err) == (0, "")
    assert done.lines == [
        {name: value_of(view, name) for name in FIELDS} for view in views_of(store)
    ]


def test_names_are_those_of_the_contract(rmqcore: Run, golden: Path) -> None:
    text = (
        "phy_offset msg_size magic body_crc queue_id flag queue_offset sys_flag born_timestamp_ms born_host "
        "store_timestamp_ms store_host reconsume_times prepared_transaction_offset body topic properties tags keys "
        "uniq_key msg_id tags_code"
    )
    names = text.split()
    [row] = rmqcore("cat", golden / "basic" / "store", "--limit", "1").lines
    assert list(row) == names


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("none", lambda body: None),
        ("text", lambda body: body.decode("utf-8", "replace")),
        ("base64", lambda body: base64.b64encode(body).decode()),
        ("sha256", lambda body: hashlib.sha256(body).hexdigest()),
    ],
)
def test_body_modes(rmqcore: Run, golden: Path, mode: str, shown: Any) -> None:
    store = golden / "compressed" / "store"
    rows = rmqcore("cat", store, "--body", mode).lines
    assert [row["body"] for row in rows] == [shown(view.body) for view in views_of(store)]


def test_decompressed_bodies(rmqcore: Run, golden: Path) -> None:
    store = golden / "compressed" / "store"
    done = rmqcore("cat", store, "--body", "sha256", "--decompress")
    assert [row["body"] for row in done.lines] == [
        hashlib.sha256(view.decompress()).hexdigest() for view in views_of(store)
    ]
    assert done.code == 0


def test_a_body_that_does_not_decompress_is_left_out(rmqcore: Run, tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "store")
    log.append(body=b"no zlib", sys_flag=1 | 3 << 8)
    log.append(body=b"plain")
    done = rmqcore("cat", log.root, "--decompress")
    assert done.code == 2
    assert [row["body"] for row in done.lines] == [None, "plain"]
    assert "body of the message at 0 left out" in done.err
    assert rmqcore("cat", log.root).code == 0


@pytest.mark.parametrize(
    ("words", "filters"),
    [
        (["--topic", "TopicBasicB"], {"topics": ["TopicBasicB"]}),
        (["--topic", "TopicBasicA", "--topic", "TopicBasicC"], {"topics": ["TopicBasicA", "TopicBasicC"]}),
        (["--queue", "1", "--queue", "3"], {"queue_ids": [1, 3]}),
        (["--tag", "TagA"], {"tags": ["TagA"]}),
        (["--key", "hot9"], {"keys": ["hot9"]}),
        (["--since", "1700086500000"], {"since_ms": 1700086500000}),
        (["--until", "1700086500000"], {"until_ms": 1700086500000}),
        (["--since", "2023-11-15T22:15:00Z", "--until", "2023-11-15T22:16:00+00:00"],
         {"since_ms": 1700086500000, "until_ms": 1700086560000}),
        (["--from-phy", "100000", "--to-phy", "200000"], {"start_phy_offset": 100000, "end_phy_offset": 200000}),
        (["--topic", "TopicBasicB", "--tag", "TagA", "--queue", "0"],
         {"topics": ["TopicBasicB"], "tags": ["TagA"], "queue_ids": [0]}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_filters(rmqcore: Run, golden: Path, words: list[str], filters: dict[str, Any]) -> None:
    store = golden / "basic" / "store"
    found = [view.phy_offset for view in views_of(store, **filters)]
    assert 0 < len(found) < 2000
    assert [row["phy_offset"] for row in rmqcore("cat", store, *words).lines] == found


@pytest.mark.parametrize("limit", [0, 1, 600])
def test_limit(rmqcore: Run, golden: Path, limit: int) -> None:
    store = golden / "basic" / "store"
    rows = rmqcore("cat", store, "--limit", str(limit)).lines
    assert [row["phy_offset"] for row in rows] == [view.phy_offset for view in views_of(store)][
        :limit
    ]


def test_blanks(rmqcore: Run, golden: Path) -> None:
    store = golden / "basic" / "store"
    rows = rmqcore("cat", store, "--blank").lines
    blanks = [row for row in rows if row.get("kind") == "BLANK"]
    assert len(rows) - len(blanks) == 2000
    assert len(blanks) == 6
    assert all(list(row) == ["kind", "phy_offset", "msg_size"] for row in blanks)
    assert [row["phy_offset"] for row in rows] == sorted(row["phy_offset"] for row in rows)
    assert "(BLANK)" in rmqcore("cat", store, "--blank", "--format", "table").out.decode()


def test_csv(rmqcore: Run, golden: Path) -> None:
    store = golden / "basic" / "store"
    done = rmqcore("cat", store, "--format", "csv", "--body", "sha256")
    rows = list(csv.DictReader(io.StringIO(done.out.decode(), newline="")))
    assert len(rows) == 2000
    for row, view in zip(rows, views_of(store), strict=True):
        assert tuple(row) == FIELDS
        assert json.loads(row["properties"]) == view.properties
        assert row["keys"].split() == list(view.keys)
        assert row["tags"] == (view.tags or "")
        assert int(row["phy_offset"]) == view.phy_offset


def test_table_in_a_pipe(rmqcore: Run, golden: Path) -> None:
    done = rmqcore("cat", golden / "basic" / "store", "--format", "table", "--limit", "3")
    header, *rows = done.out.decode().splitlines()
    assert header.split()[:4] == ["store_time", "topic", "queue", "offset"]
    assert len(rows) == 3
    assert "TopicBasicA" in rows[0]
    assert "\x1b" not in done.out.decode()


def test_control_characters_do_not_reach_the_terminal(rmqcore: Run, tmp_path: Path) -> None:
    """A body or topic with escape sequences must not be obeyed by the terminal that shows it."""
    log = LiveLog(tmp_path / "store")
    log.append("a\x1b]0;title\x07", b"\x1b[2J\r\n\x9b31m", tags="\x1b[31m", keys=["\x1bc"])
    for words in (["--format", "table"], ["--format", "jsonl"]):
        out = rmqcore("cat", log.root, *words).out
        assert b"\x1b" not in out
        assert b"\x07" not in out
        assert len(out.splitlines()) == (2 if "table" in words else 1)


def test_one_object(rmqcore: Run, golden: Path) -> None:
    for case, messages, damage in (("basic/store", 2000, 0), ("crash_flipped/input", 580, 1)):
        done = rmqcore("cat", golden / case, "--json")
        assert len(done.object["messages"]) == messages
        assert len(done.object["damage"]) == damage
    assert rmqcore("cat", golden / "basic" / "store", "--json", "--limit", "0").object == {
        "messages": [],
        "damage": [],
    }


@pytest.mark.parametrize(
    ("case", "messages", "kind"),
    [
        ("crash_flipped", 580, "crc"),
        ("crash_torn", 579, "torn_tail"),
        ("crash_garbage_tail", 580, "torn_tail"),
    ],
)
def test_damage_is_2_with_each_range_on_stderr(
    rmqcore: Run, golden: Path, case: str, messages: int, kind: str
) -> None:
    store = golden / case / "input"
    done = rmqcore("cat", store)
    assert done.code == 2
    assert len(done.lines) == messages
    reader = StoreReader(store)
    list(reader.messages())
    [line] = done.err.splitlines()
    [found] = reader.damage
    assert line.startswith(f"damaged: {found.start_phy_offset}..{found.end_phy_offset} ")
    assert kind in line
    assert found.path in line


def test_verify_crc_leaves_the_message_out(rmqcore: Run, golden: Path) -> None:
    done = rmqcore("cat", golden / "crash_flipped" / "input", "--verify-crc")
    assert (done.code, len(done.lines)) == (2, 579)


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_arrow_and_parquet_files(rmqcore: Run, golden: Path, tmp_path: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    store = golden / "basic" / "store"
    out = tmp_path / f"messages.{kind}"
    done = rmqcore("cat", store, "--tag", "TagA", "-o", out)
    assert (done.code, done.out) == (0, b"")
    table = pq.read_table(out) if kind == "parquet" else pa.ipc.open_file(out).read_all()
    assert table.equals(pa.table(StoreReader(store).batches(tags=["TagA"])))
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    rmqcore("cat", store, "--body", "none", "--limit", "7", "-o", out)
    table = pq.read_table(out) if kind == "parquet" else pa.ipc.open_file(out).read_all()
    assert table.num_rows == 7
    assert "body" not in table.column_names


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_arrow_and_parquet_in_a_pipe(rmqcore: Run, golden: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    done = rmqcore("cat", golden / "crash_flipped" / "input", "--format", kind)
    source = pa.BufferReader(done.out)
    table = pq.read_table(source) if kind == "parquet" else pa.ipc.open_stream(source).read_all()
    assert table.num_rows == 580
    assert done.code == 2


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows"])
def test_a_file_as_output(rmqcore: Run, golden: Path, tmp_path: Path, name: str) -> None:
    store = golden / "basic" / "store"
    (tmp_path / name).write_text("old")
    done = rmqcore("cat", store, "--limit", "5", "-o", tmp_path / name)
    assert (done.code, done.out) == (0, b"")
    kind = "csv" if name.endswith("csv") else "jsonl"
    assert (tmp_path / name).read_bytes() == rmqcore(
        "cat", store, "--limit", "5", "--format", kind
    ).out
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("verb", ["cat", "query"])
def test_a_file_of_no_known_ending(rmqcore: Run, golden: Path, tmp_path: Path, verb: str) -> None:
    """``-o rows.foo`` was JSON Lines, and nobody said so."""
    more = ("--topic", "TopicBasicA", "--key", "key-0-0") if verb == "query" else ("--limit", "5")
    words = (verb, golden / "basic" / "store", *more, "-o", tmp_path / "rows.foo")
    done = rmqcore(*words)
    assert done.code == 64
    assert all(known in done.err for known in (".jsonl", ".csv", ".arrow", ".parquet", "--format"))
    assert not list(tmp_path.iterdir())
    assert rmqcore(*words, "--format", "csv").code == 0
    assert rmqcore(verb, golden / "basic" / "store", *more, "-o", "/dev/null").code == 0


def test_a_file_that_cannot_be_written(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    done = rmqcore("cat", golden / "basic" / "store", "-o", tmp_path / "no" / "such" / "rows.jsonl")
    assert done.code == 1
    assert "No such file or directory" in done.err


def test_without_pyarrow(
    rmqcore: Run, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    for verb, name in (("cat", "rows.parquet"), ("export", "out")):
        done = rmqcore(verb, golden / "basic" / "store", "-o", tmp_path / name)
        assert done.code == 1
        assert "pip install 'rmqcore[arrow]'" in done.err
    assert not list(tmp_path.iterdir())
