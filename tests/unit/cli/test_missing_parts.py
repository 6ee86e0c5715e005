"""A question that is answered from a part of a store which is not there.

`query` of a copy of ``commitlog/`` alone said "the index has no message of TopicBasicA with this key", and `get` said
NO_MESSAGE_IN_QUEUE, both with exit code 0: as if the message were not in the log.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import StoreCopy
from support.cli.cli_runs import Run

KEY, QUEUE = ["--key", "nobody's"], ["--queue", "0", "--offset", "0"]


@pytest.mark.parametrize(
    ("verb", "words", "part", "instead", "makes"),
    [
        ("query", KEY, "index", "--key 'nobody'\"'\"'s'`", "--index"),
        ("query", ["--key", "T", "--index-type", "T"], "index", "--tag T`", "--index"),
        ("get", QUEUE, "consumequeue", "--topic TopicBasicA`", "--cq"),
    ],
)
def test_it_is_said(
    rmqcore: Run,
    store_copy: StoreCopy,
    verb: str,
    words: list[str],
    part: str,
    instead: str,
    makes: str,
) -> None:
    store = store_copy("basic", "store")
    shutil.rmtree(store / part)
    done = rmqcore(verb, store, "--topic", "TopicBasicA", *words)
    what = {"index": "index", "consumequeue": "queues"}[part]
    assert done.code == 1
    error, hint = done.err.splitlines()[-2:]
    assert error == f"Error: {store} has no {what}"
    assert hint.startswith(f"Hint: `rmqcore cat {store} --topic TopicBasicA")
    assert instead in hint
    assert f"`rmqcore rebuild {store} {makes} --out {store}.rebuilt`" in hint
    assert done.out.splitlines()[:1] in ([], [b"[]"])


def test_an_answer_without_messages_is_one_where_the_part_is_there(
    rmqcore: Run, golden: Path
) -> None:
    store = golden / "basic" / "store"
    done = rmqcore("query", store, "--topic", "TopicBasicA", *KEY)
    assert (done.code, done.err) == (
        0,
        "the index has no message of TopicBasicA with this key\n",
    )
    done = rmqcore("get", store, "--topic", "TopicBasicA", "--queue", "0", "--offset", "999999")
    assert (done.code, "Error" in done.err) == (0, False)


def test_a_queue_that_is_not_there(rmqcore: Run, golden: Path) -> None:
    """The exit code was 0, also where the directory of the queue was lost."""
    store = golden / "basic" / "store"
    done = rmqcore("get", store, "--topic", "TopicBasicA", "--queue", "9", "--offset", "0")
    assert done.code == 1
    assert f"Error: {store} has no queue 9 of topic 'TopicBasicA'; its queues: 0, 1" in done.err
