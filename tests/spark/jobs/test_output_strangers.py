"""An output folder that a stranger prepared: its journal and its links move and delete nothing outside of it.

A `commit.json` with an absolute `old`, or `../` among its `moves`, unlinked and replaced files anywhere.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rmqcore.errors import LinkError, StoreFormatError, TargetNotEmptyError
from rmqcore.spark.output.attempt import Attempt
from rmqcore.spark.output.export_folder import ExportFolder
from rmqcore.spark.output.part_output import PartOutput
from rmqcore.spark.storage.store_location import StoreLocation

JOB = "0123456789abcdef"
PART = "topic=T/day=2024-01-01/part-00000.parquet"


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    for name in (PART, "consumequeue/T/0/00", "job/commit/consumequeue/file", "commit.json"):
        (tmp_path / "victim" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "victim" / name).write_bytes(b"mine")
    return tmp_path / "victim"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out" / "_temporary" / JOB / "s").mkdir(parents=True)
    (tmp_path / "out" / "_temporary" / JOB / "s" / "p").write_bytes(b"new")
    return tmp_path / "out"


def export(out: Path) -> None:
    with ExportFolder(out, JOB, stores=[], overwrite=True) as folder:
        folder.commit([("s/p", PART)], {})


def journal(out: Path, found: Any) -> None:
    (out / "_temporary" / "commit.json").write_text(json.dumps(found))


MOVE = f"_temporary/{JOB}/s/p"
JOURNALS: dict[str, dict[str, Any]] = {
    "absolute old": {"old": ["VICTIM/" + PART]},
    "old behind ..": {"old": ["../victim/" + PART]},
    "old that no export made": {"old": ["mine.txt"]},
    "old is no list": {"old": "topic"},
    "move to the outside": {"moves": [[MOVE, "../victim/" + PART]]},
    "move to an absolute place": {"moves": [[MOVE, "VICTIM/" + PART]]},
    "move from the outside": {"moves": [["../victim/commit.json", PART]]},
    "move from an absolute place": {"moves": [["VICTIM/commit.json", PART]]},
    "move from behind ..": {"moves": [[f"_temporary/../../victim/{PART}", PART]]},
    "move of three": {"moves": [[MOVE, PART, PART]]},
    "moves of numbers": {"moves": [[1, 2]]},
}


@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_of_an_export_names_files_inside(out: Path, victim: Path, name: str) -> None:
    text = json.dumps({"old": [], "moves": [], "manifest": {}, **JOURNALS[name]})
    journal(out, json.loads(text.replace("VICTIM", str(victim))))
    before, ours = snapshot(victim), snapshot(out)
    with pytest.raises(StoreFormatError, match=r"commit\.json: (old|moves) names files"):
        export(out)
    assert snapshot(victim) == before
    assert snapshot(out) == ours


LINKS = (
    "topic=T",
    "topic=T/day=2024-01-01",
    "_temporary",
    f"_temporary/{JOB}",
    f"_temporary/{JOB}/s",
)


@pytest.mark.parametrize("begun", [False, True], ids=["new", "with a journal"])
@pytest.mark.parametrize("name", LINKS)
def test_links_in_an_export(out: Path, victim: Path, name: str, begun: bool) -> None:
    if begun:
        journal(out, {"old": [PART], "moves": [[MOVE, PART]], "manifest": {}})
    place = out / name
    if place.exists():
        place.rename(out.parent / "moved")
    place.parent.mkdir(parents=True, exist_ok=True)
    inside = victim if name == "topic=T" else victim / name
    place.symlink_to(
        (victim / "topic=T")
        if name == "topic=T"
        else inside
        if inside.exists()
        else out.parent / "moved"
    )
    before = snapshot(victim), snapshot(out.parent / "moved")
    with pytest.raises(LinkError, match="a link to"):
        export(out)
    assert (snapshot(victim), snapshot(out.parent / "moved")) == before


@pytest.mark.parametrize("name", ["_manifest.json", "_SUCCESS", ".__SUCCESS.tmp", "._SUCCESS.tmp"])
def test_files_that_an_export_writes_are_not_written_through(
    out: Path, victim: Path, name: str
) -> None:
    for made in (name, "._manifest.json.tmp"):
        (out / made).symlink_to(victim / "commit.json")
    before = snapshot(victim)
    export(out)
    assert snapshot(victim) == before
    assert (out / "_SUCCESS").read_bytes() == b""
    assert json.loads((out / "_manifest.json").read_bytes()) == {}


# ---- the folder of a rebuild ------------------------------------------------------------------------


def rebuild(out: Path, store: Path) -> None:
    with PartOutput(out, "consumequeue", store=StoreLocation("b", str(store))) as output:
        attempt = Attempt(output.job_folder)
        (attempt.folder / "x").write_bytes(b"new")
        output.commit({"T/0/00": attempt.stage(attempt.folder / "x", 1, 0, 1)}, {})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    return tmp_path / "store"


LIES: dict[str, dict[str, Any]] = {
    "job outside": {"job": "../../victim/job"},
    "absolute job": {"job": "VICTIM/job"},
    "no job": {"job": ""},
    "job is no text": {"job": 7},
    "part outside": {"part": "../../victim/consumequeue"},
    "absolute part": {"part": "VICTIM/consumequeue"},
    "another part": {"part": "commitlog"},
    "no entry": {"entry": []},
}


@pytest.mark.parametrize("name", LIES)
def test_a_journal_of_a_rebuild_names_folders_inside(store: Path, victim: Path, name: str) -> None:
    out = store / "rebuilt"
    job = "f" * 32
    (out / "_temporary" / job / "commit" / "consumequeue").mkdir(parents=True)
    fields = {"job": job, "part": "consumequeue", "entry": {}, **LIES[name]}
    journal(out, json.loads(json.dumps(fields).replace("VICTIM", str(victim))))
    before, ours = snapshot(victim), snapshot(store)
    with pytest.raises(StoreFormatError, match=r"commit\.json: job is"):
        rebuild(out, store)
    assert snapshot(victim) == before
    assert snapshot(store) == ours


@pytest.mark.parametrize("name", ["", "_temporary", "consumequeue", "manifest.json", "_SUCCESS"])
def test_links_in_a_rebuilt_folder(store: Path, victim: Path, name: str) -> None:
    out = store / "rebuilt"
    target = victim / (name if (victim / name).exists() else "commit.json")
    if name == "":
        target = store.parent / "empty"
        target.mkdir()
    else:
        out.mkdir()
    (out / name if name else out).symlink_to(target)
    before = snapshot(store.parent / "empty"), snapshot(victim)
    if name == "_SUCCESS":
        rebuild(out, store)
    else:
        with pytest.raises((LinkError, TargetNotEmptyError)):
            rebuild(out, store)
    assert (snapshot(store.parent / "empty"), snapshot(victim)) == before
    assert name != "_SUCCESS" or not os.path.islink(out / "_SUCCESS")
