"""Damage in memory that does not follow it: the list once grew to 30 times the bytes that were damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stores import hostile_logs

import rmqcore
from rmqcore.cli.verbs.cat import cat
from rmqcore.offline.export.export import export
from rmqcore.offline.log import damage
from rmqcore.offline.log.damage import DamageList, DamageRange, MoreDamage


def one(start: int, size: int = 1) -> DamageRange:
    return DamageRange(start, start + size, "record", "commitlog/0", "MAGIC", 1, 2)


def test_up_to_its_most_a_list_is_a_list() -> None:
    ranges = [one(number) for number in range(5)]
    found = DamageList(5)
    found += ranges
    assert found == ranges
    assert [(r.range_count, r.byte_count) for r in found] == [(1, 1)] * 5


def test_all_others_are_counted() -> None:
    found = DamageList(2)
    found += [one(10), one(20)]
    found.append(one(30, 3))
    found.extend([one(40, 4), one(50, 5)])
    assert found[:2] == [one(10), one(20)]
    more = found[2]
    assert isinstance(more, MoreDamage)
    assert len(found) == 3
    assert (more.start_phy_offset, more.end_phy_offset, more.kind) == (30, 55, "more")
    assert (more.range_count, more.byte_count) == (3, 12)
    assert more.as_dict()["ranges"] == 3
    assert str(more).endswith("further ranges is 3 with 12 bytes, expected none")
    assert sum(r.range_count for r in found) == 5


def test_a_list_that_keeps_none() -> None:
    found = DamageList(0)
    found += [one(1), one(7)]
    assert [r.range_count for r in found] == [2]


def test_a_read_counts_what_it_does_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile_logs.write_log(tmp_path / "store", hostile_logs.bad_bytes(20_000))
    reader = rmqcore.read(tmp_path / "store")
    count = sum(1 for _ in reader.messages())
    whole = list(reader.damage)
    monkeypatch.setattr(damage, "MAX_RANGES", 10)
    assert sum(1 for _ in reader.messages()) == count
    assert reader.damage[:10] == whole[:10]
    assert len(reader.damage) == 11
    assert sum(r.range_count for r in reader.damage) == len(whole) > 100
    assert sum(r.byte_count for r in reader.damage) == sum(r.byte_count for r in whole)
    assert cat(str(tmp_path / "store")) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(f"damaged: {len(whole) - 10} more ranges (")
    report = export(reader, tmp_path / "out", file_format="jsonl")
    assert report.damaged_bytes == sum(r.byte_count for r in whole)
