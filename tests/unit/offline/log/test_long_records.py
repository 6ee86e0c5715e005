"""Records of many mebibytes, which are looked at without their bodies where nobody asks for these.

`cat`, `fsck`, `info` and `rebuild` brought each record in whole: two gigabytes for one of a gibibyte, which is twelve
kibibytes on the disk where its body is zeros.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmqcore import codec
from rmqcore._native.format.layout import CRC_MASK, REC_BODYCRC, body_pos
from rmqcore._native.scan.batch import ColumnList
from rmqcore.codec.message import Message, MessageView
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.offline.export.record_batches import RecordBatches
from rmqcore.offline.fsck import fsck
from rmqcore.offline.log import long_record, window
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.long_record import MOST_WHOLE
from rmqcore.offline.reader import StoreReader

BODY = MOST_WHOLE + 12345
FILE_SIZE = 1 << 27
BODY_POS = body_pos(0)
COLUMNS = (
    "phy_offset",
    "msg_size",
    "queue_offset",
    "store_timestamp_ms",
    "tags_code",
    "topic",
    "keys",
    "properties",
)


def head(pos: int, number: int, body: bytes) -> bytes:
    message = Message("T", body, tags="TagA", keys=f"k{number}", properties={"more": "x" * 300})
    return codec.encode(
        message, phy_offset=pos, queue_offset=number, store_timestamp_ms=1000 + number
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A small record, a long one with zeros and a few bytes for a body, two small ones."""
    path = tmp_path / "store" / "commitlog" / f"{0:020}"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        pos = file.write(head(0, 0, b"first"))
        long = head(pos, 1, b"begin")
        body = b"begin" + bytes(BODY - 5)
        prefix = bytearray(long[:BODY_POS])
        struct.pack_into(">i", prefix, 0, len(long) - 5 + BODY)
        struct.pack_into(">i", prefix, BODY_POS - 4, BODY)
        struct.pack_into(">i", prefix, REC_BODYCRC, zlib.crc32(body) & CRC_MASK)
        file.write(bytes(prefix) + b"begin")
        file.seek(pos + BODY_POS + BODY)
        file.write(long[BODY_POS + 5 :])
        for number in (2, 3):
            file.write(head(file.tell(), number, b"small"))
        file.truncate(FILE_SIZE)
    return path


def long_pos() -> int:
    return len(head(0, 0, b"first"))


def store_of(log: Path) -> Path:
    return log.parent.parent


def columns(
    reader: StoreReader, *more: str, **asked: Any
) -> tuple[dict[str, list[Any]], list[str]]:
    """What a read gives, column by column, and the damage it met."""
    import pyarrow as pa

    found = pa.table(reader.batches((*COLUMNS, *more), **asked)).select(COLUMNS).to_pydict()
    return found, [str(damage) for damage in reader.damage]


def columns_and_bodies(reader: StoreReader, **asked: Any) -> tuple[dict[str, list[Any]], list[str]]:
    import pyarrow as pa

    found = pa.table(reader.batches((*COLUMNS, "body"), **asked)).to_pydict()
    return found, [str(damage) for damage in reader.damage]


def views(reader: StoreReader, most_body: int | None, **asked: Any) -> tuple[list[Any], list[str]]:
    found = [
        (
            view.phy_offset,
            view.msg_size,
            view.topic,
            view.properties,
            view.msg_id,
            view.body_size,
            view.body_start(5000),
        )
        for view in reader.messages(most_body=most_body, **asked)
    ]
    return found, [str(damage) for damage in reader.damage]


def rows_and_views(reader: StoreReader, most_body: int, **asked: Any) -> tuple[Any, list[str]]:
    """As `columns`, with bodies, from what is given for Arrow and Parquet; and where bodies are shortened."""
    import pyarrow as pa

    shortened: list[int] = []
    batches = RecordBatches(
        reader,
        (*COLUMNS, "body"),
        Conditions(),
        max_body=most_body,
        on_shortened=shortened.append,
        **asked,
    )
    found = pa.Table.from_batches(batches, batches.schema).to_pydict()
    for row, phy_offset in enumerate(found["phy_offset"]):
        assert (phy_offset in shortened) == (len(found["body"][row]) == most_body)
    return found, [str(damage) for damage in reader.damage]


def flip(path: Path, pos: int) -> None:
    with path.open("r+b") as file:
        file.seek(pos)
        byte = file.read(1)[0]
        file.seek(pos)
        file.write(bytes([byte ^ 1]))


def nothing(log: Path) -> None:
    pass


def in_the_body(log: Path) -> None:
    flip(log, long_pos() + BODY_POS + BODY // 2)


def in_a_length(log: Path) -> None:
    flip(log, long_pos() + BODY_POS - 1)


def in_the_place(log: Path) -> None:
    flip(log, long_pos() + 30)


def cut_in_the_body(log: Path) -> None:
    os.truncate(log, long_pos() + BODY // 2)


def torn(log: Path) -> None:
    with log.open("r+b") as file:
        file.seek(long_pos() + BODY_POS + BODY)
        file.write(bytes(2000))


def ends_with_it(log: Path) -> None:
    os.truncate(log, len(head(0, 0, b"first")) + len(head(0, 1, b"")) + BODY)


HARM = [nothing, in_the_body, in_a_length, in_the_place, cut_in_the_body, torn, ends_with_it]


@pytest.mark.parametrize("harm", HARM)
def test_what_is_read_is_the_same(log: Path, harm: Callable[[Path], None]) -> None:
    harm(log)
    reader = StoreReader(store_of(log))
    for asked in ({}, {"verify_crc": True}):
        assert columns(reader, **asked) == columns(reader, "body", **asked)
        assert views(reader, 5000, **asked) == views(reader, None, **asked)
        for most_body in (20, 5000, MOST_WHOLE):
            whole, damage = columns_and_bodies(reader, **asked)
            whole["body"] = [body[:most_body] for body in whole["body"]]
            assert rows_and_views(reader, most_body, **asked) == (whole, damage)
    if harm is nothing:
        assert len(columns(reader)[0]["topic"]) == 4


@pytest.mark.parametrize("harm", HARM)
def test_checks_are_the_same(
    log: Path, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    harm(log)
    root = store_of(log)
    rebuild(StorePaths(root), root / "built")
    for part in ("consumequeue", "index"):
        (root / "built" / part).rename(root / part)
    monkeypatch.setattr(window, "without_body", asked := Counted(long_record.without_body))
    seen = [answers(root, tmp_path / "one")]
    assert asked.called == (harm in (nothing, in_the_body, ends_with_it))
    monkeypatch.setattr(window.SearchWindow, "is_long", lambda window, msg_size: False)
    monkeypatch.setattr(window, "without_body", None)
    seen.append(answers(root, tmp_path / "two"))
    assert seen[0] == seen[1]


class Counted:
    """A function, and whether it was called."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self.inner = inner
        self.called = False

    def __call__(self, *arguments: Any) -> Any:
        self.called = True
        return self.inner(*arguments)


def answers(root: Path, out: Path) -> list[Any]:
    """What fsck, info and rebuild say."""
    report = fsck(root).as_dict()
    built = rebuild(StorePaths(root), out).as_dict()
    for found in (report, built):
        found.pop("seconds")
    built.pop("out")
    entries = sorted(path.read_bytes() for path in out.glob("consumequeue/*/*/*"))
    return [report, built, entries, StoreReader(root).info()]


def test_the_rest_of_a_body_reads_as_zeros(log: Path) -> None:
    in_the_body(log)
    (long,) = [
        view for view in StoreReader(store_of(log)).messages(most_body=100) if view.body_size > 100
    ]
    assert long.body_size == BODY
    assert long.body_start(100) == b"begin" + bytes(95)
    assert not np.frombuffer(long.body, np.uint8)[5:].any()
    (whole,) = [view for view in StoreReader(store_of(log)).messages() if view.body_size > 100]
    assert np.frombuffer(whole.body, np.uint8)[5:].any()


def test_rows_keep_their_order_and_conditions(log: Path) -> None:
    """Long records are views among batches: with conditions, a limit of bytes, and rows before and after."""
    reader = StoreReader(store_of(log))
    columns = ColumnList(["phy_offset", "body"])
    everything = [view.phy_offset for view in reader.messages()]
    for wanted, expected in (
        (Conditions(), everything),
        (Conditions(keys=frozenset(["k1"])), everything[1:2]),
        (Conditions(keys=frozenset(["k0", "k2"])), [everything[0], everything[2]]),
        (Conditions(start_phy_offset=everything[1]), everything[1:]),
        (Conditions(end_phy_offset=everything[1]), everything[:1]),
        (Conditions(end_phy_offset=everything[2]), everything[:2]),
    ):
        found: list[int] = []
        for rows in reader.batches_and_views(columns, wanted, most_body=10):
            if isinstance(rows, MessageView):
                assert rows.body_start(10) == b"begin" + bytes(5)
                found.append(rows.phy_offset)
            else:
                found += np.frombuffer(rows.buffer("phy_offset"), np.int64).tolist()
        assert found == expected
