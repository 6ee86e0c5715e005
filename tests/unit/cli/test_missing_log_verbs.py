"""Verbs that read a log which lacks messages that the store knows exit with 2, and say so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cli.cli_runs import Run

import rmqcore as package
from rmqcore import Message

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}
READS = (
    ("cat",),
    ("cat", "--json"),
    ("cat", "--topic", "T", "--grep", "x"),
    ("cat", "--format", "csv"),
    ("tail",),
    ("stats",),
    ("info",),
    ("get", "--topic", "T", "--queue", "0", "--offset", "0"),
    ("get", "--json", "--topic", "T", "--queue", "0", "--offset", "0"),
    ("query", "--topic", "T", "--key", "K1"),
    ("lookup", "0"),
    ("lookup", "7F00000100002A9F0000000000000000"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store whose log's files lie in another directory."""
    with package.open(tmp_path / "store", **SIZES) as store:
        for n in range(120):
            store.put(Message("T", b"x" * 300, keys=[f"K{n}"])).raise_for_status()
        store.wait_dispatched()
    (tmp_path / "store" / "commitlog").rename(tmp_path / "store" / "log1")
    (tmp_path / "store" / "commitlog").mkdir()
    return tmp_path / "store"


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_exit_code_2_and_the_directory(rmqcore: Run, root: Path, words: tuple[str, ...]) -> None:
    verb, *rest = words
    done = rmqcore(verb, root, *rest)
    assert done.code == 2, done.err
    assert done.err.count("log_missing") == 1
    assert f"--commitlog {root}/log1 reads them" in done.err
    assert "no message" not in done.err
    if "--json" in words:
        assert [found["kind"] for found in json.loads(done.out)["damage"]] == ["log_missing"]
    done = rmqcore(verb, root, *rest, "--commitlog", root / "log1")
    assert "log_missing" not in done.err
    assert done.code == 0 or "7F00" in words[-1]


def test_verbs_that_write_elsewhere(rmqcore: Run, root: Path, tmp_path: Path) -> None:
    for number, words in enumerate(
        (
            ("rebuild", root, "--out", tmp_path / "built"),
            ("export", root, "--format", "jsonl", "--out", tmp_path / "exported"),
            ("diff", root, root),
        )
    ):
        done = rmqcore(*words)
        assert (number, done.code) == (number, 2)
        said = "there is no CommitLog file" if words[0] == "rebuild" else "log_missing"
        assert said in done.err


def test_query_tells_an_entry_without_its_record_from_no_entry(rmqcore: Run, root: Path) -> None:
    log = root / "commitlog"
    log.rmdir()
    (root / "log1").rename(log)
    records = list(package.read(root).messages())
    done = rmqcore("query", root, "--topic", "T", "--key", "nothing")
    assert (done.code, done.err) == (0, "the index has no message of T with this key\n")
    damaged = records[60]
    files = sorted(log.iterdir())
    file = next(path for path in reversed(files) if int(path.name) <= damaged.phy_offset)
    with file.open("r+b") as opened:
        opened.seek(damaged.phy_offset - int(file.name))
        opened.write(b"\xff" * 8)
    done = rmqcore("query", root, "--topic", "T", "--key", "K60")
    assert done.code == 2
    assert (
        f"the index has 1 entry for this key at {damaged.phy_offset}: no record starts there"
        in done.err
    )
    files[0].unlink()
    done = rmqcore("query", root, "--topic", "T", "--key", "K0")
    assert done.code == 0
    assert "deleted with the log's old files; the log starts at 16384" in done.err


def test_times_of_a_query_are_those_of_the_records(rmqcore: Run, tmp_path: Path) -> None:
    now = [1_700_000_000_000]
    root = tmp_path / "timed"
    with package.open(root, clock=lambda: now[0], **SIZES) as store:
        for key, step in (("A", 1999), ("B", 0), ("B", 1), ("B", -500), ("B", 5000)):
            store.put(Message("T", key.encode(), keys=[key])).raise_for_status()
            now[0] += step
        store.wait_dispatched()
    times = [view.store_timestamp_ms for view in package.read(root).messages(keys=["B"])]
    for since in {None, *times, *(time + 1 for time in times), *(time - 1 for time in times)}:
        for until in {None, *times, *(time + 1 for time in times)}:
            if since is not None and until is not None and since >= until:
                continue  # which is refused
            bounds = [] if since is None else ["--since", str(since)]
            bounds += [] if until is None else ["--until", str(until)]
            answers = [
                rmqcore(*words, "--topic", "T", "--key", "B", "--format", "jsonl", *bounds)
                for words in (("query", root), ("cat", root))
            ]
            assert answers[0].out == answers[1].out, bounds
            assert [answer.code for answer in answers] == [0, 0]


def packed(root: Path) -> None:
    for path in list((root / "log1").iterdir()):
        path.rename(root / "commitlog" / f"{path.name}.gz")


def one_directory_too_deep(root: Path) -> None:
    (root / "log1").rename(root / "commitlog" / "commitlog")


def in_the_root(root: Path) -> None:
    for path in list((root / "log1").iterdir()):
        path.rename(root / path.name)


def of_no_bytes(root: Path) -> None:
    for path in list((root / "log1").iterdir()):
        path.rename(root / "commitlog" / path.name).write_bytes(b"")


def of_zeros(root: Path) -> None:
    for path in list((root / "log1").iterdir()):
        size = path.stat().st_size
        path.rename(root / "commitlog" / path.name).write_bytes(bytes(size))


@pytest.mark.parametrize("words", READS, ids=" ".join)
@pytest.mark.parametrize(
    "harm", [packed, one_directory_too_deep, in_the_root, of_no_bytes, of_zeros]
)
def test_other_ways_to_lose_all_of_a_log(
    rmqcore: Run, root: Path, words: tuple[str, ...], harm: Callable[[Path], None]
) -> None:
    verb, *rest = words
    harm(root)
    done = rmqcore(verb, root, *rest)
    if harm is of_zeros and verb == "lookup":  # the place is in the log, and nothing is there
        assert done.code == 1
        return
    assert done.code == 2, done.err
    assert "log_missing" in done.err
