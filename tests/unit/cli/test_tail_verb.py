"""tail without -f: the newest messages that match."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.stores.live_log import LiveLog


@pytest.mark.parametrize("lines", [0, 1, 10, 3000])
def test_newest(rmqcore: Run, golden: Path, lines: int) -> None:
    store = golden / "basic" / "store"
    rows = rmqcore("cat", store).lines
    done = rmqcore("tail", store, "-n", str(lines))
    assert (done.code, done.err) == (0, "")
    assert done.lines == (rows[-lines:] if lines else [])


def test_ten_by_default_and_filters_first(rmqcore: Run, golden: Path) -> None:
    store = golden / "basic" / "store"
    assert len(rmqcore("tail", store).lines) == 10
    words = ["--topic", "TopicBasicA", "--tag", "TagB"]
    rows = rmqcore("tail", store, "--lines", "4", *words).lines
    assert rows == rmqcore("cat", store, *words).lines[-4:]


def test_damage_at_the_end_is_2(rmqcore: Run, golden: Path) -> None:
    done = rmqcore("tail", golden / "crash_torn" / "input", "-n", "1")
    assert done.code == 2
    assert len(done.lines) == 1
    assert done.err.startswith("damaged: 211200..211339 ")


def test_damage_among_the_newest_is_2(rmqcore: Run, tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "store")
    placed = [log.append() for _ in range(10)]
    log.write(placed[7], b"\xff" * 50)
    done = rmqcore("tail", log.root, "-n", "5")
    assert [row["phy_offset"] for row in done.lines] == [*placed[4:7], *placed[8:]]
    assert done.code == 2
    assert done.err.startswith(f"damaged: {placed[7]}..{placed[8]} ")
    assert rmqcore("tail", log.root, "-n", "2").code == 0
