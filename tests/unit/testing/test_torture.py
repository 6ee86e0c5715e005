"""`python -m rmqcore.testing.torture`: what it refuses, what it says, and what it leaves behind."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcore.testing import fault_shim, torture
from rmqcore.testing.verdict import PromiseBrokenError

Run = Callable[[Path, random.Random], Counter[str]]


def fine(folder: Path, rng: random.Random) -> Counter[str]:
    (folder / "made").write_text(str(rng.random()))
    return Counter({"things": 2})


def broken(folder: Path, rng: random.Random) -> Counter[str]:
    (folder / "made").write_text("what shows it")
    raise PromiseBrokenError("a message is gone")


def slow_disk(folder: Path, rng: random.Random) -> Counter[str]:
    raise OSError(28, "No space left on device")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces the parts of a run."""

    def replace(**runs: Run) -> None:
        made = lambda: [torture.Part(name, run) for name, run in runs.items()]  # noqa: E731
        monkeypatch.setattr(torture, "all_parts", made)

    return replace


def test_all_held(
    tmp_path: Path, parts: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    parts(one=fine, two=fine)
    folder = tmp_path / "new" / "place"
    assert torture.main([str(folder), "--rounds", "3", "--seed", "7", "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["held"]
    assert answer["seed"] == 7
    assert [part["counts"] for part in answer["parts"]] == [{"things": 6}] * 2
    assert answer["disk"]["sync_seconds"] > 0
    assert "seed 7" in err
    assert err.count("one: ") == 3
    assert not folder.exists()


def test_a_broken_promise_is_told_and_what_shows_it_stays(
    tmp_path: Path, parts: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    parts(one=broken, two=fine)
    assert torture.main([str(tmp_path / "d"), "--rounds", "2"]) == 1
    out, _ = capsys.readouterr()
    assert "BROKEN: round 0" in out
    assert "a message is gone" in out
    assert "held: 4 things" in out
    assert (tmp_path / "d" / "one-0" / "made").read_text() == "what shows it"
    assert not (tmp_path / "d" / "two-0").exists()


def test_a_part_that_cannot_go_on_is_no_success(
    tmp_path: Path, parts: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    parts(one=slow_disk)
    assert torture.main([str(tmp_path / "d"), "--rounds", "1"]) == 1
    assert "No space left" in capsys.readouterr().out


def test_a_part_without_a_compiler_says_that_it_did_not_run(
    tmp_path: Path,
    parts: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = lambda: [torture.Part("cuts", fine, fault_shim.why_not), torture.Part("one", fine)]  # noqa: E731
    monkeypatch.setattr(torture, "all_parts", made)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert torture.main([str(tmp_path / "d"), "--rounds", "1"]) == 0
    out = capsys.readouterr().out
    assert "did not run: there is no C compiler" in out
    assert out.endswith("everything that ran held; cuts did not run\n")


def test_a_part_that_was_asked_for_and_cannot_run_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without mkfs.xfs `--part real-cuts` printed "everything held", exit code 0."""
    made = lambda: [torture.Part("cuts", fine, lambda: "there is no mkfs.xfs")]  # noqa: E731
    monkeypatch.setattr(torture, "all_parts", made)
    assert torture.main([str(tmp_path / "d"), "--rounds", "1", "--part", "cuts"]) == 1
    assert "--part cuts cannot run: there is no mkfs.xfs" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_time_ends_a_run_after_one_round_of_each(
    tmp_path: Path, parts: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    parts(one=fine, two=fine)
    assert torture.main([str(tmp_path / "d"), "--minutes", "0.0000001", "--json"]) == 0
    assert [part["rounds"] for part in json.loads(capsys.readouterr().out)["parts"]] == [1, 1]


def test_ctrl_c_leaves_nothing(tmp_path: Path, parts: Callable[..., None]) -> None:
    def interrupted(folder: Path, rng: random.Random) -> Counter[str]:
        (folder / "made").touch()
        raise KeyboardInterrupt

    parts(one=interrupted)
    (tmp_path / "d").mkdir()
    assert torture.main([str(tmp_path / "d"), "--rounds", "1"]) == 130
    assert list((tmp_path / "d").iterdir()) == []


@pytest.mark.parametrize(
    "args",
    [["--rounds", "0"], ["--minutes", "-1"], ["--minutes", "x"], ["--part", "none"], ["--else"]],
    ids=str,
)
def test_wrong_usage(tmp_path: Path, args: list[str]) -> None:
    assert torture.main([str(tmp_path / "d"), *args]) == 64
    assert not (tmp_path / "d").exists()


def test_a_folder_with_something_in_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("keep")
    assert torture.main([str(tmp_path)]) == 64
    assert "not empty" in capsys.readouterr().err
    assert torture.main([str(tmp_path / "mine")]) == 64
    assert "not a folder" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "keep"
