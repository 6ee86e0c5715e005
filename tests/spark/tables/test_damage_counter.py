"""`rmqcore.spark.DamageCounter`: a batch read tells the damage that it met, each range once, without a second job."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from support.spark.spark_tables import read_table, table_of

import rmqcore.spark
from rmqcore.errors import DataLossError, StoreError, StoreFormatError, TargetNotEmptyError
from rmqcore.offline.log.damage import DamageRange, MoreDamage
from rmqcore.spark import DamageCounter
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.output.damage_folder import DamageTotals, note_damage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StoreCopy(Protocol):
    def __call__(self, case: str, part: str = "store") -> Path: ...


@pytest.fixture
def counter(tmp_path: Path) -> DamageCounter:
    return DamageCounter(tmp_path / "damage")


@pytest.fixture
def hurt(store_copy: StoreCopy) -> Path:
    """Two messages that fail their CRC, a damaged header, and a torn tail."""
    root = store_copy("basic")
    views = list(rmqcore.read(root).messages())
    first, *_, last = sorted((root / "commitlog").iterdir())
    at = [view.phy_offset for view in views if view.body_size > 20]
    data = bytearray(first.read_bytes())
    for place in (at[2], at[7]):
        data[place + 90] ^= 1
    data[at[11] + 4] ^= 1
    first.write_bytes(data)
    end = views[-1].phy_offset + views[-1].msg_size - int(last.name)
    data = bytearray(last.read_bytes())
    data[end : end + 9] = b"\0\0\0\x77 torn"
    last.write_bytes(data)
    (
        root / "abort"
    ).touch()  # after a clean exit the tail would be what a writer without mappings leaves
    return root


def damage_of(root: Path) -> list[DamageRange]:
    reader = rmqcore.read(root)
    for _ in reader.batches():
        pass
    return sorted(reader.damage, key=lambda one: (one.start_phy_offset, one.kind))


def totals_of(damage: list[DamageRange]) -> DamageTotals:
    crcs = sum(one.kind == "crc" for one in damage)
    return DamageTotals(len(damage), sum(one.byte_count for one in damage), crcs)


def test_each_range_counts_once(hurt: Path, counter: DamageCounter) -> None:
    """Whatever runs twice, and however the store is cut."""
    expected = damage_of(hurt)
    assert [one.kind for one in expected] == ["crc", "crc", "record", "torn_tail"]
    assert counter.totals() == DamageTotals()
    for options in (
        {},
        {},
        {"splitMode": "walk", "maxPartitionBytes": "8k"},
        {"columns": ["topic"]},
    ):
        read_table(hurt, damageFolder=counter.folder, **options)
        assert counter.damage() == [(hurt.name, one) for one in expected]
    assert counter.totals() == totals_of(expected)
    assert counter.totals().failed_crcs == 2


def test_what_is_read_counts(hurt: Path, counter: DamageCounter) -> None:
    first, second, *_ = damage_of(hurt)
    end = second.start_phy_offset
    read_table(hurt, damageFolder=counter.folder, endingPhyOffset=end, mode="DROPMALFORMED")
    assert counter.damage() == [(hurt.name, first)]


def test_a_sound_store_leaves_nothing(golden: Path, counter: DamageCounter) -> None:
    read_table(golden / "basic" / "store", damageFolder=counter.folder)
    assert list(Path(counter.folder).iterdir()) == []
    assert counter.totals() == DamageTotals()


def test_a_part_that_is_not_read_to_its_end_counts_nothing(
    hurt: Path, counter: DamageCounter
) -> None:
    table = table_of(hurt, damageFolder=counter.folder, batchRows=5)
    rows: Any = table.read(table.parts()[0])
    next(rows)
    rows.close()
    assert counter.damage() == []


def test_missing_files_count(store_copy: StoreCopy, counter: DamageCounter) -> None:
    root = store_copy("basic")
    files = sorted((root / "commitlog").iterdir())
    files[1].unlink()
    with pytest.raises(DataLossError):
        table_of(root, damageFolder=counter.folder).parts()
    assert counter.damage() == []
    with pytest.warns(UserWarning, match="is missing"):
        read_table(root, damageFolder=counter.folder, failOnDataLoss=False)
    assert [(one.kind, one.start_phy_offset) for _, one in counter.damage()] == [
        ("missing_file", int(files[1].name))
    ]


def test_stores_count_apart(hurt: Path, tmp_path: Path, counter: DamageCounter) -> None:
    shutil.copytree(hurt, tmp_path / "other")
    read_table([hurt, tmp_path / "other"], damageFolder=counter.folder)
    expected = totals_of(damage_of(hurt))
    assert counter.totals() == DamageTotals(2 * expected.ranges, 2 * expected.damaged_bytes, 4)


def test_very_many_ranges_are_one(monkeypatch: pytest.MonkeyPatch, counter: DamageCounter) -> None:
    monkeypatch.setattr("rmqcore.offline.log.damage.MAX_RANGES", 3)
    ranges = [
        DamageRange(at, at + 2, "record", "commitlog/0", "MAGIC", 1, 2) for at in range(0, 90, 10)
    ]
    for _ in range(2):
        note_damage(counter.folder, "a", ranges)
    assert counter.totals() == DamageTotals(9, 18, 0)
    assert isinstance(counter.damage()[-1][1], MoreDamage)


def test_wrong_folders(hurt: Path, tmp_path: Path, counter: DamageCounter) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(TargetNotEmptyError, match="needs an empty directory"):
        DamageCounter(tmp_path / "full")
    with pytest.raises(ValueError, match="have mounted"):
        DamageCounter("s3://bucket/damage")
    with pytest.raises(ValueError, match="is inside the store"):
        table_of(hurt, damageFolder=str(hurt / "damage"))
    with pytest.raises(StoreError, match="the driver and all workers must share it"):
        read_table(hurt, damageFolder=str(tmp_path / "elsewhere"))
    with pytest.raises(ValueError, match=r"only applies to rmqcore\.spark\.read"):
        JobSource.open(hurt, {"damageFolder": counter.folder})
    Path(counter.folder, "x.damage.json").write_text("{}")
    with pytest.raises(StoreFormatError, match=r"x\.damage\.json was not written by a task"):
        counter.totals()


def test_in_a_session(spark: SparkSession, hurt: Path, counter: DamageCounter) -> None:
    frame = rmqcore.spark.read(
        spark, hurt, damageFolder=counter.folder, splitMode="walk", maxPartitionBytes="20k"
    )
    assert counter.totals() == DamageTotals(), "nothing is read before an action"
    expected = totals_of(damage_of(hurt))
    frame.count()
    assert counter.totals() == expected
    frame.alias("a").join(frame.alias("b"), "phy_offset").count()
    rmqcore.spark.optimize(frame.groupBy("topic").count()).collect()
    assert counter.totals() == expected
