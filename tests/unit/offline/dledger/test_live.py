"""A DLedger log that grows, byte by byte, while it is followed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from support.doses import dose
from support.stores.dledger_store import numbered

from rmqcore.offline.reader import StoreReader
from rmqcore.offline.tail import LogTail

FILE = 4096


@pytest.mark.parametrize("seed", range(dose("RMQCORE_DLEDGER_LIVE", test=5, verify=20, night=200)))
def test_each_message_is_given_once_however_its_bytes_come(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    log = numbered(60, FILE)
    whole = bytes(log.data)
    folder = log.write(tmp_path)
    files = sorted(folder.iterdir())
    for file in files:
        file.write_bytes(bytes(FILE))
    for file in files[1:]:
        file.unlink()
    files[0].write_bytes(whole[:300].ljust(FILE, b"\0"))
    tail = LogTail(StoreReader(tmp_path))
    found = [view.phy_offset for view in tail.newest(1000)]
    at = 300
    while at < len(whole):
        end = min(at + rng.choice([1, 20, 47, 48, 49, 130, 700]), len(whole))
        for file in files:
            start = int(file.name)
            if start < end:
                have = whole[start : min(end, start + FILE)]
                file.write_bytes(have.ljust(FILE, b"\0"))
        at = end
        found += [view.phy_offset for view in tail.poll()]
    for _ in range(200):
        found += [view.phy_offset for view in tail.poll()]
    assert found == log.places
    assert list(tail.damage) == []
