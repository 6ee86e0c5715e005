"""IndexFiles written by the oracle: found keys, the geometry told from the file, the check, and damage to all of it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.oracle.strategies import INT32_EDGES

from rmqcore.codec import index_key_hash
from rmqcore.offline.index.index_files import IndexFileReader

START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a file that each example writes anew."""
    return tmp_path_factory.mktemp("index") / "20231114221320000"


texts = st.text(st.characters(exclude_categories=[]), max_size=8)


@st.composite
def index_files(draw: st.DrawFn) -> oracle.IndexFile:
    """A file as a broker fills it: few keys with long chains or many with short ones, full or not, or empty."""
    slots, capacity = draw(st.integers(1, 60)), draw(st.integers(2, 80))
    file = oracle.IndexFile(slots, capacity)
    if draw(st.booleans()):  # a follow-up file begins with the end of the file before
        file.begin_timestamp_ms = file.end_timestamp_ms = START_MS - 5000
        file.begin_phy_offset = file.end_phy_offset = 4000
    keys = draw(st.integers(1, 40))
    steps = draw(
        st.lists(
            st.tuples(st.integers(0, 39), st.integers(0, 300), st.integers(-500, 4000)), max_size=90
        )
    )
    phy_offset, when = 5000, START_MS
    for key, distance, milliseconds in steps:
        phy_offset, when = phy_offset + distance, when + milliseconds
        file.put("topic", f"k{key % keys}", phy_offset, when)
    return file


@given(texts, texts)
def test_key_hash(topic: str, key: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in topic + key):
        topic, key = (text.encode("utf-8", "replace").decode() for text in (topic, key))
    assert index_key_hash(topic, key) == oracle.index_key_hash(topic, key)


@given(
    file=index_files(),
    key=st.integers(0, 39),
    begin=st.just(0) | st.integers(START_MS - 9000, START_MS + 90_000),
    length=st.integers(0, 100_000) | st.just(1 << 60),
    limit=st.integers(0, 64),
)
def test_find_is_the_oracles(
    path: Path, file: oracle.IndexFile, key: int, begin: int, length: int, limit: int
) -> None:
    path.write_bytes(file.encode())
    wanted = oracle.index_key_hash("topic", f"k{key}")
    reader = IndexFileReader(path, slot_count=file.slot_count)
    assert reader.find(wanted, begin, begin + length, limit) == file.find(
        wanted, begin, begin + length, limit
    )
    assert reader.max_index_num == file.capacity
    info = reader.info()
    assert (info.begin_timestamp_ms, info.end_timestamp_ms) == (
        file.begin_timestamp_ms,
        file.end_timestamp_ms,
    )
    assert (info.begin_phy_offset, info.end_phy_offset) == (
        file.begin_phy_offset,
        file.end_phy_offset,
    )
    assert (info.hash_slot_count, info.entry_count) == (file.hash_slot_count, file.index_count - 1)


@given(file=index_files())
def test_the_number_of_slots_is_found_or_left_open_but_never_wrong(
    path: Path, file: oracle.IndexFile
) -> None:
    path.write_bytes(file.encode())
    found = IndexFileReader(path).slot_count
    assert found in (None, file.slot_count)
    if len({entry[1] for entry in file.entries.values()}) > 20:
        assert found == file.slot_count


@given(file=index_files())
def test_a_sound_file_passes_the_check(path: Path, file: oracle.IndexFile) -> None:
    path.write_bytes(file.encode())
    reader = IndexFileReader(path, slot_count=file.slot_count)
    # A clock that was set back is worth a finding; nothing else in a sound file is.
    back = file.index_count > 1 and file.end_timestamp_ms < file.begin_timestamp_ms
    assert [finding.field for finding in reader.check().findings] == ["endTimestamp"] * back


@given(
    file=index_files(),
    at=st.integers(0, 2000),
    value=st.sampled_from(INT32_EDGES) | st.integers(-3, 90),
    cut=st.none() | st.integers(0, 2000),
)
def test_damage_neither_hangs_nor_raises(
    path: Path, file: oracle.IndexFile, at: int, value: int, cut: int | None
) -> None:
    data = bytearray(file.encode())
    place = at % (len(data) - 4) // 4 * 4
    struct.pack_into(">i", data, place, value)
    path.write_bytes(data[:cut])
    for slot_count in (None, file.slot_count, 1, 10**6):
        reader = IndexFileReader(path, slot_count=slot_count)
        reader.info()
        reader.check()
        for key in range(5):
            found = reader.find(oracle.index_key_hash("topic", f"k{key}"))
            assert len(found) <= 64


@given(file=index_files(), number=st.integers(0, 100), change=st.integers(1, 2**31 - 1))
def test_a_broken_link_is_found(
    path: Path, file: oracle.IndexFile, number: int, change: int
) -> None:
    """The entries before say what each slot head and link must be: no change of a head or a link goes unnoticed."""
    data = bytearray(file.encode())
    used = file.index_count - 1
    if number % 2 and used:
        place = 40 + 4 * file.slot_count + 20 * (1 + number % used) + 16
    else:
        place = 40 + 4 * (number % file.slot_count)
    (old,) = struct.unpack_from(">i", data, place)
    struct.pack_into(">i", data, place, old ^ change)
    path.write_bytes(data)
    reader = IndexFileReader(path, slot_count=file.slot_count)
    findings = reader.check().findings
    assert findings
    assert any(finding.found == old ^ change for finding in findings)
