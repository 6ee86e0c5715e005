"""A salvage for an old release of RocketMQ leaves out what that release cannot read, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore import MessageStoreConfig
from rmqcore.maintenance.salvage.salvage import salvage
from rmqcore.offline.fsck import fsck

LONG = "t" * 128


@pytest.mark.parametrize(
    ("version", "unread"),
    [
        ("4.5.2", {"born", "store", "topic"}),
        ("4.9", {"topic"}),
        ("5.0", {"topic"}),
        ("5.1", set()),
        (None, set()),
    ],
)
@pytest.mark.parametrize("in_config", [False, True])
def test_records_that_a_release_cannot_read(
    tmp_path: Path, version: str | None, unread: set[str], in_config: bool
) -> None:
    built = BuiltStore(tmp_path / "store")
    records = {}
    for name, topic, sys_flag in (
        ("plain", "T", 0),
        ("born", "T", oracle.BORN_V6),
        ("between", "T", 0),
        ("topic", LONG, 0),
        ("store", "T", oracle.STORE_V6),
        ("last", "T", 0),
    ):
        records[name] = built.put(topic, sys_flag=sys_flag)
    given = (
        {"config": MessageStoreConfig(for_version=version)}
        if in_config
        else {"for_version": version}
    )
    report = salvage(built.write(), tmp_path / "out", **given)
    assert [lost.start_phy_offset for lost in report.lost] == sorted(
        records[name].phy_offset for name in unread
    )
    assert report.exit_code == (2 if unread else 0)
    assert all(f"for RocketMQ {version}" in str(lost.expected) for lost in report.lost)
    reader = rmqcore.read(tmp_path / "out")
    kept = {view.phy_offset: view.topic for view in reader.messages() if view.topic != "LOST"}
    assert list(kept) == [
        record.phy_offset for name, record in records.items() if name not in unread
    ]
    assert fsck(tmp_path / "out").exit_code == 0
