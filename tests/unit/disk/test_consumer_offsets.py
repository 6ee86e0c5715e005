"""config/consumerOffset.json: as brokers of all versions write it, and as a crash or somebody who means harm leaves it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore.disk import config_files
from rmqcore.disk.consumer_offsets import ConsumerOffsets, read_consumer_offsets
from rmqcore.disk.paths import MAX_OFFSET, MAX_QUEUE_ID, StorePaths
from rmqcore.vocabulary.data_version import DataVersion

FASTJSON = """{
\t"dataVersion":{
\t\t"counter":2,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"groupTopicMap":{"G":["T"]},
\t"offsetTable":{
\t\t"T@G":{0:5,1:7
\t\t},
\t\t"%RETRY%G@G":{0:1}
\t},
\t"pullOffsetTable":{}
}"""


def write(root: Path, text: str | bytes, name: str = "consumerOffset.json") -> Path:
    path = root / "config" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(root: Path) -> ConsumerOffsets:
    return read_consumer_offsets(StorePaths(root))


def table(root: Path, offset_table: object) -> ConsumerOffsets:
    write(root, json.dumps({"offsetTable": offset_table}))
    return read(root)


def test_keys_without_quotes_as_fastjson_writes_them(tmp_path: Path) -> None:
    path = write(tmp_path, FASTJSON)
    found = read(tmp_path)
    assert found.groups == {"G": {("T", 0): 5, ("T", 1): 7, ("%RETRY%G", 0): 1}}
    assert (found.source, found.is_backup, found.problems) == (path, False, ())
    assert found.data_version == DataVersion(0, 1700000000000, 2)


@pytest.mark.parametrize("make", ["nothing", "root", "config"])
def test_a_store_without_offsets(tmp_path: Path, make: str) -> None:
    root = tmp_path / "store"
    if make != "nothing":
        root.mkdir()
    if make == "config":
        (root / "config").mkdir()
    assert read(root) == ConsumerOffsets()


@pytest.mark.parametrize("cut", range(0, len(FASTJSON), 7))
def test_a_torn_file_is_told_and_its_backup_read(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, FASTJSON[:cut])
    backup = write(tmp_path, FASTJSON, "consumerOffset.json.bak")
    found = read(tmp_path)
    assert (found.source, found.is_backup) == (backup, True)
    assert found.groups["G"]["T", 1] == 7
    assert [str(path) in found.problems[0], str(backup) in found.problems[1]] == [True, True]


def test_a_missing_file_has_its_backup_read(tmp_path: Path) -> None:
    backup = write(tmp_path, FASTJSON, "consumerOffset.json.bak")
    found = read(tmp_path)
    assert (found.source, found.is_backup, len(found.problems)) == (backup, True, 1)


@pytest.mark.parametrize(
    "text", [b"", b" \n", bytes(4096), b"[]", b"null", b"5", b'"x"', b"\xff\xfe{"]
)
def test_what_is_no_object_is_told(tmp_path: Path, text: bytes) -> None:
    path = write(tmp_path, text)
    write(tmp_path, text, "consumerOffset.json.bak")
    found = read(tmp_path)
    assert (found.groups, found.source, len(found.problems)) == ({}, None, 2)
    assert found.problems[0].startswith(f"{path}: it ")


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ({"T@G": {"0": -1}}, "topic 'T', group 'G', queue 0: -1 is not a queue offset"),
        ({"T@G": {"0": None}}, "None is not a queue offset"),
        ({"T@G": {"0": 1.5}}, "1.5 is not a queue offset"),
        ({"T@G": {"0": True}}, "True is not a queue offset"),
        ({"T@G": {"0": MAX_OFFSET + 1}}, "is not a queue offset"),
        ({"T@G": {"0": 10**4000}}, "... is not a queue offset"),
        ({"T@G": {"0": [1]}}, "a list is not a queue offset"),
        ({"T@G": {"x": 1}}, "'x' is not a queue id"),
        ({"T@G": {"-1": 1}}, "'-1' is not a queue id"),
        ({"T@G": {str(MAX_QUEUE_ID + 1): 1}}, "is not a queue id"),
        ({"T@G": {"9" * 5000: 1}}, "... is not a queue id"),
        ({"T@G": [1]}, "'T@G' has a list, expected offsets by queue id"),
        ({"T": {"0": 1}}, "'T' is not TOPIC@GROUP"),
        ({"@G": {"0": 1}}, "'@G' is not TOPIC@GROUP"),
        ({"T@": {"0": 1}}, "'T@' is not TOPIC@GROUP"),
        ({"T@G@H": {"0": 1}}, "'T@G@H' is not TOPIC@GROUP"),
        ({"\x1b[31m\ud800": {"0": 1}}, r"'\x1b[31m\ud800' is not TOPIC@GROUP"),
        ([], "offsetTable is a list, expected an object"),
        (None, "offsetTable is None, expected an object"),
    ],
)
def test_what_is_no_offset_is_told_and_the_others_are_read(
    tmp_path: Path, offsets: Any, told: str
) -> None:
    if isinstance(offsets, dict):
        offsets = {**offsets, "Good@Group": {"3": 9}}
    found = table(tmp_path, offsets)
    assert found.groups == ({"Group": {("Good", 3): 9}} if isinstance(offsets, dict) else {})
    assert len(found.problems) == 1
    assert told in found.problems[0]


def test_the_largest_values(tmp_path: Path) -> None:
    found = table(tmp_path, {"T@G": {str(MAX_QUEUE_ID): MAX_OFFSET, "0": "12"}})
    assert found.groups == {"G": {("T", MAX_QUEUE_ID): MAX_OFFSET, ("T", 0): 12}}


def test_many_problems_are_counted(tmp_path: Path) -> None:
    found = table(tmp_path, {f"T{number}": {} for number in range(1000)})
    assert len(found.problems) == 100
    assert found.problems[-1] == "... and 901 more problems"


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 3_000_000,
        "1" * 5_000_000,
        "1 " * 3_000_000,
        "1" + " " * 5_000_000,
        "[" * 1_000_000,
        '{"a":' * 1_000_000,
        "[" + "[]," * 4_500_000,
    ],
    ids=["quotes", "digits", "numbers", "spaces", "lists", "objects", "values"],
)
def test_no_text_takes_long(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    begin = time.process_time()
    found = read(tmp_path)
    assert time.process_time() - begin < 60  # what is quadratic takes an hour
    assert (found.groups, found.source, len(found.problems)) == ({}, None, 1)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_files, "MOST_BYTES", 100)
    write(tmp_path, FASTJSON)
    assert "more than 100 bytes" in read(tmp_path).problems[0]


@pytest.mark.parametrize("kind", ["link", "folder", "fifo", "config is a link", "config is a file"])
def test_what_is_no_file_is_told_and_not_followed(tmp_path: Path, kind: str) -> None:
    root, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    write(elsewhere, FASTJSON)
    config = root / "config"
    if kind == "config is a link":
        config.symlink_to(elsewhere / "config")
    elif kind == "config is a file":
        config.touch()
    else:
        config.mkdir()
        place = config / "consumerOffset.json"
        if kind == "link":
            place.symlink_to(elsewhere / "config" / "consumerOffset.json")
        elif kind == "folder":
            place.mkdir()
        else:
            os.mkfifo(place)
    found = read(root)
    assert (found.groups, found.source) == ({}, None)
    assert str(config) in found.problems[0]


def test_offsets_in_rocksdb_are_told(tmp_path: Path) -> None:
    (tmp_path / "config" / "rdb").mkdir(parents=True)
    assert "RocksDB" in read(tmp_path).problems[0]


NAMES = st.text(st.characters(exclude_characters="@"), min_size=1, max_size=6)
TABLES = st.dictionaries(
    st.tuples(NAMES, NAMES),
    st.dictionaries(st.integers(0, MAX_QUEUE_ID), st.integers(0, MAX_OFFSET), max_size=4),
    max_size=5,
)


@given(offsets=TABLES, quoted=st.booleans(), spaces=st.sampled_from(["", " ", "\n\t"]))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    offsets: dict[tuple[str, str], dict[int, int]],
    quoted: bool,
    spaces: str,
) -> None:
    root = tmp_path_factory.mktemp("store")
    mark = '"' if quoted else ""
    lines = [
        f"{json.dumps(f'{topic}@{group}')}:{{"
        + f",{spaces}".join(f"{mark}{key}{mark}{spaces}:{value}" for key, value in queues.items())
        + "}"
        for (topic, group), queues in offsets.items()
    ]
    write(root, '{"offsetTable":{' + ",".join(lines) + "}}")
    expected: dict[str, dict[tuple[str, int], int]] = {}
    for (topic, group), queues in offsets.items():
        for queue_id, queue_offset in queues.items():
            expected.setdefault(group, {})[topic, queue_id] = queue_offset
    found = read(root)
    assert (found.groups, found.problems) == (expected, ())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_told(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("store")
    write(root, data)
    found = read(root)
    assert found.source is not None or found.problems


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
    )
)
def test_any_json_is_read_or_told(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    root = tmp_path_factory.mktemp("store")
    found = table(root, value)
    assert found.source is not None
    assert found.problems or isinstance(value, dict)


LIGHT = "lmqConsumerOffset.json"


def test_the_file_of_a_broker_with_light_queues(tmp_path: Path) -> None:
    light = {
        "offsetTable": {"T@G": {"0": 8}},
        "lmqOffsetTable": {"T@%LMQ%x": 3, "bad": 1, "T@%LMQ%y": -1},
    }
    path = write(tmp_path, json.dumps(light), LIGHT)
    found = read(tmp_path)
    assert found.groups == {"G": {("T", 0): 8}, "%LMQ%x": {("T", 0): 3}}
    assert (found.source, len(found.problems)) == (path, 2)
    write(tmp_path, json.dumps(light)[:30], LIGHT)
    assert (read(tmp_path).source, len(read(tmp_path).problems)) == (None, 1)
    write(tmp_path, json.dumps(light), LIGHT + ".bak")
    assert read(tmp_path).groups == found.groups
    write(tmp_path, json.dumps({"lmqOffsetTable": [1]}), LIGHT)
    assert "lmqOffsetTable is" in read(tmp_path).problems[0]


@pytest.mark.parametrize("newest", [LIGHT, "consumerOffset.json"])
def test_of_two_files_the_one_that_was_written_last(tmp_path: Path, newest: str) -> None:
    for name, queue_offset in ((LIGHT, 1), ("consumerOffset.json", 2)):
        path = write(tmp_path, json.dumps({"offsetTable": {"T@G": {"0": queue_offset}}}), name)
        os.utime(path, ns=(1, 5 if name == newest else 4))
    found = read(tmp_path)
    assert found.groups == {"G": {("T", 0): 1 if newest == LIGHT else 2}}
    assert f"config/{newest} was read, because it is newer than" in found.problems[0]
