"""A reader that is given a path and a configuration: what each of them says, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.cli.cli_runs import COMMAND

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.offline.fsck import fsck

SMALL: dict[str, Any] = {
    "services": False,
    "mapped_file_size_commit_log": 1 << 14,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 20,
    "max_index_num": 50,
}


def store_at(root: Path, body: bytes, **how: Any) -> Path:
    with rmqcore.open(root, **SMALL, **how) as store:
        store.put(Message("t", body)).raise_for_status()
        store.wait_dispatched()
    return root


def bodies(reader: rmqcore.StoreReader) -> list[bytes]:
    return [bytes(message.body) for message in reader.messages()]


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, check=False)


def test_a_copy_and_the_configuration_of_the_original(tmp_path: Path) -> None:
    """The copy's queues were read with the log of the original, which had gone on meanwhile, and nobody was told."""
    original = store_at(tmp_path / "original", b"first")
    copy = Path(shutil.copytree(original, tmp_path / "copy"))
    store_at(original, b"second")
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathRootDir={original}\nstorePathCommitLog={original}/commitlog\n")
    config = MessageStoreConfig.from_broker_conf(conf)
    for path in (copy, copy / "commitlog"):
        with pytest.raises(
            ValueError, match=f"{copy}/commitlog has CommitLog files.*{original}/commitlog"
        ):
            rmqcore.read(path, config=config)
    with pytest.raises(ValueError, match="choose one with commitlog"):
        fsck(copy, config=config)
    for verb in ("recover", "rebuild"):
        told = run(verb, copy, "--config", conf)
        assert told.returncode == 1 and "choose one with commitlog" in told.stderr
    assert bodies(rmqcore.read(copy)) == [b"first"]
    assert bodies(rmqcore.read(copy, config=config, commitlog=copy / "commitlog")) == [b"first"]
    assert run("recover", copy, "--config", conf, "--commitlog", copy / "commitlog").returncode == 0
    assert bodies(rmqcore.read(original, config=config)) == [b"first", b"second"]


def test_a_log_elsewhere_is_read_where_the_configuration_says(tmp_path: Path) -> None:
    log = tmp_path / "disk" / "commitlog"
    root = store_at(tmp_path / "store", b"there", store_path_commit_log=str(log))
    (root / "commitlog").mkdir()  # without files it is no other log
    assert bodies(
        rmqcore.read(root, config=MessageStoreConfig(store_path_commit_log=str(log)))
    ) == [b"there"]
    link = tmp_path / "link"
    link.symlink_to(log)
    assert bodies(
        rmqcore.read(root, config=MessageStoreConfig(store_path_commit_log=str(link)))
    ) == [b"there"]


def test_the_root_of_a_configuration_does_not_count(tmp_path: Path) -> None:
    root = store_at(tmp_path / "store", b"here")
    config = MessageStoreConfig(store_path_root_dir=str(tmp_path / "elsewhere"))
    assert bodies(rmqcore.read(root, config=config)) == [b"here"]
