"""Verbs on URLs: those that read answer what they answer of a directory, all others refuse with one sentence."""

from __future__ import annotations

import gc
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.remote.memory_stores import MemoryStores, left_behind, memory_stores

URL = "s3://bucket/store"


@pytest.fixture(autouse=True)
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing that was fetched is left when a verb has ended."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    gc.collect()
    assert left_behind() == []


@pytest.fixture
def memory() -> Iterator[MemoryStores]:
    with memory_stores() as found:
        yield found


READING = {
    "info": [],
    "stats": ["--by", "queue"],
    "cat": ["--topic", "TopicBasicA", "--limit", "20"],
    "cat table": ["--limit", "20", "--format", "table"],
    "get": ["--topic", "TopicBasicA", "--queue", "1", "--offset", "3"],
    "query": ["--topic", "TopicBasicA", "--key", "KEY"],
    "lookup": ["0"],
    "lookup nothing": ["7"],
    "fsck": [],
    "fsck json": ["--json"],
    "fsck table": ["--format", "table"],
    "cat unknown": ["--topic", "topicbasica"],
}
VARIES = re.compile(
    r'"(seconds|commitlog_bytes|consumequeue_bytes|index_bytes|disk_bytes)": [\d.e-]+|time +.*'
)
"""How long it took, and what files take on a disk or behind a URL."""


def answers_of_a_url_are_those_of_the_directory(rmqcore: Run, url: str, root: Path) -> None:
    for what, words in READING.items():
        verb = what.partition(" ")[0]
        remote, local = rmqcore(verb, url, *words), rmqcore(verb, root, *words)
        assert remote.code == local.code, what
        for found, expected in ((remote.out.decode(), local.out.decode()), (remote.err, local.err)):
            # A table's column is as wide as the path in it.
            told = re.sub(r"\s+", " ", VARIES.sub("", expected).replace(str(root), url))
            assert re.sub(r"\s+", " ", VARIES.sub("", found)) == told, what
        assert "rmqcore-" not in remote.out.decode() + remote.err, what
        gc.collect()
        assert left_behind() == [], what


@pytest.mark.parametrize("case", ["basic", "crash_flipped"])
def test_verbs_that_read(rmqcore: Run, golden: Path, memory: MemoryStores, case: str) -> None:
    root = next(path.parent for path in sorted(golden.glob(f"{case}/*/commitlog")))
    answers_of_a_url_are_those_of_the_directory(rmqcore, memory.put(root, case), root)


def test_an_export(rmqcore: Run, golden: Path, memory: MemoryStores, tmp_path: Path) -> None:
    root = golden / "basic" / "store"
    for store, out in ((memory.put(root), "remote"), (root, "local")):
        done = rmqcore("export", store, "-o", tmp_path / out, "--format", "jsonl")
        assert (done.code, done.object["path"]) == (0, str(store))
    found, expected = (
        {
            str(path.relative_to(tmp_path / out)): path.read_bytes()
            for path in (tmp_path / out).rglob("*")
            if path.is_file()
        }
        for out in ("remote", "local")
    )
    assert found == expected
    assert found


def test_a_file_url_is_a_directory(rmqcore: Run, golden: Path) -> None:
    root = golden / "basic" / "store"
    assert rmqcore("cat", f"file://{root}").out == rmqcore("cat", root).out
    assert rmqcore("recover", f"file://{root}", "--json").code == 0


def test_options_of_the_filesystem(rmqcore: Run, golden: Path) -> None:
    root = golden / "basic" / "store"
    done = rmqcore("cat", root, "--storage", "region=eu-1")
    assert (done.code, "is a local directory" in done.err) == (64, True)
    done = rmqcore("cat", URL, "--storage", "region")
    assert (done.code, "'region' is not NAME=VALUE" in done.err) == (64, True)
    done = rmqcore("cat", URL, "--storage", "regioon=eu-1")
    assert (done.code, done.err) == (
        1,
        "Error: storage.regioon is not an option of s3://: did you mean storage.region?\n",
    )


OTHERS = {
    "recover": [URL],
    "recover apply": [URL, "--apply", "--yes"],
    "rebuild": [URL],
    "rebuild out": ["STORE", "--out", URL],
    "salvage": [URL, "OUT"],
    "salvage out": ["STORE", URL],
    "backup": [URL, "OUT"],
    "backup out": ["STORE", URL],
    "diff": [URL, "STORE"],
    "diff other": ["STORE", URL],
    "tail": [URL],
    "top": [URL],
    "retention": [URL],
    "doctor": [URL],
    "serve": [URL],
    "export out": ["STORE", "-o", URL],
}


def test_all_others_refuse(
    rmqcore: Run, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory ``s3:`` was made, or looked for, below the working directory."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    given = {"STORE": str(golden / "basic" / "store"), "OUT": str(tmp_path / "out")}
    for what, words in OTHERS.items():
        done = rmqcore(what.partition(" ")[0], *(given.get(word, word) for word in words))
        assert done.code == 64, what
        text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.err).split())
        assert (
            "s3://bucket/store is a URL, expected a local directory; only info, stats, cat, get, "
            "query, lookup, fsck and export read stores behind URLs"
        ) in text, what
        assert sorted(tmp_path.iterdir()) == before, what


def test_secrets_of_a_url_are_not_shown(rmqcore: Run) -> None:
    done = rmqcore("recover", "s3://key:hush@bucket/store?secret_key=hush")
    assert (done.code, "hush" in done.err) == (64, False)


def odd_store(golden: Path, root: Path) -> Path:
    """What should be files are directories, and the other way round; files are short, empty, torn."""
    shutil.copytree(golden / "basic" / "store", root)
    (root / "checkpoint").unlink()
    (root / "checkpoint" / "inside").mkdir(parents=True)
    (root / "checkpoint" / "inside" / "x").write_bytes(b"")
    queue = root / "consumequeue" / "TopicBasicA"
    (queue / "0" / "00000000000000000000").write_bytes(b"short")
    (queue / "7").write_bytes(b"a file in the place of a queue")
    (root / "consumequeue" / "TopicFile").write_bytes(b"a file in the place of a topic")
    (queue / "1" / "notes").mkdir()
    (queue / "1" / "notes" / "x").write_bytes(b"")
    first = min((root / "index").iterdir())
    first.write_bytes(first.read_bytes()[:30])
    (root / "index" / "99990101000000000").mkdir()
    (root / "index" / "99990101000000000" / "x").write_bytes(b"")
    (root / "commitlog" / "readme.txt").write_bytes(b"")
    (root / "config" / "consumerOffset.json").mkdir(parents=True)
    (root / "config" / "consumerOffset.json" / "x").write_bytes(b"")
    (root / "config" / "consumerOffset.json.bak").write_bytes(
        b'{"offsetTable": {"T@G": 5, "nobody": {}}}'
    )
    (root / "config" / "topics.json").write_bytes(b"{torn")
    (root / "config" / "rdb").mkdir()
    (root / "config" / "rdb" / "CURRENT").write_bytes(b"")
    return root


@pytest.mark.parametrize("short", [False, True], ids=["directory", "short"])
def test_messages_name_the_url(
    rmqcore: Run, golden: Path, tmp_path: Path, memory: MemoryStores, short: bool
) -> None:
    """The path of a file in the temporary directory means nothing to a reader."""
    root = odd_store(golden, tmp_path / "odd")
    if short:
        shutil.rmtree(root / "checkpoint")
        (root / "checkpoint").write_bytes(b"short")
    answers_of_a_url_are_those_of_the_directory(rmqcore, memory.put(root, "odd"), root)
