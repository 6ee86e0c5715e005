"""Topics with messages outside of the log: no verb shows a part of them, or none, with exit code 0."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.stores import kept_elsewhere
from support.stores.compacted import clean, make_store

VERBS = {
    "cat": (),
    "tail": ("-n", "3"),
    "stats": (),
    "get": ("--queue", "0", "--offset", "0"),
    "query": ("--key", "k1"),
    "export": ("--format", "jsonl", "--out", "OUT"),
}


@pytest.fixture
def cleaned(tmp_path: Path) -> Path:
    return kept_elsewhere.cleaned(tmp_path)


def words(verb: str, tmp_path: Path) -> list[str]:
    return [word.replace("OUT", str(tmp_path / "out")) for word in VERBS[verb]]


@pytest.mark.parametrize("verb", ["cat", "stats", "export"])
def test_live_messages_that_the_log_has_deleted(
    verb: str, cleaned: Path, tmp_path: Path, rmqcore: Run
) -> None:
    """Each showed the others with exit code 0."""
    done = rmqcore(verb, cleaned, "--topic", "Keys", *words(verb, tmp_path))
    assert done.code == 1
    assert "Error: " in done.err
    assert "the log lacks messages of topic 'Keys'" in done.err
    assert "11 live messages are only in compaction/compactionLog/Keys" in done.err


@pytest.mark.parametrize("verb", ["cat", "stats", "export"])
def test_without_a_topic_they_are_named(
    verb: str, cleaned: Path, tmp_path: Path, rmqcore: Run
) -> None:
    done = rmqcore(verb, cleaned, *words(verb, tmp_path))
    assert (done.code, "Error" in done.err) == (0, False)
    assert "topic 'Keys': 11 live messages are only in compaction/" in done.err


@pytest.mark.parametrize("verb", ["query", "tail"])
def test_a_log_without_a_message_of_the_topic(verb: str, tmp_path: Path, rmqcore: Run) -> None:
    root = clean(make_store(tmp_path / "store"), 99)
    done = rmqcore(verb, root, "--topic", "Keys", *words(verb, tmp_path))
    assert done.code != 0
    if verb == "tail":
        assert "live messages are only in compaction/compactionLog/Keys" in done.err


def test_conditions_without_such_messages(cleaned: Path, rmqcore: Run) -> None:
    for condition in (("--since", "1700000001000"), ("--from-phy", "20000")):
        done = rmqcore("cat", cleaned, "--topic", "Keys", *condition)
        assert (done.code, done.err) == (0, ""), condition


def test_compacted_messages_are_shown(cleaned: Path, rmqcore: Run) -> None:
    done = rmqcore("cat", cleaned, "--compacted", "--topic", "Keys", "--format", "jsonl")
    assert (done.code, done.err) == (0, "")
    rows = [json.loads(line) for line in done.out.splitlines()]
    places = [(row["queue_id"], row["queue_offset"]) for row in rows]
    assert places == sorted(places)
    assert (
        len(rows) == json.loads(rmqcore("info", cleaned, "--json").out)["compacted"][0]["messages"]
    )
    key = rows[0]["keys"][0]
    done = rmqcore("cat", cleaned, "--compacted", "--key", key, "--format", "jsonl")
    assert [json.loads(line)["keys"] for line in done.out.splitlines()] == [[key]]


def test_a_topic_that_is_not_compacted(cleaned: Path, rmqcore: Run) -> None:
    done = rmqcore("cat", cleaned, "--compacted", "--topic", "Orders")
    assert done.code == 1
    assert "has no compacted topic 'Orders'" in done.err


@pytest.mark.parametrize(
    "option", [("--blank",), ("--from-phy", "0"), ("--format", "parquet", "-o", "OUT")]
)
def test_options_of_the_log_do_not_go_with_compacted(
    option: tuple[str, ...], cleaned: Path, tmp_path: Path, rmqcore: Run
) -> None:
    given = [word.replace("OUT", str(tmp_path / "out")) for word in option]
    done = rmqcore("cat", cleaned, "--compacted", *given)
    assert done.code not in (0, 1)
    assert "--compacted" in done.err


def test_get_says_where_the_answer_comes_from(cleaned: Path, rmqcore: Run) -> None:
    done = rmqcore("get", cleaned, "--topic", "Keys", "--queue", "0", "--offset", "1")
    assert done.code == 0
    assert "from compaction/compactionLog/Keys/0" in done.err
    done = rmqcore("get", cleaned, "--topic", "Keys", "--queue", "0", "--offset", "1", "--json")
    assert json.loads(done.out)["from"] == "compaction/compactionLog/Keys/0"


def test_a_topic_that_only_compaction_has(cleaned: Path, tmp_path: Path, rmqcore: Run) -> None:
    shutil.rmtree(cleaned / "commitlog")
    shutil.rmtree(cleaned / "consumequeue")
    shutil.rmtree(cleaned / "index")
    (cleaned / "commitlog").mkdir()
    (cleaned / "checkpoint").unlink()
    done = rmqcore("get", cleaned, "--topic", "Keys", "--queue", "0", "--offset", "0")
    assert (done.code, "FOUND" in done.err, "Error" in done.err) == (0, True, False)
    done = rmqcore("cat", cleaned, "--topic", "Keys")
    assert (done.code, "has no topic" in done.err) == (1, False)
    assert "39 live messages are only in compaction/compactionLog/Keys" in done.err


@pytest.mark.parametrize("verb", ["info", "stats"])
def test_live_messages_are_counted(verb: str, cleaned: Path, rmqcore: Run) -> None:
    done = rmqcore(verb, cleaned, "--json")
    (topic,) = json.loads(done.out)["compacted"]
    assert (topic["topic"], topic["queues"], topic["only_here"]) == ("Keys", 2, 11)
    assert topic["messages"] > 11
    text = " ".join(rmqcore(verb, cleaned, "--wide").out.decode().split())
    assert f"Keys: {topic['messages']} live messages in 2 queues, 11 of them not in the log" in text


@pytest.mark.parametrize("place", ["compaction", "compaction/compactionCq/Keys"])
def test_the_log_is_read_without_a_linked_compaction(
    place: str, cleaned: Path, tmp_path: Path, rmqcore: Run
) -> None:
    (cleaned / place).rename(tmp_path / "elsewhere")
    (cleaned / place).symlink_to(tmp_path / "elsewhere")
    for verb in (("cat", "--limit", "1"), ("stats",), ("tail", "-n", "1")):
        assert rmqcore(verb[0], cleaned, *verb[1:]).code == 0, verb
    for asked in (("info",), ("cat", "--topic", "Keys"), ("cat", "--compacted")):
        done = rmqcore(asked[0], cleaned, *asked[1:])
        assert (done.code, "a link to" in done.err) == (2, True), asked


@pytest.mark.parametrize("verb", VERBS)
def test_a_topic_that_the_tiered_store_may_have(
    verb: str, cleaned: Path, tmp_path: Path, rmqcore: Run
) -> None:
    kept_elsewhere.tiered(cleaned)
    (cleaned / "consumequeue" / "Gone" / "0").mkdir(parents=True)
    done = rmqcore(verb, cleaned, "--topic", "Gone", *words(verb, tmp_path))
    assert done.code == 1
    assert "older messages may be in the tiered store, which rmqcore does not read" in done.err


@pytest.mark.parametrize("verb", ["cat", "tail", "stats"])
def test_a_topic_with_messages_in_the_log(verb: str, cleaned: Path, rmqcore: Run) -> None:
    kept_elsewhere.tiered(cleaned)
    done = rmqcore(verb, cleaned, "--topic", "Orders")
    assert (done.code, done.err) == (0, "")


def test_the_end_of_a_queue_is_known(cleaned: Path, rmqcore: Run) -> None:
    kept_elsewhere.tiered(cleaned)
    done = rmqcore("get", cleaned, "--topic", "Orders", "--queue", "0", "--offset", "75")
    assert (done.code, "OFFSET_OVERFLOW_ONE" in done.err) == (0, True)


def test_columns_of_such_a_topic_come_with_a_note(
    cleaned: Path, tmp_path: Path, rmqcore: Run
) -> None:
    done = rmqcore("cat", cleaned, "--topic", "Keys", "--format", "parquet", "-o", tmp_path / "o")
    assert (done.code, "only in compaction/compactionLog/Keys" in done.err) == (1, True)


@pytest.mark.parametrize("verb", ["info", "doctor"])
def test_info_and_doctor_say_so(verb: str, cleaned: Path, rmqcore: Run) -> None:
    kept_elsewhere.tiered(cleaned)
    text = " ".join(rmqcore(verb, cleaned).out.decode().split())
    assert "compaction/ has the newest message of each key, and rmqcore does not write" in text
    assert "may be in a tiered store, which rmqcore does not read" in text
