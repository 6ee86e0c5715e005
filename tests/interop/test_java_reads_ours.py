"""What we wrote, opened by Java: every answer of it is the answer that we give."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.conftest import OpenJava
from interop.files import check_same_files, copy_store
from interop.questions import check_same_answers
from interop.workload import CONFIGS, PLAIN, Workload, ours
from interop.writers import Clock, put_ours

import rmqcore

PUTS = 500


@pytest.mark.parametrize("services", [pytest.param(False, marks=pytest.mark.smoke), True])
@pytest.mark.parametrize("name", CONFIGS)
def test_java_answers_as_we_do(
    name: str, services: bool, java_open: OpenJava, tmp_path: Path
) -> None:
    config, clock = CONFIGS[name], Clock()
    root = tmp_path / "ours"
    with rmqcore.open(root, services=services, clock=clock, **ours(config)) as store:
        put_ours(store, clock, Workload(3, config).take(PUTS))
    copy = copy_store(root, tmp_path / "java")
    with (
        java_open(copy, config) as java,
        rmqcore.open(root, services=False, **ours(config)) as store,
    ):
        assert store.recovery.cut_bytes == 0
        verdict = java.verify()
        assert verdict["bad"] == []
        check_same_answers(java, store)
    check_same_files(root, copy)  # opening changed nothing, on either side


def test_many_topics(java_open: OpenJava, tmp_path: Path) -> None:
    topics = [f"Topic{i}" for i in range(250)]
    root, clock = tmp_path / "ours", Clock()
    with rmqcore.open(root, services=False, clock=clock, **ours(PLAIN)) as store:
        put_ours(store, clock, Workload(12, PLAIN, topics).take(900))
        assert len(store.queues()) > 400
    copy = copy_store(root, tmp_path / "java")
    with (
        java_open(copy, PLAIN) as java,
        rmqcore.open(root, services=False, **ours(PLAIN)) as store,
    ):
        check_same_answers(java, store)
    check_same_files(root, copy)
