"""No store, a broken store, a store that cannot be read: one or two clear lines, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import StoreCopy
from support.cli.cli_runs import Run

VERBS: dict[str, list[str]] = {
    "info": [],
    "cat": [],
    "get": ["--topic", "TopicCrashA", "--queue", "0", "--offset", "0"],
    "query": ["--topic", "TopicCrashA", "--key", "hot1"],
    "lookup": ["0"],
    "fsck": [],
    "export": ["--format", "jsonl", "-o", "OUT"],
    "tail": [],
    "recover": [],
    "rebuild": ["--out", "OUT"],
}


def words_of(verb: str, store: Path, out: Path) -> list[str]:
    return [verb, str(store), *(str(out) if word == "OUT" else word for word in VERBS[verb])]


@pytest.mark.parametrize("verb", VERBS)
def test_no_such_directory(rmqcore: Run, tmp_path: Path, verb: str) -> None:
    done = rmqcore(*words_of(verb, tmp_path / "nowhere", tmp_path / "out"))
    assert (done.code, done.out) == (1, b"")
    assert done.err == f"Error: {tmp_path / 'nowhere'}: No such file or directory\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_instead_of_a_directory(rmqcore: Run, tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    done = rmqcore(*words_of(verb, tmp_path / "file", tmp_path / "out"))
    assert (done.code, done.out) == (1, b"")
    assert done.err == f"Error: {tmp_path / 'file'}: Not a directory\n"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("content", ["", "photos"], ids=["empty", "something_else"])
def test_a_directory_that_is_no_store(
    rmqcore: Run, tmp_path: Path, verb: str, content: str
) -> None:
    (tmp_path / "dir" / content).mkdir(parents=True)
    done = rmqcore(*words_of(verb, tmp_path / "dir", tmp_path / "out"))
    assert (done.code, done.out) == (1, b"")
    error, hint = done.err.splitlines()
    assert error.startswith(f"Error: {tmp_path / 'dir'}")
    assert hint.startswith("Hint: give the store's root")


@pytest.mark.parametrize("verb", VERBS)
def test_an_empty_store(rmqcore: Run, tmp_path: Path, verb: str) -> None:
    for name in ("commitlog", "consumequeue", "index"):
        (tmp_path / "store" / name).mkdir(parents=True)
    done = rmqcore(*words_of(verb, tmp_path / "store", tmp_path / "out"))
    assert done.code == (1 if verb == "lookup" else 0)
    assert "Traceback" not in done.err


def damage_zero_length(store: Path) -> None:
    for path in [path for path in store.rglob("*") if path.is_file()]:
        path.write_bytes(b"")


def damage_random_bytes(store: Path) -> None:
    for path in [path for path in store.rglob("*") if path.is_file()]:
        path.write_bytes(bytes((position * 7919 + 13) % 251 for position in range(5000)))


def damage_cut_files(store: Path) -> None:
    for path in [path for path in store.rglob("*") if path.is_file()]:
        os.truncate(path, path.stat().st_size // 3)


def damage_names(store: Path) -> None:
    (store / "commitlog" / "notes.txt").write_text("x")
    (store / "commitlog" / "00000000000000000007").write_bytes(b"abc")
    (store / "consumequeue" / "TopicCrashA" / "zero").mkdir()
    (store / "consumequeue" / "stray").write_text("x")
    (store / "index" / "notes").write_text("x")


def damage_lengths(store: Path) -> None:
    log = sorted((store / "commitlog").iterdir())
    for path, size in zip(log, (2**31 - 1, 2**32 - 5, 0, 91), strict=False):
        data = bytearray(path.read_bytes())
        data[0:4] = size.to_bytes(4, "big")
        path.write_bytes(data)


def damage_directories(store: Path) -> None:
    for path in sorted((store / "commitlog").iterdir())[1:3]:
        path.unlink()
        path.mkdir()
    (store / "checkpoint").unlink(missing_ok=True)
    (store / "checkpoint").mkdir()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "damage",
    [
        damage_zero_length,
        damage_random_bytes,
        damage_cut_files,
        damage_names,
        damage_lengths,
        damage_directories,
    ],
)
def test_a_broken_store_is_an_answer_and_no_traceback(
    rmqcore: Run, store_copy: StoreCopy, tmp_path: Path, verb: str, damage: object
) -> None:
    store = store_copy("crash_running_copy", "input")
    damage(store)  # type: ignore[operator]
    done = rmqcore(*words_of(verb, store, tmp_path / "out"))
    assert done.code in (0, 1, 2)
    if verb in ("fsck", "cat", "export", "rebuild") and damage in (
        damage_random_bytes,
        damage_lengths,
    ):
        assert done.code == 2
    assert "Traceback" not in done.err


def process(*words: str | bytes | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rmqcore.cli", *words], capture_output=True, check=False
    )


def test_arguments_that_are_not_utf8(rmqcore: Run, golden: Path) -> None:
    """One of them by a process, whose arguments are bytes; the others as Python gives the bytes to it."""
    store = golden / "basic" / "store"
    alone = process("cat", store, "--topic", b"\xff\xfe")
    assert alone.returncode in (0, 1), alone.stderr
    assert b"Traceback" not in alone.stderr
    for words in (
        ["cat", store, "--topic", os.fsdecode(b"\xff\xfe")],
        ["info", os.fsdecode(b"/\xff")],
        ["query", store, "--topic", os.fsdecode(b"\xff"), "--key", "k"],
    ):
        done = rmqcore(*words)
        assert done.code in (0, 1), done.err
        assert "Traceback" not in done.err


def test_a_directory_that_is_not_utf8(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/st\xffre"
    os.symlink(os.fsencode(golden / "basic" / "store"), place)
    for verb, *rest in (["info"], ["info", "--format", "table"]):
        alone = process(verb, place, *rest)
        assert alone.returncode == 0, alone.stderr
    for verb, *rest in (
        ["info"],
        ["info", "--format", "table"],
        ["fsck"],
        ["fsck", "--format", "table"],
        ["cat", "--limit", "1"],
    ):
        done = rmqcore(verb, os.fsdecode(place), *rest)
        assert done.code == 0, done.err


def test_no_room_on_the_output(rmqcore: Run, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command once ended in a traceback and exit code 120 for an answer that fits stdout's buffer.

    PYTHONUNBUFFERED hid that. Python empties the buffer at the end of a process, so each verb has one of its own.
    """
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    store = golden / "basic" / "store"
    for verb, *rest in (["cat"], ["info"], ["fsck"], ["cat", "--format", "table"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "rmqcore.cli", verb, store, *rest],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
    in_file = rmqcore("cat", store, "-o", "/dev/full")
    assert in_file.code == 1
    assert "No space left on device" in in_file.err
    assert "Traceback" not in in_file.err


VERBS_WITH_CONF = {
    "recover": (), "rebuild": ("--out", "OUT"), "retention": (), "doctor": (), "backup": ("OUT",), "salvage": ("OUT",),
    "serve": ("--port", "0"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("verb", "line", "told"),
    [(verb, "maxIndexNum=1", "maxIndexNum: expected 2 to 2147483647, got 1") for verb in VERBS_WITH_CONF]
    + [
        ("serve", "brokerPermission=9", "brokerPermission: expected 0 to 7, got 9"),
        (
            "serve",
            "brokerId=0\nbrokerRole=SLAVE",
            ("brokerId: expected 1 or more with brokerRole=SLAVE, got 0: 0 is reserved for the "
            "master"),
        ),
        ("serve", "traceOn=1", "traceOn: expected true or false, got '1'"),
        ("serve", "brokerName= ", "brokerName: expected a name, got an empty value"),
        ("serve", f"regionId={'r' * 70_000}", "regionId: expected at most 255 letters, got 70,000"),
        *(
            ("serve", f"{key}=true", f"{key}: expected false: this broker does not support it")
            for key in ("aclEnable", "authenticationEnabled", "authorizationEnabled", "enableControllerMode")
        ),
    ],
)  # fmt: skip
def test_a_wrong_value_in_a_broker_conf(
    rmqcore: Run, store_copy: StoreCopy, tmp_path: Path, verb: str, line: str, told: str
) -> None:
    """It was told as max_index_num, without a line."""
    conf = tmp_path / "broker.conf"
    conf.write_text(f"# a broker\n{line}\n")
    more = [str(tmp_path / "out") if word == "OUT" else word for word in VERBS_WITH_CONF[verb]]
    done = rmqcore(verb, store_copy("basic"), *more, "--config", conf)
    assert (done.code, done.out) == (1, b"")
    assert done.err == f"Error: {conf}:2: {told}\n"


def test_a_file_that_may_not_be_read(rmqcore: Run, store_copy: StoreCopy, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    store = store_copy("basic")
    for path in (store / "commitlog").iterdir():
        path.chmod(0)
    done = rmqcore("cat", store)
    assert done.code == 2
    assert "Permission denied" in done.err
