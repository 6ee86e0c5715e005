"""A store as a recovery of RocketMQ leaves it that has cut the log: old bytes stay behind the new end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore.engine.store.store import MessageStore


def recover_and_leave_bytes(
    root: Path, phy_offset: int, go_on: Callable[[MessageStore], object], **settings: Any
) -> int:
    """Cut the log of a closed store, as a recovery of Java does, have it written on, and return where the log ends.

    Java moves its write position back and deletes later files; in the file of the cut it leaves what it does not overwrite.

    Parameters
    ----------
    root : Path
    phy_offset : int
        The CommitLog offset of the cut, where a record begins.
    go_on : callable
        Puts messages into the store.
    **settings
        Of `rmqcore.open`.
    """
    before = {int(path.name): path.read_bytes() for path in (root / "commitlog").iterdir()}
    for start, data in before.items():
        place = root / "commitlog" / f"{start:020}"
        if start > phy_offset:
            place.unlink()
        elif start + len(data) > phy_offset:
            kept = data[: phy_offset - start]
            place.write_bytes(kept.ljust(len(data), b"\0"))
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    with rmqcore.open(root, **settings) as store:
        assert store.max_phy_offset == phy_offset
        go_on(store)
        while store.dispatch_once():
            pass
        store.flush()
        end = store.max_phy_offset
    for start, data in before.items():
        if start <= end < start + len(data) and start <= phy_offset:
            with (root / "commitlog" / f"{start:020}").open("r+b") as file:
                file.seek(end - start)
                file.write(data[end - start :])
    return end
