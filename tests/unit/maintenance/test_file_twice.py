"""A file of the log in two directories: every door says which one to move out, and no hint leads back to the same error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.cli import main
from rmqcore.errors import LogFileTwiceError
from rmqcore.maintenance.doctor.doctor import doctor
from rmqcore.offline.fsck import fsck

pytest.importorskip("typer")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folders = [str(tmp_path / name) for name in ("d1", "d2")]
    with rmqcore.open(
        tmp_path / "s",
        mapped_file_size_commit_log=16 << 10,
        store_path_commit_log=",".join(folders),
    ) as store:
        for n in range(200):
            store.put(Message("T", b"%06d" % n + b"x" * 300, keys=[f"K{n}"])).raise_for_status()
        store.wait_dispatched()
    return tmp_path / "s"


def log_of(root: Path) -> str:
    return f"{root.parent}/d1,{root.parent}/d2"


def twice(root: Path, change: str) -> tuple[Path, Path]:
    """Copy a file of d1 into d2; return the one to move out, and the other."""
    own = sorted((root.parent / "d1").iterdir())[1]
    copy = Path(shutil.copy(own, root.parent / "d2"))
    with copy.open("r+b") as file:
        if change == "ends":
            file.seek(8000)
            file.write(bytes(own.stat().st_size - 8000))
        elif change == "cut":
            file.truncate(9000)
        elif change == "differs":
            file.seek(9000)
            file.write(b"other")
    return copy, own


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("same", "their bytes are equal, so move {copy} away"),
        (
            "ends",
            "equal up to byte {place}, where {copy} ends and {own} has more, so move {copy} away",
        ),
        (
            "cut",
            "equal up to byte {place}, where {copy} ends and {own} has more, so move {copy} away",
        ),
        ("differs", "they differ from byte {place}"),
    ],
)
def test_the_error_says_which_file_to_move_out(root: Path, change: str, text: str) -> None:
    copy, own = twice(root, change)
    a, b = copy.read_bytes(), own.read_bytes()
    place = next((at for at in range(len(a)) if a[at] != b[at]), len(a))
    wanted = text.format(copy=copy, own=own, place=place)
    with pytest.raises(LogFileTwiceError) as error:
        list(rmqcore.read(root, commitlog=log_of(root)).messages())
    assert wanted in str(error.value)
    assert str(own) in str(error.value)
    with pytest.raises(LogFileTwiceError) as error:
        rmqcore.open(root, store_path_commit_log=log_of(root))
    assert wanted in str(error.value)
    assert "fsck" not in error.value.hint
    copy.rename(root.parent / "kept")
    assert len(list(rmqcore.read(root, commitlog=log_of(root)).messages())) == 200


def test_fsck_and_doctor_report_it_and_check_the_rest(root: Path) -> None:
    copy, _ = twice(root, "same")
    report = fsck(root, commitlog=log_of(root))
    errors = [finding for finding in report.findings if finding.severity == "error"]
    assert [(finding.kind, finding.found) for finding in errors] == [
        ("file_twice", str(root.parent / "d1" / copy.name))
    ]
    assert f"move {copy} away" in errors[0].message
    assert report.counts["records"] == 200
    assert report.exit_code == 2
    for thorough in (False, True):
        found = doctor(root, commitlog=log_of(root), thorough=thorough)
        assert found.exit_code == 2
        names = {one.name for one in found.diagnoses if one.severity != "info"}
        assert names - {"disk_full", "disk_nearly_full", "disk_fills"} <= {
            "log_file_twice",
            "fsck_errors",
        }


@pytest.mark.parametrize("verb", ["info", "cat", "stats", "recover", "fsck", "doctor"])
def test_no_hint_leads_to_the_same_error(
    root: Path, verb: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    twice(root, "same")
    assert main([verb, str(root), "--commitlog", log_of(root)]) == 2
    out, err = capsysbinary.readouterr()
    if verb not in ("fsck", "doctor"):
        assert b"so move" in err
        assert b"--commitlog DIR reads a single directory" in err
        # What the hint names.
        main(["cat", str(root), "--commitlog", f"{root.parent}/d1", "--limit", "1"])
        out, err = capsysbinary.readouterr()
        assert b"same name" not in err
        assert out
