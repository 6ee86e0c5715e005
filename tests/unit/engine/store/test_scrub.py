"""The scrub of an open store finds damage of which nobody would hear otherwise, tells of it and changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually
from support.stores.index_batches import quick_folder
from support.stores.keyed_store import ENTRIES_POS, KeyedStore, contents, index_files, overwrite

import rmqcore
from rmqcore import Message
from rmqcore.engine.recovery.scrub_round import scrub_round
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import StoreClosedError


@pytest.fixture(scope="module")
def made() -> Iterator[KeyedStore]:
    with quick_folder() as name:
        yield KeyedStore(Path(name))


def scrub(store: MessageStore) -> dict[str, Any]:
    """One round, without threads."""
    while store.scrub_once():
        pass
    return dict(store.stats()["scrub"])


def in_index(root: Path) -> None:
    overwrite(index_files(root)[1], ENTRIES_POS + 60 + 12, b"\0\0\1\1")


def in_chain(root: Path) -> None:
    overwrite(index_files(root)[1], ENTRIES_POS + 60, b"\0\0\0\7")


def in_queue(root: Path) -> None:
    overwrite(root / "consumequeue" / "T" / "1" / f"{0:020}", 20 * 3, b"\0\0\0\0\0\0\0\7")


def in_tags(root: Path) -> None:
    overwrite(root / "consumequeue" / "T" / "1" / f"{0:020}", 20 * 3 + 12, b"\0\0\0\0\0\0\0\7")


def in_body(root: Path) -> None:
    path = root / "commitlog" / f"{0:020}"
    at = path.read_bytes().index(b"body 7")
    overwrite(path, at, b"B")


def in_header(root: Path) -> None:
    path = root / "commitlog" / f"{0:020}"
    at = path.read_bytes().index(b"body 7")
    overwrite(path, at - 84, b"\0\0")


DAMAGE: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "time of an index entry": (in_index, "index/", "entry 3 is not what the log says"),
    "chain of an index file": (in_chain, "index/", "entry 3: prevIndex"),
    "place in a queue": (in_queue, "consumequeue/T/1", "queue offset 3 does not hold"),
    "tags code in a queue": (in_tags, "consumequeue/T/1", "queue offset 3 does not hold"),
    "body": (in_body, "commitlog/", "BODYCRC"),
    "header of a record": (in_header, "commitlog/", ""),
}


def test_a_sound_store(made: KeyedStore, tmp_path: Path) -> None:
    root = shutil.copytree(made.folder / "image", tmp_path / "store")
    found: dict[str, Any] = {}
    with made.open(root) as store:
        for rounds in (1, 2):
            found = scrub(store)
            assert (found["rounds"], found["problem_count"], found["problems"]) == (rounds, 0, [])
        assert found["checked_bytes"] > 2 * store.max_phy_offset * 0.9
        store.put(Message("T", b"later", keys=["later"]))
        store.put(Message("New", b"not dispatched yet", keys=["later"]))
        assert scrub(store)["problem_count"] == 0
        store.wait_dispatched()
        assert scrub(store)["problem_count"] == 0


@pytest.mark.parametrize("what", DAMAGE)
def test_silent_damage_is_told_and_nothing_is_changed(
    made: KeyedStore, tmp_path: Path, what: str
) -> None:
    """A disk lost a bit of a file that is open for months: no open was there to find it."""
    change, path, said = DAMAGE[what]
    root = shutil.copytree(made.folder / "image", tmp_path / "store")
    with made.open(root) as store:
        assert scrub(store)["problem_count"] == 0
        change(root)
        before = contents(root / "index")
        found = scrub(store)
        assert found["problem_count"] >= 1
        problem = found["problems"][0]
        assert problem["path"].startswith(path)
        assert said in problem["what"]
        assert contents(root / "index") == before
        # Told once, however many rounds find it.
        assert len(scrub(store)["problems"]) == len(found["problems"])
        assert not store.failed
    if path != "commitlog/":
        with made.open(root, recover="deep") as store:
            assert index_is_right(made, store)


def index_is_right(made: KeyedStore, store: MessageStore) -> bool:
    made.ask(store)
    return all(path["path"].startswith("consumequeue") for path in scrub(store)["problems"])


def test_what_dispatch_does_beside_a_round_is_no_damage(made: KeyedStore, tmp_path: Path) -> None:
    """Dispatch says how far it is after queues and index have it: their newest entries "point where no record starts"."""
    root = shutil.copytree(made.folder / "image", tmp_path / "store")
    with made.open(root) as store:
        parts = store._parts
        found: list[tuple[str, int | None, str]] = []
        ends = [view.phy_offset for view in store.get("T", 1, 0, 1000).messages]
        for end in (*ends[::7], store.max_phy_offset):
            for _ in scrub_round(
                parts.paths,
                store.config,
                parts.log,
                parts.queues,
                parts.index,
                end,
                lambda *problem: found.append(problem),
            ):
                pass
        assert found == []


def test_problems_do_not_grow_with_the_damage(made: KeyedStore, tmp_path: Path) -> None:
    root = shutil.copytree(made.folder / "image", tmp_path / "store")
    with made.open(root) as store:
        for path in (root / "consumequeue").rglob("0*"):
            if path.is_file():
                overwrite(path, 0, bytes(path.stat().st_size))
        found = [scrub(store) for _ in range(3)][-1]
        assert found["problem_count"] == 3 * 120
        assert len(found["problems"]) == 100


def test_a_closed_store_keeps_no_file_of_a_round(made: KeyedStore, tmp_path: Path) -> None:
    root = shutil.copytree(made.folder / "image", tmp_path / "store")
    store = made.open(root)
    store.scrub_once()
    store.close()
    with pytest.raises(StoreClosedError):
        store.scrub_once()
    mapped = Path("/proc/self/maps")
    if mapped.exists():
        assert str(root) not in mapped.read_text()
        links = [os.readlink(link) for link in map(str, _links())]
        assert not any(str(root) in link for link in links)


def _links() -> Iterator[Path]:
    for link in Path("/proc/self/fd").iterdir():
        if link.is_symlink():
            yield link


def test_the_thread(made: KeyedStore, tmp_path: Path) -> None:
    """It walks by itself, and a close does not wait for the end of a round: this one would take an hour."""
    root = shutil.copytree(made.folder / "image", tmp_path / "store")
    in_queue(root)
    config = made.settings.changed(scrub_enable=True, scrub_bytes_per_second=5)
    with rmqcore.open(root, config) as store:
        eventually(lambda: store.stats()["scrub"]["checked_bytes"] > 0)
        assert store.stats()["scrub"]["rounds"] == 0
    config = made.settings.changed(scrub_enable=True, scrub_bytes_per_second=1 << 30)
    with rmqcore.open(root, config) as store:
        eventually(lambda: store.stats()["scrub"]["rounds"] > 0)
        assert [p["path"] for p in store.stats()["scrub"]["problems"]] == ["consumequeue/T/1"]
        store.put(Message("T", b"more")).raise_for_status()
