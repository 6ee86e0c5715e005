"""A bit flipped in every byte of a small store: what reads it ends with the right answer, with a finding, or with an error.

Where neither is so, the field has nothing that it could be compared with: those fields are the result (see docs/reliability.md).
Run in a child, since a wild read would end the process.
"""

from __future__ import annotations

import bisect
import json
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore._native.format.layout import body_pos
from rmqcore.codec.message import Message, MessageView
from rmqcore.errors import StoreError
from rmqcore.offline.fsck import fsck
from rmqcore.offline.fsck.findings import INFO
from rmqcore.testing.crash_check import TINY
from rmqcore.testing.fault_shim import tell
from rmqcore.testing.recovery_check import errors_of
from rmqcore.testing.verdict import hold

SMALL: dict[str, Any] = {
    **TINY,
    "mapped_file_size_commit_log": 1024,
    "mapped_file_size_consume_queue": 20 * 3,
    "max_hash_slot_num": 4,
    "max_index_num": 12,
}
MESSAGES = 10
BODY_POS = body_pos(0)
RECORD = {
    0: "TOTALSIZE",
    4: "MAGICCODE",
    8: "BODYCRC",
    12: "QUEUEID",
    16: "FLAG",
    20: "QUEUEOFFSET",
    28: "PHYSICALOFFSET",
    36: "SYSFLAG",
    40: "BORNTIMESTAMP",
    48: "BORNHOST",
    56: "STORETIMESTAMP",
    64: "STOREHOST",
    72: "RECONSUMETIMES",
    76: "PREPAREDTRANSACTIONOFFSET",
    84: "BODYLENGTH",
    BODY_POS: "BODY",
}
BLANK = {0: "SIZE", 4: "MAGIC", 8: "unused"}
ENTRY = {0: "CommitLog offset", 8: "SIZE", 12: "tags code"}
CHECKPOINT = {
    0: "physicMsgTimestamp",
    8: "logicsMsgTimestamp",
    16: "indexMsgTimestamp",
    24: "masterFlushedOffset",
    32: "confirmPhyOffset",
    40: "logicsPhysicalOffset",
    48: "unused",
}
HEADER = {
    0: "beginTimestamp",
    8: "endTimestamp",
    16: "beginPhyOffset",
    24: "endPhyOffset",
    32: "hashSlotCount",
    36: "indexCount",
}
INDEX_ENTRY = {0: "keyHash", 4: "phyOffset", 12: "timeDiff", 16: "slotValue"}
FIELDS = (
    "phy_offset msg_size body queue_id flag queue_offset sys_flag born_timestamp_ms born_host store_timestamp_ms store_host"
    " reconsume_times prepared_transaction_offset topic properties"
).split()


def named(fields: dict[int, str], at: int) -> str:
    """Return the field that has a byte."""
    starts = sorted(fields)
    return fields[starts[bisect.bisect_right(starts, at) - 1]]


def as_tuple(view: MessageView) -> tuple[Any, ...]:
    """All that a message says."""
    return tuple(getattr(view, name) for name in FIELDS)


@dataclass(frozen=True)
class Place:
    """A byte of a file, and the field that it belongs to."""

    path: str
    pos: int
    field: str


class Flips:
    """A small store, as it runs and as it was closed.

    Parameters
    ----------
    base : Path
        An empty folder.
    prop_crc : bool
        Records with a CRC of their properties.
    """

    def __init__(self, base: Path, *, prop_crc: bool) -> None:
        self._config = {
            **SMALL,
            "enabled_append_prop_crc": prop_crc,
            "force_verify_prop_crc": prop_crc,
        }
        self._crc_size = 20 if prop_crc else 0
        self.closed = base / "closed"
        self.running = base / "running"
        self._work = base / "work"
        with rmqcore.open(self.closed, services=False, **self._config) as store:
            for number in range(MESSAGES):
                message = Message(
                    f"T{number % 2}",
                    b"%d" % number * 20,
                    0,
                    keys=(f"K{number}",),
                    tags="A",
                    properties={"of": "user"},
                )
                hold(store.put(message).stored, "a message of the sample is not stored")
            while store.dispatch_once():
                pass
            store.flush()
            store.flush_consume_queues()
            store.write_checkpoint()
            shutil.copytree(self.closed, self.running)
        self.messages = {view.phy_offset: as_tuple(view) for view in self._read(self.closed)}
        hold(len(self.messages) == MESSAGES, "the sample has", len(self.messages), "messages")
        self._answers = self._ask(self.closed)

    def places(self) -> list[Place]:
        """Every byte of log, queues, index and checkpoint; of the checkpoint those that mean something, and some behind them."""
        found = []
        starts = sorted(self.messages)
        for path in sorted(p for p in self.closed.rglob("*") if p.is_file()):
            name = path.relative_to(self.closed).as_posix()
            data, part = path.read_bytes(), name.split("/")[0]
            for pos in range(64 if part == "checkpoint" else len(data)):
                if part == "commitlog":
                    field = self._log_field(starts, int(path.name) + pos)
                elif part == "consumequeue":
                    field = named(ENTRY, pos % 20) if any(data[pos - pos % 20 :][:20]) else "unused"
                elif part == "index":
                    field = index_field(data, pos)
                elif part == "checkpoint":
                    field = named(CHECKPOINT, pos)
                else:
                    continue
                found.append(Place(name, pos, f"{part} {field}"))
        return found

    def _log_field(self, starts: list[int], at: int) -> str:
        before = bisect.bisect_right(starts, at) - 1
        start, size = starts[before], self.messages[starts[before]][1]
        if at >= start + size:
            last = before == len(starts) - 1
            return "unused" if last else "BLANK " + named(BLANK, at - start - size)
        field = named(RECORD, at - start)
        if field != "BODY":
            return field
        after = at - start - BODY_POS - len(self.messages[start][2])
        if after < 0:
            return "BODY"
        topic = len(self.messages[start][FIELDS.index("topic")])
        if after <= topic:
            return "TOPICLENGTH" if after == 0 else "TOPIC"
        if after - topic < 3:
            return "PROPERTIESLENGTH"
        return "PROPERTIES" if at < start + size - self._crc_size else "PROPERTIES __CRC32#"

    def _read(self, root: Path) -> list[MessageView]:
        return list(rmqcore.read(root).messages())

    def _ask(self, root: Path) -> list[Any]:
        """What queues and index answer."""
        reader, answers = rmqcore.read(root), list[Any]()
        for number in range(MESSAGES):
            topic, key = f"T{number % 2}", f"K{number}"
            answers.append([view.phy_offset for view in reader.query(topic, key, 8)])
            got = reader.get(topic, 0, number // 2, 4)
            answers.append((got.status.name, [view.phy_offset for view in got.messages]))
            stored = self.messages[sorted(self.messages)[number]][
                FIELDS.index("store_timestamp_ms")
            ]
            answers.append([reader.offset_by_time(topic, 0, stored)])
        return answers

    def look(self, place: Place, bit: int) -> str:
        """Read a store with this bit flipped: ``detected``, ``harmless`` or ``silent``."""
        path = self.closed / place.path
        old = path.read_bytes()
        path.write_bytes(flipped(old, place.pos, bit))
        try:
            found = fsck(self.closed)
            if any(finding.severity != INFO for finding in found.findings):
                self._messages_or_error()
                return "detected"
            same = {view.phy_offset: as_tuple(view) for view in self._read(self.closed)}
            return (
                "harmless"
                if (same, self._ask(self.closed)) == (self.messages, self._answers)
                else "silent"
            )
        except StoreError:
            return "detected"
        finally:
            path.write_bytes(old)

    def _messages_or_error(self) -> None:
        """Read what fsck has found fault with: no more than an error comes of it."""
        try:
            self._read(self.closed)
            self._ask(self.closed)
        except StoreError:
            return

    def recover(self, place: Place, bit: int) -> str:
        """Open the store that was not closed with this bit flipped: ``refused``, ``healed`` or ``cut``.

        A bit of the log may change the message that has it, where no check covers it, and no other one. A bit of anything else is
        made good.
        """
        shutil.copytree(self.running, self._work)
        path = self._work / place.path
        path.write_bytes(flipped(path.read_bytes(), place.pos, bit))
        in_log = place.path.startswith("commitlog/")
        try:
            with rmqcore.open(self._work, services=False, **self._config) as store:
                while store.dispatch_once():
                    pass
            found = {view.phy_offset: as_tuple(view) for view in self._read(self._work)}
        except StoreError as error:
            hold(in_log, place, bit, "the open is refused:", repr(error))
            return "refused"
        else:
            changed = [at for at, view in found.items() if self.messages.get(at) != view]
            hold(len(changed) <= in_log, place, bit, "other messages than were put, at", changed)
            errors = [] if in_log else errors_of(self._work)
            hold(not errors, place, bit, "fsck after the recovery:", *errors[:3])
            hold(in_log or len(found) == MESSAGES, place, bit, "messages are gone")
            return "healed" if len(found) == MESSAGES else "cut"
        finally:
            shutil.rmtree(self._work)


def index_field(data: bytes, pos: int) -> str:
    """Return the field of an IndexFile that has a byte."""
    slots = int.from_bytes(data[32:36], "big")
    if pos < 40:
        return named(HEADER, pos)
    if pos < 40 + 4 * slots:
        return "slot"
    number, at = divmod(pos - 40 - 4 * slots, 20)
    used = 0 < number < int.from_bytes(data[36:40], "big")
    return named(INDEX_ENTRY, at) if used else "unused"


def flipped(data: bytes, pos: int, bit: int) -> bytes:
    """Change one bit."""
    return data[:pos] + bytes([data[pos] ^ 1 << bit]) + data[pos + 1 :]


def each_byte(folder: str, seed: int, stride: int, *, prop_crc: bool) -> None:
    """Flip a bit of every `stride`-th byte; tell what came of the bytes of each field, as a JSON object."""
    flips = Flips(Path(folder), prop_crc=prop_crc)
    rng = random.Random(seed)
    counts: dict[str, Counter[str]] = {}
    for place in flips.places()[seed % stride :: stride]:
        bit = rng.randrange(8)
        verdict = flips.look(place, bit)
        of_field = counts.setdefault(place.field, Counter())
        of_field[verdict] += 1
        of_field[flips.recover(place, bit)] += 1
    tell(json.dumps(counts))
