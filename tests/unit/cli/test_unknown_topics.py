"""A topic that the store does not have is said, and is exit code 1; it was an answer without messages, and 0."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import StoreCopy
from support.cli.cli_runs import Run
from support.stores.live_log import LiveLog


@pytest.mark.parametrize("verb", ["cat", "tail"])
@pytest.mark.parametrize("typed", ["TopicBasicAA", "topicbasica", "TOPICBASICA"])
def test_did_you_mean(rmqcore: Run, golden: Path, verb: str, typed: str) -> None:
    store = golden / "basic" / "store"
    done = rmqcore(verb, store, "--topic", typed)
    assert (done.code, done.out) == (1, b"")
    assert f"has no topic '{typed}'; did you mean 'TopicBasicA'?" in done.err
    assert f"Hint: `rmqcore info {store}` lists the topics" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["get", "--queue", "0", "--offset", "0"],
        ["query", "--key", "ORDER_1"],
        ["stats"],
        ["export", "--format", "jsonl", "-o", "OUT"],
        ["export", "--format", "csv", "--queue", "1", "-o", "OUT"],
    ],
    ids=" ".join,
)
def test_so_do_the_others(rmqcore: Run, golden: Path, tmp_path: Path, words: list[str]) -> None:
    """They answered "nothing" and 0, as for a topic without a message."""
    store = golden / "basic" / "store"
    verb, *rest = [str(tmp_path / "out") if word == "OUT" else word for word in words]
    done = rmqcore(verb, store, "--topic", "topicbasica", *rest)
    assert done.code == 1
    assert f"Error: {store} has no topic 'topicbasica'; did you mean 'TopicBasicA'?\n" in done.err
    done = rmqcore(
        verb,
        store,
        "--topic",
        "topicbasica",
        *rest,
        *(["--json"], ["--overwrite"])[verb == "export"],
    )
    assert done.code == 1
    assert isinstance(done.object, dict)


def test_a_key_without_a_message_is_no_error(rmqcore: Run, golden: Path) -> None:
    store = golden / "basic" / "store"
    done = rmqcore("query", store, "--topic", "TopicBasicA", "--key", "nobody")
    assert (done.code, "Error" in done.err) == (0, False)
    done = rmqcore("stats", store, "--topic", "TopicBasicA", "--key", "nobody")
    assert (done.code, done.err) == (0, "")


def test_an_export_of_what_is_there_and_what_is_not(
    rmqcore: Run, golden: Path, tmp_path: Path
) -> None:
    """The summary said exit_code 0, and the command answered 1."""
    store, out = golden / "basic" / "store", tmp_path / "out"
    words = ("--topic", "TopicBasicB", "--topic", "Typo", "--format", "jsonl", "-o", out)
    done = rmqcore("export", store, *words)
    assert (done.code, done.object["topics_without_rows"]) == (1, ["Typo"])
    assert done.object["exit_code"] == 1
    assert done.object["rows"] > 0
    assert [path.name for path in out.iterdir()] == ["topic_dir=TopicBasicB"]
    assert ("'Typo'" in done.err, "'TopicBasicB'" in done.err) == (True, False)
    damaged = golden / "crash_flipped" / "input"
    done = rmqcore("export", damaged, *words[2:], "--overwrite")
    assert (done.code, done.object["exit_code"], "'Typo'" in done.err) == (2, 2, True)


def test_messages_of_a_topic_without_queues(
    rmqcore: Run, store_copy: StoreCopy, tmp_path: Path
) -> None:
    """It is in the log, and the index has it: only its queues are not made."""
    store = store_copy("basic", "store")
    key = rmqcore("cat", store, "--topic", "TopicBasicA", "--limit", "1").lines[0]["uniq_key"]
    shutil.rmtree(store / "consumequeue" / "TopicBasicA")
    assert rmqcore("query", store, "--topic", "TopicBasicA", "--key", key).code == 0
    assert rmqcore("stats", store, "--topic", "TopicBasicA").code == 0
    words = ("--topic", "TopicBasicA", "--format", "csv", "-o", tmp_path / "out")
    assert rmqcore("export", store, *words).code == 0


def test_nothing_is_like_it(rmqcore: Run, golden: Path) -> None:
    done = rmqcore("cat", golden / "basic" / "store", "--topic", "qqq")
    assert done.code == 1
    assert "has no topic 'qqq'\n" in done.err


def test_the_other_topics_are_shown(rmqcore: Run, golden: Path) -> None:
    store = golden / "basic" / "store"
    done = rmqcore("cat", store, "--topic", "TopicBasicA", "--topic", "Typo")
    assert done.lines == rmqcore("cat", store, "--topic", "TopicBasicA").lines
    assert done.code == 1
    assert "'Typo'" in done.err
    assert "'TopicBasicA'" not in done.err


def test_a_topic_without_a_match_is_no_error(rmqcore: Run, golden: Path) -> None:
    store = golden / "basic" / "store"
    for words in (["--key", "nobody"], ["--since", "now"], ["--grep", "nobody"]):
        done = rmqcore("cat", store, "--topic", "TopicBasicA", *words)
        assert (done.code, done.out, done.err) == (0, b"", "")


def test_a_topic_whose_queues_are_not_made_yet(rmqcore: Run, store_copy: StoreCopy) -> None:
    store = store_copy("basic", "store")
    rows = rmqcore("cat", store, "--topic", "TopicBasicA").lines
    shutil.rmtree(store / "consumequeue" / "TopicBasicA")
    done = rmqcore("cat", store, "--topic", "TopicBasicA")
    assert (done.code, done.err) == (0, "")
    assert done.lines == rows


@pytest.mark.parametrize("verb", ["cat", "tail"])
def test_a_topic_without_messages_that_the_broker_knows(
    rmqcore: Run, store_copy: StoreCopy, verb: str
) -> None:
    """A broker makes a topic's queues with its first message."""
    store = store_copy("basic", "store")
    (store / "config").mkdir(exist_ok=True)
    file = store / "config" / "topics.json"
    file.write_text('{"topicConfigTable": {"Fresh": {"topicName": "Fresh"}}}')
    done = rmqcore(verb, store, "--topic", "Fresh")
    assert (done.code, done.out, done.err) == (0, b"", "")
    assert "did you mean 'Fresh'?" in rmqcore(verb, store, "--topic", "fresh").err
    for text in ("", "[]", "{", '{"topicConfigTable": 1}'):
        file.write_text(text)
        assert rmqcore(verb, store, "--topic", "Fresh").code == 1


def test_without_queues_only_the_whole_log_tells(rmqcore: Run, tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "store")
    log.append()
    for verb in ("cat", "tail", "stats"):
        done = rmqcore(verb, log.root, "--topic", "Typo")
        assert done.code == 1
        assert "has no topic 'Typo'" in done.err
        assert f"`rmqcore stats {log.root}` lists the topics" in done.err
        for words in (["--since", "now"], ["--queue", "1"], ["--key", "a"]):
            part = rmqcore(verb, log.root, "--topic", "Typo", *words)
            assert (part.code, part.err) == (0, "")
    for words in (["get", "--queue", "0", "--offset", "0"], ["query", "--key", "a"]):
        part = rmqcore(words[0], log.root, "--topic", "Typo", *words[1:])
        assert part.code == 1
        assert "has no topic" not in part.err  # no queue and no index: nobody can tell
    assert rmqcore("cat", log.root, "--topic", "Typo", "--to-phy", "10").code == 0
    assert rmqcore("cat", log.root, "--topic", "Typo", "--limit", "0").code == 0
    assert rmqcore("tail", log.root, "--topic", "Typo", "-n", "0").code == 0


def test_a_damaged_log_stays_2(rmqcore: Run, store_copy: StoreCopy) -> None:
    done = rmqcore("cat", store_copy("crash_flipped", "input"), "--topic", "Typo")
    assert done.code == 2
    assert "'Typo'" in done.err


@pytest.mark.parametrize("verb", ["cat", "info", "tail", "recover"])
def test_a_store_that_cannot_be_read_is_1_as_one_that_is_missing(
    rmqcore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Click looked first, and called it wrong usage: 64."""
    store = tmp_path / "store"
    store.mkdir()
    listdir = os.listdir

    def refuse(path: Any = ".") -> list[str]:
        if os.fspath(path) == str(store):
            raise PermissionError(13, "Permission denied", str(store))
        return listdir(path)

    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(os, "listdir", refuse)
    done = rmqcore(verb, store)
    assert done.code == 1
    assert done.err.startswith(
        f"Error: {store}: Permission denied\nHint: permission denied for this user; "
    )
