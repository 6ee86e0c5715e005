"""What is said of the disk below a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcore.testing.disks.disk_facts import disk_facts

MEMORY = Path("/dev/shm")


def test_a_disk(tmp_path: Path) -> None:
    facts = disk_facts(tmp_path)
    assert facts.sync_seconds > 0
    assert str(tmp_path) in str(facts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not MEMORY.is_dir(), reason="the system has no tmpfs there")
def test_memory_proves_nothing() -> None:
    facts = disk_facts(MEMORY)
    assert facts.file_system == "tmpfs"
    assert "proves nothing about a disk" in str(facts)


def test_a_library_that_leaves_syncs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libeatmydata.so")
    assert "libeatmydata" in str(disk_facts(tmp_path))
