"""A file that may not be read is a finding of its own, and the rest is reported.

``chmod 000`` on one segment ended info, fsck, cat and stats with exit code 1 and no report. So did a directory that may not be
listed, and a checkpoint, for info and fsck: only opens of segments, queue files and index files had been looked at.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.cli.cli_runs import Run
from support.cli.one_process import each_run

from rmqcore.disk import read_range
from rmqcore.offline.log import log_files
from rmqcore.offline.reader import StoreReader

Done = subprocess.CompletedProcess[str]
Rightless = Callable[..., list[Done]]
READS_ALL = "-dac_override,-dac_read_search"
NOT_ROOT = (
    ["setpriv", f"--bounding-set={READS_ALL}", f"--inh-caps={READS_ALL}"]
    if os.geteuid() == 0
    else []
)
"""Root without its right to read everything; `setpriv` is in util-linux, which every Linux has."""


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The last two names of files, or of the directory that they are in, that cannot be opened: root opens everything."""
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


@pytest.fixture
def without_rights(golden: Path, tmp_path: Path) -> Iterator[Callable[[str], Rightless]]:
    """Takes all rights from a path in a copy of a store, and gives what runs verbs on it as a user who is not root."""
    store = tmp_path / "store"
    shutil.copytree(golden / "basic" / "store", store)
    taken: list[Path] = []

    def take(name: str) -> Rightless:
        taken.append(store / name)
        taken[-1].chmod(0)

        def run(*runs: Sequence[str | Path]) -> list[Done]:
            with_store = [(verb, store, *words) for verb, *words in runs]
            return each_run(*with_store, before=NOT_ROOT)

        return run

    yield take
    for path in taken:
        path.chmod(0o700)


PARTS = {
    "checkpoint": (12, 4),
    "consumequeue": (0, 4),
    "consumequeue/TopicBasicA": (8, 4),
    "consumequeue/TopicBasicA/0": (11, 4),
    "index": (12, 0),
}


@pytest.mark.parametrize("name", PARTS)
def test_rights_of_a_part(without_rights: Callable[[str], Rightless], name: str) -> None:
    """The part is named once, by each of the three that look at all, and nothing else is wrong with the store."""
    run = without_rights(name)
    info, fsck, doctor = run(*([verb, "--json"] for verb in ("info", "fsck", "doctor")))
    found = json.loads(info.stdout)
    assert (info.returncode, info.stderr) == (2, f"unreadable: {name}: Permission denied\n")
    assert found["unreadable"] == [{"path": name, "error": "Permission denied"}]
    assert (len(found["queues"]), len(found["index_files"])) == PARTS[name]
    assert found["max_phy_offset"] == 848491

    found = json.loads(fsck.stdout)
    assert fsck.returncode == 2
    assert found["totals"] == {"unreadable": {"error": 1}}
    assert found["findings"][0]["path"] == name
    assert found["findings"][0]["message"] == "Permission denied"
    assert found["counts"]["records"] == 2000

    diagnoses = {one["name"]: one for one in json.loads(doctor.stdout)["diagnoses"]}
    assert doctor.returncode == 2
    assert set(diagnoses) - {"owners"} == {"unreadable"}  # that this user may not write is another
    assert [one["path"] for one in diagnoses["unreadable"]["evidence"]] == [name]
    assert diagnoses["unreadable"]["command"].startswith("ls -ldn ")
    assert diagnoses["unreadable"]["command"].endswith(name)


def test_a_directory_that_may_be_listed_and_not_entered(
    without_rights: Callable[[str], Rightless], tmp_path: Path
) -> None:
    run = without_rights("index")
    (tmp_path / "store" / "index").chmod(0o400)
    fsck, info = run(["fsck", "--json"], ["info", "--json"])
    assert json.loads(fsck.stdout)["totals"] == {"unreadable": {"error": 1}}
    assert info.returncode == 2
    assert len(json.loads(info.stdout)["unreadable"]) == 4


@pytest.mark.parametrize("verb", ["salvage", "backup", "diff"])
def test_a_job_ends_and_says_what_to_do(
    without_rights: Callable[[str], Rightless], golden: Path, tmp_path: Path, verb: str
) -> None:
    """What a job leaves out another user could read, so that it does not go on without a file; a second run ends the backup."""
    name = f"commitlog/{131072:020}"
    run = without_rights(name)
    other = golden / "basic" / "store" if verb == "diff" else tmp_path / "out"
    (done,) = run([verb, other])
    assert done.returncode == 1
    first, hint = done.stderr.splitlines()
    assert first == f"Error: {tmp_path / 'store' / name}: Permission denied"
    assert "run the command as the owner of the file" in hint
    (tmp_path / "store" / name).chmod(0o600)
    (again,) = run([verb, other])
    assert again.returncode == 0


def test_a_topic_that_cannot_be_listed_keeps_no_other_from_its_messages(
    without_rights: Callable[[str], Rightless],
) -> None:
    run = without_rights("consumequeue/TopicBasicA")
    other, own = run(
        ["get", "--topic", "TopicBasicB", "--queue", "0", "--offset", "0", "--json"],
        ["get", "--topic", "TopicBasicA", "--queue", "0", "--offset", "0"],
    )
    assert (other.returncode, json.loads(other.stdout)["status"]) == (0, "FOUND")
    assert own.returncode == 1
    assert "consumequeue/TopicBasicA/0: Permission denied" in own.stderr
