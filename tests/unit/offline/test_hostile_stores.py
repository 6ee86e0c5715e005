"""Directories made to hurt a reader: huge, endless, forged, changing while they are read."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.stores.store_maker import make_store, sample_records

import rmqcore
from rmqcore import Message, codec
from rmqcore.disk.log_window import WINDOW
from rmqcore.errors import StoreError

FIRST = "commitlog/00000000000000000000"


def offsets(path: Path) -> list[int]:
    return [view.phy_offset for view in rmqcore.read(path).messages()]


def test_a_log_file_named_at_the_end_of_a_long(tmp_path: Path) -> None:
    """A file named 9223372036854775807 sent its end past the largest long, and an OverflowError to the caller."""
    made = make_store(sample_records(5))
    made.files[f"commitlog/{2**63 - 1:020}"] = bytes(4096)
    made.files["commitlog/" + "9" * 20] = bytes(4096)
    reader = rmqcore.read(made.write(tmp_path))
    assert [view.phy_offset for view in reader.messages()] == [r.phy_offset for r in made.records]
    assert reader.info().log_file_count == 1


LOOK = """
import resource, signal, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
signal.alarm(60)
import rmqcore
from rmqcore.errors import StoreError
reader = rmqcore.read(sys.argv[1])
print(sum(1 for _ in reader.messages()), sorted({r.kind for r in reader.damage}))
print(sum(batch.num_rows for batch in reader.batches()))
for call in (reader.info, reader.queues, reader.index_files, reader.checkpoint):
    try:
        call()
    except (StoreError, ValueError, OSError) as error:
        print(type(error).__name__, error)
for topic in ("TopicA", "%RETRY%group"):
    reader.get(topic, 0, 0)
    reader.query(topic, "all")
    reader.offset_by_time(topic, 0, 1700000005000)
"""


def look(path: Path) -> list[str]:
    """The lines that a reader prints which may use two GiB of address space and a minute."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "darwin", reason="RLIMIT_AS does not limit anything there")
@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer reserves terabytes"
)
@pytest.mark.parametrize("size", [3 << 30, 1 << 38], ids=["3 GiB", "256 GiB"])
def test_files_that_are_huge_and_hollow(tmp_path: Path, size: int) -> None:
    made = make_store(sample_records(30), log_file_size=1 << 16)
    made.write(tmp_path)
    for name in made.files:
        # The number of slots is searched for in a whole index file of up to 4 GiB: a smaller file will do.
        wanted = 1 << 24 if name.startswith("index") and size < 1 << 32 else size
        os.truncate(tmp_path / name, wanted)
    lines = look(tmp_path)
    assert lines[:2] == ["30 []", "30"]


@pytest.mark.skipif(sys.platform == "darwin", reason="RLIMIT_AS does not limit anything there")
@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer reserves terabytes"
)
def test_a_damaged_total_size_does_not_ask_for_memory(tmp_path: Path) -> None:
    """2147483647 bytes are there, as holes: the record could be that long by its first field alone."""
    made = make_store(sample_records(30), log_file_size=1 << 16)
    data = bytearray(made.files[FIRST])
    hit = made.records[10]
    struct.pack_into(">i", data, hit.phy_offset, 2**31 - 1)
    made.files[FIRST] = bytes(data)
    made.write(tmp_path)
    os.truncate(tmp_path / FIRST, 3 << 30)
    assert look(tmp_path)[:2] == ["29 ['record']", "29"]


def forged_body(phy_offset: int) -> bytes:
    """Sound records with the right place and CRC, were the body a part of the log."""
    body = b"prefix"
    for _ in range(3):
        message = Message("Forged", b"never sent", keys=["k"])
        body += codec.encode(
            message, phy_offset=phy_offset + 88 + len(body), queue_offset=0, store_timestamp_ms=0
        )
    return body + b"suffix"


@pytest.mark.parametrize("damage", ["none", "crc", "topic", "total size"])
def test_records_forged_inside_a_body_are_not_believed(tmp_path: Path, damage: str) -> None:
    records = sample_records(8)
    before = make_store(records[:4], log_file_size=1 << 15)
    at = before.records[-1].phy_offset + (before.records[-1].msg_size or 0)
    records[4] = replace(records[4], body=forged_body(at), born_host=oracle.Host(b"\x7f\0\0\1", 1))
    made = make_store(records, log_file_size=1 << 15)
    outer = made.records[4]
    assert outer.phy_offset == at
    data = bytearray(made.files[FIRST])
    forged = codec.decode(data, at + 88 + 6)
    assert (forged.topic, forged.phy_offset, forged.crc_ok()) == ("Forged", at + 94, True)
    del forged
    place = {"crc": at + 88, "topic": at + 88 + len(outer.body) + 1, "total size": at + 3}.get(
        damage
    )
    if place is not None:
        data[place] ^= 0x40
    made.files[FIRST] = bytes(data)
    reader = rmqcore.read(made.write(tmp_path))
    views = list(reader.messages())
    assert "Forged" not in {view.topic for view in views}
    assert {view.phy_offset for view in views} >= {r.phy_offset for r in made.records} - {at}
    assert [r.start_phy_offset for r in reader.damage] == (
        [at] if damage in {"crc", "total size"} else []
    )


def test_things_that_are_no_files(tmp_path: Path) -> None:
    made = make_store(sample_records(5))
    made.write(tmp_path)
    for name in (
        "commitlog/00000000000000004096",
        "consumequeue/TopicA/0/00000000000000000200",
        "index/1",
    ):
        (tmp_path / name).mkdir()
    for name in (
        "commitlog/00000000000000008192",
        "consumequeue/TopicA/0/00000000000000000400",
        "index/2",
    ):
        os.mkfifo(tmp_path / name)
    (tmp_path / "commitlog" / "00000000000000012288").symlink_to("itself")
    (tmp_path / "consumequeue" / "a file").write_bytes(b"")
    (tmp_path / "consumequeue" / "TopicB").mkdir()
    (tmp_path / "consumequeue" / "TopicB" / "-1").mkdir()
    assert offsets(tmp_path) == [r.phy_offset for r in made.records]
    reader = rmqcore.read(tmp_path)
    assert {(queue.topic, queue.queue_id) for queue in reader.queues()} >= {("TopicA", 0)}
    assert len(reader.index_files()) == 1
    assert reader.query("%RETRY%group", "all")


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index", "checkpoint"])
def test_a_part_that_is_of_another_kind(tmp_path: Path, part: str) -> None:
    made = make_store(sample_records(5))
    made.files = {name: data for name, data in made.files.items() if not name.startswith(part)}
    made.write(tmp_path)
    if part == "checkpoint":
        (tmp_path / part).mkdir()
    else:
        (tmp_path / part).write_bytes(b"no directory")
    reader = rmqcore.read(tmp_path)
    for call in (
        reader.info,
        reader.queues,
        reader.index_files,
        reader.checkpoint,
        lambda: list(reader.messages()),
    ):
        try:
            call()
        except (StoreError, OSError):
            continue


def test_info_of_a_store_whose_checkpoint_is_a_directory(tmp_path: Path) -> None:
    """`info` ended with the error of the one file, and told nothing of the rest."""
    made = make_store(sample_records(5))
    made.write(tmp_path)
    (tmp_path / "checkpoint").unlink(missing_ok=True)
    (tmp_path / "checkpoint").mkdir()
    found = rmqcore.read(tmp_path).info()
    assert found.checkpoint is None
    assert "a directory, expected a file" in str(found.checkpoint_error)
    assert found.log_file_count == 1


def test_info_counts_names_that_a_broker_sees_and_bytes_that_lie_in_the_store(
    tmp_path: Path,
) -> None:
    """Digits of other scripts counted as queues and index files, and a link as what it leads to."""
    made = make_store(sample_records(5))
    made.write(tmp_path / "store")
    reader = rmqcore.read(tmp_path / "store")
    before = reader.info()
    (tmp_path / "store" / "consumequeue" / "TopicA" / "\u0663").mkdir()
    (tmp_path / "store" / "index" / ("\u0662" * 17)).write_bytes(b"")
    (tmp_path / "outside").write_bytes(bytes(1 << 20))
    (tmp_path / "store" / "index" / "link").symlink_to(tmp_path / "outside")
    found = reader.info()
    assert (found.queue_count, found.index_file_count) == (
        before.queue_count,
        before.index_file_count,
    )
    assert found.index_bytes < before.index_bytes + (1 << 20)


@pytest.mark.parametrize("change", ["truncate", "empty", "unlink", "unlink next", "zeros"])
def test_a_log_that_changes_while_it_is_read(tmp_path: Path, change: str) -> None:
    """What was read stays good; every other message is in a damage range, or its file is gone.

    The log once was read too far ahead: views of records below a mebibyte were gathered until there were 1024 of them, up
    to a gibibyte, before the first view was given out.
    """
    records = [replace(record, body=b"x" * 30_000) for record in sample_records(280)]
    made = make_store(records, log_file_size=2 * WINDOW)
    made.write(tmp_path)
    reader = rmqcore.read(tmp_path)
    messages = reader.messages()
    seen = [next(messages) for _ in range(3)]
    first, second = sorted((tmp_path / "commitlog").iterdir())[:2]
    if change == "truncate":
        os.truncate(first, WINDOW + 500_000)
    elif change == "empty":
        os.truncate(first, 0)
    elif change == "unlink":
        first.unlink()
    elif change == "unlink next":
        second.unlink()
    else:
        with first.open("r+b") as file:
            file.seek(WINDOW + 500_000)
            file.write(bytes(600_000))
    seen += list(messages)
    written = {r.phy_offset: r for r in made.records}
    for view in seen:
        assert view.body == written[view.phy_offset].body
    missing = written.keys() - {view.phy_offset for view in seen}
    for phy_offset in missing:
        assert any(r.start_phy_offset <= phy_offset < r.end_phy_offset for r in reader.damage), (
            phy_offset,
            reader.damage,
        )
    if change == "unlink":  # an open file stays readable
        assert not missing
    elif change != "empty":
        assert missing
