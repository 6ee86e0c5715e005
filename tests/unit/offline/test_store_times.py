"""Store times of a file's ends, and of the first record from any byte on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from rmqcore.offline.log.log_files import LogShape
from rmqcore.offline.log.store_times import first_stored, last_stored, stored
from rmqcore.offline.reader import StoreReader

CASES = ["basic", "batch", "compressed", "propcrc"]


@pytest.mark.parametrize("case", CASES)
def test_the_ends_of_each_file(golden: Path, case: str) -> None:
    reader = StoreReader(golden / case / "store")
    files = reader.log_files()
    shape = LogShape.of(files)
    for file in files:
        own = list(
            reader.messages(start_phy_offset=file.file_from_offset, end_phy_offset=file.end_offset)
        )
        first, last = first_stored(file, shape), last_stored(file, shape)
        if not own:
            assert first is last is None
            continue
        assert first is not None and last is not None
        assert (first.phy_offset, first.first_ms) == (own[0].phy_offset, own[0].store_timestamp_ms)
        assert last.end_phy_offset == own[-1].phy_offset + own[-1].msg_size
        assert last.last_ms == own[-1].store_timestamp_ms


def test_from_any_byte_on(golden: Path) -> None:
    """A search by time asks for places that are in the middle of a record."""
    reader = StoreReader(golden / "basic" / "store")
    files = reader.log_files()
    shape, file = LogShape.of(files), files[1]
    offsets = [
        view.phy_offset
        for view in reader.messages(
            start_phy_offset=file.file_from_offset, end_phy_offset=file.end_offset
        )
    ]
    for one, other in pairwise(offsets[:8]):
        for start in (one + 1, (one + other) // 2, other):
            found = first_stored(file, shape, start)
            assert found is not None and found.phy_offset == other
    assert first_stored(file, shape, offsets[-1] + 1) is None
    assert sum(1 for _ in stored(file, shape, most=1)) == len(offsets)


def test_the_last_record_lies_far_before_the_end(golden: Path, tmp_path: Path) -> None:
    """Behind it are zeros: the newest file of a store that was just begun."""
    source = StoreReader(golden / "basic" / "store").log_files()[0]
    data = Path(source.path).read_bytes()
    long_file = tmp_path / "commitlog" / f"{0:020}"
    long_file.parent.mkdir()
    with long_file.open("wb") as out:
        out.write(data[: len(data) // 2])
        out.truncate(8 << 20)
    files = StoreReader(tmp_path).log_files()
    last = last_stored(files[0], LogShape.of(files))
    assert last is not None
    assert len(data) // 2 - 2000 < last.end_phy_offset <= len(data) // 2
