"""A file that another program cuts while a store is open: what docs/durability.md says of it.

The first access to a page that the file does not have any more was SIGBUS, and the end of the process: of a broker because of one
`cp` over a log file, of a notebook because of a store that was copied over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.text.message_text import csv_line, json_line
from rmqcore._native.threads.bell import Bell
from rmqcore.errors import LostPagesError, StoreFailedError, StoreFormatError

SMALL: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16, "services": False}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with rmqcore.open(tmp_path, **SMALL) as store:
        for _ in range(400):
            store.put(Message("t", b"x" * 500)).raise_for_status()
        store.wait_dispatched()
    return tmp_path


def test_a_file_that_was_not_read_yet_is_an_error_with_both_sizes(root: Path) -> None:
    oldest = root / "commitlog" / ("0" * 20)
    with rmqcore.open(root, **SMALL) as store:
        os.truncate(oldest, 5000)
        with pytest.raises(StoreFormatError, match=f"{oldest}: file size is 5000, expected 65536"):
            store.lookup(0)
        with pytest.raises(StoreFormatError, match="file size is 5000"):
            store.get("t", 0, 0)
        store.put(Message("t", b"")).raise_for_status()
        assert store.get("t", 0, 390).messages[0].body == b"x" * 500, "newer files answer"


def test_messages_of_pages_that_are_gone_are_errors(root: Path) -> None:
    oldest = root / "commitlog" / ("0" * 20)
    with rmqcore.open(root, **SMALL) as store:
        whole = store.get("t", 0, 0, 32)
        first, last = whole.messages[0], whole.messages[30]
        os.truncate(oldest, 4096)
        told = f"{oldest}: file size is 4096, expected 65536: it was cut while it was open"
        with pytest.raises(LostPagesError, match=told):
            last.body  # noqa: B018
        for ask in (
            whole.bodies,
            lambda: last.raw,
            lambda: last.properties,
            lambda: last.topic,
            lambda: store.lookup(last.phy_offset),
            lambda: store.get("t", 0, 20),
        ):
            with pytest.raises(LostPagesError, match=told):
                ask()
        with pytest.raises(LostPagesError):
            first.body  # noqa: B018  its bytes are there; but the file is not what it was
        store.put(Message("t", b"")).raise_for_status()
        assert store.get("t", 0, 390).messages[0].body == b"x" * 500, "newer files answer"


@pytest.mark.parametrize("line", [json_line, lambda view, body: csv_line(view, body, True)])
def test_a_line_of_a_message_that_is_gone_is_an_error(root: Path, line: Any) -> None:
    """Also where nobody met the page before."""
    with rmqcore.open(root, **SMALL) as store:
        view = store.get("t", 0, 30).messages[0]
        os.truncate(root / "commitlog" / ("0" * 20), 4096)
        with pytest.raises(LostPagesError, match="file size is 4096, expected 65536"):
            line(view, None)


def cut_store(root: Path) -> MessageStore:
    """An open store with 20 messages that nobody synced or dispatched, most of them behind the place of a cut."""
    store = rmqcore.open(root, **SMALL)
    for _ in range(20):
        store.put(Message("t", b"x" * 500)).raise_for_status()
    os.truncate(root / "commitlog" / ("0" * 20), 4096)
    return store


def test_a_put_into_pages_that_are_gone_is_no_success(tmp_path: Path) -> None:
    with cut_store(tmp_path) as store:
        with pytest.raises(LostPagesError, match="file size is 4096, expected 65536"):
            store.put(Message("t", b"y" * 500))
        with pytest.raises(LostPagesError):
            store.put_many([Message("t", b"z" * 500)] * 10)
        with pytest.raises(StoreFailedError, match="file size is 4096"):
            store.flush()
        with pytest.raises(StoreFailedError, match="file size is 4096"):
            store.put(Message("t", b""))
    with pytest.raises(StoreFormatError, match="file size is 4096, expected 65536 as configured"):
        rmqcore.open(tmp_path, **SMALL)


def test_a_flush_of_a_file_that_was_cut_fails(tmp_path: Path) -> None:
    """Nobody met a page that was gone: msync of pages behind the end of a file answers 0."""
    store = cut_store(tmp_path)
    with pytest.raises(StoreFailedError, match="it was cut while it was open"):
        store.flush()
    store.close()


def test_dispatch_of_pages_that_are_gone_fails_the_store(tmp_path: Path) -> None:
    store = cut_store(tmp_path)
    with pytest.raises(StoreFailedError, match="it was cut while it was open"):
        store.dispatch_once()
    assert store.max_offset("t", 0) == 0, "no entry of bytes that are zeros"
    store.close()


def test_an_index_whose_pages_are_gone_fails_the_store(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"max_hash_slot_num": 5000, "max_index_num": 20000}
    store = rmqcore.open(tmp_path, **SMALL, **sizes)
    store.put(Message("t", b"", keys="a")).raise_for_status()
    store.wait_dispatched()
    assert store.query("t", "a").messages
    (index,) = (tmp_path / "index").iterdir()
    os.truncate(index, 0)
    for number in range(50):
        store.put(Message("t", b"", keys=f"k{number}")).raise_for_status()
    with pytest.raises(StoreFailedError, match=f"{index}: file size is 0"):
        store.wait_dispatched()
    with pytest.raises(LostPagesError, match="file size is 0"):
        store.query("t", "a")
    store.close()


PROGRAM = """
import mmap, os, signal, sys
import rmqcore
from rmqcore import Message, MessageStore
from rmqcore.errors import LostPagesError

root, other = sys.argv[1:]
store = rmqcore.open(root, services=False)
store.put(Message("t", b"x")).raise_for_status()
view = store.lookup(0)
os.truncate(os.path.join(root, "commitlog", "0" * 20), 0)
try:
    view.body
except LostPagesError:
    print("an error", flush=True)
with open(other, "w+b") as file:
    file.truncate(4096)
    strange = mmap.mmap(file.fileno(), 4096)
    file.truncate(0)
    if sys.argv[2].endswith("sent"):
        os.kill(os.getpid(), signal.SIGBUS)
    else:
        strange[0]
print("still there")
"""


def run(program: Path, text: str, *words: Path) -> subprocess.CompletedProcess[str]:
    """Run a program; where it is under AddressSanitizer, that leaves the signal alone."""
    program.write_text(text)
    options = os.environ.get("ASAN_OPTIONS", "")
    return subprocess.run(
        [sys.executable, program, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"ASAN_OPTIONS": f"{options}:handle_sigbus=0".lstrip(":")},
    )


@pytest.mark.parametrize("how", ["met", "sent"])
def test_a_signal_of_another_origin_ends_the_process(tmp_path: Path, how: str) -> None:
    """Mappings of other libraries are not ours to mend, and `kill -BUS` means what it always did."""
    done = run(tmp_path / "program.py", PROGRAM, tmp_path / "store", tmp_path / how)
    assert done.stdout == "an error\n"
    assert done.returncode == -signal.SIGBUS


def test_a_handler_that_was_there_before_gets_its_signals(tmp_path: Path) -> None:
    text = f"import faulthandler\nfaulthandler.enable()\n{PROGRAM}"
    done = run(tmp_path / "program.py", text, tmp_path / "store", tmp_path / "met")
    assert done.stdout == "an error\n"
    assert "Fatal Python error: Bus error" in done.stderr
    assert done.returncode == -signal.SIGBUS


def test_mappings_come_and_go(tmp_path: Path) -> None:
    """A mapping that is watched in the place of one that went has lost nothing yet."""
    path = tmp_path / "file"
    for _ in range(50):
        path.write_bytes(bytes(1 << 16))
        file = MappedFile(str(path), 1 << 16)
        assert not any(bytes(memoryview(file)))
        file.raise_if_lost()
        os.truncate(path, 0)
        assert not any(bytes(memoryview(file)))
        with pytest.raises(LostPagesError):
            file.raise_if_lost()


def test_a_store_that_lost_pages_slows_no_other_once_it_is_closed(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Dispatch of every store of the process stayed in Python for as long as the process lived."""
    with rmqcore.open(root, **SMALL) as store:
        message = store.get("t", 0, 30).messages[0]
        os.truncate(root / "commitlog" / ("0" * 20), 4096)
        with pytest.raises(LostPagesError):
            message.body  # noqa: B018
    del message
    other = tmp_path_factory.mktemp("other")
    with rmqcore.open(other, message_index_enable=False, **SMALL) as store:
        for _ in range(3):
            store.put(Message("t", b"x")).raise_for_status()
            while store.dispatch_until(Bell(), follow=False):
                pass
        assert store._dispatch._dispatcher.done.batches > 0
