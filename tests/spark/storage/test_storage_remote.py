"""CommitLog files on another filesystem: what is asked of it, and what is said when it does not answer."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from support.remote.remote_double import Disk, DiskFilesystem, remote_file
from support.stores.store_maker import make_store, sample_records

import rmqcore
from rmqcore._native.scan.scan import ColumnScan, ViewScan
from rmqcore.errors import RemoteStorageError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.remote_file import BLOCK, LEAST, RemoteLogFile
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.remote.filesystem import RemoteFilesystem
from rmqcore.spark.storage.remote_copy import copy_of
from rmqcore.spark.storage.store_location import list_remote_log_files

MIB = 1024 * 1024


def never(start: int, end: int, error: OSError) -> None:
    raise AssertionError("a server that does not answer says nothing about the bytes")


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


# ---- which ranges -------------------------------------------------------------------------------


def test_reading_onwards_takes_blocks_one_ahead() -> None:
    data = noise(3 * BLOCK + 12345)
    disk, file = remote_file(data)
    window = 2 * MIB
    buf = bytearray(window)
    got = 0
    with file.open(never) as source:
        for pos in range(0, len(data), window):
            got = source.read_into(memoryview(buf), pos)
            assert buf[:got] == data[pos : pos + window]
        assert got == len(data) % window
        assert source.read_into(memoryview(buf), len(data)) == 0
    sizes = [end - start for _, start, end in disk.ranges]
    assert sizes == [window, BLOCK, BLOCK, len(data) - window - 2 * BLOCK]
    assert sum(sizes) == len(data), "no byte is asked for twice"


def test_a_jump_takes_little_more_than_it_wants() -> None:
    disk, file = remote_file(noise(BLOCK))
    with file.open(never) as source:
        for pos in (0, 5 * MIB, MIB):
            assert source.read_into(memoryview(bytearray(8)), pos) == 8
    assert [(start, end) for _, start, end in disk.ranges] == [
        (pos, pos + LEAST) for pos in (0, 5 * MIB, MIB)
    ]


def test_nothing_is_read_ahead_behind_the_end_of_a_split() -> None:
    data = noise(4 * BLOCK)
    disk, file = remote_file(data)
    end = 3 * MIB
    with file.read_until(end).open(never) as source:
        buf = bytearray(MIB)
        for pos in range(0, 4 * MIB, MIB):
            assert source.read_into(memoryview(buf), pos) == MIB
            assert buf == data[pos : pos + MIB]
    assert [(start, stop) for _, start, stop in disk.ranges] == [
        (0, MIB),
        (MIB, end),
        (end, end + MIB),
    ]


def test_random_reads_give_what_the_file_holds() -> None:
    data = noise(300_000)
    _, file = remote_file(data)
    rng = random.Random(7)
    with file.open(never) as source:
        pos = 0
        for _ in range(300):
            pos = rng.choice((pos, rng.randrange(len(data) + 10)))
            buf = bytearray(rng.choice((1, 8, 4096, 70_000)))
            got = source.read_into(memoryview(buf), pos)
            assert bytes(buf[:got]) == data[pos : pos + len(buf)]
            pos += got


def test_a_file_goes_to_a_task_without_its_connection() -> None:
    _, file = remote_file(b"x")
    sent = RemoteLogFile(file.path, 0, 1, filesystem=RemoteFilesystem("s3://b", (("region", "x"),)))
    assert pickle.loads(pickle.dumps(sent)) == sent
    assert len(pickle.dumps(sent)) < 600
    assert sent.location == "s3://b/store/commitlog/00000000000000000000"
    assert sent.name == "commitlog/00000000000000000000"


# ---- what goes wrong ----------------------------------------------------------------------------


def test_a_file_that_is_deleted_before_it_is_opened() -> None:
    disk, file = remote_file(b"x")
    disk.files.clear()
    with pytest.raises(FileNotFoundError, match="mem://host/store/commitlog/0"), file.open(never):
        pass


def test_a_file_that_is_deleted_while_it_is_read() -> None:
    """The server then only says that it failed, or drops the connection: a second question tells why."""
    disk, file = remote_file(noise(2 * MIB))
    with file.open(never) as source:
        source.read_into(memoryview(bytearray(8)), 0)
        disk.files.clear()
        with pytest.raises(FileNotFoundError, match="mem://host/store/commitlog/0"):
            source.read_into(memoryview(bytearray(8)), MIB)


@pytest.mark.parametrize("left", [0, 10, MIB - 1, MIB, MIB + 5])
def test_a_file_that_is_cut_while_it_is_read(left: int) -> None:
    data = noise(2 * MIB)
    disk, file = remote_file(data)
    with file.open(never) as source:
        source.read_into(memoryview(bytearray(8)), 0)
        disk.files = {path: data[:left] for path, data in disk.files.items()}
        buf = bytearray(MIB)
        assert source.read_into(memoryview(buf), MIB) == max(0, left - MIB)
        assert source.read_into(memoryview(buf), MIB + 100) == 0


def test_a_server_that_fails_is_no_damage() -> None:
    disk, file = remote_file(noise(2 * MIB))
    with file.open(never) as source:
        disk.failing = "Connection reset"
        with pytest.raises(RemoteStorageError, match="Connection reset"):
            source.read_into(memoryview(bytearray(8)), 100)


def test_the_error_names_file_and_range(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, file = remote_file(noise(2 * MIB))
    monkeypatch.setattr(DiskFilesystem, "size_of", lambda self, path: 2 * MIB)
    with file.open(never) as source:
        disk.failing = "Connection reset"
        with pytest.raises(
            RemoteStorageError,
            match=r"mem://host/store/commitlog/0{20}: bytes 100 to 65636 cannot be read: Connection reset",
        ):
            source.read_into(memoryview(bytearray(8)), 100)


# ---- walks over remote files give what local ones give ----------------------------------------------


def on_disk(root: Path) -> tuple[Disk, list[LogFile]]:
    disk = Disk(
        {
            f"/{path.relative_to(root)}": path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
    )
    return disk, list_remote_log_files(DiskFilesystem("mem://host", (), disk), "/commitlog")


def walked(files: list[LogFile]) -> tuple[list[bytes], list[DamageRange]]:
    damage: list[DamageRange] = []
    walk = LogWalk(files, ViewScan(), damage)
    found = [view for views in walk.run() if not isinstance(views, Blank) for view in views]
    return [bytes(view.raw) for view in found], damage


def test_every_golden_store_reads_the_same(golden: Path) -> None:
    stores = sorted(path.parent for path in golden.glob("*/*/commitlog"))
    assert len(stores) > 5
    for store in stores:
        local = rmqcore.read(store).log_files()
        _, remote = on_disk(store)
        assert [(file.name, file.size) for file in remote] == [(f.name, f.size) for f in local]
        assert LogShape.of(remote) == LogShape.of(local)
        assert walked(remote) == walked(local)


def test_a_remote_file_that_goes_in_the_middle_of_a_walk(tmp_path: Path) -> None:
    """On a local disk an open file lives on; a remote one can go in mid-walk. What was delivered by then is not lost."""
    made = make_store(sample_records(20_000), log_file_size=8 * MIB)
    disk, files = on_disk(made.write(tmp_path))
    assert files[0].size > 3 * MIB
    damage: list[DamageRange] = []
    walk = LogWalk(files[:1], ColumnScan(["phy_offset"], batch_rows=1), damage)
    rows = walk.run()
    delivered = 0
    for _ in rows:
        delivered += 1
        disk.files.clear()
    assert 1000 < delivered < 20_000
    (gone,) = damage
    assert (gone.kind, gone.end_phy_offset) == ("missing_file", 8 * MIB)
    assert gone.start_phy_offset == made.records[delivered].phy_offset


def test_copies_hold_the_same_bytes_with_holes(golden: Path) -> None:
    root = golden / "basic" / "store"
    disk, _ = on_disk(root)
    with copy_of(
        DiskFilesystem("mem://host", (), disk), "", ["consumequeue", "checkpoint", "nope"]
    ) as at:
        local = rmqcore.read(root)
        files = sorted(path.relative_to(at) for path in at.rglob("*") if path.is_file())
        assert files == sorted(
            [
                *(p.relative_to(root) for p in local.paths.consumequeue.rglob("*") if p.is_file()),
                Path("checkpoint"),
            ]
        )
        for file in files:
            assert (at / file).read_bytes() == (root / file).read_bytes()
    assert not at.exists()


def test_copies_leave_pages_of_zeros_out(tmp_path: Path) -> None:
    disk = Disk({"/index/1": bytes(3 * MIB) + b"x" + bytes(MIB)})
    with copy_of(DiskFilesystem("mem://host", (), disk), "", ["index/1"]) as at:
        copied = at / "index" / "1"
        assert copied.read_bytes() == disk.files["/index/1"]
        assert copied.stat().st_blocks * 512 <= 64 * 1024
