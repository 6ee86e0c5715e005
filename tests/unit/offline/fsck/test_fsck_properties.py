"""Property areas that RocketMQ cannot have written (apache/rocketmq#7437), while the CRC of the body fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore._native.format.codec import property_bytes
from rmqcore.cli import main

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}
AREAS = {"NULs": b"\0", "no pairs": b"x"}


def broken(root: Path, fill: bytes, *, rebuilt: bool) -> int:
    """A store with a record whose properties were overwritten; its offset. `rebuilt`: queues and index are made of it."""
    with rmqcore.open(root, services=False, **SIZES) as store:
        for n in range(6):
            store.put(Message("Orders", b"x" * 30, keys=[f"k{n}"], tags="A")).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    with rmqcore.read(root) as reader:
        view = list(reader.messages())[2]
    area = property_bytes(view)
    assert area == rmqcore.codec.encode_properties(view.properties)
    path = root / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    end = view.phy_offset + view.msg_size
    data[end - len(area) : end] = fill * len(area)
    path.write_bytes(data)
    if rebuilt:
        assert main(["rebuild", str(root), "--apply", "--drop", "2"]) in (0, 2)
    return view.phy_offset


@pytest.mark.parametrize("rebuilt", [False, True])
@pytest.mark.parametrize("fill", AREAS.values(), ids=AREAS)
def test_fsck_names_the_record(tmp_path: Path, fill: bytes, rebuilt: bool) -> None:
    """Nothing was said of it where queue and index were made of what it holds now."""
    phy_offset = broken(tmp_path, fill, rebuilt=rebuilt)
    report = rmqcore.fsck(tmp_path)
    (found,) = [one for one in report.findings if one.kind == "properties"]
    assert (found.severity, found.field, found.phy_offset) == ("warning", "PROPERTIES", phy_offset)
    assert found.expected == "NAME 0x01 VALUE 0x02"
    assert found.found == (fill * 15).hex()
    assert "Orders queue 0 offset 2" in found.message
    assert rebuilt == (report.exit_code == 0)


@pytest.mark.parametrize("fill", AREAS.values(), ids=AREAS)
def test_all_decoders_agree(tmp_path: Path, fill: bytes, capsys: Any) -> None:
    """Also the columns of Spark, with which nothing else decodes."""
    pytest.importorskip("pyspark")
    from support.spark.spark_tables import read_table

    broken(tmp_path, fill, rebuilt=False)
    with rmqcore.read(tmp_path) as reader:
        views = list(reader.messages())
    columns = read_table(tmp_path, columns="properties,tags")
    assert main(["cat", str(tmp_path)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for n, (view, row, line) in enumerate(zip(views, columns, lines, strict=True)):
        want = {} if n == 2 else {"TAGS": "A", "KEYS": f"k{n}"}
        assert {**view.properties} == {**dict(row["properties"])} == line["properties"] == want
        assert row["tags"] == view.tags == (None if n == 2 else "A")


def test_messages_without_properties_are_sound(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, services=False, **SIZES) as store:
        for body in (b"", b"\0" * 50):
            store.put(Message("Orders", body)).raise_for_status()
            store.put(Message("Orders", body, properties={"a": "b"})).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    assert list(rmqcore.fsck(tmp_path).findings) == []
