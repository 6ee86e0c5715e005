"""``--unwrap``: the messages in stored batches, which each verb printed as one message with the batch as its body."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.stores.archives import unpack
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore import codec, sysflag
from rmqcore.codec.message import MessageView
from rmqcore.offline.export.export import ExportFormat, export

Run = Callable[..., Any]
TOPIC, QUEUE, COUNT = "BatchT", 0, 61
"""The queue has 61 messages in 9 records."""
WRAPPED = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP
Shown = tuple[int, int, str]
"""Queue offset, CommitLog offset and body."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store of RocketMQ 5.5.0."""
    archive = ROOT / "tests" / "conformance" / "batch-queues.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("store")) / "batchcq"


def inner(root: Path) -> list[Shown]:
    """The messages of the queue, by what the records' own bytes say."""
    found = []
    for view in rmqcore.read(root).messages(topics=[TOPIC], queue_ids=[QUEUE]):
        is_batch = view.sys_flag & WRAPPED == WRAPPED
        bodies = [one.body for one in codec.decode_batch(view.body)] if is_batch else [view.body]
        for number, body in enumerate(bodies):
            found.append((view.queue_offset + number, view.phy_offset, body.decode()))
    assert [one[0] for one in found] == list(range(COUNT))
    return found


def rows(text: str) -> list[Shown]:
    values = [json.loads(line) for line in text.splitlines()]
    return [(one["queue_offset"], one["phy_offset"], one["body"]) for one in values]


def test_cat(root: Path, rmqcore: Run, tmp_path: Path) -> None:
    words = ["cat", root, "--topic", TOPIC, "--queue", str(QUEUE), "--unwrap"]
    want = inner(root)
    assert rows(rmqcore(*words).out) == want
    assert rows(rmqcore(*words, "--limit", "8").out) == want[:8]
    table = csv.DictReader(io.StringIO(rmqcore(*words, "--format", "csv").out.decode()))
    assert [one["body"] for one in table] == [body for _, _, body in want]
    whole = json.loads(rmqcore(*words, "--json").out)
    assert [one["body"] for one in whole["messages"]] == [body for _, _, body in want]
    some = want[10][2]
    assert [one for one in rows(rmqcore(*words, "--grep", some).out) if one[2] == some]
    out = tmp_path / "x.parquet"
    assert rmqcore(*words, "--format", "parquet", "-o", out, "--limit", "60").code == 0
    assert parquet_rows(out) == want[:60]


def parquet_rows(path: Path) -> list[Shown]:
    table = pytest.importorskip("pyarrow.parquet").read_table(path)
    names = ("queue_offset", "phy_offset", "body")
    found = zip(*(table[name].to_pylist() for name in names), strict=True)
    return [(offset, phy_offset, body.decode()) for offset, phy_offset, body in found]


def test_without_the_option_a_batch_is_one_message(root: Path, rmqcore: Run) -> None:
    done = rmqcore("cat", root, "--topic", TOPIC, "--queue", str(QUEUE))
    assert len(done.out.splitlines()) == 9


def test_grep_is_for_the_messages(root: Path, rmqcore: Run) -> None:
    want = inner(root)
    wanted = want[-1][2]
    holding = [one for one in want if wanted in one[2]]
    words = [root, "--topic", TOPIC, "--queue", str(QUEUE), "--unwrap", "--grep", wanted]
    assert rows(rmqcore("cat", *words).out) == holding
    found = rows(rmqcore("tail", *words, "-n", "5", "--format", "jsonl").out)
    assert found == holding[-5:]


def test_tail_counts_messages(root: Path, rmqcore: Run) -> None:
    words = [root, "--topic", TOPIC, "--queue", str(QUEUE), "--unwrap", "--format", "jsonl"]
    for count in (0, 1, 7, 100):
        found = rows(rmqcore("tail", *words, "-n", str(count)).out)
        assert found == inner(root)[-count:] if count else not found


def test_get(root: Path, rmqcore: Run) -> None:
    words = ["get", root, "--topic", TOPIC, "--queue", str(QUEUE), "--offset", "0", "--max", "99"]
    done = rmqcore(*words, "--unwrap")
    whole = json.loads(rmqcore(*words, "--unwrap", "--json").out)
    assert rows(done.out) == inner(root)[: whole["next_begin_offset"]]
    assert len(whole["messages"]) == whole["next_begin_offset"] > 30


def first_batch(root: Path) -> MessageView:
    views = rmqcore.read(root).messages(topics=[TOPIC])
    return next(view for view in views if view.sys_flag & WRAPPED and view.keys)


def test_query_and_lookup(root: Path, rmqcore: Run) -> None:
    batch = first_batch(root)
    want = [(one.queue_offset, batch.phy_offset, one.body.decode()) for one in codec.unwrap(batch)]
    assert len(want) > 1
    words = ["query", root, "--topic", TOPIC, "--key", batch.keys[0], "--unwrap"]
    assert rows(rmqcore(*words).out) == want
    for given in (batch.msg_id, str(batch.phy_offset)):
        assert rows(rmqcore("lookup", root, given, "--unwrap", "--format", "jsonl").out) == want
        whole = json.loads(rmqcore("lookup", root, given, "--unwrap", "--json").out)
        assert len(whole["messages"]) == len(want)
    plain = next(iter(rmqcore_read(root)))
    one = json.loads(rmqcore("lookup", root, str(plain.phy_offset), "--unwrap", "--json").out)
    assert one["msg_id"] == plain.msg_id, (
        "a message that is not a batch is shown as without the option"
    )


def rmqcore_read(root: Path) -> list[MessageView]:
    return list(rmqcore.read(root).messages())


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_export(root: Path, rmqcore: Run, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    words = ["export", root, "--topic", TOPIC, "--queue", str(QUEUE), "--unwrap", "--format", kind]
    done = rmqcore(*words, "-o", out)
    assert (done.code, json.loads(done.out)["rows"]) == (0, COUNT)
    (part,) = out.glob(f"*/*/part-*.{kind}")
    if kind == "parquet":
        assert parquet_rows(part) == inner(root)
    else:
        text = part.read_text()
        found = rows(text) if kind == "jsonl" else list(csv.DictReader(io.StringIO(text)))
        assert len(found) == COUNT


def test_a_batch_that_cannot_be_taken_apart(tmp_path: Path, rmqcore: Run) -> None:
    """It is shown as it is stored and named, with exit code 2."""
    store = BuiltStore(tmp_path / "store")
    store.put(body=b"sound")
    bad = store.put(body=b"no batch", sys_flag=WRAPPED)
    store.put(body=b"sound too")
    root = store.write()
    bodies = ["sound", "no batch", "sound too"]
    for words in (
        ["cat"],
        ["tail", "--format", "jsonl"],
        ["get", "--topic", "T", "--queue", "0", "--offset", "0"],
    ):
        done = rmqcore(words[0], root, *words[1:], "--unwrap")
        assert ([body for _, _, body in rows(done.out)], done.code) == (bodies, 2), words
        assert f"batch at {bad.phy_offset} shown as one message" in done.err
        assert "TOTALSIZE" in done.err
    for kind in ("arrow", "parquet"):
        out = tmp_path / f"x.{kind}"
        for words in (
            ["cat"],
            ["get", "--topic", "T", "--queue", "0", "--offset", "0"],
        ):
            done = rmqcore(words[0], root, *words[1:], "--unwrap", "--format", kind, "-o", out)
            assert (done.code, f"batch at {bad.phy_offset}" in done.err) == (2, True), words
    kinds: tuple[ExportFormat, ...] = ("parquet", "jsonl")
    for form in kinds:
        done = rmqcore("export", root, "--unwrap", "--format", form, "-o", tmp_path / form)
        assert (done.code, f"at {bad.phy_offset}" in done.err) == (2, True)
        report = export(root, tmp_path / f"again-{form}", file_format=form, unwrap=True)
        assert (report.rows, report.wrapped, report.wrapped_at) == (3, 1, [bad.phy_offset])
        assert report.exit_code == 2
