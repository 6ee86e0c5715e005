"""Checks of a damaged store after an open: log, queues and index agree, and a second open changes no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore.codec import MessageView
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import queue_directories
from rmqcore.errors import StoreError
from rmqcore.offline.fsck import fsck
from rmqcore.offline.fsck.findings import ERROR
from rmqcore.testing.verdict import hold

ENTRY = 20
LIGHT = "%LMQ%"
STORE_PARTS = ("commitlog", "consumequeue", "index")


@dataclass
class Outcome:
    """Result of opening a damaged store.

    Attributes
    ----------
    refused : str or None
        The error of an open that changed nothing.
    cut_bytes : int
    findings : list of str
        Errors that fsck finds afterwards.
    """

    refused: str | None = None
    cut_bytes: int = 0
    findings: list[str] = field(default_factory=list)


def contents(root: Path, *parts: str) -> dict[str, bytes]:
    """Return the bytes of every file in these folders, by path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for part in parts or STORE_PARTS
        for path in sorted((root / part).rglob("*"))
        if path.is_file()
    }


def check_recovery(
    root: Path, config: Mapping[str, Any], *, whole_log: bool, clean: bool
) -> Outcome:
    """Open a damaged store, check the promises of a recovery, and open it again.

    Parameters
    ----------
    root : Path
    config : mapping
    whole_log : bool
        The log is undamaged, so that every queue and index entry can be derived from it.
    clean : bool
        The store was closed before the damage, or its abort file is missing: then an open does not search old files for
        silent damage.
    """
    before = contents(root)
    try:
        outcome = _open(root, config)
    except StoreError as error:
        hold(not whole_log, "a store with a whole log is refused:", repr(error))
        hold(contents(root) == before, "an open that refuses has changed files:", repr(error))
        return Outcome(refused=type(error).__name__)
    wrong = [place for place in misplaced(root) if place not in _pairs(before)]
    hold(not wrong, "entries at a wrong queue offset:", wrong[:5])
    outcome.findings = errors_of(root)
    if whole_log and not clean:
        hold(not outcome.findings, "fsck after the recovery:", *outcome.findings[:5])
    check_again(root, config)
    return outcome


def errors_of(root: Path) -> list[str]:
    """Return the errors that fsck reports."""
    return [str(finding) for finding in fsck(root).findings if finding.severity == ERROR]


def _open(root: Path, config: Mapping[str, Any]) -> Outcome:
    with rmqcore.open(root, services=False, **config) as store:
        while store.dispatch_once():
            pass
        hold(store.dispatch_behind_bytes == 0, "dispatch stays behind:", store.stats())
        return Outcome(cut_bytes=store.recovery.cut_bytes)


def check_again(root: Path, config: Mapping[str, Any]) -> None:
    """Open a recovered store again, which must neither cut, nor dispatch again, nor write."""
    before = contents(root)
    second = _open(root, config)
    hold(second.cut_bytes == 0, "the second open cuts", second.cut_bytes, "bytes")
    after = contents(root)
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    hold(not changed, "the second open changes", sorted(changed)[:5])


def entries(root: Path) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield topic, queue, queue offset, phy_offset and size of every entry that is not empty."""
    for topic, queue_id, directory in queue_directories(StorePaths(root)):
        for path in sorted(Path(directory).glob("[0-9]*")):
            data = path.read_bytes()
            for pos in range(0, len(data) - ENTRY + 1, ENTRY):
                phy_offset = int.from_bytes(data[pos : pos + 8], "big", signed=True)
                size = int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)
                if size > 0:
                    yield topic, queue_id, (int(path.name) + pos) // ENTRY, phy_offset, size


def misplaced(root: Path) -> list[tuple[str, int, int, int]]:
    """Return the entries that point at a record of their own queue with another queue offset."""
    records = {view.phy_offset: view for view in rmqcore.read(root).messages()}
    return [
        (topic, queue_id, at, phy_offset)
        for topic, queue_id, at, phy_offset, size in entries(root)
        if _elsewhere(records.get(phy_offset), topic, queue_id, at, size)
    ]


def _elsewhere(
    view: MessageView | None, topic: str, queue_id: int, queue_offset: int, size: int
) -> bool:
    if view is None or topic.startswith(LIGHT):
        return False
    own = (view.topic, view.queue_id, view.msg_size) == (topic, queue_id, size)
    return own and view.queue_offset != queue_offset


def _pairs(before: Mapping[str, bytes]) -> set[tuple[str, int, int, int]]:
    """Return the entries from before the recovery, which the recovery did not put."""
    found = set()
    for name, data in before.items():
        if not name.startswith("consumequeue/"):
            continue
        _, topic, queue_id, file = name.split("/")
        for pos in range(0, len(data) - ENTRY + 1, ENTRY):
            phy_offset = int.from_bytes(data[pos : pos + 8], "big", signed=True)
            found.add((topic, int(queue_id), (int(file) + pos) // ENTRY, phy_offset))
    return found
