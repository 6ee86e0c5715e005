"""`duplicationEnable`: what RocketMQ's own start makes of an ordinary store, which `rmqcore recover --config` tells."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from interop.conftest import OpenJava
from interop.workload import SIZES, ours

import rmqcore
from rmqcore import Message
from rmqcore.cli import main


@pytest.mark.parametrize("clean", [True, False])
def test_java_counts_no_record_without_dup_info(
    java_open: OpenJava, tmp_path: Path, capfd: pytest.CaptureFixture[str], clean: bool
) -> None:
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, **ours(SIZES)) as store:
        for number in range(30):
            store.put(Message("T", b"%d" % number, tags="t")).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    if not clean:
        (root / "abort").touch()
    theirs = Path(shutil.copytree(root, tmp_path / "java"))
    offsets = java_open(theirs, {**SIZES, "duplicationEnable": True}).offsets()
    assert offsets["max_phy_offset"] == 0
    assert all(queue["max_offset"] == 0 for queue in offsets["queues"])
    conf = tmp_path / "broker.conf"
    conf.write_text("duplicationEnable=true\n")
    assert main(["recover", str(root), "--config", str(conf), "--json"]) == 0
    assert "DUP_INFO" in capfd.readouterr().out
    with rmqcore.open(root, services=False, duplication_enable=True, **ours(SIZES)) as store:
        assert store.max_offset("T", 0) == 30
