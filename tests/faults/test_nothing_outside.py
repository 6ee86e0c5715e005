"""A store from a stranger: whatever in it is a link or a FIFO, nothing outside is written, made or deleted, by any verb.

`rebuilt -> ../victim` let a rebuild delete the victim's queues, `lock -> file` emptied the file at any open, `.abort.tmp` too;
`recover --apply` cut and zeroed what linked segments, queues and index files led to; `rebuild --apply` with a linked consumequeue
ended half-way. A FIFO in the place of a small file made every verb wait for ever.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rmqcore
from rmqcore.cli import main
from rmqcore.errors import StoreError
from rmqcore.testing.crash_check import TINY, drain, put

pytest.importorskip("typer")
pytest.importorskip("rich")

STEPS = {**TINY, "services": False}
Snapshot = dict[str, tuple[int, int, bytes]]


def snapshot(folder: Path) -> Snapshot:
    """Every name below, with its kind, time and bytes."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a recovery has to cut and to heal everywhere: it was not closed, and its log ends in rubbish."""
    root = tmp_path_factory.mktemp("pattern") / "store"
    with rmqcore.open(root, **STEPS) as store:
        for number in range(60):
            put(store, number)
        drain(store)
    last = max((root / "commitlog").iterdir())
    data = bytearray(last.read_bytes())
    data[-2000:-1000] = b"\xda" * 1000
    last.write_bytes(data)
    for file in (root / "consumequeue").rglob("0*0"):
        if file.is_file():
            data = bytearray(file.read_bytes())
            data[-40:-20] = b"\x01" * 20
            file.write_bytes(data)
    (root / "abort").write_bytes(b"1")
    return root


@pytest.fixture
def store(pattern: Path, tmp_path: Path) -> Path:
    return shutil.copytree(pattern, tmp_path / "store")


@pytest.fixture
def victim(pattern: Path, tmp_path: Path) -> Path:
    """Somebody's files beside the store, which look as if they belonged there."""
    shutil.copytree(pattern, tmp_path / "victim")
    (tmp_path / "victim" / "file").write_bytes(b"mine" * 100)
    return tmp_path / "victim"


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Whoever waits for a FIFO is told after a while."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits for ever")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def replaced(path: Path, target: Path) -> None:
    """Put a link in the place of what lies there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True, parents=True)
    path.symlink_to(os.path.relpath(target, path.parent))


def newest(store: Path, part: str) -> str:
    """The last file of a part, in name order."""
    found = sorted(path for path in (store / part).rglob("*") if path.is_file())
    return str(found[-1].relative_to(store))


def same(name: str) -> Callable[[Path, Path], None]:
    """What the store has at a place is a link to what the victim has there."""
    return lambda store, victim: replaced(store / name, victim / name)


def to_file(name: str, target: str = "file") -> Callable[[Path, Path], None]:
    return lambda store, victim: replaced(store / name, victim / target)


def last(part: str) -> Callable[[Path, Path], None]:
    def make(store: Path, victim: Path) -> None:
        name = newest(store, part)
        replaced(store / name, victim / name)

    return make


def without(part: str, name: str) -> Callable[[Path, Path], None]:
    def make(store: Path, victim: Path) -> None:
        shutil.rmtree(store / part)
        replaced(store / name, victim / part)

    return make


def each_cut(store: Path, victim: Path) -> None:
    (store / "cut").mkdir()
    begin = int(max(os.listdir(store / "commitlog")))
    for pos in range(begin, begin + 4096):
        (store / "cut" / f".{pos:020d}.tmp").symlink_to(victim / "file")


PLACES: dict[str, Callable[[Path, Path], None]] = {
    "rebuilt": lambda store, victim: replaced(store / "rebuilt", victim),
    "rebuilt/consumequeue": same("rebuilt/consumequeue"),
    "rebuilt/.building": lambda store, victim: replaced(store / "rebuilt/.building", victim),
    "lock": to_file("lock"),
    "lock, dangling": to_file("lock", "new"),
    "abort": to_file("abort"),
    "abort, dangling": to_file("abort", "new"),
    ".abort.tmp": to_file(".abort.tmp"),
    "checkpoint": same("checkpoint"),
    "checkpoint, dangling": to_file("checkpoint", "new"),
    ".checkpoint.tmp": to_file(".checkpoint.tmp"),
    "commitlog": same("commitlog"),
    "commitlog/FILE": last("commitlog"),
    "consumequeue": same("consumequeue"),
    "consumequeue/TOPIC": same("consumequeue/T0"),
    "consumequeue/TOPIC/QUEUE": same("consumequeue/T0/0"),
    "consumequeue/TOPIC/QUEUE/FILE": last("consumequeue"),
    "consumequeue.old-000001": without("consumequeue", "consumequeue.old-000001"),
    "consumequeue.trash-000001": to_file("consumequeue.trash-000001", "consumequeue"),
    "consumequeue_ext": to_file("consumequeue_ext", "consumequeue"),
    "batchconsumequeue": to_file("batchconsumequeue", "consumequeue"),
    "index": same("index"),
    "index/FILE": last("index"),
    "cut": lambda store, victim: replaced(store / "cut", victim),
    "cut/.FILE.tmp": each_cut,
}
VERBS: dict[str, tuple[str, ...]] = {
    "info": ("info", "STORE"),
    "fsck": ("fsck", "STORE"),
    "cat": ("cat", "STORE", "--format", "jsonl"),
    "get": ("get", "STORE", "--topic", "T0", "--queue", "0", "--offset", "0"),
    "query": ("query", "STORE", "--topic", "T0", "--key", "K1"),
    "recover": ("recover", "STORE"),
    "recover --apply": ("recover", "STORE", "--apply"),
    "recover --deep --apply": ("recover", "STORE", "--deep", "--apply"),
    "rebuild": ("rebuild", "STORE"),
    "rebuild --apply": ("rebuild", "STORE", "--apply"),
    "salvage": ("salvage", "STORE", "OUT"),
    "export": ("export", "STORE", "--out", "OUT", "--format", "jsonl"),
}


def run(verb: str, store: Path) -> int:
    words = {"STORE": str(store), "OUT": str(store.parent / "out")}
    return main([words.get(word, word) for word in VERBS[verb]])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", PLACES)
def test_a_link_in_a_store(
    store: Path, victim: Path, place: str, verb: str, capfd: pytest.CaptureFixture[str]
) -> None:
    PLACES[place](store, victim)
    before = snapshot(victim)
    code = run(verb, store)
    said = capfd.readouterr().err
    assert snapshot(victim) == before
    assert code in (0, 1, 2)
    assert "Traceback" not in said


@pytest.mark.parametrize("place", PLACES)
def test_a_link_in_a_store_that_is_opened(store: Path, victim: Path, place: str) -> None:
    PLACES[place](store, victim)
    before = snapshot(victim)
    refused = None
    try:
        with rmqcore.open(store, **TINY) as opened:
            put(opened, 1000)
            assert opened.wait_dispatched(60)
    except (StoreError, OSError) as error:
        refused = str(error)
    assert refused is None or "a link to" in refused
    assert snapshot(victim) == before


FIFOS = ("lock", "abort", "checkpoint", ".abort.tmp", ".checkpoint.tmp", "cut", "rebuilt", "index")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", FIFOS)
def test_a_fifo_in_a_store(store: Path, name: str, verb: str) -> None:
    if (store / name).is_dir():
        shutil.rmtree(store / name)
    (store / name).unlink(missing_ok=True)
    os.mkfifo(store / name)
    assert run(verb, store) in (0, 1, 2)


# ---- what is half done ------------------------------------------------------------------------------


@pytest.mark.parametrize("follow", [False, True], ids=["plain", "--follow-links"])
def test_a_swap_with_a_linked_part_ends_before_it_begins(
    store: Path, victim: Path, follow: bool
) -> None:
    """`rebuild --apply` left a `.trash-` link that no later open got rid of, and the index of before."""
    (store / "abort").unlink()
    replaced(store / "consumequeue", victim / "consumequeue")
    before = sorted(os.listdir(store))
    assert main(["rebuild", str(store), "--apply", *["--follow-links"] * follow]) == 2
    assert sorted(os.listdir(store)) == before
    assert (store / "consumequeue").is_symlink()


def test_what_such_a_swap_once_left_goes(store: Path, victim: Path) -> None:
    """A link called `.trash-` made every open fail."""
    for name in ("consumequeue.trash-000001", "consumequeue.old-000001"):
        (store / name).symlink_to(victim / "consumequeue")
    before = snapshot(victim)
    rmqcore.open(store, **STEPS).close()
    assert not [name for name in os.listdir(store) if ".old-" in name or ".trash-" in name]
    assert snapshot(victim) == before


# ---- links that somebody asked for ------------------------------------------------------------------


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index"])
def test_a_part_on_another_disk_is_followed_when_asked(
    store: Path, tmp_path: Path, part: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error says which path leads where, and how it is followed."""
    disk = tmp_path / "disk2" / part
    disk.parent.mkdir()
    (store / part).rename(disk)
    (store / part).symlink_to(disk)
    for verb in VERBS:
        assert run(verb, store) == 2
        printed, said = capfd.readouterr()
        if verb == "fsck" and part != "commitlog":  # a finding
            assert f"a link to {disk}" in printed
            assert "--follow-links" in printed
            continue
        assert f"{store / part}: a link to {disk}" in said
        assert "--follow-links" in said
        assert ("--commitlog" in said) == (part == "commitlog")
    with pytest.raises(StoreError, match="follow_links"):
        rmqcore.read(store)
    assert main(["recover", str(store), "--apply", "--follow-links"]) in (0, 2)
    assert len(list(rmqcore.read(store, follow_links=True).messages())) > 50
    with rmqcore.open(store, **STEPS, follow_links=True) as opened:
        put(opened, 1000)
        drain(opened)
    assert (store / part).is_symlink()
    assert os.listdir(disk)


def test_a_log_that_a_setting_names_may_be_a_link(store: Path, tmp_path: Path) -> None:
    (store / "commitlog").rename(tmp_path / "log")
    (store / "commitlog").symlink_to(tmp_path / "log")
    named = str(store / "commitlog")
    assert len(list(rmqcore.read(store, commitlog=named).messages())) > 50
    with rmqcore.open(store, **STEPS, store_path_commit_log=named) as opened:
        put(opened, 1000)


# ---- outputs ----------------------------------------------------------------------------------------

LINKED_OUTPUTS = ("topic=X", "topic=X/day=2024-01-01", ".rmqcore-export-old")


@pytest.mark.parametrize("name", LINKED_OUTPUTS)
def test_an_export_over_an_earlier_one(store: Path, tmp_path: Path, name: str) -> None:
    """`export --overwrite` followed `topic=X -> /elsewhere` and deleted part files there."""
    victim = tmp_path / "elsewhere"
    for folder in ("", "day=2024-01-01", "topic=X/day=2024-01-01"):
        (victim / folder).mkdir(parents=True, exist_ok=True)
        (victim / folder / "part-00000.jsonl").write_bytes(b"mine")
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).symlink_to(victim)
    (out / "topic=Y" / "day=2024-01-01").mkdir(parents=True)
    (out / "topic=Y" / "day=2024-01-01" / "part-00000.jsonl").write_bytes(b"an earlier export's")
    before, earlier = snapshot(victim), snapshot(out)
    words = ("export", str(store), "--out", str(out), "--format", "jsonl", "--overwrite")
    code = main(list(words))
    assert snapshot(victim) == before
    if name.startswith("topic"):
        assert code == 2
        assert snapshot(out).keys() == earlier.keys()
    else:
        assert not (out / name).is_symlink()
