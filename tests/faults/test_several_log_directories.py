"""A CommitLog in several directories (storePathCommitLog with commas): one log, whatever is done with it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore.cli.app import run
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.log import log_folders
from rmqcore.errors import CommitLogMissingError, NotAStoreError, StoreFormatError
from rmqcore.offline.fsck import fsck
from rmqcore.offline.tail import LogTail
from rmqcore.testing.crash_check import TINY, Acked, check_directory, drain, put

FILE = TINY["mapped_file_size_commit_log"]
PUTS = 600


class Disks:
    """A store whose log lies in two directories."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "store"
        self.logs = [folder / "disk1" / "commitlog", folder / "disk2" / "commitlog"]
        self.setting = ",".join(map(str, self.logs))
        self.config: dict[str, Any] = {**TINY, "store_path_commit_log": self.setting}
        self.acked: list[Acked] = []

    def fill(self, puts: int = PUTS, **how: Any) -> None:
        with rmqcore.open(self.root, services=False, **{**self.config, **how}) as store:
            self.put(store, puts)

    def put(self, store: Any, puts: int = PUTS) -> None:
        for _ in range(puts):
            answer = put(store, len(self.acked))
            assert answer is not None
            self.acked.append(answer)
        drain(store)

    def files(self) -> list[list[int]]:
        return [sorted(map(int, os.listdir(log))) if log.is_dir() else [] for log in self.logs]

    def crash(self) -> None:
        (self.root / "abort").write_text("1")

    def check(self, **how: Any) -> dict[str, Any]:
        return check_directory(self.root, self.acked, {**self.config, **how})


@pytest.fixture
def disks(tmp_path: Path, percents: dict[str, int]) -> Disks:
    del percents
    return Disks(tmp_path)


@pytest.fixture
def percents(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How full each disk is, so that the machine's own disks do not matter."""
    found: dict[str, int] = {}
    monkeypatch.setattr(
        log_folders, "used_percent", lambda folder: found.get(folder.parent.name, 10)
    )
    return found


# ---- writing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("services", [True, False])
def test_the_directories_take_turns(disks: Disks, tmp_path: Path, services: bool) -> None:
    """The setting made one directory with a comma in its name, and a new log at offset 0."""
    with rmqcore.open(disks.root, services=services, **disks.config) as store:
        for number in range(PUTS):
            answer = put(store, number)
            assert answer is not None
            disks.acked.append(answer)
    first, second = disks.files()
    assert len(first) > 2 and len(second) > 2
    assert {start // FILE % 2 for start in first} == {0}
    assert {start // FILE % 2 for start in second} == {1}
    assert sorted(os.listdir(tmp_path)) == ["disk1", "disk2", "store"]
    disks.check()


def test_the_names_decide_and_not_the_order_of_the_setting(disks: Disks) -> None:
    disks.fill(PUTS // 2)
    before = disks.files()
    disks.config["store_path_commit_log"] = ",".join(map(str, reversed(disks.logs)))
    disks.fill(PUTS // 2)
    first, second = disks.files()
    assert len(first) > len(before[0]) and {start // FILE % 2 for start in first} == {0}
    assert len(second) > len(before[1]) and {start // FILE % 2 for start in second} == {1}
    disks.check()


def test_a_full_disk_gets_no_file(disks: Disks, percents: dict[str, int]) -> None:
    percents.update(disk1=86, disk2=85)
    disks.fill()
    first, second = disks.files()
    assert first == [] and len(second) > 4
    percents.update(disk2=86)  # both: as if none was
    disks.fill()
    assert len(disks.files()[0]) > 2 and len(disks.files()[1]) > len(second)
    disks.check()


@pytest.mark.parametrize(("configured", "full"), [(10, 30), (99, 85), (50, 50)])
def test_the_ratio_has_javas_bounds(tmp_path: Path, configured: int, full: int) -> None:
    used = {"a": full + 1, "b": full}
    folders = log_folders.LogFolders([Path("/a"), Path("/b")], configured)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_folders, "used_percent", lambda folder: used[folder.name])
        assert [folders.for_new_file(start * 10, 10).name for start in range(4)] == ["b"] * 4
        used.update(b=full + 1)
        assert [folders.for_new_file(start * 10, 10).name for start in range(4)] == list("abab")


def test_read_only_directories_are_read_and_get_no_file(disks: Disks) -> None:
    disks.fill()
    before = disks.files()
    disks.fill(read_only_commit_log_store_paths=str(disks.logs[0]))
    first, second = disks.files()
    assert first == before[0]
    assert len(second) > len(before[1]) + 3
    disks.check(read_only_commit_log_store_paths=str(disks.logs[0]))
    # The old directory is in the second setting alone, as after a change of disks.
    third = disks.root.parent / "disk3" / "commitlog"
    config = MessageStoreConfig(
        **{**disks.config, "store_path_commit_log": str(third)},
        read_only_commit_log_store_paths=disks.setting,
    )
    with rmqcore.open(disks.root, config, services=False) as store:
        disks.put(store)
    assert len(os.listdir(third)) > 3 and disks.files() == [first, second]
    assert len(list(rmqcore.read(disks.root, config=config).messages())) == len(disks.acked)
    assert fsck(disks.root, config=config).exit_code == 0


def test_one_directory_becomes_two(disks: Disks) -> None:
    """A disk is added: the log so far stays where it is."""
    disks.fill(store_path_commit_log=str(disks.logs[0]))
    assert disks.files()[1] == []
    disks.fill()
    assert len(disks.files()[1]) > 2
    disks.check()


# ---- recovery ---------------------------------------------------------------------------------------


def test_after_a_crash(disks: Disks) -> None:
    disks.fill()
    disks.crash()
    shutil.rmtree(disks.root / "index")
    report = disks.check()
    assert report["cut_bytes"] == 0


@pytest.mark.parametrize("last", [0, 1])
def test_files_behind_the_end_are_cut_from_every_directory(disks: Disks, last: int) -> None:
    """The log ends in the middle; what lies behind it, in both directories, goes to ``cut/``, the newest file first."""
    disks.fill()
    starts = sorted(disks.files()[0] + disks.files()[1])
    ends = starts[-4 + last]
    file = disks.logs[ends // FILE % 2] / f"{ends:020d}"
    with file.open("r+b") as opened:
        opened.seek(4)
        opened.write(b"\0" * 8)
    disks.crash()
    (disks.root / "checkpoint").unlink()  # all of the log is read
    with rmqcore.open(disks.root, services=False, **disks.config) as store:
        assert store.max_phy_offset == ends
        assert store.recovery.cut_bytes > 0
        kept = [Path(path).name for path in store.recovery.cut_files]
        assert kept == [f"{start:020d}" for start in [ends, *reversed(starts[-3 + last :])]]
    assert max(disks.files()[0] + disks.files()[1]) == ends
    disks.acked = [answer for answer in disks.acked if answer.phy_offset < ends]
    disks.check()


def test_a_file_that_is_missing_in_the_middle_is_reported_as_in_one_directory(
    disks: Disks,
) -> None:
    disks.fill()
    gone = disks.files()[1][1]
    (disks.logs[1] / f"{gone:020d}").unlink()
    with rmqcore.open(disks.root, services=False, **disks.config) as store:
        assert any(str(gone) in warning for warning in store.recovery.warnings)
    damage = fsck(disks.root, commitlog=disks.setting).damage
    assert [(found.kind, found.start_phy_offset) for found in damage] == [("missing_file", gone)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_disk_that_is_not_mounted(disks: Disks, clean: bool) -> None:
    """Without its disk the log had holes, and new messages took the offsets of those that were on it."""
    disks.fill()
    if not clean:
        disks.crash()
    away = disks.root.parent / "away"
    for part in (disks.logs[1], disks.logs[1].parent):
        part.rename(away) if part.name == "disk2" else None
    with pytest.raises(CommitLogMissingError, match=f"{disks.logs[1]} was missing"):
        rmqcore.open(disks.root, **disks.config)
    assert not disks.logs[1].parent.exists()
    away.rename(disks.logs[1].parent)
    disks.check()


def test_a_disk_with_the_end_of_the_log_is_not_mounted(disks: Disks) -> None:
    disks.fill(40)
    while len(disks.files()[1]) < 1:
        disks.fill(10)
    assert disks.files() == [[0], [FILE]]
    disks.logs[1].parent.rename(disks.root.parent / "away")
    with pytest.raises(CommitLogMissingError, match="ends at 16384"):
        rmqcore.open(disks.root, **disks.config)
    (disks.root.parent / "away").rename(disks.logs[1].parent)
    disks.check()


def test_a_file_in_both_directories(disks: Disks) -> None:
    disks.fill()
    shutil.copy(disks.logs[0] / f"{0:020d}", disks.logs[1])
    for use in (
        lambda: rmqcore.open(disks.root, **disks.config),
        lambda: list(rmqcore.read(disks.root, commitlog=disks.setting).messages()),
    ):
        with pytest.raises(StoreFormatError, match="have the same name") as error:
            use()
        assert all(str(log / f"{0:020d}") in str(error.value) for log in disks.logs)
    assert fsck(disks.root, commitlog=disks.logs).totals["file_twice"] == {"error": 1}


# ---- offline ----------------------------------------------------------------------------------------


def test_readers(disks: Disks) -> None:
    disks.fill()
    bodies = [answer.body for answer in disks.acked]
    for how in (
        {"commitlog": disks.setting},
        {"commitlog": disks.logs},
        {"config": MessageStoreConfig(**disks.config)},
    ):
        reader = rmqcore.read(disks.root, **how)
        assert [view.body for view in reader.messages()] == bodies
        assert reader.damage == []
        info = reader.info()
        assert info.log_file_count == sum(map(len, disks.files()))
        assert info.commitlog_bytes > FILE
        last = disks.acked[-1]
        found = reader.message_at(last.phy_offset)
        assert found is not None and found.body == last.body
        got = reader.get(last.topic, last.queue_id, last.queue_offset)
        assert [view.body for view in got.messages] == [last.body]
        assert [view.body for view in reader.query(last.topic, last.key)] == [last.body]
        assert [view.body for view in LogTail(reader).newest(3)] == bodies[-3:]
    assert fsck(disks.root, config=MessageStoreConfig(**disks.config)).findings == []


def test_a_reader_refuses_half_a_log(disks: Disks) -> None:
    disks.fill()
    with pytest.raises(FileNotFoundError, match="disk3"):
        rmqcore.read(disks.root, commitlog=f"{disks.setting},{disks.root.parent / 'disk3'}")
    with pytest.raises(NotAStoreError):
        rmqcore.open(disks.root, create=False, **TINY)
    assert not (disks.root / "commitlog").exists()


def test_two_names_of_one_directory(disks: Disks) -> None:
    disks.fill()
    link = disks.root.parent / "link"
    link.symlink_to(disks.logs[0])
    setting = f"{disks.setting},{link}"
    reader = rmqcore.read(disks.root, commitlog=setting)
    assert len(list(reader.messages())) == len(disks.acked)
    with pytest.raises(ValueError, match="are the same directory"):
        rmqcore.open(disks.root, **{**disks.config, "store_path_commit_log": setting})
    disks.config["store_path_commit_log"] = f"{disks.setting},{disks.logs[0]}/"
    disks.fill(50)
    disks.check()


def test_the_command_line(disks: Disks, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    disks.fill()

    def answer(*words: str, code: int = 0) -> str:
        assert run([*words]) == code, capsys.readouterr().err
        return capsys.readouterr().out

    store, log = str(disks.root), ("--commitlog", disks.setting)
    last = disks.acked[-1]
    assert json.loads(answer("info", store, *log))["log_file_count"] == sum(map(len, disks.files()))
    assert len(answer("cat", store, *log, "--no-progress").splitlines()) == PUTS
    assert json.loads(answer("fsck", store, *log, "--json", "--no-progress"))["findings"] == []
    assert last.key in answer("lookup", store, str(last.phy_offset), *log, "--json")
    answer("export", store, *log, "--format", "jsonl", "-o", str(tmp_path / "out"), "--no-progress")
    lines = [path.read_text().count("\n") for path in (tmp_path / "out").rglob("*.jsonl")]
    assert sum(lines) == PUTS

    disks.crash()
    shutil.rmtree(disks.root / "consumequeue")
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={disks.setting}\nmappedFileSizeConsumeQueue={20 * 16}\n")
    plan = json.loads(answer("recover", store, "--config", str(conf), "--json", "--no-progress"))
    assert plan["end_phy_offset"] > last.phy_offset and not plan["loses_something"]
    answer("recover", store, "--config", str(conf), "--apply", "--no-progress")
    report = json.loads(answer("rebuild", store, *log, "--apply", "--json", "--no-progress"))
    assert report["records"] == PUTS
    assert os.listdir(disks.root.parent) and not (disks.root / "commitlog").exists()
    disks.check()


def test_settings_that_make_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for setting in ("", " ", "a,,b", ",a", "a, b", " a", "a ", ",", "a\0b"):
        with pytest.raises(ValueError, match="store_path_commit_log"):
            rmqcore.open("store", store_path_commit_log=setting)
        with pytest.raises(ValueError, match="store_path_commit_log"):
            rmqcore.read(tmp_path, commitlog=setting)
    with pytest.raises(ValueError, match="read_only_commit_log_store_paths contains every"):
        rmqcore.open("store", store_path_commit_log="a,b", read_only_commit_log_store_paths="b,a")
    assert os.listdir(tmp_path) == []
    rmqcore.open("store", **TINY, store_path_commit_log=" a,a/,b, ".replace(", ", ",")).close()
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "store"]
    rmqcore.open("a,b", **TINY).close()  # a root's own name is no list
    assert sorted(os.listdir("a,b")) == ["checkpoint", "commitlog", "index", "lock"]
