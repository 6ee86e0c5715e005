"""--grep of cat and tail: messages by what is in their bodies."""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path

import pytest
from support.cli.cli_runs import Result, Run
from support.stores.live_log import LiveLog

from rmqcore.offline.reader import StoreReader

ZLIB = 1 | 3 << 8
LZ4 = 1 | 1 << 8
BODIES = [
    b"user=41 paid",
    b"USER=42 left",
    "Grüße von ÄPFEL".encode(),
    b"\xff\xfe user=43",
    b"x.y",
    b"xzy",
    b"key in KEYS only",
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    log = LiveLog(tmp_path / "store")
    for body in BODIES:
        log.append(body=body)
    log.append(body=zlib.compress(b"user=44 packed"), sys_flag=ZLIB)
    log.append(keys=["user=45"])
    return log.root


def found(done: Result) -> list[int]:
    assert (done.code, done.err) == (0, "")
    return [row["queue_offset"] for row in done.lines]


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (["--grep", "user="], [0, 3, 7]),
        (["--grep", "user=", "-i"], [0, 1, 3, 7]),
        (["--grep", "äpfel", "--ignore-case"], [2]),
        (["--grep", "x.y"], [4]),
        (["--grep", "X.Y", "-i"], [4]),
        (["--grep", "x.y", "-E"], [4, 5]),
        (["--regexp", "--grep", r"user=4[1-3]\b"], [0, 3]),
        (["-E", "-i", "--grep", r"^user=\d+ l"], [1]),
        (["--grep", "paid", "--grep", "packed"], [0, 7]),
        (["--grep", "user=45"], []),
    ],
    ids=str,
)
def test_bodies_that_match(rmqcore: Run, store: Path, words: list[str], offsets: list[int]) -> None:
    assert found(rmqcore("cat", store, *words)) == offsets
    assert found(rmqcore("tail", store, *words)) == offsets
    assert found(rmqcore("tail", store, *words, "-n", "2")) == offsets[-2:]


def test_the_limit_counts_what_matches(rmqcore: Run, store: Path) -> None:
    assert found(rmqcore("cat", store, "--grep", "user=", "--limit", "2")) == [0, 3]


def test_no_blank_matches(rmqcore: Run, store: Path) -> None:
    assert found(rmqcore("cat", store, "--grep", "user=", "--blank")) == [0, 3, 7]


def test_the_newest_of_a_log_of_many_files(rmqcore: Run, golden: Path) -> None:
    """`tail -n N` looks for its beginning from the end of the log backwards: there the pattern counts, too."""
    store = golden / "basic" / "store"
    bodies = {view.phy_offset: view.body for view in StoreReader(store).messages()}
    want = [at for at, body in bodies.items() if re.search(rb"7", body)]
    assert len(want) > 50
    done = rmqcore("tail", store, "-n", "50", "--grep", "7", "--body", "none")
    assert [row["phy_offset"] for row in done.lines] == want[-50:]


def test_a_body_that_cannot_be_unpacked_is_told_and_is_2(rmqcore: Run, tmp_path: Path) -> None:
    """It may have the text: an answer without it is not whole."""
    log = LiveLog(tmp_path / "store")
    log.append(body=b"no zlib, paid", sys_flag=ZLIB)
    log.append(body=b"paid")
    for verb in ("cat", "tail"):
        done = rmqcore(verb, log.root, "--grep", "paid")
        assert done.code == 2
        assert [row["queue_offset"] for row in done.lines] == [1]
        assert done.err.count("body of the message at 0 not searched") == 1
        assert "Hint" not in done.err


def test_a_missing_library_is_hinted_at_behind_a_body_that_is_damaged(
    rmqcore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first body that failed took the only hint, although a damaged one has none that helps."""
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    log = LiveLog(tmp_path / "store")
    for sys_flag in (ZLIB, LZ4, LZ4):
        log.append(body=b"neither", sys_flag=sys_flag)
    for words in (["--grep", "paid"], ["--decompress"]):
        done = rmqcore("cat", log.root, *words)
        assert done.code == 2
        assert done.err.count("Hint: ") == done.err.count("Hint: install lz4 and zstandard") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--grep", ""], "--grep"),
        (["--grep", "(", "-E"], "not a regular expression"),
        (["-E"], "--regexp"),
        (["-i"], "--ignore-case"),
        (["--grep", "x", "--format", "arrow"], "arrow"),
    ],
    ids=" ".join,
)
def test_wrong_usage(rmqcore: Run, store: Path, words: list[str], said: str) -> None:
    done = rmqcore("cat", store, *words)
    assert done.code == 64
    assert said in done.err
