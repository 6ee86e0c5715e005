"""fsck over stores with any bytes changed: it ends with a report, and what can be known to be wrong is in it."""

from __future__ import annotations

import faulthandler
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import records as oracle
from support.stores.store_damage import Change, changes
from support.stores.store_maker import MadeStore, make_store, sample_records

from rmqcore.errors import StoreError
from rmqcore.offline.fsck import FsckReport, fsck
from rmqcore.offline.fsck.findings import KINDS

STORES = [
    make_store(sample_records(45)),
    make_store(sample_records(30), append_prop_crc=True),
    make_store(sample_records(3), log_file_size=1 << 15),
]


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@contextmanager
def written(files: dict[str, bytes]) -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="rmqcore-"))
    try:
        yield MadeStore(files).write(root)
    finally:
        shutil.rmtree(root)


def checked(files: dict[str, bytes]) -> FsckReport:
    with written(files) as root:
        report = fsck(root)
    # All of it is plain JSON, and of the kinds that are documented.
    assert json.loads(json.dumps(report.as_dict()))["exit_code"] == report.exit_code
    assert {finding.kind for finding in report.findings} == report.totals.keys() <= KINDS.keys()
    assert all(str(finding) for finding in report.findings)
    return report


def flipped(files: dict[str, bytes], name: str, bit: int) -> dict[str, bytes]:
    data = bytearray(files[name])
    data[bit // 8] ^= 1 << bit % 8
    return {**files, name: bytes(data)}


@pytest.mark.parametrize("number", range(len(STORES)))
def test_a_sound_store_has_no_findings(number: int) -> None:
    report = checked(STORES[number].files)
    assert (report.findings, report.damage, report.exit_code) == ([], [], 0)
    assert report.counts["records"] == len(STORES[number].records)


@given(number=st.integers(0, len(STORES) - 1), damage=st.lists(changes, max_size=4))
def test_fsck_ends_with_a_report(number: int, damage: list[Change]) -> None:
    files = dict(STORES[number].files)
    for change in damage:
        change.apply(files)
    try:
        checked(files)
    except StoreError:  # nothing of a store is left
        assert not any(
            name.startswith(("commitlog", "consumequeue", "index", "checkpoint")) for name in files
        )


def used_bits(made: MadeStore, part: str) -> list[tuple[str, int]]:
    """Files of a part with the bits in them that mean something: used queue entries, used index entries and the slots."""
    found = []
    for name, data in made.files.items():
        if name.startswith("consumequeue/") and part == "consumequeue":
            used = sum(entry[1] != 0 for entry in oracle.unpack_cq(data))
            found.append((name, 160 * used))
        elif name.startswith("index/") and part == "index":
            file = oracle.IndexFile.decode(data, 20)
            found.append((name, 8 * (40 + 80 + 20 * file.index_count)))
    return [(name, bits) for name, bits in found if bits]


def unproven(part: str, byte: int) -> bool:
    """Whether a byte says nothing about a message, so that fsck has nothing to compare it with."""
    if part == "consumequeue":
        return (
            byte % 20 == 12
        )  # the top bit makes a tags code the address of a consumequeue_ext record
    header_times = byte == 0 or 6 <= byte < 16  # a time before 1970, fractions of a second, the end
    entry_zero = 120 <= byte < 140  # nobody uses it
    first_time = 152 <= byte < 156  # counts from the end of the file before
    return header_times or entry_zero or first_time


def counts_each_entry(data: bytes) -> bool:
    """Whether the header of an index file counts a slot for each entry, as RocketMQ before 4.7.1 does."""
    slot_count, index_count = (int.from_bytes(data[at : at + 4], "big") for at in (32, 36))
    return slot_count == index_count - 1


@examples(2)  # of two parts
@given(
    part=st.sampled_from(["consumequeue", "index"]),
    number=st.integers(0, len(STORES) - 1),
    file=st.integers(0, 50),
    bit=st.integers(0, 1 << 16),
)
def test_no_flipped_bit_of_a_queue_or_an_index_goes_unnoticed(
    part: str, number: int, file: int, bit: int
) -> None:
    made = STORES[number]
    names = used_bits(made, part)
    name, bits = names[file % len(names)]
    bit %= bits
    if unproven(part, bit // 8):
        return
    files = flipped(made.files, name, bit)
    if part == "index" and counts_each_entry(files[name]):
        return
    report = checked(files)
    assert any(name.startswith(finding.path) for finding in report.findings), (name, bit // 8)


@given(number=st.integers(0, len(STORES) - 1), at=st.integers(0, 1000), bit=st.integers(0, 1 << 16))
def test_no_flipped_bit_of_a_record_goes_unnoticed_where_something_covers_it(
    number: int, at: int, bit: int
) -> None:
    made = STORES[number]
    record = made.records[at % len(made.records)]
    assert record.msg_size is not None
    pos = bit // 8 % record.msg_size
    body = oracle.smallest_size(oracle.V1, record.sys_flag) - 3
    lengths = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, *range(28, 36), *range(body - 4, body)]
    covered = pos in lengths or body <= pos < body + len(record.body)
    if number == 1:
        covered = pos < record.msg_size - 20  # the appended CRC covers everything before it
    elif record.sys_flag & 4 == 0:
        covered = (
            covered or 12 <= pos < 16 or 20 <= pos < 28
        )  # the queue entry knows queue id and offset
    if not covered:
        return
    file_size = 1 << 15 if number == 2 else 4096
    name = f"commitlog/{record.phy_offset // file_size * file_size:020}"
    report = checked(flipped(made.files, name, 8 * (record.phy_offset % file_size + pos) + bit % 8))
    assert report.findings
    assert report.exit_code == 2


@given(number=st.integers(0, len(STORES) - 1), file=st.integers(0, 50))
def test_a_missing_file_is_found(number: int, file: int) -> None:
    made = STORES[number]
    # The oldest log file may always go: then it has expired.
    names = sorted(name for name in made.files if name not in {"lock", "checkpoint"})[1:]
    gone = names[file % len(names)]
    report = checked({name: data for name, data in made.files.items() if name != gone})
    assert report.findings, gone
