"""A store that changes hands ten times: each writer finds what the other left, and no byte tells who wrote it.

A second directory gets the same messages from Java alone. After each hand-over the two hold the same files, and both sides
give the same answers from them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.files import check_same_files, copy_store
from interop.questions import check_same_answers
from interop.workload import CONFIGS, Put, Workload, ours
from interop.writers import Clock, put_java, put_ours

import rmqcore
from rmqcore.offline.fsck import fsck

HANDOVERS = 10
PUTS = 120


def write_ours(root: Path, config: dict[str, Any], puts: list[Put], *, services: bool) -> Any:
    clock = Clock(puts[0].now_ms)
    with rmqcore.open(root, services=services, clock=clock, **ours(config)) as store:
        assert store.recovery.clean_exit
        assert store.recovery.cut_bytes == 0
        return put_ours(store, clock, puts)


@pytest.mark.parametrize("name", CONFIGS)
def test_ten_handovers(name: str, java_open: OpenJava, tmp_path: Path) -> None:
    config = CONFIGS[name]
    shared, reference = tmp_path / "shared", tmp_path / "reference"
    work = Workload(6, config)
    for stage in range(HANDOVERS + 1):
        puts = list(work.take(PUTS))
        with java_open(reference, config) as java:
            want = put_java(java, puts)
        if stage % 2:
            got = write_ours(shared, config, puts, services=stage % 4 == 1)
        else:
            with java_open(shared, config) as java:
                got = put_java(java, puts)
        assert got == want, f"stage {stage}"
        check_same_files(shared, reference)
        assert [f.kind for f in fsck(shared).findings if f.severity != "info"] == []

        copy = copy_store(shared, tmp_path / f"copy{stage}")
        with (
            java_open(copy, config) as java,
            rmqcore.open(shared, services=False, **ours(config)) as store,
        ):
            assert java.verify()["bad"] == []
            check_same_answers(java, store, seed=stage)
        check_same_files(shared, reference)  # asking changed nothing

    files = {part: len(list((shared / part).rglob("0*"))) for part in ("commitlog", "consumequeue")}
    assert files["commitlog"] > HANDOVERS
    assert len(list((shared / "index").iterdir())) > 2
