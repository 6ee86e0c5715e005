"""The same messages with the same clock, written by Java and by us: the same answers to every put, the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.conftest import OpenJava
from interop.files import check_same_files
from interop.workload import CONFIGS, Workload, ours
from interop.writers import Clock, put_java, put_ours

import rmqcore

PUTS = 700


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", CONFIGS)
def test_same_files(name: str, seed: int, java_open: OpenJava, tmp_path: Path) -> None:
    config, clock = CONFIGS[name], Clock()
    with java_open(tmp_path / "java", config) as java:
        want = put_java(java, Workload(seed, config).take(PUTS))
    store = rmqcore.open(tmp_path / "ours", services=False, clock=clock, **ours(config))
    with store:
        got = put_ours(store, clock, Workload(seed, config).take(PUTS))
    assert got == want
    check_same_files(tmp_path / "ours", tmp_path / "java")
