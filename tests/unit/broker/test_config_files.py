"""The files in config/ of a broker: whole or not at all, with the one before, read back or refused."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from support.broker import FakeLoop

from rmqcore.broker.config_files import AGAIN_AFTER, ConfigFiles
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreFormatError

NAME = "topics.json"


class Files:
    """A folder of files with the loop of its broker."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.loop = FakeLoop()
        self.files = ConfigFiles(StorePaths(root), self.loop)

    def path(self, name: str = NAME) -> Path:
        return self.root / "config" / name

    def put(self, text: str, name: str = NAME) -> None:
        self.path().parent.mkdir(exist_ok=True)
        self.path(name).write_text(text, encoding="utf-8")

    def has(self, name: str = NAME) -> object:
        return json.loads(self.path(name).read_text(encoding="utf-8"))

    def save(self, value: dict[str, object]) -> None:
        """Write a file, and wait until it is on disk."""
        done: list[bool] = []
        self.files.save(NAME, value, lambda: done.append(True))
        self.loop.run_until(lambda: bool(done))


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Files]:
    made = Files(tmp_path)
    yield made
    made.files.close()


# ---- reading ----------------------------------------------------------------------------------------


def test_nothing_is_there(at: Files) -> None:
    assert at.files.load(NAME) is None
    assert at.files.problems == []


def test_what_was_saved_is_loaded(at: Files) -> None:
    at.save({"a": [1, "é世"]})
    assert at.files.load(NAME) == {"a": [1, "é世"]}


@pytest.mark.parametrize("text", ["", "   ", '{"a":', "[1]", '{"a":1}x', "\0" * 100])
def test_a_file_that_cannot_be_read_falls_back_and_says_so(at: Files, text: str) -> None:
    at.put(text)
    at.put('{"a":1}', f"{NAME}.bak")
    assert at.files.load(NAME) == {"a": 1}
    (problem,) = at.files.problems
    assert str(at.path()) in problem
    assert f"read {NAME}.bak instead" in problem


def test_a_missing_file_falls_back_and_says_so(at: Files) -> None:
    at.put('{"a":1}', f"{NAME}.bak")
    assert at.files.load(NAME) == {"a": 1}
    assert "is not there" in at.files.problems[0]


@pytest.mark.parametrize("backup", [None, "", '{"a":'])
def test_what_is_lost_is_never_silently_empty(at: Files, backup: str | None) -> None:
    at.put('{"a":')
    if backup is not None:
        at.put(backup, f"{NAME}.bak")
    with pytest.raises(StoreFormatError, match=r"topics\.json: it is not JSON"):
        at.files.load(NAME)


def test_an_empty_file_is_none_where_there_never_was_another(at: Files) -> None:
    """A Java broker that is killed in its first write leaves an empty file: it must not keep us from starting."""
    at.put("")
    assert at.files.load(NAME) is None
    assert "treating it as missing" in at.files.problems[0]


def test_what_does_not_fit_together_counts_as_unreadable(at: Files) -> None:
    def parse(saved: dict[str, object]) -> object:
        if "wanted" not in saved:
            raise ValueError("wanted is missing")
        return saved["wanted"]

    at.put('{"a":1}')
    at.put('{"wanted":2}', f"{NAME}.bak")
    assert at.files.load_as(NAME, parse) == 2
    assert "wanted is missing" in at.files.problems[0]


def test_a_link_is_not_followed(at: Files, tmp_path: Path) -> None:
    at.put('{"a":1}', "other.json")
    at.path().symlink_to(at.path("other.json"))
    with pytest.raises(StoreFormatError, match="link"):
        at.files.load(NAME)


# ---- writing ----------------------------------------------------------------------------------------


def test_the_one_before_is_kept(at: Files) -> None:
    at.save({"n": 1})
    assert not at.path(f"{NAME}.bak").exists()
    at.save({"n": 2})
    at.save({"n": 3})
    assert at.has() == {"n": 3}
    assert at.has(f"{NAME}.bak") == {"n": 2}
    assert sorted(os.listdir(at.path().parent)) == [NAME, f"{NAME}.bak"]


def test_a_damaged_file_never_becomes_the_backup(at: Files) -> None:
    """The backup is all that is left: were it replaced, a crash in the next write would lose everything."""
    at.put('{"n":')
    at.put('{"n":1}', f"{NAME}.bak")
    assert at.files.load(NAME) == {"n": 1}
    at.save({"n": 2})
    assert at.has() == {"n": 2}
    assert at.has(f"{NAME}.bak") == {"n": 1}
    assert at.path(f"{NAME}.damaged").read_text() == '{"n":'


def test_only_the_latest_of_a_burst_is_written(at: Files) -> None:
    told: list[int] = []
    built: list[int] = []

    def value(n: int) -> dict[str, object]:
        built.append(n)
        return {"n": n}

    for n in range(100):
        at.files.save(NAME, partial(value, n), partial(told.append, n))
    assert built == [0]
    at.loop.run_until(lambda: len(told) == 100)
    assert built == [0, 99]
    assert told == list(range(100))
    assert at.has() == {"n": 99}
    assert at.has(f"{NAME}.bak") == {"n": 0}


def test_nobody_is_told_before_it_is_on_disk(at: Files) -> None:
    on_disk: list[object] = []
    for n in range(20):
        at.files.save(NAME, {"n": n}, lambda: on_disk.append(at.has()))
    at.loop.run_until(lambda: len(on_disk) == 20)
    assert on_disk == [{"n": 0}, *[{"n": 19}] * 19]


def test_close_writes_all_and_tells_all(at: Files) -> None:
    told: list[str] = []
    at.files.save("a.json", {"n": 1}, lambda: told.append("a1"))
    at.files.save("a.json", {"n": 2}, lambda: told.append("a2"))
    at.files.save("b.json", {"n": 3}, lambda: told.append("b"))
    at.files.close()
    assert sorted(told) == ["a1", "a2", "b"]
    assert (at.has("a.json"), at.has("b.json")) == ({"n": 2}, {"n": 3})
    at.loop.run()
    at.files.close()
    assert sorted(told) == ["a1", "a2", "b"]
    with pytest.raises(ValueError, match="closed"):
        at.files.save("a.json", {})


def test_a_write_that_fails_is_tried_again(at: Files, caplog: pytest.LogCaptureFixture) -> None:
    at.path().parent.write_text("a file where the folder should be")
    at.save({"n": 1})  # it is told all the same: Java goes on as well
    at.save({"n": 1})
    at.path().parent.unlink()
    at.loop.advance(round(AGAIN_AFTER * 1000))
    at.loop.run_until(lambda: at.path().exists())
    at.files.close()
    assert at.has() == {"n": 1}
    wrong, over = caplog.messages  # not a line for each try
    assert "could not be written" in wrong
    assert over.endswith("topics.json can be written again")


def test_a_write_that_failed_is_made_at_the_end(at: Files) -> None:
    at.path().parent.write_text("a file where the folder should be")
    at.save({"n": 1})
    at.path().parent.unlink()
    at.files.close()
    assert at.has() == {"n": 1}


def test_a_newer_value_is_written_rather_than_the_one_that_failed(at: Files) -> None:
    at.path().parent.write_text("a file where the folder should be")
    at.save({"n": 1})
    at.path().parent.unlink()
    at.save({"n": 2})
    at.loop.advance(round(AGAIN_AFTER * 1000))
    at.files.close()
    assert at.has() == {"n": 2}


def test_a_file_is_written_as_it_was_in_the_loop_and_made_elsewhere(at: Files) -> None:
    values, threads, done = {"a": 1}, [], []

    def snapshot() -> Callable[[], dict[str, int]]:
        copied = dict(values)

        def make() -> dict[str, int]:
            threads.append(threading.get_ident())
            return copied

        return make

    at.files.save(NAME, snapshot, lambda: done.append(True))
    values["a"] = 2
    at.loop.run_until(lambda: bool(done))
    assert at.has() == {"a": 1}
    assert threads != [threading.get_ident()]
