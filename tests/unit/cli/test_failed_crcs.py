"""A body that fails its CRC: `get`, `query` and `lookup` printed it with exit code 0, where `cat` reports it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.remote.memory_stores import memory_stores
from support.stores.built_store import BuiltStore

import rmqcore as package


@pytest.fixture
def built(tmp_path: Path) -> BuiltStore:
    store = BuiltStore(tmp_path / "store").fill(12)
    store.write()
    return store


def test_the_exit_code_is_2(rmqcore: Run, built: BuiltStore) -> None:
    view = package.read(built.root).message_at(built.records[4].phy_offset)
    assert view is not None
    topic, queue, key = view.topic, view.queue_id, view.keys[0]
    words: list[list[object]] = [
        ["get", "--topic", topic, "--queue", queue, "--offset", view.queue_offset, "--max", 1],
        ["query", "--topic", topic, "--key", key],
        ["lookup", view.msg_id],
        ["lookup", view.phy_offset],
    ]

    def ask(place: Path | str, asked: list[object]) -> tuple[int, bytes, str]:
        done = rmqcore(str(asked[0]), place, *map(str, asked[1:]), "--format", "jsonl")
        return done.code, done.out, done.err

    for asked in words:
        assert ask(built.root, asked)[0] == 0, asked
    built.change_log(view.phy_offset + 90, b"\xff")
    told = rmqcore("cat", built.root).err
    assert f"{view.phy_offset}..{view.phy_offset + view.msg_size}" in told
    assert "BODYCRC" in told
    for asked in words:
        code, out, err = ask(built.root, asked)
        assert (code, bool(out)) == (2, True), asked
        assert told.splitlines()[0] in err
    with memory_stores() as memory:
        url = memory.put(built.root)
        assert [ask(url, asked)[0] for asked in words] == [2] * len(words)
