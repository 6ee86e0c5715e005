"""Names, sizes, checkpoint and abort file; directories that are no store."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stores.built_store import BuiltStore, file_name, patch

from rmqcore.errors import NotAStoreError
from rmqcore.offline.fsck import FsckReport, fsck
from rmqcore.offline.fsck.findings import Finding


@pytest.fixture
def broken(tmp_path: Path) -> BuiltStore:
    built = BuiltStore(tmp_path / "store").fill(100)
    built.write()
    return built


def only(report: FsckReport, kind: str) -> Finding:
    """The only finding of a kind."""
    (found,) = [finding for finding in report.findings if finding.kind == kind]
    return found


def severities(report: FsckReport) -> dict[str, str]:
    return {kind: " ".join(sorted(counts)) for kind, counts in report.totals.items()}


# ---- commitlog --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x", "00000000000000004096.bak", "4096", "9" * 20])
def test_odd_names(broken: BuiltStore, name: str) -> None:
    (broken.root / "commitlog" / name).write_bytes(bytes(4096))
    report = fsck(broken.root)
    assert severities(report) == {"file_name": "error"}
    assert only(report, "file_name").found == name


def test_an_offset_between_two_files(broken: BuiltStore) -> None:
    (broken.root / "commitlog" / file_name(100_000)).write_bytes(bytes(4096))
    report = fsck(broken.root)
    assert only(report, "file_name").path == f"commitlog/{file_name(100_000)}"


def test_directories_do_not_matter(broken: BuiltStore) -> None:
    (broken.root / "commitlog" / "lost+found").mkdir()
    assert fsck(broken.root).findings == []


def test_an_empty_last_file_is_deleted_by_a_start(broken: BuiltStore) -> None:
    (broken.root / "commitlog" / file_name(8 * 4096)).touch()
    report = fsck(broken.root)
    assert (severities(report), report.exit_code) == ({"file_size": "info"}, 0)


def test_an_empty_file_before_others_stops_a_start(broken: BuiltStore) -> None:
    (broken.root / "commitlog" / file_name(4096)).write_bytes(b"")
    report = fsck(broken.root)
    assert report.totals["file_size"] == {"error": 1}
    assert report.totals["missing_file"] == {"error": 1}


@pytest.mark.parametrize("by", [-1, 1])
def test_a_last_file_of_another_size(broken: BuiltStore, by: int) -> None:
    path = max((broken.root / "commitlog").iterdir())
    path.write_bytes(path.read_bytes()[: 4096 + by].ljust(4096 + by, b"\0"))
    report = fsck(broken.root)
    found = only(report, "file_size")
    assert (found.expected, found.found, report.exit_code) == (4096, 4096 + by, 2)


def test_files_allocated_ahead_are_ordinary(broken: BuiltStore) -> None:
    last = max((broken.root / "commitlog").iterdir())
    for ahead in (1, 2):
        (broken.root / "commitlog" / file_name(int(last.name) + ahead * 4096)).write_bytes(
            bytes(4096)
        )
    assert fsck(broken.root).findings == []


# ---- checkpoint -------------------------------------------------------------------------------------

FIELDS = (
    "physic_msg_timestamp_ms",
    "logics_msg_timestamp_ms",
    "index_msg_timestamp_ms",
    "confirm_phy_offset",
    "logics_physical_offset",
)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [-1, 1 << 62])
def test_a_checkpoint_that_cannot_be(broken: BuiltStore, field: str, value: int) -> None:
    broken.write_checkpoint(**{field: value})
    report = fsck(broken.root)
    found = only(report, "checkpoint")
    assert (found.field, found.found, found.severity) == (field, value, "error")
    assert report.exit_code == 2


def test_a_checkpoint_up_to_the_last_message_is_right(broken: BuiltStore) -> None:
    newest = broken.records[-1].store_timestamp_ms
    end = len(broken.log)
    broken.write_checkpoint(
        physic_msg_timestamp_ms=newest, confirm_phy_offset=end, master_flushed_offset=1 << 40
    )
    assert fsck(broken.root).findings == []
    broken.write_checkpoint(physic_msg_timestamp_ms=newest + 1, confirm_phy_offset=end + 1)
    assert fsck(broken.root).totals == {"checkpoint": {"error": 2}}


@pytest.mark.parametrize("size", [0, 1, 47])
def test_a_checkpoint_cut_off(broken: BuiltStore, size: int) -> None:
    path = broken.root / "checkpoint"
    path.write_bytes(path.read_bytes()[:size])
    found = only(fsck(broken.root), "checkpoint")
    assert (found.severity, found.field, found.found) == ("error", "file size", size)


def test_a_checkpoint_of_another_size(broken: BuiltStore) -> None:
    path = broken.root / "checkpoint"
    path.write_bytes(path.read_bytes()[:48])
    report = fsck(broken.root)
    assert (severities(report), report.exit_code) == ({"checkpoint": "warning"}, 0)


def test_no_checkpoint(broken: BuiltStore) -> None:
    (broken.root / "checkpoint").unlink()
    assert severities(fsck(broken.root)) == {"checkpoint": "info"}
    (broken.root / "abort").touch()
    assert severities(fsck(broken.root)) == {"checkpoint": "warning", "abort": "info"}
    (broken.root / "checkpoint").mkdir()
    assert severities(fsck(broken.root))["checkpoint"] == "error"


# ---- whole directories ------------------------------------------------------------------------------


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        fsck(tmp_path)
    with pytest.raises(FileNotFoundError):
        fsck(tmp_path / "none")


def test_a_store_without_messages(tmp_path: Path) -> None:
    built = BuiltStore(tmp_path / "store")
    assert fsck(built.write()).findings == []
    for path in (built.root / "commitlog").iterdir():
        path.unlink()
    report = fsck(built.root)
    assert report.findings == []
    assert report.counts["records"] == 0


def test_only_a_log(tmp_path: Path) -> None:
    built = BuiltStore(tmp_path / "store").fill(10)
    built.write_log()
    report = fsck(built.root, check_queues=False, check_index=False)
    assert severities(report) == {"log_only": "info"}
    # Another process has closed a store here: what is missing was lost.
    (built.root / "abort").touch()
    assert set(fsck(built.root).totals) >= {"cq_missing", "index_missing", "checkpoint"}


def test_no_log(broken: BuiltStore) -> None:
    for path in (broken.root / "commitlog").iterdir():
        path.unlink()
    report = fsck(broken.root)
    assert report.totals["cq_beyond"]["error"] == 100
    assert report.totals["index_entry"]["error"] == 400
    (broken.root / "commitlog").rmdir()
    assert fsck(broken.root).totals["missing_file"] == {"error": 1}


def test_which_file_a_start_begins_with(broken: BuiltStore) -> None:
    files = sorted((broken.root / "commitlog").iterdir())
    assert len(files) > 3

    def recovers_from() -> int:
        start = fsck(broken.root).would_be_lost["broker_start"]["recovers_from"]
        assert isinstance(start, int)
        return start

    assert recovers_from() == int(files[-1].name)
    # Unclean: by the offset up to which queues are on disk, in older stores by time.
    (broken.root / "abort").touch()
    broken.write_checkpoint(logics_physical_offset=5000)
    assert recovers_from() == 4096
    first = next(record for record in broken.records if record.phy_offset == 8192)
    broken.write_checkpoint(
        logics_physical_offset=0, logics_msg_timestamp_ms=first.store_timestamp_ms
    )
    assert recovers_from() == 8192
    broken.write_checkpoint(logics_physical_offset=0, logics_msg_timestamp_ms=0)
    assert recovers_from() == 0
    # A file whose first record is damaged is passed over.
    broken.write_checkpoint(logics_physical_offset=5000)
    patch(files[1], 88, b"X")
    assert recovers_from() == 0
