"""A file that may not be read is a finding of its own, and the rest is reported.

``chmod 000`` on one segment ended info, fsck, cat and stats with exit code 1 and no report. Root reads everything, so the
open fails here by hand.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from support.cli.cli_runs import Run

from rmqcore.disk import read_range
from rmqcore.offline.log import log_files
from rmqcore.offline.reader import StoreReader


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The last two names of files, or of the directory that they are in, that cannot be opened."""
    names: set[str] = set()
    for module in (log_files, read_range):
        opened = module.open_file

        def refuse(path: Any, flags: int, opened: Any = opened, **more: Any) -> Any:
            where = Path(path)
            if names & {"/".join(where.parts[-2:]), "/".join(where.parts[-3:-1])}:
                raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return opened(path, flags, **more)

        monkeypatch.setattr(module, "open_file", refuse)
    return names


SEGMENTS = {"first": ("0", 1697), "middle": ("131072", 1685), "last": ("786432", 1865)}


@pytest.mark.parametrize("which", SEGMENTS)
def test_a_segment(rmqcore: Run, golden: Path, forbidden: set[str], which: str) -> None:
    start, rows = SEGMENTS[which]
    name, store = start.zfill(20), golden / "basic" / "store"
    forbidden.add(f"commitlog/{name}")
    for verb in ("cat", "stats"):
        done = rmqcore(verb, store)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert done.err.startswith(
            f"damaged: {start}..{int(start) + 131072} (131072 bytes) unreadable"
        )
        assert f"commitlog/{name}" in done.err
        assert "Permission denied" in done.err
        assert rows == (len(done.lines) if verb == "cat" else done.object["total"]["messages"])
    done = rmqcore("fsck", store, "--json")
    assert done.code == 2
    assert done.object["totals"] == {"unreadable": {"error": 1}}
    assert done.object["findings"][0]["path"] == f"commitlog/{name}"
    assert done.object["counts"]["records"] == rows
    done = rmqcore("info", store)
    assert (done.code, done.err) == (2, f"unreadable: commitlog/{name}: Permission denied\n")
    assert done.object["unreadable"] == [
        {"path": f"commitlog/{name}", "error": "Permission denied"}
    ]
    assert done.object["log_file_count"] == 7
    assert rmqcore("info", store, "--format", "table").code == 2


def test_a_queue_and_an_index_file(rmqcore: Run, golden: Path, forbidden: set[str]) -> None:
    store = golden / "basic" / "store"
    index = StoreReader(store).index_files()[0].name
    forbidden |= {"TopicBasicA/1", f"index/{index}"}
    done = rmqcore("info", store)
    assert done.code == 2
    assert f"unreadable: index/{index}: " in done.err
    assert "unreadable: consumequeue/TopicBasicA/1: " in done.err
    assert len(done.object["queues"]) == 11
    totals = rmqcore("fsck", store, "--json").object["totals"]
    assert set(totals) == {"unreadable", "cq_missing", "index_missing"}
    assert (rmqcore("cat", store).code, rmqcore("stats", store).code) == (0, 0)


def test_other_errors_are_errors(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor left is no damage of a store."""

    def none_left(path: Any, flags: int) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    monkeypatch.setattr(log_files, "open_file", none_left)
    with pytest.raises(OSError, match="open files"):
        list(StoreReader(golden / "basic" / "store").messages())
