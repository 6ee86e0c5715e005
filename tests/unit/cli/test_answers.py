"""get, query and lookup: what Java's store answers, and the words around it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.cli.cli_runs import Run

from rmqcore.offline.export.message_rows import FIELDS
from rmqcore.offline.reader import StoreReader


def manifest(golden: Path, case: str = "basic") -> dict[str, Any]:
    return json.loads((golden / case / "manifest.json").read_text())  # type: ignore[no-any-return]


def test_get_is_what_java_answers(rmqcore: Run, golden: Path) -> None:
    seen: Counter[str] = Counter()
    for answer in manifest(golden)["getMessage"]:
        if seen[answer["status"]] == 20:
            continue
        words = [
            "--topic",
            answer["topic"],
            "--queue",
            str(answer["queueId"]),
            "--max",
            str(answer["maxNum"]),
        ]
        if answer["offset"] < 0 or answer["maxNum"] < 1 or answer["maxTotalSize"] != 134217728:
            continue
        if answer["filter"]:
            words += ["--tags", answer["filter"]]
        done = rmqcore(
            "get", golden / "basic" / "store", *words, "--offset", str(answer["offset"]), "--json"
        )
        assert done.code == (1 if answer["topic"] == "NoSuchTopic" else 0)
        assert done.object["status"] == answer["status"]
        assert done.object["next_begin_offset"] == answer["nextBeginOffset"]
        assert [row["phy_offset"] for row in done.object["messages"]] == (
            answer["physicalOffsets"] or []
        )
        seen[answer["status"]] += 1
    assert {"FOUND", "OFFSET_OVERFLOW_ONE", "OFFSET_OVERFLOW_BADLY"} <= set(seen)


def test_get_says_the_status_beside_the_rows(rmqcore: Run, golden: Path) -> None:
    words = ["--topic", "TopicBasicA", "--queue", "1", "--offset", "0", "--max", "2"]
    done = rmqcore("get", golden / "basic" / "store", *words)
    assert [row["queue_offset"] for row in done.lines] == [0, 1]
    assert done.err == "status FOUND, next_begin_offset 2, min_offset 0, max_offset 170\n"
    done = rmqcore(
        "get", golden / "basic" / "store", "--topic", "TopicBasicA", "--queue", "9", "--offset", "0"
    )
    assert (done.code, done.out) == (1, b"")
    assert "NO_MESSAGE_IN_QUEUE" in done.err


def test_query_is_what_java_answers(rmqcore: Run, golden: Path) -> None:
    answers = [
        answer for answer in manifest(golden)["queryMessage"] if answer["indexType"] in (None, "T")
    ]
    checked = 0
    reader = StoreReader(golden / "basic" / "store")
    for answer in answers[:: max(1, len(answers) // 40)]:
        if answer["maxNum"] < 1 or answer["end"] >= 2**62:
            continue
        words = [
            "--topic",
            answer["topic"],
            "--key",
            answer["key"],
            "--limit",
            str(answer["maxNum"]),
        ]
        words += ["--since", str(answer["begin"]), "--until", str(answer["end"] + 1)]
        if answer["indexType"]:
            words += ["--index-type", "T"]
        done = rmqcore("query", golden / "basic" / "store", *words)
        assert done.code == 0
        conditions: dict[str, Any] = {"tags" if answer["indexType"] else "keys": [answer["key"]]}
        exact = [
            message.phy_offset
            for message in reader.messages(
                topics=[answer["topic"]],
                since_ms=answer["begin"],
                until_ms=answer["end"] + 1,
                **conditions,
            )
        ]
        found = [row["phy_offset"] for row in done.lines]
        assert found == exact[-answer["maxNum"] :], answer
        if len(exact) < answer["maxNum"]:
            # Java compares the time of the index, up to a second before that of the record.
            for phy_offset in {*found} ^ {*answer["physicalOffsets"]}:
                view = reader.message_at(phy_offset)
                assert view is not None
                bound = answer["begin"] if phy_offset in found else answer["end"]
                assert 0 <= view.store_timestamp_ms - bound < 1000, answer
        checked += 1
    assert checked > 5


def test_query_that_finds_nothing(rmqcore: Run, golden: Path) -> None:
    done = rmqcore("query", golden / "basic" / "store", "--topic", "TopicBasicA", "--key", "none")
    assert (done.code, done.out) == (0, b"")
    assert "no message of TopicBasicA with this key" in done.err
    done = rmqcore(
        "query", golden / "basic" / "store", "--topic", "TopicBasicA", "--key", "none", "--json"
    )
    assert done.object == {"messages": [], "damage": []}


def test_lookup_by_offset_and_by_id(rmqcore: Run, golden: Path) -> None:
    for case in ("basic", "ipv6"):
        store = golden / case / "store"
        for message in manifest(golden, case)["messages"][5:9]:
            if message["type"] != "MSG":
                continue
            for word in (str(message["at"]), message["msgId"], message["msgId"].lower()):
                done = rmqcore("lookup", store, word)
                assert done.code == 0
                assert [row["msg_id"] for row in done.lines] == [message["msgId"]]
            assert (
                rmqcore("lookup", store, str(message["at"]), "--json").object["phy_offset"]
                == message["at"]
            )


def test_lookup_shows_a_person_every_value(rmqcore: Run, golden: Path) -> None:
    text = rmqcore("lookup", golden / "basic" / "store", "0", "--format", "table").out.decode()
    for line in (
        "topic                       TopicBasicA",
        "keys                        key-0-0 hot9",
        "  a = 0",
    ):
        assert line in text.splitlines()
    names = {line.split(" ")[0] for line in text.splitlines() if not line.startswith(" ")}
    assert names == set(FIELDS)


@pytest.mark.parametrize("word", ["812", "9223372036854775807", "0" * 32, "F" * 56])
def test_lookup_that_finds_nothing_is_1(rmqcore: Run, golden: Path, word: str) -> None:
    done = rmqcore("lookup", golden / "basic" / "store", word)
    assert (done.code, done.out) == (1, b"")
    assert "Error: no" in done.err
    assert "Hint: " in done.err


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv", "table"])
def test_formats(rmqcore: Run, golden: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    words = [
        "--topic",
        "TopicBasicA",
        "--queue",
        "1",
        "--offset",
        "0",
        "--max",
        "5",
        "--format",
        kind,
    ]
    out = rmqcore("get", golden / "basic" / "store", *words).out
    if kind == "arrow":
        assert pa.ipc.open_stream(out).read_all().num_rows == 5
    elif kind == "parquet":
        assert pq.read_table(pa.BufferReader(out)).num_rows == 5
    else:
        assert len(out.splitlines()) >= 6
    empty = rmqcore(
        "query",
        golden / "basic" / "store",
        "--topic",
        "TopicBasicA",
        "--key",
        "K",
        "--format",
        kind,
    )
    assert empty.code == 0
    if kind == "arrow":
        assert pa.ipc.open_stream(empty.out).read_all().num_rows == 0
