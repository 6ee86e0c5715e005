"""rmqcore without a verb: what the store is that the working directory is, elsewhere the help."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import StoreCopy
from support.cli.cli_runs import Run

from rmqcore.disk.locks.lock import StoreLock


def test_a_store(rmqcore: Run, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden / "basic" / "store")
    done = rmqcore()
    text = done.out.decode()
    assert (done.code, done.err) == (0, "")
    for word in ("CommitLog file", "topics", "2023-11-1", "cleanly closed"):
        assert word in text
    commands = [line.split("  ")[0] for line in text.splitlines() if line.startswith("rmqcore ")]
    assert commands == ["rmqcore tail .", "rmqcore stats .", "rmqcore fsck ."]
    for line in commands:
        assert rmqcore(*line.split()[1:]).code == 0


def test_who_has_it_and_how_it_was_left(
    rmqcore: Run, store_copy: StoreCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_copy("crash_running_copy", "input")
    monkeypatch.chdir(store)
    text = rmqcore().out.decode()
    assert "not in use, but not cleanly closed" in text
    assert "rmqcore doctor ." in text
    with StoreLock(store / "lock"):
        assert "in use by process" in rmqcore().out.decode()


def test_an_empty_log(rmqcore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
    monkeypatch.chdir(tmp_path)
    done = rmqcore()
    assert (done.code, done.err) == (0, "")
    assert "no message" in done.out.decode()


@pytest.mark.parametrize("made", [[], ["index"], ["commitlog"], ["index/a", "commitlog/b"]])
def test_elsewhere_the_help(
    rmqcore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    """Many a project has a folder of one of these names."""
    for name in made:
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    done = rmqcore()
    assert done.code == 64
    assert "Usage: rmqcore" in done.out.decode() + done.err
