"""``rmqcore stats``: tables in any width, JSON, pictures, damage and usage."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.cli.one_process import each_in_terminal
from support.oracle import records as oracle
from support.stores.store_maker import START_MS, make_store, sample_records

from rmqcore.cli.reports.bars import bars, duration, short_count, sparkline
from rmqcore.offline.stats import stats

HARMFUL = "\x1b[31m\u202e\u4e2d]"


def with_groups(golden: Path, tmp_path: Path) -> Path:
    store = tmp_path / "store"
    shutil.copytree(golden / "basic" / "store", store)
    table = {
        "TopicBasicA@slow\x1b[31m": {"0": 3, "1": -5},
        "TopicBasicB@quick": {"0": 1 << 40},
        "../../etc@odd": {"0": 1},
        "Gone@quick": {"7": 0},
    }
    (store / "config").mkdir()
    (store / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    return store


def test_json(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    store = with_groups(golden, tmp_path)
    done = rmqcore("stats", store, "--by", "hour", "--json")
    assert done.code == 0
    assert "queue 1: -5 is not a queue offset" in done.err
    expected = stats(store, by=["hour"]).as_dict()
    found = done.object
    assert {**found, "seconds": 0} == {**json.loads(json.dumps(expected)), "seconds": 0}
    assert rmqcore("stats", store).object["by"] == ["topic"]
    assert len(rmqcore("stats", store).out.splitlines()) == 1
    groups = [(one["group"], one["topic"], one["beyond"]) for one in found["consumers"]]
    assert groups == [
        ("odd", "../../etc", 1),
        ("quick", "Gone", 0),
        ("quick", "TopicBasicB", 1),
        ("slow\x1b[31m", "TopicBasicA", 0),
    ]
    slow = found["consumers"][3]
    newest = found["newest"][0]["store_timestamp_ms"]
    assert slow["lag"] > 0
    assert slow["behind_ms"] == newest - slow["first_unread_ms"]


def at_each_width(*words: str | Path, widths: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Each width with what a terminal of it gets; the verb answers 0."""
    runs = (
        (words, {"COLUMNS": str(columns), "LINES": "50", "NO_COLOR": "1"}) for columns in widths
    )
    for columns, (code, text) in zip(widths, each_in_terminal(*runs), strict=True):
        assert code == 0, columns
        yield columns, text


@pytest.mark.parametrize("by", [(), ("--by", "hour", "--by", "queue")], ids=["topic", "all"])
def test_tables_fit_the_terminal(golden: Path, tmp_path: Path, by: tuple[str, ...]) -> None:
    store, widths = with_groups(golden, tmp_path), (20, 40, 80, 200)
    for columns, text in at_each_width("stats", store, *by, "--no-progress", widths=widths):
        body = [line for line in text.splitlines() if not line.startswith("consumer offsets: ")]
        assert "\x1b[31m" not in text, columns
        assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in body) <= columns
        assert ("TopicBasicA" in text) or columns < 80


def test_stored_names_are_text(tmp_path: Path) -> None:
    """A name that a terminal obeys, markup of rich, and times that no calendar has."""
    records = [
        oracle.Record(
            f"T{HARMFUL}[b]".encode(),
            b"",
            f"TAGS\x01{HARMFUL}\x02KEYS\x01{HARMFUL}\x02".encode(),
            store_timestamp_ms=at,
            born_timestamp_ms=-at // 2,
        )
        for at in (START_MS, -(1 << 63), (1 << 63) - 1)
    ]
    root = make_store(records).write(tmp_path)
    words = ("stats", root, "--by", "hour", "--no-progress")
    for columns, text in at_each_width(*words, widths=(40, 80, 200)):
        assert "\x1b[31m" not in text, columns
        assert "\u202e" not in text, columns


def test_damage_is_listed(rmqcore: Run, golden: Path) -> None:
    done = rmqcore("stats", golden / "crash_flipped" / "input")
    assert done.code == 2
    assert done.err.startswith("damaged: ")
    assert len(done.object["damage"]) == done.err.count("damaged: ")


def test_an_empty_store(rmqcore: Run, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    done = rmqcore("stats", tmp_path, "--format", "table")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"messages +none", done.out.decode())


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_plot(rmqcore: Run, golden: Path, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"stats.{kind}"
    store = with_groups(golden, tmp_path)
    assert rmqcore("stats", store, "--by", "queue", "--plot", path).code == 0
    if kind == "svg":
        text = path.read_text(encoding="utf-8")
        assert "TopicBasicA" in text
        assert "\x1b" not in text


@pytest.mark.parametrize("count", [0, 1, 40])
def test_plots_of_few_and_of_odd_messages(rmqcore: Run, tmp_path: Path, count: int) -> None:
    pytest.importorskip("matplotlib")
    root = make_store(sample_records(count)).write(tmp_path / "store")
    (root / "commitlog").mkdir(exist_ok=True)
    assert rmqcore("stats", root, "--plot", tmp_path / "a.png").code == 0


def test_usage(rmqcore: Run, tmp_path: Path) -> None:
    assert rmqcore("stats", tmp_path / "nothing").code == 1
    assert rmqcore("stats", tmp_path, "--by", "tag").code == 64
    done = rmqcore("stats", tmp_path, "--plot", "stats.txt")
    assert done.code == 64
    assert ".png or .svg or .pdf" in done.err
    assert rmqcore("stats", tmp_path, "--json", "--format", "table").code == 64


# ---- bars -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [20, 40, 80, 81, 200])
@pytest.mark.parametrize("count", [1, 2, 3, 50, 240])
@pytest.mark.parametrize("width_ms", [1, 1000, 60_000, 86_400_000, 1 << 56])
def test_bars_fit(columns: int, count: int, width_ms: int) -> None:
    values = [at * 1237 % 5000 for at in range(count)]
    for begin_ms in (START_MS, -(1 << 63)):
        lines = bars(values, begin_ms, width_ms, columns)
        assert max(map(len, lines)) <= max(columns, 20)
        assert len(lines) == 7


def test_bars_show_each_value() -> None:
    lines = bars([0, 1, 100, 50], START_MS, 1000, 20)
    assert lines[0].startswith("100 │")
    assert [line[5::3][:4].ljust(4) for line in lines[:5]] == [
        "  █ ",
        "  █ ",
        "  █▄",
        "  ██",
        " ▁██",
    ]
    assert sparkline([0, 1, 4, 8]) == " ▁▄█"
    assert sparkline([]) == ""
    assert bars([], 0, 1, 80) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (12_345, "12.3k"),
        (123_456, "123k"),
        (5e6, "5.0M"),
        (10**18, "1000P"),
    ],
)
def test_short_counts(value: float, text: str) -> None:
    assert short_count(value) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (-5, "-5 ms"),
        (1500, "1.5 s"),
        (60_000, "1 min"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (3_660_000, "1 h 1 min"),
        (86_400_000 * 2, "2 d"),
        (86_400_000 * 400, "400 d"),
    ],
)
def test_durations(ms: float | None, text: str) -> None:
    assert duration(ms) == text
