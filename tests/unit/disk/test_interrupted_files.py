"""An exception at any place of a call that opens a file leaves no descriptor open."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.faults.interrupt_points import Injector, Interrupted, TimedOut

from rmqcore.disk.checkpoint import CheckpointFile
from rmqcore.disk.durable import sync_directory, write_durable
from rmqcore.disk.log_window import WholeFile
from rmqcore.disk.read_range import opened, read_range
from rmqcore.engine.log.mapped_files import create_mapped_file


def descriptors(folder: Path) -> list[str]:
    """Open files below a folder, deleted ones too."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    paths = [os.readlink(link) for link in links if os.path.lexists(link)]
    return [path for path in paths if path.startswith(str(folder))]


def checkpoint(folder: Path) -> None:
    file = CheckpointFile(folder / "checkpoint")
    file.update(physic_msg_timestamp_ms=file.values.physic_msg_timestamp_ms + 1)
    file.flush()


def read(folder: Path) -> None:
    read_range(folder / "checkpoint", 0, 10)
    with opened(folder / "checkpoint", os.O_RDONLY), WholeFile(folder / "checkpoint", 4096):
        pass


def make(folder: Path) -> None:
    (folder / "00000000000000000000").unlink(missing_ok=True)
    create_mapped_file(folder, 4096, 0)


@pytest.fixture
def few_objects() -> Iterator[None]:
    """A collection looks at what the test makes alone: with all modules loaded a thousand of them took minutes."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("few_objects")
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="asks Linux which files are open")
@pytest.mark.parametrize(
    "call",
    [
        lambda folder: write_durable(folder / "abort", b"1"),
        sync_directory,
        checkpoint,
        read,
        make,
    ],
)
def test_an_exception_anywhere(tmp_path: Path, call: Callable[[Path], None]) -> None:
    """Between the open and its `try` the number was lost: signals that raised left dozens of files open in a minute."""
    checkpoint(tmp_path)
    at = 0
    while True:
        at += 1
        injector = Injector(at)
        try:
            injector.run(call, tmp_path)
        except (Interrupted, TimedOut):
            pass
        else:
            break
        gc.collect()  # frames that the injector has looked at
        assert descriptors(tmp_path) == [], injector.place
    assert at > 15
