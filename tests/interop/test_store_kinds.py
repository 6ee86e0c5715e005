"""Stores of each kind by RocketMQ: our tools change no byte of them, and RocketMQ answers after us as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.files import copy_store
from interop.questions import FOREVER, NO_LIMIT
from interop.store_kinds import KINDS, MOST, Kind, Questions, answers
from interop.test_rocksdb_queues import names
from support.doses import dose
from support.stores.golden_stores import CLEAN, CRASHED, manifest_of

import rmqcore
from rmqcore import Message
from rmqcore.cli import main
from rmqcore.errors import StoreKindError

READING = (
    ("info",),
    ("doctor",),
    ("doctor", "--thorough"),
    ("fsck",),
    ("cat",),
    ("tail", "-n", "5"),
    ("export", "--format", "jsonl", "--out", "OUT/export"),
    ("stats",),
    ("backup", "OUT/backup"),
    ("salvage", "OUT/salvage"),
    ("rebuild", "--out", "OUT/rebuild"),
    ("recover",),
    ("recover", "--deep"),
    ("convert", "OUT/convert", "--queues", "file"),
)
WRITING = (("recover", "--apply"), ("recover", "--deep", "--apply"), ("rebuild", "--apply"))
WRITABLE = [kind for kind in KINDS if kind.writable]
STRIDE = dose("RMQCORE_KINDS_STRIDE", test=9, verify=3, night=1)
GOLDEN = [*CLEAN, *CRASHED][::STRIDE]
ADDED = 20
"""Messages that are appended to a new queue, and to one that there was."""


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()
    }


def run(words: tuple[str, ...], kind: Kind, root: Path, out: Path) -> int:
    verb, *rest = (word.replace("OUT", str(out)) for word in words)
    return main([verb, str(root), *rest, *kind.log_words(root)])


def check_tools(kind: Kind, root: Path, out: Path) -> None:
    """Let each reading command look at a store: no byte and no time of a file changes, whatever the command answers."""
    before, files = names(root), contents(root)
    for words in READING:
        run(words, kind, root, out)
        assert names(root) == before, words
    with kind.reader(root) as reader:
        assert sum(batch.num_rows for batch in reader.batches()) == len(list(reader.messages()))
    assert contents(root) == files


def told(java_open: OpenJava, kind: Kind, root: Path, asked: Questions) -> dict[Any, Any]:
    with java_open(root, kind.settings(root), attributes=kind.attributes) as java:
        return answers(java, asked)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_java_answers_as_before_after_our_tools_have_read(
    kind: Kind, java_open: OpenJava, tmp_path: Path
) -> None:
    untouched, read = kind.unpack(tmp_path / "untouched"), kind.unpack(tmp_path / "read")
    asked = Questions.of(kind.reader(untouched))
    check_tools(kind, read, tmp_path)
    want = told(java_open, kind, untouched, asked)
    assert any(answer["messages"] for place, answer in want.items() if place[0] == "get")
    assert told(java_open, kind, read, asked) == want


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.writable], ids=lambda k: k.name
)
def test_java_answers_as_before_after_we_refused_to_write(
    kind: Kind, java_open: OpenJava, tmp_path: Path
) -> None:
    untouched, root = kind.unpack(tmp_path / "untouched"), kind.unpack(tmp_path / "refused")
    before, files = names(root), contents(root)
    for given in (kind.config(root), None):
        with pytest.raises(StoreKindError):
            rmqcore.open(root, given)
    for words in WRITING:
        assert run(words, kind, root, tmp_path) == 1, words
    assert names(root) == before
    assert contents(root) == files
    asked = Questions.of(kind.reader(untouched))
    assert told(java_open, kind, root, asked) == told(java_open, kind, untouched, asked)


@pytest.mark.parametrize("kind", WRITABLE, ids=lambda kind: kind.name)
def test_java_answers_as_before_after_we_have_written(
    kind: Kind, java_open: OpenJava, tmp_path: Path
) -> None:
    untouched, root = kind.unpack(tmp_path / "untouched"), kind.unpack(tmp_path / "written")
    asked = Questions.of(kind.reader(untouched))
    topic, queue_id, first, end = max(
        (one for one in asked.queues if one[0] not in kind.attributes), key=lambda one: one[3]
    )
    with rmqcore.open(root, kind.config(root)) as store:
        for n in range(ADDED):
            old = store.put(Message(topic, b"old%d" % n, queue_id, keys=[f"old{n}"]))
            new = store.put(Message("Appended", b"new%d" % n, keys=[f"new{n}"]))
            assert (old.queue_offset, new.queue_offset) == (end + n, n)
        store.wait_dispatched()
    want = told(java_open, kind, untouched, asked)
    with java_open(root, kind.settings(root), attributes=kind.attributes) as java:
        have = answers(java, asked)
        grown = [place for place in want if place[:3] == ("get", topic, queue_id)]
        for place in grown:
            before, after = want.pop(place), have.pop(place)
            assert after["messages"][: len(before["messages"])] == before["messages"]
            assert (after["min_offset"], after["max_offset"]) == (first, end + ADDED)
        assert grown
        assert have == want
        check_added(java, topic, queue_id, end)


def check_added(java: Any, topic: str, queue_id: int, end: int) -> None:
    """Java finds what we appended, by offset and by key."""
    places = (topic, queue_id, end, "old"), ("Appended", 0, 0, "new")
    for name, number, start, key in places:
        (got,) = java.get(
            [
                {
                    "topic": name,
                    "queueId": number,
                    "queueOffset": start,
                    "maxMessages": MOST,
                    "maxBytes": NO_LIMIT,
                }
            ]
        )
        assert got["queue_offsets"] == list(range(start, start + ADDED))
        times = {"maxMessages": 32, "beginMs": 0, "endMs": FOREVER}
        found = java.query({"topic": name, "key": f"{key}{n}", **times} for n in range(ADDED))
        assert [one["messages"] for one in found] == [[message] for message in got["messages"]]


@pytest.mark.parametrize("case", GOLDEN)
def test_java_answers_a_golden_store_as_before_after_our_tools_have_read(
    case: str, golden: Path, java_open: OpenJava, tmp_path: Path
) -> None:
    manifest = manifest_of(golden, case)
    kind = Kind(case, lambda root: dict(manifest["storeConfig"]))
    source = golden / case / manifest["storeDir"]
    stores = [copy_store(source, tmp_path / name) for name in ("untouched", "read")]
    asked = Questions.of(kind.reader(source))
    check_tools(kind, stores[1], tmp_path)
    want, have = (told(java_open, kind, root, asked) for root in stores)
    if (
        case in CRASHED
    ):  # Java's recovery makes entries of the index twice, or none, as its threads happen to run
        want, have = (
            {place: answer for place, answer in all_of.items() if place[0] != "query"}
            for all_of in (want, have)
        )
    assert have == want
