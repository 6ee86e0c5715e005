"""With any bytes of a store changed, cut, moved or missing every way to read it ends, with an answer or an error of this package.

Every sound record is delivered or lies in a damage range; nothing is delivered that was never written.
"""

from __future__ import annotations

import faulthandler
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.stores.store_damage import Change, changes
from support.stores.store_maker import MadeStore, make_store, sample_records

import rmqcore
from rmqcore.errors import StoreError
from rmqcore.offline.reader import StoreReader

P = ParamSpec("P")
ALLOWED = (StoreError, ValueError, OSError, rmqcore.DamageWarning)
STORES = [
    make_store(sample_records(45)),
    make_store(sample_records(30), append_prop_crc=True, clean_exit=False),
    make_store(sample_records(3), log_file_size=1 << 15),
]


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def attempt(call: Callable[P, object], *args: P.args, **options: P.kwargs) -> object:
    """The answer of `call`, or its error if that is one that may leave the package."""
    try:
        return call(*args, **options)
    except ALLOWED as error:
        return error


def places(files: dict[str, bytes], phy_offset: int) -> list[tuple[str, int]]:
    """Log files whose names say that they hold this offset, and where in them."""
    logs = [(name, name.partition("/")[2]) for name in files if name.startswith("commitlog/")]
    starts = [
        (name, int(number)) for name, number in logs if len(number) == 20 and number.isdigit()
    ]
    return [(name, phy_offset - start) for name, start in starts if start <= phy_offset]


def check_messages(reader: StoreReader, made: MadeStore, files: dict[str, bytes]) -> None:
    views = list(reader.messages())
    damage = list(reader.damage)
    size = max(len(data) for name, data in made.files.items() if name.startswith("commitlog"))
    written = {record.phy_offset: record for record in made.records}

    # In order, without overlap; no damage around a delivered record but a wrong CRC. (A file that is too long or has
    # another's name claims offsets of its neighbours, and that is damage there.)
    end = 0
    for view in views:
        assert view.phy_offset >= end
        end = view.phy_offset + view.msg_size
        own = {
            name
            for name, pos in places(files, view.phy_offset)
            if files[name][pos:].startswith(view.raw)
        }
        assert own, view
        inside = [
            r
            for r in damage
            if r.start_phy_offset < end and view.phy_offset < r.end_phy_offset and {r.path} == own
        ]
        assert all(r.kind in {"crc", "unreadable"} for r in inside), (view, inside)
        assert view.crc_ok() or inside, view
    assert all(r.start_phy_offset < r.end_phy_offset for r in damage)

    delivered = {view.phy_offset: view.raw for view in views}
    for phy_offset, record in written.items():
        start = phy_offset // size * size
        pos = phy_offset - start
        assert record.msg_size is not None
        original = made.files[f"commitlog/{start:020}"][pos : pos + record.msg_size]
        now = files.get(f"commitlog/{start:020}", b"")[pos : pos + record.msg_size]
        if now == original and delivered.get(phy_offset) != original:
            assert any(r.start_phy_offset <= phy_offset < r.end_phy_offset for r in damage), (
                phy_offset,
                damage,
            )
    strict = [view.phy_offset for view in reader.messages(verify_crc=True)]
    assert strict == [view.phy_offset for view in views if view.crc_ok()]
    assert reader.damage == damage
    columns = [
        np.frombuffer(batch.buffer("phy_offset"), np.int64)
        for batch in reader.batches(["phy_offset"])
    ]
    assert np.concatenate([*columns, np.empty(0, np.int64)]).tolist() == list(delivered)
    assert reader.damage == damage


def look_everywhere(reader: StoreReader, made: MadeStore) -> None:
    """Everything else that reads files."""
    attempt(reader.info)
    attempt(reader.queues)
    attempt(reader.index_files)
    attempt(reader.checkpoint)
    for record in made.records[::19]:
        topic = oracle.text_of(record.topic)
        found = attempt(reader.message_at, record.phy_offset)
        assert found is None or isinstance(found, (*ALLOWED, rmqcore.MessageView))
        attempt(reader.message_at, record.phy_offset + 3)
        attempt(reader.lookup_id, record.msg_id)
        attempt(reader.get, topic, record.queue_id, 0)
        attempt(reader.get, topic, record.queue_id, 11, 40, tags="Tag1 || Tag2")
        for key in oracle.index_keys(record):
            attempt(reader.query, topic, key)
        when = record.store_timestamp_ms
        for boundary in ("LOWER", "UPPER"):
            attempt(reader.offset_by_time, topic, record.queue_id, when, boundary)


@given(number=st.integers(0, len(STORES) - 1), damage=st.lists(changes, max_size=4))
def test_damage_is_skipped_and_listed(number: int, damage: list[Change]) -> None:
    made = STORES[number]
    files = dict(made.files)
    for change in damage:
        change.apply(files)
    root = Path(tempfile.mkdtemp(prefix="rmqcore-"))
    try:
        MadeStore(files).write(root)
        reader = attempt(lambda: rmqcore.read(root))
        if isinstance(reader, StoreReader):
            check_messages(reader, made, files)
            look_everywhere(reader, made)
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("number", range(len(STORES)))
def test_a_sound_store_has_no_damage(number: int, tmp_path: Path) -> None:
    made = STORES[number]
    reader = rmqcore.read(made.write(tmp_path))
    assert [view.phy_offset for view in reader.messages(verify_crc=True)] == [
        r.phy_offset for r in made.records
    ]
    assert reader.damage == []
    check_messages(reader, made, made.files)
    info = reader.info()
    last = made.records[-1]
    assert last.msg_size is not None
    assert (info.min_phy_offset, info.max_phy_offset) == (0, last.phy_offset + last.msg_size)
    assert info.index_file_count == len(reader.index_files())


@given(
    number=st.integers(0, len(STORES) - 1),
    file=st.integers(0, 20),
    bit=st.integers(0, 8 * 4096 - 1),
)
def test_one_flipped_bit_costs_no_other_record(number: int, file: int, bit: int) -> None:
    made = STORES[number]
    names = sorted(name for name in made.files if name.startswith("commitlog"))
    name = names[file % len(names)]
    data = bytearray(made.files[name])
    at = bit // 8 % len(data)
    data[at] ^= 1 << bit % 8
    phy_at = int(name[10:]) + at
    hit = [r for r in made.records if r.phy_offset <= phy_at < r.phy_offset + (r.msg_size or 0)]
    root = Path(tempfile.mkdtemp(prefix="rmqcore-"))
    try:
        MadeStore({**made.files, name: bytes(data)}).write(root)
        reader = rmqcore.read(root)
        delivered = {view.phy_offset for view in reader.messages()}
        expected = {record.phy_offset for record in made.records if record not in hit}
        assert expected - delivered == set()
        # A record that is not delivered or fails its CRC is reported.
        if any(record.phy_offset not in delivered for record in hit):
            assert any(
                r.start_phy_offset <= hit[0].phy_offset < r.end_phy_offset for r in reader.damage
            )
    finally:
        shutil.rmtree(root)
