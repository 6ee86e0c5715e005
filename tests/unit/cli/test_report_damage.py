"""What the verbs print of damage: 100,000 damaged ranges were 100,000 lines on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stores import hostile_logs

import rmqcore
from rmqcore.cli.common.errors import MOST_LINES, report_damage
from rmqcore.cli.verbs.cat import cat
from rmqcore.offline.log.damage import DamageList, DamageRange


def one(number: int) -> DamageRange:
    return DamageRange(10 * number, 10 * number + 3, "record", "commitlog/0", "MAGIC", 1, number)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_some_ranges_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    report_damage(map(one, range(MOST_LINES)))
    said = lines(capsys)
    assert len(said) == MOST_LINES
    assert said[-1] == "damaged: 190..193 (3 bytes) record in commitlog/0: MAGIC is 19, expected 1"


def test_all_others_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    report_damage(map(one, range(MOST_LINES + 7)))
    said = lines(capsys)
    assert len(said) == MOST_LINES + 1
    assert said[-1] == "damaged: 7 more ranges (21 bytes), up to 263"


def test_ranges_that_were_only_counted_are_among_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = DamageList(most=5)
    found.extend(map(one, range(50)))
    report_damage(found)
    said = lines(capsys)
    assert len(said) == 6
    assert said[-1] == "damaged: 45 more ranges (135 bytes), up to 493"


def test_cat_says_some_and_the_json_has_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    hostile_logs.write_log(store, hostile_logs.bad_bytes(20_000))
    reader = rmqcore.read(store)
    assert sum(1 for _ in reader.messages()) > 0
    assert cat(str(store), out=tmp_path / "out.json", json=True) == 2
    assert len(lines(capsys)) == MOST_LINES + 1
    assert len(json.loads((tmp_path / "out.json").read_text())["damage"]) == len(reader.damage)
