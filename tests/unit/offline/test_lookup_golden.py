"""Every lookup that Java answered over the golden stores gets the same answer from the files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.stores.golden_stores import CLEAN

import rmqcore
from rmqcore.offline.lookup import StoreLookup

LATE_MS = 1 << 60

# Of the damaged stores after Java recovered them: the queues are as sound as the clean ones. Not here: flipped*, where
# Java cut good records behind a bad one and the reader still gives them.
RECOVERED = [
    "crash_cp90",
    "crash_cq_garbage",
    "crash_cq_hole",
    "crash_expired",
    "crash_garbage_tail",
    "crash_last_file_missing",
    "crash_no_cq",
    "crash_no_cq_clean_exit",
    "crash_running_copy",
    "crash_stale_tail",
    "crash_torn",
    "crash_torn_clean_exit",
]


class Golden:
    def __init__(self, folder: Path) -> None:
        self.manifest = json.loads((folder / "manifest.json").read_text())
        again = {
            name: value
            for name, value in self.manifest.get("afterReopen", {}).items()
            if value is not None
        }
        self.answers: dict[str, Any] = {**self.manifest, **again}
        store = folder / self.manifest.get("recoveredDir", self.manifest["storeDir"])
        self.reader = rmqcore.read(store)
        self.lookup = StoreLookup(self.reader)


def differences(asked: list[dict[str, Any]], names: list[str], ask: Any) -> list[str]:
    """Requests whose answer differs from Java's, as text."""
    assert asked
    wrong = []
    for request in asked:
        want, got = [request[name] for name in names], ask(request)
        if want != got:
            wrong.append(f"{request}: got {got}")
    return wrong


def get_message_differences(golden: Golden) -> list[str]:
    def ask(g: dict[str, Any]) -> list[Any]:
        r = golden.lookup.get(
            g["topic"],
            g["queueId"],
            g["offset"],
            g["maxNum"],
            tags=g["filter"],
            max_bytes=g["maxTotalSize"],
        )
        return [
            r.status.name,
            r.next_begin_offset,
            r.min_offset,
            r.max_offset,
            r.buffer_total_size,
            [message.phy_offset for message in r.messages],
        ]

    names = [
        "status",
        "nextBeginOffset",
        "minOffset",
        "maxOffset",
        "bufferTotalSize",
        "physicalOffsets",
    ]
    return differences(golden.answers["getMessage"], names, ask)


@pytest.mark.parametrize("case", [*CLEAN, *RECOVERED])
def test_get(golden: Path, case: str) -> None:
    assert get_message_differences(Golden(golden / case)) == []


@pytest.mark.parametrize("case", CLEAN)
def test_query(golden: Path, case: str) -> None:
    store = Golden(golden / case)

    def ask(q: dict[str, Any]) -> list[Any]:
        arguments = q["topic"], q["key"], q["maxNum"], q["begin"], q["end"]
        answer = store.lookup.query_offsets(*arguments, index_type=q["indexType"])
        messages = store.lookup.query(*arguments, index_type=q["indexType"])
        offsets = [message.phy_offset for message in messages]
        # The golden keys have no collisions: the messages are the same, each once. Times are those of the records, where Java
        # compares those of the index, in whole seconds.
        if q["begin"] <= 0 and q["end"] >= LATE_MS:
            assert offsets == list(dict.fromkeys(answer.phy_offsets))
        else:
            most = q["topic"], q["key"], 64
            entries = store.lookup.query_offsets(*most, index_type=q["indexType"]).phy_offsets
            exact = [
                phy_offset
                for phy_offset in entries
                if (message := store.reader.message_at(phy_offset)) is not None
                and q["begin"] <= message.store_timestamp_ms <= q["end"]
            ]
            exact = list(dict.fromkeys(exact[max(0, len(exact) - q["maxNum"]) :]))
            assert offsets == exact or len(entries) == 64
        return [answer.phy_offsets, answer.last_update_timestamp_ms, answer.last_update_phy_offset]

    names = ["physicalOffsets", "indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"]
    assert differences(store.answers["queryMessage"], names, ask) == []


@pytest.mark.parametrize("case", CLEAN)
def test_offset_by_time(golden: Path, case: str) -> None:
    store = Golden(golden / case)

    def ask(q: dict[str, Any]) -> list[Any]:
        place = q["topic"], q["queueId"], q["timestamp"]
        ours = store.lookup.offset_by_time
        return [ours(*place), ours(*place, "LOWER"), ours(*place, "UPPER")]

    assert (
        differences(store.answers["getOffsetInQueueByTime"], ["default", "LOWER", "UPPER"], ask)
        == []
    )


@pytest.mark.parametrize("case", CLEAN)
def test_phy_offset_of_and_lookup_id(golden: Path, case: str) -> None:
    store = Golden(golden / case)
    # Java answers 0 outside the queue.
    asked = store.answers["getCommitLogOffsetInQueue"]
    assert (
        differences(
            asked,
            ["commitLogOffset"],
            lambda q: [store.lookup.phy_offset_of(q["topic"], q["queueId"], q["cqOffset"]) or 0],
        )
        == []
    )
    found = [
        q
        for q in store.answers["lookMessageByOffset"]
        if q.get("found") and q["offset"] == q["commitLogOffset"]
    ]

    def ask(q: dict[str, Any]) -> list[Any]:
        message = store.lookup.lookup_id(q["msgId"])
        assert message is not None
        return [message.phy_offset, message.topic, message.queue_offset]

    assert differences(found, ["commitLogOffset", "topic", "queueOffset"], ask) == []
