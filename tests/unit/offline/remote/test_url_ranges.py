"""What is asked of the server: of the log the ranges that are read, of other files no more than what is looked at."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.remote.remote_double import Disk, DiskFilesystem, Handle, store_on
from support.stores.store_maker import make_store, sample_records

import rmqcore
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.remote.entries import RemoteEntry
from rmqcore.offline.remote.sparse_file import BLOCK, PIECE, SparseFile
from rmqcore.offline.remote.store_url import StoreUrl

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several files, queues of one large file each, and an index file of 4 MB."""
    store = make_store(
        sample_records(20_000),
        log_file_size=2 * MIB,
        cq_file_entries=300_000,
        index_capacity=200_000,
    )
    return store.write(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def store(made: Path) -> tuple[Disk, StoreUrl]:
    return store_on(made)


def asked(disk: Disk, part: str) -> int:
    """Bytes that were asked for of files whose path holds a text."""
    return sum(end - begin for path, begin, end in disk.ranges if part in path)


def kept(reader: StoreReader) -> int:
    """Bytes that lie in the temporary directory."""
    root = Path(reader.paths.root).parent
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())


def test_a_log_is_read_once_and_never_kept(store: tuple[Disk, StoreUrl], made: Path) -> None:
    """So one larger than this machine's disk can be read."""
    disk, url = store
    with StoreReader(url) as reader:
        assert sum(1 for _ in reader.messages()) == 20_000
        whole = sum(len(data) for path, data in disk.files.items() if "/commitlog/" in path)
        assert whole <= asked(disk, "/commitlog/") <= whole + 10 * 128 * KIB
        assert asked(disk, "/consumequeue/") == asked(disk, "/index/") == 0
        assert kept(reader) <= 4096  # the checkpoint
        assert sum(path.stat().st_size for path in reader.paths.commitlog.iterdir()) == whole


def test_the_first_messages_need_the_first_range(store: tuple[Disk, StoreUrl]) -> None:
    disk, url = store
    with StoreReader(url) as reader:
        messages = reader.messages()
        for _ in range(10):
            next(messages)
        messages.close()  # type: ignore[attr-defined]
    assert asked(disk, "/commitlog/00000000000000000000") <= 2 * MIB + 64 * KIB


def test_a_get_fetches_little(store: tuple[Disk, StoreUrl], made: Path) -> None:
    disk, url = store
    local = StoreReader(made)
    (first, *_) = local.queues()
    (view,) = local.get(first.topic, first.queue_id, first.min_offset, 1).messages
    with StoreReader(url) as reader:
        got = reader.get(first.topic, first.queue_id, first.min_offset, 4)
        assert [m.phy_offset for m in got.messages] == [
            m.phy_offset
            for m in local.get(first.topic, first.queue_id, first.min_offset, 4).messages
        ]
        others = [
            path for path, *_ in disk.ranges if f"/{first.topic}/{first.queue_id}/" not in path
        ]
        assert all("/commitlog/" in path for path in others)
        assert asked(disk, "/consumequeue/") < 2 * MIB
        assert asked(disk, "/commitlog/") < MIB
        key = view.keys[0]
        found = [m.phy_offset for m in reader.query(view.topic, key)]
        assert found == [m.phy_offset for m in local.query(view.topic, key)]
        assert found


def test_info_fetches_no_whole_index(store: tuple[Disk, StoreUrl], made: Path) -> None:
    disk, url = store
    for path in [*disk.files]:
        if path.startswith("/store/index/"):
            size = 40 + 4 * 5_000_000 + 20 * 20_000_000  # as a broker makes it by default
            disk.files[path] = disk.files[path][:40].ljust(size, b"\0")
    with StoreReader(url) as reader:
        assert len(reader.index_files()) == 1
        assert reader.info().index_file_count == 1
    assert asked(disk, "/index/") == BLOCK


def test_many_queues_are_asked_for_at_once(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other they take a server minutes."""
    disk, url = store_on(golden / "basic" / "store")
    threads: set[str] = set()
    read_at = Handle.read_at

    def noted(self: Handle, count: int, pos: int) -> bytes:
        threads.add(threading.current_thread().name.rpartition("_")[0])
        return read_at(self, count, pos)

    monkeypatch.setattr(Handle, "read_at", noted)
    with StoreReader(url) as reader:
        reader.topics()
        assert threads == set()
        reader.index_files()
        assert threads == {"rmqcore-fetch"}
        before = len(disk.ranges)
        reader.index_files()
        assert len(disk.ranges) == before
        queues = reader.queues()
        files = [path for path in disk.files if "/consumequeue/" in path]
        assert sum("/consumequeue/" in path for path, *_ in disk.ranges) == len(files) > len(queues)


def test_fsck_fetches_each_file_once(store: tuple[Disk, StoreUrl], made: Path) -> None:
    disk, url = store
    told: list[tuple[int, int]] = []
    report = rmqcore.fsck(url, progress=lambda done, total: told.append((done, total)))
    assert report.totals == rmqcore.fsck(made).totals
    for part in ("/consumequeue/", "/index/"):
        assert asked(disk, part) == sum(
            len(data) for path, data in disk.files.items() if part in path
        )
    every = sum(len(data) for path, data in disk.files.items() if path.count("/") > 2)
    assert {total for _, total in told} == {every}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (every, every)


def test_what_is_of_no_store_is_not_listed(
    store: tuple[Disk, StoreUrl], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket's root may hold a million other keys."""
    disk, url = store
    listed: list[str] = []
    tree = DiskFilesystem.tree

    def noted(self: DiskFilesystem, path: str) -> list[RemoteEntry]:
        listed.append(path)
        return tree(self, path)

    monkeypatch.setattr(DiskFilesystem, "tree", noted)
    disk.files["/store/backups/2020/00000000000000000000"] = b"x"
    with StoreReader(url) as reader:
        assert (Path(reader.paths.root) / "backups").is_dir()
    assert listed == [f"/store/{part}" for part in ("commitlog", "consumequeue", "index")]


# ---- one file ---------------------------------------------------------------------------------------


def sparse(disk: Disk, url: StoreUrl, path: str) -> tuple[StoreReader, SparseFile, Path]:
    reader = StoreReader(url)
    skeleton = reader.paths.skeleton  # type: ignore[attr-defined]
    local = f"{reader.paths.root}/{path}"
    return reader, skeleton._files[local], Path(local)


def test_a_reader_that_goes_on_is_given_more_each_time() -> None:
    data = bytes(range(1, 256)) * (3 * PIECE // 255)
    disk = Disk({"/store/index/1": data, "/store/commitlog/0": b""})
    url = StoreUrl(DiskFilesystem("mem://host", (), disk), "/store")
    reader, file, local = sparse(disk, url, "index/1")
    with reader:
        files = reader.paths.skeleton.open_files  # type: ignore[attr-defined]
        for pos in range(0, len(data), 10_000):
            file.bring_in(files, pos, pos + 10_000)
        assert local.read_bytes() == data
        sizes = [(end - begin) // BLOCK for _, begin, end in disk.ranges]
        assert sizes[:7] == [1, 4, 8, 16, 32, 64, 128]
        assert max(sizes) == PIECE // BLOCK
        assert asked(disk, "/index/1") == len(data), "no byte is asked for twice"
        file.bring_in(files, 0, len(data))
        assert asked(disk, "/index/1") == len(data)


def test_a_jump_takes_one_block_and_the_rest_stays_a_hole() -> None:
    data = b"x" * (40 * BLOCK + 17)
    disk = Disk({"/store/index/1": data, "/store/commitlog/0": b""})
    url = StoreUrl(DiskFilesystem("mem://host", (), disk), "/store")
    reader, file, local = sparse(disk, url, "index/1")
    with reader:
        files = reader.paths.skeleton.open_files  # type: ignore[attr-defined]
        for pos in (20 * BLOCK + 5, 3 * BLOCK, len(data) - 1):
            file.bring_in(files, pos, pos + 1)
        assert [begin // BLOCK for _, begin, _ in disk.ranges] == [20, 3, 40]
        assert (local.stat().st_size, local.stat().st_blocks * 512) == (
            len(data),
            2 * BLOCK + 4096,
        )
        file.bring_in(files, len(data), len(data) + 5)
        assert len(disk.ranges) == 3
