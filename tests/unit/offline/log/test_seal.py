"""A seal of a log's past: the same for the same bytes, none where no file has them, and what speaks against a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stores.bad_sectors import BadSectors
from support.stores.live_log import LiveLog

from rmqcore.disk.paths import StorePaths
from rmqcore.offline.log.log_files import LogFile, list_log_files
from rmqcore.offline.log.seal import SEAL_BYTES, Seal, broken_seal, seal_at


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    log = LiveLog(tmp_path / "store", file_size=128 * 1024)
    while log.end < 350 * 1024:
        log.append(body=b"x" * 1000)
    return log


def files_of(log: LiveLog) -> list[LogFile]:
    return list_log_files(StorePaths(log.root))


def test_the_bytes_before_an_offset_decide(log: LiveLog) -> None:
    files = files_of(log)
    seal = seal_at(files, log.end)
    assert seal is not None and seal == seal_at(files, log.end)
    far, near = log.end - SEAL_BYTES - 1, log.end - SEAL_BYTES
    assert far // log.file_size == near // log.file_size
    for at, broken in ((far, False), (log.end, False), (near, True)):
        log.write(at, b"\x7f")
        assert (broken_seal(files, seal) is not None) == broken, at


def test_a_seal_lies_in_one_file(log: LiveLog) -> None:
    """At the start of a file it covers the end of the file before, and little of a file that has just begun."""
    files = files_of(log)
    border = log.file_size
    at_border, behind = seal_at(files, border), seal_at(files, border + 100)
    assert at_border is not None and behind is not None
    log.write(border - 1, b"\x7f")
    assert (
        broken_seal(files, at_border) == f"the bytes before {border} changed since they were read"
    )
    assert broken_seal(files, behind) is None


def test_what_cannot_be_compared_speaks_against_nothing(log: LiveLog) -> None:
    """The owner has deleted the file, before or after it was listed."""
    files = files_of(log)
    seal = seal_at(files, log.file_size)
    assert seal is not None and seal_at(files, 0) is None
    log.path(0).unlink()
    for listed in (files, files_of(log)):
        assert seal_at(listed, log.file_size) is None
        assert broken_seal(listed, seal) is None


def test_a_log_that_ends_before(log: LiveLog) -> None:
    files = files_of(log)
    assert broken_seal([], Seal(5, "")) == "the log has no files"
    end = files[-1].end_offset
    assert broken_seal(files, Seal(end + 1, "")) == f"the log ends at {end}"
    assert seal_at(files, end + 1) is None


def test_bad_sectors_are_no_other_log(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of(log)
    seal = seal_at(files, log.end)
    assert seal is not None
    last = int(log.path(log.end).name)
    BadSectors({(log.end - last) // 4096 * 4096 - 4096}).of(monkeypatch, file_from_offset=last)
    assert seal_at(files, log.end) is None
    assert broken_seal(files, seal) is None
