"""What a crash left, recovered by Java and by us: the same offsets, the same log and queues; our index is complete.

Java's index is no model: on recovery it drops entries and enters others twice (docs/compat.md), so ours is checked against
the log itself.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from operator import gt
from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.damage import RECIPES, Base, Recipe, put_stale
from interop.files import copy_store
from interop.java_process import JavaProcess
from interop.java_store import JavaStore
from interop.questions import FOREVER
from interop.recovery import check_recovery
from interop.workload import ROLLBACK, SIZES, Put, Workload, ours
from interop.writers import Clock, put_java, put_ours
from support.eventually import eventually

import rmqcore

# More than ten CommitLog files: recovery walks back over no more.
CONFIG: dict[str, Any] = {**SIZES, "mappedFileSizeCommitLog": 16 * 1024}
PUTS = 500
STEP = 25  # Java gives two index files of one millisecond the same name, and so loses one: it gets time between them


def make_base(
    root: Path, puts: list[Put], put: Callable[[list[Put]], object]
) -> tuple[bytes, Path]:
    """Put everything into the store that is open at `root`; its checkpoint at half, and a copy of it as it runs."""
    checkpoint = root / "checkpoint"
    half = len(puts) // 2
    for start in range(0, half, STEP):
        put(puts[start : start + STEP])
    before = flushed_ms(checkpoint)
    put(puts[half : half + STEP])
    # Java writes its checkpoint every second, the time of the log and that of the queues each for itself.
    eventually(lambda: all(map(gt, flushed_ms(checkpoint), before)))
    old = checkpoint.read_bytes()
    for start in range(half + STEP, len(puts), STEP):
        put(puts[start : start + STEP])
    return old, copy_store(root, root.with_name(root.name + "_running"))


def flushed_ms(checkpoint: Path) -> tuple[int, int]:
    """Up to when a checkpoint says that the log and the queues are on disk."""
    log, queues = struct.unpack_from(">qq", checkpoint.read_bytes().ljust(16, b"\0"))
    return log, queues


@pytest.fixture(scope="session")
def java_base(java: JavaProcess, tmp_path_factory: pytest.TempPathFactory) -> Base:
    root = tmp_path_factory.mktemp("base") / "java"
    with JavaStore(java, root, CONFIG) as store:
        puts = list(Workload(8, CONFIG).take(PUTS))
        old, running = make_base(root, puts, lambda some: put_java(store, some))
    return Base(running, copy_store(root, root.with_name("java_clean")), old)


@pytest.fixture(scope="session")
def our_base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    root, clock = tmp_path_factory.mktemp("base") / "ours", Clock()
    with rmqcore.open(root, services=False, clock=clock, **ours(CONFIG)) as store:

        def put(some: list[Put]) -> None:
            put_ours(store, clock, some)
            store.flush()
            store.flush_consume_queues()
            store.write_checkpoint()

        old, running = make_base(root, list(Workload(8, CONFIG).take(PUTS)), put)
    return Base(running, copy_store(root, root.with_name("ours_clean")), old)


@pytest.mark.parametrize("writer", ["java", "ours"])
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recovery_is_javas(
    recipe: Recipe,
    writer: str,
    java_base: Base,
    our_base: Base,
    java_open: OpenJava,
    tmp_path: Path,
) -> None:
    base = java_base if writer == "java" else our_base
    damaged = recipe.apply(tmp_path / "damaged", base)
    check_recovery(damaged, java_open, {**CONFIG, "checkCommitLogOffsetOnRecover": True})


WRITER = """
import itertools, sys
import rmqcore
from interop.workload import Workload, ours
from interop.writers import Clock, put_ours
from interop.test_crash import CONFIG

clock = Clock()
work = Workload(10, CONFIG)
with rmqcore.open(sys.argv[1], clock=clock, **ours(CONFIG)) as store:
    for count in itertools.count(1):
        put_ours(store, clock, work.take(20))
        print(count, flush=True)
"""


def test_our_process_killed_while_it_writes(java_open: OpenJava, tmp_path: Path) -> None:
    """With its threads, at no particular place: a put, a flush or a roll may be under way."""
    root = tmp_path / "damaged"
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == 30:
                break
        process.kill()
    assert (root / "abort").exists()
    check_recovery(root, java_open, CONFIG)


def test_java_killed_after_it_wrote(java_open: OpenJava, tmp_path: Path) -> None:
    """It ends without a shutdown: abort is there, and the checkpoint is what it wrote last."""
    with JavaProcess(tmp_path) as process:
        store = JavaStore(process, tmp_path / "damaged", CONFIG)
        put_java(store, Workload(11, CONFIG).take(300))
        process.crash()
    assert (tmp_path / "damaged" / "abort").exists()
    check_recovery(tmp_path / "damaged", java_open, CONFIG)


@pytest.mark.parametrize("same_file", [False, True], ids=["earlier-file", "same-file"])
@pytest.mark.parametrize("check", [False, True], ids=["unchecked", "checked"])
@pytest.mark.parametrize("clean", [False, True], ids=["running", "clean"])
def test_stale_records_behind_the_end(
    clean: bool, check: bool, same_file: bool, java_base: Base, java_open: OpenJava, tmp_path: Path
) -> None:
    """Java's check is off by default, is not made after a clean exit, and compares a record's offset with its file only.

    Ours is on, is always made, and compares it with the record's place (docs/compat.md).
    """
    source = java_base.clean if clean else java_base.running
    damaged = Path(shutil.copytree(source, tmp_path / "damaged"))
    before = list(rmqcore.read(damaged).messages())
    end = before[-1].phy_offset + before[-1].msg_size
    put_stale(damaged, same_file=same_file)
    config = {**CONFIG, "checkCommitLogOffsetOnRecover": check}
    shutil.copytree(damaged, tmp_path / "java")
    with java_open(tmp_path / "java", config) as java:
        believed = java.offsets()["max_phy_offset"]
    assert (believed > end) == (not check or clean or same_file)
    with rmqcore.open(damaged, services=False, **ours(config)) as store:
        assert store.max_phy_offset == (end if check else believed)


@pytest.mark.parametrize("name", ["no_index-clean", "old_checkpoint-running"])
def test_java_loses_index_entries_where_we_do_not(
    name: str, java_base: Base, java_open: OpenJava, tmp_path: Path
) -> None:
    """The same questions find nothing in Java's recovered store and the message in ours."""
    recipe = next(r for r in RECIPES if r.name == name)
    damaged = recipe.apply(tmp_path / "damaged", java_base)
    mine = copy_store(damaged, tmp_path / "ours")
    lost = 0
    with (
        java_open(damaged, CONFIG) as java,
        rmqcore.open(mine, services=True, **ours(CONFIG)) as store,
    ):
        assert store.wait_dispatched(60)
        messages = [r for r in java.records() if "UNIQ_KEY" in r.get("properties", {})]
        asked = [r for r in messages if r["sys_flag"] & ROLLBACK != ROLLBACK]
        requests = [
            {
                "topic": record["topic"],
                "key": record["properties"]["UNIQ_KEY"],
                "maxMessages": 32,
                "beginMs": 0,
                "endMs": FOREVER,
            }
            for record in asked
        ]
        for record, theirs in zip(asked, java.query(requests), strict=True):
            lost += not theirs["messages"]
            found = store.query(record["topic"], record["properties"]["UNIQ_KEY"]).messages
            assert [message.phy_offset for message in found] == [record["phy_offset"]]
    assert lost > 0
