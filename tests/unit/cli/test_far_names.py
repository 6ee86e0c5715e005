"""File names at the end of 64 bits: findings and clear errors.

A segment named 9223372036854775807 ended `recover` with "OverflowError: Python int too large to convert to C long".
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.cli.cli_runs import Run

FAR = (
    "09223372036854775807",
    "09223372036854743040",
    "18446744073709551615",
    "99999999999999999999",
)
VERBS = (
    ["info"],
    ["cat", "--limit", "5"],
    ["get", "--topic", "TopicBasicA", "--queue", "0", "--offset", "0"],
    ["query", "--topic", "TopicBasicA", "--key", "none"],
    ["rebuild", "--out", "OUT"],
    ["recover"],
    ["recover", "--apply"],
)


def plant(folder: Path, name: str, contents: str) -> Path:
    """A file with a far name beside the others: a copy of one, or some bytes."""
    far = folder / name
    first = min(folder.iterdir())
    if contents == "whole":
        shutil.copy(first, far)
    else:
        far.write_bytes(b"abc")
    return far


@pytest.mark.parametrize("contents", ["whole", "short"])
@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("place", ["commitlog", "consumequeue/TopicBasicA/0", "index"])
def test_every_verb_says_what_is_wrong(
    rmqcore: Run, golden: Path, tmp_path: Path, place: str, name: str, contents: str
) -> None:
    store = tmp_path / "store"
    shutil.copytree(golden / "basic" / "store", store)
    far = plant(store / place, name if place != "index" else name[1:], contents)
    for verb, *words in VERBS:
        given = [tmp_path / "out" if word == "OUT" else word for word in words]
        done = rmqcore(verb, store, *given)
        assert done.code in (0, 1, 2), done.err
        assert "too large" not in done.err
        if done.code == 1:
            assert far.name in done.err
        if verb == "rebuild":
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
    if far.exists():
        found = rmqcore("fsck", store, "--json").object["findings"]
        assert [f for f in found if far.name in str(f["path"])], found
