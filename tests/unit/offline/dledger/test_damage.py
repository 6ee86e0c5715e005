"""Damage in a DLedger log is named by file, offset, field, expected and found, is bounded, and the walk goes on behind it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from support.doses import dose
from support.stores.dledger_store import HEAD, DLedgerLog, head, numbered

import rmqcore
from rmqcore import Message
from rmqcore._native.scan.scan import ViewScan
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.log.walk import LogWalk

FILE = 8192
SECOND = 1  # the message whose head or record is damaged


def read(root: Path) -> tuple[list[int], list[DamageRange]]:
    with rmqcore.read(root) as reader:
        found = [int(bytes(message.body)[4:]) for message in reader.messages()]
        return found, list(reader.damage)


def without(number: int, count: int = 6) -> list[int]:
    return [one for one in range(count) if one != number]


def set_int(log: DLedgerLog, pos: int, value: int) -> None:
    struct.pack_into(">i", log.data, log.at(pos), value)


@pytest.mark.parametrize(
    ("at", "value", "field", "expected", "found"),
    [
        (0, 7, "DLedger magic", "1, 2 or -1", 7),
        (4, 1 << 30, "DLedger size", None, 1 << 30),
        (4, -5, "DLedger size", None, -5),
        (24, 1, "DLedger pos", None, None),
        (28, 12345, "DLedger pos", None, 12345),
        (44, 9, "DLedger size", HEAD + 9, None),
        (44, -1, "DLedger size", HEAD + 1, None),
    ],
)
def test_a_lying_head_is_named_and_its_record_is_read(
    tmp_path: Path, at: int, value: int, field: str, expected: object, found: object
) -> None:
    log = numbered(6, FILE)
    place = log.places[SECOND]
    set_int(log, place - HEAD + at, value)
    log.write(tmp_path)
    numbers, (damage,) = read(tmp_path)
    assert numbers == list(range(6))
    assert (damage.start_phy_offset, damage.end_phy_offset) == (place - HEAD, place)
    assert (damage.kind, damage.field) == ("record", field)
    assert damage.path == f"dledger-n0/data/{0:020}"
    if expected is not None:
        assert damage.expected == expected
    if found is not None:
        assert damage.found == found
    assert rmqcore.fsck(tmp_path).exit_code == 2


def test_two_lengths_that_lie_alike_are_told_by_the_record(tmp_path: Path) -> None:
    log = numbered(6, FILE)
    place, size = log.places[SECOND], log.sizes[SECOND]
    set_int(log, place - HEAD + 4, HEAD + size + 100)
    set_int(log, place - HEAD + 44, size + 100)
    log.write(tmp_path)
    numbers, (damage,) = read(tmp_path)
    assert numbers == list(range(6))
    assert (damage.field, damage.expected, damage.found) == (
        "DLedger bodyLen",
        f"the TOTALSIZE {size}",
        size + 100,
    )
    assert (damage.start_phy_offset, damage.end_phy_offset) == (place - HEAD, place)


@pytest.mark.parametrize(
    ("at", "value", "field"),
    [
        (0, 1 << 20, "TOTALSIZE"),
        (0, 3, "TOTALSIZE"),
        (4, 77, "MAGIC"),
        (32, 4, "PHYSICALOFFSET"),
        (84, 1 << 30, "BODYLENGTH"),
    ],
)
def test_a_damaged_record_ends_where_its_head_says(
    tmp_path: Path, at: int, value: int, field: str
) -> None:
    log = numbered(6, FILE)
    place, size = log.places[SECOND], log.sizes[SECOND]
    set_int(log, place + at, value)
    log.write(tmp_path)
    numbers, (damage,) = read(tmp_path)
    assert numbers == without(SECOND)
    assert (damage.start_phy_offset, damage.end_phy_offset) == (place, place + size)
    assert damage.field == field


def test_a_body_that_fails_its_crc_is_damage_as_in_any_log(tmp_path: Path) -> None:
    log = numbered(6, FILE)
    log.data[log.at(log.places[SECOND]) + 88] ^= 1
    log.write(tmp_path)
    with rmqcore.read(tmp_path) as reader:
        found = [message.phy_offset for message in reader.messages(verify_crc=True)]
        assert found == [log.places[number] for number in without(SECOND)]
        assert [(one.kind, one.start_phy_offset) for one in reader.damage] == [
            ("crc", log.places[SECOND])
        ]


def test_a_record_forged_in_the_body_of_a_damaged_one_is_not_believed(tmp_path: Path) -> None:
    log = DLedgerLog(FILE)
    log.put(Message("T", b"body0"), 0)
    inner = numbered(1, FILE, begin=log.end + HEAD + 88 + 4)
    log.put(Message("T", b"body" + bytes(inner.data)), 1)
    log.put(Message("T", b"body2"), 2)
    set_int(log, log.places[1], 5)
    log.write(tmp_path)
    assert read(tmp_path)[0] == [0, 2]


def test_a_file_that_was_cut_is_told_and_the_next_one_is_read(tmp_path: Path) -> None:
    log = numbered(100, FILE)
    folder = log.write(tmp_path)
    first = folder / f"{0:020}"
    cut = log.places[20] + 30
    with first.open("r+b") as file:
        file.truncate(cut)
    numbers, damage = read(tmp_path)
    behind = next(number for number, place in enumerate(log.places) if place > FILE)
    assert numbers == [*range(20), *range(behind, 100)]
    assert [(one.start_phy_offset, one.end_phy_offset, one.kind) for one in damage] == [
        (log.places[20] - HEAD, cut, "short_file"),
        (cut, FILE, "short_file"),
    ]


@pytest.mark.parametrize("keep", [4, 20, 47])
def test_a_log_that_ends_in_a_head_has_a_torn_tail(tmp_path: Path, keep: int) -> None:
    log = numbered(6, FILE)
    start = log.places[5] - HEAD
    del log.data[log.at(start + keep) :]
    log.write(tmp_path)
    numbers, (damage,) = read(tmp_path)
    assert numbers == list(range(5))
    assert (damage.kind, damage.start_phy_offset) == ("torn_tail", start)


def test_a_log_that_ends_in_a_record_has_a_torn_tail(tmp_path: Path) -> None:
    log = numbered(6, FILE)
    del log.data[log.at(log.places[5]) + 60 :]
    log.write(tmp_path)
    numbers, (damage,) = read(tmp_path)
    assert numbers == list(range(5))
    assert (damage.kind, damage.start_phy_offset) == ("torn_tail", log.places[5])


def test_the_mark_of_a_files_end_is_checked(tmp_path: Path) -> None:
    log = numbered(100, FILE)
    mark = next(
        log.places[number] + log.sizes[number]
        for number, place in enumerate(log.places[1:])
        if place > FILE
    )
    set_int(log, mark + 4, 17)
    log.write(tmp_path)
    numbers, (damage,) = read(tmp_path)
    assert numbers == list(range(100))
    assert (damage.start_phy_offset, damage.end_phy_offset) == (mark, FILE)
    assert (damage.field, damage.found) == ("DLedger size", 17)


def test_heads_in_a_row_are_walked_over_once(tmp_path: Path) -> None:
    """Each of them has the right pos and lengths that agree, and none a record."""
    log = numbered(2, 1 << 20)
    for _ in range(5000):
        log.data += head(1, log.end, 1 << 10)
    last = log.put(Message("T", b"body2"), 2)
    log.write(tmp_path)
    numbers, damage = read(tmp_path)
    assert numbers == [0, 1, 2]
    assert sum(one.byte_count for one in damage) <= 5000 * HEAD
    assert damage[-1].end_phy_offset in (last, last - HEAD)


def test_heads_whose_names_say_it_are_a_dledger_log_though_all_beginnings_are_damaged(
    tmp_path: Path,
) -> None:
    log = numbered(100, FILE)
    for start in range(0, len(log.data), FILE):
        log.data[start : start + HEAD + 8] = b"\xee" * (HEAD + 8)
    log.write(tmp_path)
    numbers, damage = read(tmp_path)
    lost = [number for number, place in enumerate(log.places) if place % FILE == HEAD]
    assert numbers == [number for number in range(100) if number not in lost]
    assert len(damage) == len(lost)


@pytest.mark.parametrize(
    "seed", range(dose("RMQCORE_DLEDGER_DAMAGE", test=12, verify=60, night=600))
)
def test_whatever_is_damaged_all_else_is_read(tmp_path: Path, seed: int) -> None:
    """Each record whose bytes are whole is read; damage and what is read do not overlap; stepping over damage changes nothing."""
    rng = random.Random(seed)
    log = numbered(150, FILE)
    whole = bytes(log.data)
    for _ in range(rng.randint(1, 12)):
        at = rng.randrange(len(log.data))
        size = rng.choice([1, 4, 8, 40, 300])
        log.data[at : at + size] = rng.randbytes(len(log.data[at : at + size]))
    log.write(tmp_path)
    same = [
        place
        for place, size in zip(log.places, log.sizes, strict=True)
        if log.data[log.at(place) : log.at(place) + size]
        == whole[log.at(place) : log.at(place) + size]
    ]
    files = list_log_files(StorePaths(tmp_path, commitlog=tmp_path / "dledger-n0" / "data"))
    answers = []
    for skips in (True, False):
        damage: list[DamageRange] = []
        walk = LogWalk(files, ViewScan(), damage, verify_crc=True, skips=skips)
        found = [view.phy_offset for views in walk.run() for view in views]  # type: ignore[union-attr]
        answers.append((found, damage))
    found, damage = answers[0]
    assert answers[1] == answers[0]
    assert set(same) <= set(found) <= set(log.places)
    changed = [at for at in range(len(whole)) if log.data[at] != whole[at]]
    taken = [
        (place, place + size)
        for place, size in zip(log.places, log.sizes, strict=True)
        if place in found
    ]
    for one in damage:
        assert not any(
            one.start_phy_offset < end and start < one.end_phy_offset for start, end in taken
        )
    told = {at for one in damage for at in range(one.start_phy_offset, one.end_phy_offset)}
    checked = {
        place - HEAD + at
        for place in log.places
        for at in (*range(8), *range(24, 32), *range(44, 48))
    }
    assert {at for at in changed if at in checked} <= told
