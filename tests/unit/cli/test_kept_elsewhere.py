"""Topics whose messages lie where rmqcore does not read: no verb answers "nothing" with exit code 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.stores import kept_elsewhere

VERBS = {
    "cat": (),
    "tail": ("-n", "3"),
    "stats": (),
    "get": ("--queue", "0", "--offset", "0"),
    "query": ("--key", "k1"),
    "export": ("--format", "jsonl", "--out", "OUT"),
}


@pytest.fixture
def compacted(tmp_path: Path) -> Path:
    return kept_elsewhere.compacted(tmp_path)


@pytest.mark.parametrize("has_queue", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_a_topic_that_only_the_compaction_has(
    verb: str, has_queue: bool, compacted: Path, tmp_path: Path, rmqcore: Run
) -> None:
    if has_queue:
        (compacted / "consumequeue" / "Old" / "0").mkdir(parents=True)
    words = [word.replace("OUT", str(tmp_path / "out")) for word in VERBS[verb]]
    done = rmqcore(verb, compacted, "--topic", "Old", *words)
    assert done.code == 1
    assert (
        "compaction/compactionLog/Old has the newest message of each key, which rmqcore" in done.err
    )


@pytest.mark.parametrize("verb", VERBS)
def test_a_topic_that_the_tiered_store_may_have(
    verb: str, compacted: Path, tmp_path: Path, rmqcore: Run
) -> None:
    kept_elsewhere.tiered(compacted)
    (compacted / "consumequeue" / "Gone" / "0").mkdir(parents=True)
    words = [word.replace("OUT", str(tmp_path / "out")) for word in VERBS[verb]]
    done = rmqcore(verb, compacted, "--topic", "Gone", *words)
    assert done.code == 1
    assert "older messages may be in the tiered store, which rmqcore does not read" in done.err


@pytest.mark.parametrize("verb", ["cat", "tail", "stats"])
def test_a_topic_with_messages_in_the_log(verb: str, compacted: Path, rmqcore: Run) -> None:
    kept_elsewhere.tiered(compacted)
    done = rmqcore(verb, compacted, "--topic", "Compact")
    assert (done.code, done.err) == (0, "")


def test_the_end_of_a_queue_is_known(compacted: Path, rmqcore: Run) -> None:
    kept_elsewhere.tiered(compacted)
    done = rmqcore("get", compacted, "--topic", "Compact", "--queue", "0", "--offset", "11")
    assert (done.code, "OFFSET_OVERFLOW_ONE" in done.err) == (0, True)


def test_columns_of_such_a_topic_come_with_a_note(
    compacted: Path, tmp_path: Path, rmqcore: Run
) -> None:
    done = rmqcore("cat", compacted, "--topic", "Old", "--format", "parquet", "-o", tmp_path / "o")
    assert "compaction/compactionLog/Old has" in done.err


@pytest.mark.parametrize("verb", ["info", "doctor"])
def test_info_and_doctor_say_so(verb: str, compacted: Path, rmqcore: Run) -> None:
    kept_elsewhere.tiered(compacted)
    text = rmqcore(verb, compacted).out.decode()
    assert "compaction/ has the newest message of each key, which rmqcore does not read" in text
    assert "may be in a tiered store, which rmqcore does not read" in text
