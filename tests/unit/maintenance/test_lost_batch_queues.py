"""``batchconsumequeue/`` is gone, or a topic's directory in it: no tool makes ordinary queues of its records.

RocketMQ does not start on a store in which a topic of batch queues has its directory in ``consumequeue/``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.stores.archives import unpack

import rmqcore
from rmqcore import Message
from rmqcore.cli import main
from rmqcore.vocabulary.status import PutMessageStatus

TOPIC = "BatchT"
Lose = Callable[[Path], None]


def configure(root: Path) -> None:
    config = {"topicName": TOPIC, "attributes": {"queue.type": "BatchCQ"}}
    (root / "config").mkdir(exist_ok=True)
    text = json.dumps({"topicConfigTable": {TOPIC: config}})
    (root / "config" / "topics.json").write_text(text)


def lose_all(root: Path) -> None:
    shutil.rmtree(root / "batchconsumequeue")


def lose_the_topic(root: Path) -> None:
    shutil.rmtree(root / "batchconsumequeue" / TOPIC)


@pytest.fixture(params=[lose_all, lose_the_topic])
def lost(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store of RocketMQ 5.5.0 that lost its batch queues; its topics.json is there."""
    root = unpack(ROOT / "tests" / "conformance" / "batch-queues.tar.xz", tmp_path) / "batchcq"
    configure(root)
    request.param(root)
    return root


WORDS: dict[str, list[str]] = {
    "recover": ["recover", "STORE", "--apply"],
    "deep": ["recover", "STORE", "--deep", "--apply"],
    "rebuild in place": ["rebuild", "STORE", "--cq", "--apply"],
    "rebuild": ["rebuild", "STORE", "--cq", "--out", "OUT"],
    "salvage": ["salvage", "STORE", "OUT"],
}


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_no_tool_makes_ordinary_queues_of_them(
    words: list[str], crashed: bool, lost: Path, tmp_path: Path
) -> None:
    if crashed:
        (lost / "abort").touch()
    places = {"STORE": str(lost), "OUT": str(tmp_path / "out")}
    assert main([places.get(word, word) for word in words]) in (0, 2)
    assert not list(tmp_path.glob(f"**/consumequeue/{TOPIC}"))


@pytest.mark.parametrize("recover", ["normal", "deep"])
@pytest.mark.parametrize("crashed", [False, True])
def test_an_open_store_takes_no_message_for_them(recover: Any, crashed: bool, lost: Path) -> None:
    """The message got PUT_OK, and the queue a file of entries of whole batches."""
    if crashed:
        (lost / "abort").touch()
    with rmqcore.open(lost, recover=recover) as store:
        assert store.put(Message(TOPIC, b"x")).status is PutMessageStatus.MESSAGE_ILLEGAL
        assert store.put(Message("Other", b"x")).status is PutMessageStatus.PUT_OK
        store.wait_dispatched()
    assert not (lost / "consumequeue" / TOPIC).exists()


def test_it_is_reported(lost: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [kind.name for kind in rmqcore.read(lost).info().kinds] == ["batch_queues"]
    assert main(["fsck", str(lost)]) == 2
    assert f"batchconsumequeue/{TOPIC}/0" in capsys.readouterr().out
    assert main(["doctor", str(lost), "--thorough"]) == 2
    assert main(["salvage", str(lost), str(tmp_path / "out")]) == 2
    words = ["get", str(lost), "--topic", TOPIC, "--queue", "0", "--offset", "0"]
    assert main(words) == 1
    assert "NO_MESSAGE_IN_QUEUE" in capsys.readouterr().err
