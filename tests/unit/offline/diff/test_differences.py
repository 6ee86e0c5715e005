"""Two logs compared, against a slow comparison of every byte."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore, patch

import rmqcore
from rmqcore.offline.diff import logs
from rmqcore.offline.diff.diff import diff
from rmqcore.offline.diff.pieces import joined
from rmqcore.offline.diff.plan import in_both, minus
from rmqcore.offline.log.walk import Blank

Found = list[tuple[int, int, str]]


def compared(left: Path, right: Path) -> Found:
    report = diff(left, right, queues=False)
    assert report.exit_code == (2 if report.differences else 0)
    assert report.difference_count == len(report.differences)
    found = [(one.start_phy_offset, one.end_phy_offset, one.kind) for one in report.differences]
    assert report.differing_bytes == sum(end - start for start, end, _ in found)
    return found


# ---- the slow comparison ----------------------------------------------------------------------------


Content = tuple[dict[int, int], dict[int, int], set[int], dict[int, int]]


def content(store: Path) -> Content:
    """Of each byte the value and the start of its record or damage; the damaged bytes; of each byte of padding its BLANK."""
    reader = rmqcore.read(store)
    units = [
        (unit.phy_offset, unit.phy_offset + unit.msg_size, isinstance(unit, Blank))
        for unit in reader.messages(blanks=True)
    ]
    damage = [bad for bad in reader.damage if bad.kind not in ("missing_file", "short_file")]
    values: dict[int, int] = {}
    owner: dict[int, int] = {}
    padding: dict[int, int] = {}
    damaged = {at for bad in damage for at in range(bad.start_phy_offset, bad.end_phy_offset)}
    files = {file.file_from_offset: file for file in reader.log_files()}
    for start, end, blank in [
        *units,
        *((bad.start_phy_offset, bad.end_phy_offset, False) for bad in damage),
    ]:
        base = max(at for at in files if at <= start)
        data = Path(files[base].path).read_bytes()[start - base : end - base]
        for place, value in enumerate(data):
            values[start + place] = value
            if blank and place >= 8:
                padding[start + place] = start
            owner[start + place] = start
    return values, owner, damaged, padding


def slow(left: Path, right: Path) -> Found:
    values, owner, damaged, padding = content(left)
    others, other_owner, other_damaged, other_padding = content(right)
    both = values.keys() & others.keys()
    marked = {
        at
        for at in both
        if values[at] != others[at] and padding.get(at, -1) != other_padding.get(at, -2)
    }
    while True:  # whole records on one side, then on the other, until none is cut
        grown = set(marked)
        for owners in (owner, other_owner):
            hit = {owners[at] for at in grown}
            grown |= {at for at in both if owners[at] in hit}
        if grown == marked:
            break
        marked = grown
    kinds: dict[int, str] = dict.fromkeys(values.keys() - others.keys(), "only_a")
    kinds |= dict.fromkeys(others.keys() - values.keys(), "only_b")
    for cell in cells(sorted(marked), owner, other_owner):
        left_bad, right_bad = not damaged.isdisjoint(cell), not other_damaged.isdisjoint(cell)
        kind = {(0, 0): "different", (1, 0): "damaged_a", (0, 1): "damaged_b"}
        kinds |= dict.fromkeys(cell, kind.get((left_bad, right_bad), "damaged_both"))
    return joined([(at, at + 1, kind) for at, kind in kinds.items()])


def cells(marked: list[int], owner: dict[int, int], other: dict[int, int]) -> list[list[int]]:
    """Runs of marked bytes, cut where a record or a damage begins on both sides."""
    found: list[list[int]] = []
    for at in marked:
        begins = owner.get(at - 1) != owner[at] and other.get(at - 1) != other[at]
        if begins or not found or found[-1][-1] != at - 1:
            found.append([])
        found[-1].append(at)
    return found


def end_of(record: oracle.Record) -> int:
    assert record.msg_size is not None
    return record.phy_offset + record.msg_size


# ---- tests ------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> tuple[BuiltStore, Path]:
    """A store and its copy."""
    store = BuiltStore(tmp_path / "left").fill(90)
    store.write_log()
    shutil.copytree(tmp_path / "left", tmp_path / "right")
    return store, tmp_path / "right"


def test_equal_stores(pair: tuple[BuiltStore, Path], golden: Path) -> None:
    assert compared(pair[0].root, pair[1]) == []
    for case in ("basic/store", "crash_garbage_tail/input", "crash_stale_tail/input"):
        assert compared(golden / case, golden / case) == []


def test_one_byte_is_the_record_it_is_in(pair: tuple[BuiltStore, Path]) -> None:
    store, right = pair
    record = store.records[20]
    end = end_of(record)
    patch(*BuiltStore(right).log_file(end_of(record) - 3), b"zz")
    assert compared(store.root, right) == [(record.phy_offset, end, "different")]
    assert slow(store.root, right) == compared(store.root, right)
    patch(*BuiltStore(right).log_file(record.phy_offset + 90), b"?")
    assert compared(store.root, right) == [(record.phy_offset, end, "damaged_b")]
    assert compared(right, store.root) == [(record.phy_offset, end, "damaged_a")]


def test_a_slave_that_is_behind_or_began_later(pair: tuple[BuiltStore, Path]) -> None:
    store, right = pair
    log = right / "commitlog"
    files = sorted(log.iterdir())
    last = store.records[-10].phy_offset
    path, pos = BuiltStore(right).log_file(last)
    path.write_bytes(path.read_bytes()[:pos].ljust(4096, b"\0"))
    for file in files:
        if int(file.name) > last:
            file.unlink()
    files[0].unlink()
    end = end_of(store.records[-1])
    expected = [(0, 4096, "only_a"), (last, end, "only_a")]
    assert compared(store.root, right) == expected
    assert compared(right, store.root) == [(*span[:2], "only_b") for span in expected]


def test_padding_and_room_are_no_differences(pair: tuple[BuiltStore, Path]) -> None:
    store, right = pair
    first, newest = sorted((right / "commitlog").iterdir())[
        :: len(list((right / "commitlog").iterdir())) - 1
    ]
    data = bytearray(first.read_bytes())
    blank = max(end_of(record) for record in store.records if record.phy_offset < 4096)
    assert blank + 8 < 4096
    data[blank + 8 :] = b"x" * (4096 - blank - 8)
    first.write_bytes(data)
    newest.write_bytes(newest.read_bytes() + bytes(4096))
    assert compared(store.root, right) == []


def test_files_of_other_sizes(golden: Path, tmp_path: Path) -> None:
    """As after a change of mappedFileSizeCommitLog: the same bytes in files of half the size, where a BLANK is damage."""
    left = BuiltStore(tmp_path / "left", log_file_size=4096).fill(60)
    left.write_log()
    right = BuiltStore(tmp_path / "right", log_file_size=2048, log=left.log)
    right.write_log()
    assert compared(left.root, right.root) == slow(left.root, right.root)
    path, pos = right.log_file(left.records[15].phy_offset + 92)
    patch(path, pos, b"??")
    assert compared(left.root, right.root) == slow(left.root, right.root)
    assert compared(left.root, right.root)


@pytest.mark.parametrize("seed", range(60))
def test_random_damage_against_the_slow_comparison(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    sides = []
    for name in ("left", "right"):
        store = BuiltStore(tmp_path / name, log_file_size=1024)
        for number in range(40):
            store.put("T" * (1 + number % 5), body=bytes([number]) * (number * 7 % 90))
        if name == "right" and chance.random() < 0.3:
            store.put(body=b"more")
        store.write_log()
        files = sorted((store.root / "commitlog").iterdir())
        for _ in range(chance.randrange(4)):
            file = chance.choice(files)
            if not file.exists():
                continue
            data = bytearray(file.read_bytes())
            at = chance.randrange(len(data))
            kind = chance.choice(["flip", "noise", "zeros", "cut", "delete"])
            if kind == "flip":
                data[at] ^= 1
            elif kind == "noise":
                data[at : at + 9] = chance.randbytes(min(9, len(data) - at))
            elif kind == "zeros":
                data[at : at + 200] = bytes(min(200, len(data) - at))
            elif kind == "cut":
                del data[max(at, 1) :]
            if kind == "delete":
                file.unlink()
            else:
                file.write_bytes(data)
        sides.append(store.root)
    expected = slow(*sides)
    assert compared(*sides) == expected
    monkeypatch.setattr(logs, "TASK_BYTES", 300)
    assert compared(*sides) == expected


def test_ranges() -> None:
    assert minus([(0, 10), (20, 30)], [(2, 3), (5, 22)]) == [(0, 2), (3, 5), (22, 30)]
    assert minus([(0, 10)], []) == [(0, 10)]
    assert in_both([(0, 10), (20, 30)], [(2, 3), (5, 22)]) == [(2, 3), (5, 10), (20, 22)]
    assert in_both([], [(1, 2)]) == []
