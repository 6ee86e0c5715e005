"""What goes wrong with a store behind a URL: an error names the file, what was expected and what was found; nothing is left."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from support.remote.memory_stores import MemoryStores, left_behind
from support.remote.remote_double import Disk, DiskFilesystem, store_on
from support.stores.store_maker import make_store, sample_records

import rmqcore
from rmqcore.errors import NotAStoreError, RemoteChangedError, RemoteStorageError, StoreClosedError
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.remote import listed_file, sparse_file
from rmqcore.offline.remote.entries import RemoteEntry
from rmqcore.offline.remote.store_url import StoreUrl

MIB = 1 << 20
LOG = "/store/commitlog/00000000000000000000"


@pytest.fixture
def basic(golden: Path) -> tuple[Disk, StoreUrl]:
    return store_on(golden / "basic" / "store")


def read_all(reader: StoreReader) -> list[bytes]:
    return [bytes(view.raw) for view in reader.messages()]


# ---- files that change ------------------------------------------------------------------------------


def test_a_log_file_that_is_shorter_than_it_was_listed(basic: tuple[Disk, StoreUrl]) -> None:
    disk, url = basic
    with StoreReader(url) as reader:
        disk.files[LOG] = disk.files[LOG][:1000]
        with pytest.raises(
            RemoteChangedError,
            match=rf"^mem://host{LOG}: the file has 1000 bytes, expected 131072 bytes as listed: it was changed",
        ):
            read_all(reader)


def test_a_log_file_that_is_gone(basic: tuple[Disk, StoreUrl]) -> None:
    """On a disk that is a range of damage, for a broker cleans its log. Nobody cleans there."""
    disk, url = basic
    with StoreReader(url) as reader:
        del disk.files[LOG]
        for read in (read_all, lambda reader: reader.message_at(0), StoreReader.info):
            with pytest.raises(
                RemoteChangedError, match=rf"^mem://host{LOG}: the file was deleted"
            ):
                read(reader)


def test_a_log_file_that_is_another_of_the_same_size(memory: MemoryStores, golden: Path) -> None:
    """All files of a log have one size: only the time tells."""
    url = memory.put(golden / "basic" / "store")
    with rmqcore.read(url) as reader:
        memory.filesystem.store[
            "/stores/store/commitlog/00000000000000000000"
        ].created -= timedelta(hours=1)
        with pytest.raises(
            RemoteChangedError,
            match=r"has 131072 bytes of 20..-.*Z, expected 131072 bytes of 20.*Z as listed",
        ):
            read_all(reader)


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of which a reader fetches several pieces; only for reading: each test has its own copy in memory."""
    made = make_store(sample_records(20_000), log_file_size=8 * MIB)
    return made.write(tmp_path_factory.mktemp("long"))


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_log_file_that_is_replaced_while_it_is_read(
    long_store: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What was read before and behind that moment is of two stores. It is told at the file's end, or after five seconds."""
    disk, url = store_on(long_store)
    if when == "at once":
        monkeypatch.setattr(listed_file, "CHECKED_S", -1.0)
    with StoreReader(url) as reader:
        messages = reader.messages(end_phy_offset=7 * MIB)
        for _ in range(1000):
            next(messages)
        disk.files[LOG] = disk.files[LOG][:-1] + b"x"
        delivered: list[object] = []
        with pytest.raises(
            RemoteChangedError, match="has 8388608 bytes, another version, expected"
        ):
            delivered.extend(messages)
    assert (when == "later") == (len(delivered) > 10_000)


def test_a_reader_that_stops_early_asks_for_nothing_more(long_store: Path) -> None:
    disk, url = store_on(long_store)
    with StoreReader(url) as reader:
        messages = reader.messages()
        next(messages)
        disk.files[LOG] = b""
        messages.close()  # type: ignore[attr-defined]


QUEUE = "/store/consumequeue/TopicBasicA/0/00000000000000000000"
INDEX = "/store/index"


def get(url: StoreUrl | str) -> Any:
    return StoreReader(url).get("TopicBasicA", 0, 0)


PARTS: dict[str, tuple[str, Callable[[StoreUrl], Any]]] = {
    "a queue, get": (QUEUE, get),
    "a queue, queues": (QUEUE, lambda url: StoreReader(url).queues()),
    "a queue, fsck": (QUEUE, rmqcore.fsck),
    "an index, fsck": (INDEX, rmqcore.fsck),
    "an index, query": (INDEX, lambda url: StoreReader(url).query("TopicBasicA", "x")),
    "an index, index_files": (INDEX, lambda url: StoreReader(url).index_files()),
    "the checkpoint, info": ("/store/checkpoint", lambda url: StoreReader(url).info()),
    "the checkpoint, fsck": ("/store/checkpoint", rmqcore.fsck),
    "the checkpoint": ("/store/checkpoint", lambda url: StoreReader(url).checkpoint()),
    "the log, fsck": (LOG, rmqcore.fsck),
    "the log, stats": (LOG, rmqcore.stats),
    "offsets, stats": ("/store/config/consumerOffset.json", rmqcore.stats),
}


@pytest.mark.parametrize("change", ["gone", "cut", "failing"])
@pytest.mark.parametrize("what", PARTS)
def test_no_file_that_cannot_be_had_is_taken_for_an_empty_one(
    basic: tuple[Disk, StoreUrl], monkeypatch: pytest.MonkeyPatch, what: str, change: str
) -> None:
    """An answer without it, or a finding of fsck, would be wrong: the store there is sound."""
    disk, url = basic
    disk.files["/store/config/consumerOffset.json"] = b'{"offsetTable": {}}'
    place, read = PARTS[what]
    path = max(name for name in disk.files if name.startswith(place))
    tree = DiskFilesystem.tree

    def tree_and_change(self: DiskFilesystem, folder: str) -> list[RemoteEntry]:
        found = tree(self, folder)
        if folder == "/store/index":  # the last that is listed of what is asked for below
            spoil()
        return found

    def spoil() -> None:
        if change == "gone":
            disk.files.pop(path, None)
        elif change == "cut":
            disk.files[path] = disk.files[path][:10]
        else:
            disk.failing_paths = {path}

    parts = ["config", "commitlog", "consumequeue", "index"]
    monkeypatch.setattr("rmqcore.offline.remote.remote_paths.WHOLE", parts)
    order = {name: at for at, name in enumerate(parts)}
    entries = DiskFilesystem.entries
    monkeypatch.setattr(
        DiskFilesystem,
        "entries",
        lambda self, folder: sorted(
            entries(self, folder), key=lambda entry: order.get(entry.name, -1)
        ),
    )
    monkeypatch.setattr(DiskFilesystem, "tree", tree_and_change)
    error = RemoteStorageError if change == "failing" else RemoteChangedError
    with pytest.raises(error, match=f"^mem://host{path}"):
        read(url)


# ---- servers, disks, packages -----------------------------------------------------------------------


def test_bytes_that_do_not_come(basic: tuple[Disk, StoreUrl]) -> None:
    disk, url = basic
    with StoreReader(url) as reader:
        disk.failing_paths = {LOG}
        with pytest.raises(
            RemoteStorageError,
            match=rf"^mem://host{LOG}: bytes 0 to \d+ cannot be read: Connection reset",
        ):
            read_all(reader)


def test_fewer_bytes_than_were_asked_for(
    basic: tuple[Disk, StoreUrl], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = basic
    monkeypatch.setattr(
        "support.remote.remote_double.Handle.read_at", lambda self, count, pos: b"x" * (count - 1)
    )
    with (
        StoreReader(url) as reader,
        pytest.raises(
            RemoteStorageError,
            match=r"^mem://host/store/commitlog/\d+: \d+ bytes were returned from byte 0 on, expected \d+$",
        ),
    ):
        read_all(reader)


def test_no_room_for_what_is_fetched(
    basic: tuple[Disk, StoreUrl], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a finding of fsck it would be damage of a sound store."""

    def full(fd: int, data: bytes, pos: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sparse_file, "write_sparse", full)
    _, url = basic
    with pytest.raises(
        RemoteStorageError,
        match=r"^mem://host/store/.*: bytes 0 to \d+ cannot be stored in .*: No space left on device; set TMPDIR",
    ):
        rmqcore.fsck(url)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["consumequeue/a", "consumequeue/a/0/1"], "a file, expected a directory|File exists"),
        (["consumequeue/../../../evil"], "is not a path inside a directory"),
        (["consumequeue/./0/1"], "is not a path inside a directory"),
        (["index/" + "n" * 256], "File name too long"),
        (["index/a\0b"], "is not a path inside a directory"),
    ],
)
def test_names_that_no_file_here_can_have(
    basic: tuple[Disk, StoreUrl], own_tmp: Path, names: list[str], why: str
) -> None:
    """Keys of an object store are any text."""
    disk, url = basic
    for name in names:
        disk.files[f"/store/{name}"] = b"x"
    with pytest.raises(
        RemoteStorageError, match=rf"^mem://host/store/.* cannot be placed in {own_tmp}/.*{why}"
    ):
        StoreReader(url)


@pytest.mark.parametrize(
    ("package", "url", "command"),
    [
        ("pyarrow", "s3://bucket/store", r"pip install 'rmqcore\[arrow\]'"),
        ("pyarrow", "memory://store", r"pip install 'rmqcore\[arrow\]'"),
        ("fsspec", "memory://store", "pip install fsspec"),
    ],
)
def test_packages_that_are_missing(
    monkeypatch: pytest.MonkeyPatch, package: str, url: str, command: str
) -> None:
    find = util.find_spec
    monkeypatch.setattr(
        "rmqcore.offline.installed.find_spec",
        lambda name: None if name == package else find(name),
    )
    with pytest.raises(ModuleNotFoundError, match=f"needs {package}, .*: {command}$") as caught:
        rmqcore.read(url)
    assert caught.value.name == package


def test_what_is_no_store(memory: MemoryStores, golden: Path) -> None:
    with pytest.raises(FileNotFoundError, match="memory:///stores/nothing"):
        rmqcore.read("memory:///stores/nothing")
    memory.put(golden / "basic" / "store", "broker/store")
    with pytest.raises(NotAStoreError, match=r"^memory:///stores/broker has no commitlog/"):
        rmqcore.read("memory:///stores/broker")
    with pytest.raises(NotADirectoryError, match="memory:///stores/broker/store/checkpoint"):
        rmqcore.read("memory:///stores/broker/store/checkpoint")
    with pytest.raises(RemoteStorageError, match="Protocol not known: gopher"):
        rmqcore.read("gopher://host/store")


REFUSE: dict[str, Callable[[str, Path], object]] = {
    "open": lambda url, root: rmqcore.open(url),
    "open a log": lambda url, root: rmqcore.open(root, store_path_commit_log=url),
    "a reader": lambda url, root: StoreReader(url),
    "a log": lambda url, root: rmqcore.read(root, commitlog=url),
    "rebuild": rmqcore.rebuild,
    "rebuild to": lambda url, root: rmqcore.rebuild(root, url),
    "salvage": rmqcore.salvage,
    "salvage to": lambda url, root: rmqcore.salvage(root, url),
    "backup": rmqcore.backup,
    "backup to": lambda url, root: rmqcore.backup(root, url),
    "diff": rmqcore.diff,
    "diff with": lambda url, root: rmqcore.diff(root, url),
    "retention": lambda url, root: rmqcore.retention(url),
    "doctor": lambda url, root: rmqcore.doctor(url),
    "find_config": lambda url, root: rmqcore.find_config(url),
    "export to": lambda url, root: rmqcore.export(root, url),
}


@pytest.mark.parametrize("what", REFUSE)
def test_what_does_not_take_a_url(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A directory ``s3:`` was made, or looked for, below the working directory."""
    root = tmp_path / "store"
    shutil.copytree(golden / "basic" / "store", root)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ValueError,
        match=r" is s3://bucket/a, expected a local directory: only rmqcore\.read, scan, duckdb_view, fsck",
    ):
        REFUSE[what]("s3://key:hush@bucket/a?secret_key=hush", root)
    assert not Path("s3:").exists()


# ---- ends -------------------------------------------------------------------------------------------


def test_a_reader_that_is_closed(basic: tuple[Disk, StoreUrl], own_tmp: Path) -> None:
    reader = StoreReader(basic[1])
    assert len(left_behind()) == 1
    reader.get("TopicBasicA", 0, 0)
    reader.close()
    reader.close()
    assert left_behind() == []
    for ask in (
        reader.info,
        reader.queues,
        reader.topics,
        reader.index_files,
        reader.checkpoint,
        lambda: reader.message_at(0),
        lambda: read_all(reader),
        lambda: reader.get("TopicBasicA", 0, 0),
        lambda: reader.query("TopicBasicA", "x"),
    ):
        with pytest.raises(StoreClosedError, match=r"^the reader of mem://host/store is closed$"):
            ask()


def test_a_read_that_a_close_cuts_off(basic: tuple[Disk, StoreUrl]) -> None:
    reader = StoreReader(basic[1])
    messages = reader.messages()
    next(messages)
    reader.close()
    with pytest.raises(StoreClosedError, match=r"^the reader of mem://host/store is closed$"):
        list(messages)


@pytest.mark.parametrize("point", ["listing", "making", "fetching", "fetching all", "reading"])
def test_ctrl_c_leaves_nothing(
    basic: tuple[Disk, StoreUrl], monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    _, url = basic

    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    target, use = {
        "listing": (f"{DiskFilesystem.__module__}.DiskFilesystem.tree", StoreReader),
        "making": ("rmqcore.offline.remote.skeleton._make_file", StoreReader),
        "fetching": ("rmqcore.offline.remote.sparse_file.write_sparse", get),
        "fetching all": ("rmqcore.offline.remote.sparse_file.write_sparse", rmqcore.fsck),
        "reading": ("support.remote.remote_double.Handle.read_at", rmqcore.stats),
    }[point]
    monkeypatch.setattr(target, stop)
    with pytest.raises(KeyboardInterrupt):
        use(url)  # type: ignore[operator]


@pytest.mark.forks
def test_a_forked_child_removes_nothing(basic: tuple[Disk, StoreUrl]) -> None:
    with StoreReader(basic[1]) as reader:
        child = os.fork()
        if child == 0:
            try:
                reader.close()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert len(left_behind()) == 1
        assert reader.get("TopicBasicA", 0, 0).messages


def test_nothing_but_this_user_may_look(basic: tuple[Disk, StoreUrl]) -> None:
    with StoreReader(basic[1]):
        (name,) = left_behind()
        assert (Path(tempfile.gettempdir()) / name).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "end", ["pass", "sys.exit(3)", "raise ValueError", "del reader; reader = None"]
)
def test_a_process_that_closes_nothing_leaves_nothing(
    golden: Path, own_tmp: Path, end: str
) -> None:
    program = (
        f"import sys, rmqcore; reader = rmqcore.read('local://{golden / 'basic' / 'store'}')\n"
        f"reader.get('TopicBasicA', 0, 0); messages = reader.messages(); next(messages)\n{end}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(own_tmp)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr or end == "raise ValueError"
    assert os.listdir(own_tmp) == []
