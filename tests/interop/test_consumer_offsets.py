"""Consumer groups' offsets that the real ConsumerOffsetManager saves and loads, and what we read of the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.java_process import JavaProcess

from rmqcore.disk.consumer_offsets import ConsumerOffsets, read_consumer_offsets
from rmqcore.disk.paths import MAX_OFFSET, MAX_QUEUE_ID, StorePaths

Table = dict[str, dict[str, int]]

FIRST: Table = {"T@G": {"0": 5, "1": 7}, "%RETRY%G@G": {"0": 0}}
SECOND: Table = {
    "T@G": {"0": 6, "1": MAX_OFFSET, str(MAX_QUEUE_ID): 1},
    "%RETRY%G@G": {"0": 1},
    'Tab\t"quoted"\\ \u4e2d\U0001f600@Group \u00fc': {"3": 9},
}


def save(java: JavaProcess, root: Path, *tables: Table) -> Path:
    path = root / "config" / "consumerOffset.json"
    for table in tables:
        java.call("saveOffsets", file=str(path), table=table)
    return path


def flat(found: ConsumerOffsets) -> Table:
    table: Table = {}
    for group, queues in found.groups.items():
        for (topic, queue_id), queue_offset in queues.items():
            table.setdefault(f"{topic}@{group}", {})[str(queue_id)] = queue_offset
    return table


def test_what_a_broker_saves_is_read(java: JavaProcess, tmp_path: Path) -> None:
    path = save(java, tmp_path, FIRST, SECOND)
    found = read_consumer_offsets(StorePaths(tmp_path))
    assert (flat(found), found.source, found.problems) == (SECOND, path, ())
    loaded = java.call("loadOffsets", file=str(path))
    assert loaded["table"] == SECOND
    assert found.data_version is not None
    assert found.data_version.timestamp_ms == loaded["timestampMs"]


@pytest.mark.parametrize("harm", ["cut", "empty", "zeros", "missing"])
def test_of_a_harmed_file_the_backup_is_read_as_java_does(
    java: JavaProcess, tmp_path: Path, harm: str
) -> None:
    path = save(java, tmp_path, FIRST, SECOND)
    data = path.read_bytes()
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {"cut": data[: len(data) // 2], "empty": b"", "zeros": bytes(len(data))}[harm]
        )
    found = read_consumer_offsets(StorePaths(tmp_path))
    assert (flat(found), found.is_backup, found.source) == (FIRST, True, Path(f"{path}.bak"))
    assert found.problems
    assert java.call("loadOffsets", file=str(path)) == {
        "loaded": True,
        "table": FIRST,
        "timestampMs": found.data_version and found.data_version.timestamp_ms,
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"offsetTable":{"T@G":{0:5,1:7}}}',
        '{"offsetTable":{"T@G":{"0":5,"1":7}}}',
        '{"offsetTable":{"T@G":{"0":"5","1":"7"}}}',
        '{"offsetTable":{"T@G":{0 :5, 1\n: 7}},"later":{"a":[{}]}}',
    ],
)
def test_spellings_that_java_reads(java: JavaProcess, tmp_path: Path, text: str) -> None:
    path = tmp_path / "config" / "consumerOffset.json"
    path.parent.mkdir()
    path.write_text(text)
    found = read_consumer_offsets(StorePaths(tmp_path))
    assert flat(found) == {"T@G": {"0": 5, "1": 7}}
    assert java.call("loadOffsets", file=str(path))["table"] == flat(found)
