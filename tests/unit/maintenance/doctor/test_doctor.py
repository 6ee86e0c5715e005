"""Each diagnosis is made of a store that has it, and of no healthy one; and what it says to type does what it promises."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.stores.golden_stores import CLEAN
from support.stores.sick_stores import (
    HARMS,
    SIZES,
    Sick,
    emptied_queue_file,
    queue_entries,
    sound_store,
)

import rmqcore
from rmqcore import Message
from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore.cli import main
from rmqcore.disk.used_space import DiskSpace
from rmqcore.engine.clean import disks
from rmqcore.engine.recovery import plan
from rmqcore.maintenance.doctor import patient
from rmqcore.maintenance.doctor.doctor import doctor
from rmqcore.maintenance.doctor.kinds import KINDS
from rmqcore.maintenance.doctor.report import ERROR, Diagnosis, DoctorReport
from rmqcore.maintenance.retention import growing_disks

EACH = [(name, number) for name, harms in HARMS.items() for number in range(len(harms))]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound") / "store"
    sound_store(root)
    return root


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever disk the tests run on, it has room."""
    monkeypatch.setattr(disks, "used_percent", lambda _: 10)
    monkeypatch.setattr(growing_disks, "disk_space", lambda _: DiskSpace(1 << 30, 9 << 30))


Harmed = Callable[[str, int], Sick]


@pytest.fixture
def harmed(
    sound: Path, tmp_path: Path, roomy: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Harmed]:
    held = []

    def harm(name: str, number: int) -> Sick:
        sick = Sick(Path(shutil.copytree(sound, tmp_path / "a store")), monkeypatch)
        HARMS[name][number](sick)
        held.extend(sick.held)
        return sick

    yield harm
    for store in held:
        store.close()


def named(report: DoctorReport) -> dict[str, Diagnosis]:
    return {diagnosis.name: diagnosis for diagnosis in report.diagnoses}


def test_there_is_a_case_for_each_diagnosis() -> None:
    assert set(HARMS) == set(KINDS)


@pytest.mark.parametrize(("name", "number"), EACH)
def test_a_store_that_has_it(harmed: Harmed, name: str, number: int) -> None:
    sick = harmed(name, number)
    report = doctor(sick.root, **sick.options)
    found = named(report)
    assert name in found, list(found)
    diagnosis = found[name]
    assert diagnosis.evidence
    assert diagnosis.evidence_count >= len(diagnosis.evidence)
    assert all(seen.path and seen.found is not None for seen in diagnosis.evidence)
    assert (diagnosis.severity == ERROR) <= (report.exit_code == 2)
    assert json.loads(json.dumps(report.as_dict()))["exit_code"] == report.exit_code
    assert name in report._repr_html_()


@pytest.mark.parametrize(("name", "number"), EACH)
def test_what_it_says_to_type(
    harmed: Harmed, name: str, number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command runs, and changes nothing in the store; what it replaces is kept."""
    sick = harmed(name, number)
    command = named(doctor(sick.root, **sick.options))[name].command
    before = contents(sick.root)
    words = shlex.split(command)
    capfd.readouterr()
    ours = words[0] == "rmqcore"
    code = (
        main(words[1:]) if ours else subprocess.run(["sh", "-c", command], check=False).returncode
    )
    out, err = capfd.readouterr()
    assert code in (0, 2), (command, err)
    if words[0] == "mv":
        assert name not in named(doctor(sick.root, **sick.options))
        assert set(contents(sick.root).values()) >= set(before.values())
        return
    assert contents(sick.root) == before
    assert out or err
    if words[1] == "salvage":
        assert doctor(words[3]).exit_code == 0
    if "--out" in words:
        built = Path(words[words.index("--out") + 1])
        assert any(path.is_file() for path in built.rglob("*"))
        assert not built.is_relative_to(sick.root)


LIKE_A_SOUND_STORE = (queue_entries, emptied_queue_file)
"""A queue without a directory looks like one that was deleted, and one entry at the end of the log like a late dispatch."""


@pytest.mark.parametrize(
    "number",
    [
        number
        for number, harm in enumerate(HARMS["queue_entries"])
        if harm not in LIKE_A_SOUND_STORE
    ],
)
def test_entries_of_a_large_log(
    harmed: Harmed, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doctor called a store healthy that was closed, above 64 MiB, and had lost entries before the newest 16 MiB."""
    monkeypatch.setattr(patient, "WHOLE_LOG", 0)
    monkeypatch.setattr(plan, "CLEAN_BYTES", 1000)
    sick = harmed("queue_entries", number)
    report = doctor(sick.root)
    assert (report.exit_code, report.log_bytes_read < report.log_bytes) == (2, True)


def test_a_sound_large_log(sound: Path, roomy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "WHOLE_LOG", 0)
    monkeypatch.setattr(plan, "CLEAN_BYTES", 1000)
    assert doctor(sound).diagnoses == ()


def test_records_of_a_release(sound: Path, tmp_path: Path, roomy: None) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "store"))
    with rmqcore.open(root) as store:
        for message in (
            Message("T0", b"x", born_host="[2001:db8::7]:9"),
            Message("t" * 128, b"x"),
        ):
            store.put(message).raise_for_status()
        store.wait_dispatched()
    six, long = list(rmqcore.read(root).messages())[-2:]
    for release, count, first in (("4.5", 2, six), ("4.9", 1, long)):
        (found,) = doctor(root, for_version=release).diagnoses
        assert (found.name, found.evidence[0].phy_offset) == ("unread_by_release", first.phy_offset)
        assert f"{count} record" in str(found.evidence[0].found)
    for other in ("5.1", None):
        assert doctor(root, for_version=other).diagnoses == ()
    with pytest.raises(ValueError, match=r"such as '4\.9', got 'old'"):
        doctor(root, for_version="old")


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


# What recover --apply, which the texts name, puts right.
HEALED = (
    "torn_tail", "unclean_exit", "checkpoint", "no_checkpoint", "queues_behind", "queue_beyond_log", "queue_files", "index_files",
)  # fmt: skip


@pytest.mark.parametrize("name", HEALED)
def test_what_apply_puts_right(
    harmed: Harmed, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    sick = harmed(name, 0)
    command = named(doctor(sick.root))[name].command
    words = shlex.split(command)
    if words[1] == "rebuild":
        words[words.index("--out") :] = []
    drop = []
    if name == "queue_beyond_log":  # it is applied once the operator agrees to the number
        assert main([*words[1:], "--apply"]) == 2
        drop = ["--drop", *re.findall(r"--drop (\d+)", capfd.readouterr().err)[:1]]
    assert main([*words[1:], "--apply", *drop]) in (0, 2)
    found = set(named(doctor(sick.root)))
    assert found <= {"cut_away"}, found


@pytest.mark.parametrize("case", CLEAN)
def test_a_healthy_store_has_none(golden: Path, case: str, roomy: None) -> None:
    for thorough in (False, True):
        report = doctor(golden / case / "store", thorough=thorough)
        assert (report.diagnoses, report.exit_code) == ((), 0)


def test_a_sound_store_has_none_either(sound: Path, roomy: None) -> None:
    report = doctor(sound, config=SIZES, thorough=True)
    assert report.diagnoses == ()


def test_options_are_told_again(sound: Path, tmp_path: Path, roomy: None) -> None:
    """A command without them would look at another log."""
    (tmp_path / "disk 2").mkdir()
    for path in (sound / "commitlog").iterdir():
        shutil.copy(path, tmp_path / "disk 2")
    root = tmp_path / "store"
    shutil.copytree(sound, root, ignore=shutil.ignore_patterns("commitlog"))
    (root / "abort").touch()
    log = tmp_path / "disk 2"
    for given in (str(log), log, [log]):
        (diagnosis,) = doctor(root, commitlog=given, follow_links=True).diagnoses
        assert diagnosis.command == f"rmqcore recover {root} --commitlog '{log}' --follow-links"


def test_the_broker_conf_is_named_where_it_counts(sound: Path, tmp_path: Path, roomy: None) -> None:
    root = tmp_path / "store"
    shutil.copytree(sound, root)
    (root / "abort").touch()
    (root / "commitlog" / "notes~").touch()
    found = named(doctor(root, config=SIZES, broker_conf=tmp_path / "a.conf"))
    assert found["unclean_exit"].command == f"rmqcore recover {root} --config {tmp_path / 'a.conf'}"
    assert found["log_file_name"].command == f"rmqcore fsck {root}"


def test_a_store_that_is_written_meanwhile(tmp_path: Path, roomy: None) -> None:
    """What is put behind the end of the log that was read first is no entry of a lost message."""
    ended = threading.Event()
    with rmqcore.open(tmp_path, mapped_file_size_commit_log=1 << 20) as store:

        def write() -> None:
            while not ended.is_set():
                for number in range(20):
                    store.put(Message(f"T{number % 5}", bytes(500), 0, keys="k"))
                ended.wait(0.01)  # its pace: the store stays small

        writer = threading.Thread(target=write)
        writer.start()
        try:
            seen = [set(named(doctor(tmp_path))) for _ in range(8)]
        finally:
            ended.set()
            writer.join()
    assert seen == [{"in_use"}] * 8


def test_a_queue_that_ends_with_fillers(sound: Path, tmp_path: Path, roomy: None) -> None:
    """They name no message, and so none behind the end of the log."""
    root = tmp_path / "store"
    shutil.copytree(sound, root)
    queue = root / "consumequeue" / "Filled" / "0"
    queue.mkdir(parents=True)
    (queue / f"{0:020}").write_bytes(struct.pack(">qiq", 0, CQ_FILLER_SIZE, 0) * 20)
    assert doctor(root).diagnoses == ()


def test_names_from_a_stranger_are_quoted(sound: Path, tmp_path: Path, roomy: None) -> None:
    """Who pastes a command must not run what somebody called a topic."""
    root = tmp_path / "it's $(here)"
    shutil.copytree(sound, root)
    topic = "T; rm -rf $HOME"
    (root / "consumequeue" / "T0").rename(root / "consumequeue" / topic)
    (root / "config").mkdir()
    table = {"offsetTable": {f"{topic}@g": {"0": 1_000_000}}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps(table))
    command = named(doctor(root))["group_beyond_queue"].command
    words = shlex.split(command)
    assert (words[2], words[4]) == (str(root), topic)
    assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0


def test_much_evidence_is_counted(sound: Path, tmp_path: Path, roomy: None) -> None:
    root = tmp_path / "store"
    shutil.copytree(sound, root)
    for number in range(50):
        (root / "commitlog" / f"copy {number}").touch()
    found = named(doctor(root))["log_file_name"]
    assert len(found.evidence) == 20
    assert found.evidence_count >= 20


def test_the_page_lists_every_diagnosis() -> None:
    """docs/doctor.md has the texts of the code; `python scripts/doctorlist.py` writes them."""
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "scripts" / "doctorlist.py"))["written"](page) == page
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| ([\d, ]+) \| (.*) \| (.*) \| `(.*)` \|$", page, re.MULTILINE
    )
    assert {row[0] for row in rows} == set(KINDS)
    for name, severity, pains, cause, next_step, command in rows:
        kind = KINDS[name]
        assert (severity, cause, next_step, command) == (
            kind.severity, kind.cause, kind.next_step, re.sub(r"\{(\w+)\}", lambda word: word[1].upper(), kind.command),
        )  # fmt: skip
        assert pains == ", ".join(map(str, kind.pains))


def test_all_twenty_pains_are_spoken_of() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    table = page.partition("## What users suffer from")[2]
    assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == [
        str(number) for number in range(1, 21)
    ]
    for number, names in re.findall(r"^\| (\d+) \| [^|]* \| ([^|]*) \|", table, re.MULTILINE):
        seen = {name for name, kind in KINDS.items() if int(number) in kind.pains}
        assert set(re.findall(r"`(\w+)`", names)) == seen, number


def test_a_directory_that_is_no_store(tmp_path: Path) -> None:
    assert main(["doctor", str(tmp_path)]) == 1


def test_an_empty_store_is_healthy(tmp_path: Path, roomy: None) -> None:
    sound_options: dict[str, Any] = {}
    (tmp_path / "commitlog").mkdir()
    assert doctor(tmp_path, **sound_options).diagnoses == ()
    assert os.listdir(tmp_path) == ["commitlog"]
