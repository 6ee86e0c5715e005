"""``rmqcore recover``: a plan that changes nothing, and --apply that does what the plan says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import StoreCopy
from support.cli.cli_runs import COMMAND, Run, environment, in_terminal, open_terminal
from support.cli.one_process import each_in_terminal

import rmqcore as package
from rmqcore.disk.locks.lock import StoreLock
from rmqcore.offline.fsck import fsck


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def applied(rmqcore: Run, store: Path, *words: str | Path) -> tuple[list[str | Path], int]:
    """The words that recover a store and agree to what it loses, and how many entries these are."""
    lost = rmqcore("recover", store, "--json", *words).object["lost_entries"]
    return ["recover", store, "--apply", *words, *(["--drop", str(lost)] if lost else [])], lost


@pytest.mark.parametrize(
    ("case", "code", "cut_bytes"),
    [
        ("crash_running_copy", 0, 0),
        ("crash_flipped", 2, 7241),
        ("crash_torn_clean_exit", 2, 139),
        ("crash_garbage_tail", 2, 300),
        ("crash_last_file_missing", 2, 0),
        ("crash_no_cq_clean_exit", 0, 0),
    ],
)
def test_a_plan_changes_nothing(
    rmqcore: Run, store_copy: StoreCopy, case: str, code: int, cut_bytes: int
) -> None:
    store = store_copy(case, "input")
    before = tree(store)
    done = rmqcore("recover", store, "--json")
    assert done.code == code
    plan = done.object
    assert (plan["applied"], plan["in_use"], plan["loses_something"]) == (False, False, code == 2)
    assert plan["cut_bytes"] == cut_bytes
    assert tree(store) == before
    (line,) = rmqcore("recover", store).lines
    assert line | {"seconds": 0} == plan | {"seconds": 0}


@pytest.mark.parametrize("case", ["crash_flipped", "crash_running_copy", "crash_torn"])
def test_apply_does_it_and_closes_cleanly(rmqcore: Run, store_copy: StoreCopy, case: str) -> None:
    store = store_copy(case, "input")
    plan = rmqcore("recover", store, "--json").object
    words, lost = applied(rmqcore, store)
    done = rmqcore(*words, "--json")
    assert done.code == (2 if lost else 0)
    report = done.object
    assert report["applied"]
    for field in ("end_phy_offset", "cut_bytes", "confirm_phy_offset", "min_phy_offset"):
        assert report[field] == plan[field]
    assert not (store / "abort").exists()
    assert fsck(store).exit_code == 0
    again = rmqcore("recover", store, "--json")
    assert again.code == 0
    assert again.object["clean_exit"]
    assert again.object["cut_bytes"] == again.object["differing_entries"] == 0


def test_what_is_cut_can_be_found(rmqcore: Run, store_copy: StoreCopy) -> None:
    store = store_copy("crash_flipped", "input")
    words, _ = applied(rmqcore, store)
    report = rmqcore(*words, "--json").object
    (kept,) = report["cut_files"]
    assert Path(kept).parent == store / "cut"
    assert Path(kept).stat().st_size == report["cut_bytes"] == 7241


def test_a_store_in_use(rmqcore: Run, store_copy: StoreCopy) -> None:
    store = store_copy("crash_running_copy", "input")
    with StoreLock(store / "lock"):
        done = rmqcore("recover", store)
        assert done.code == 0
        assert "is in use by process" in done.err
        assert done.lines[0]["in_use"]
        done = rmqcore("recover", store, "--apply")
        assert (done.code, done.out) == (1, b"")
        assert "Error: " in done.err and "already open in this process" in done.err


def test_a_log_that_is_not_mounted(rmqcore: Run, store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy("basic")
    (store / "commitlog").rename(tmp_path / "elsewhere")
    (store / "commitlog").mkdir()
    for words in ([], ["--apply"]):
        done = rmqcore("recover", store, *words)
        assert done.code == 2
        error, hint = done.err.splitlines()
        assert "no CommitLog file" in error
        assert "mount the" in hint
    assert (store / "consumequeue").is_dir()
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={tmp_path / 'elsewhere'}\n")
    done = rmqcore("recover", store, "--config", conf, "--json")
    assert (done.code, done.object["end_phy_offset"]) == (0, 848491)


def test_a_brokers_file_as_it_is(rmqcore: Run, store_copy: StoreCopy, tmp_path: Path) -> None:
    """What a running store would not do is not told: the verb runs none. A key that is none is, as a line and not as Python's."""
    conf = tmp_path / "broker.conf"
    conf.write_text("fileReservedTime=48\nstorePathRootDir=/elsewhere\nmaxIndexNun=5\n")
    store = store_copy("crash_running_copy", "input")
    for options in ((), ("--apply",)):
        done = rmqcore("recover", store, "--config", conf, "--json", *options)
        assert done.code == 0
        assert done.err == (
            f"Warning: {conf}:3: RocketMQ has no setting maxIndexNun; did you mean maxIndexNum?\n"
        )


@pytest.fixture
def lone_log(tmp_path: Path) -> Path:
    """A store whose only log file was cut by a copy that broke off, within the third record."""
    root = tmp_path / "lone"
    with package.open(root, services=False, mapped_file_size_commit_log=1 << 16) as store:
        for number in range(10):
            store.put(package.Message("T", bytes(4000), keys=f"k{number}")).raise_for_status()
        store.wait_dispatched()
    os.truncate(root / "commitlog" / ("0" * 20), 10_000)
    return root


@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("words", [[], ["--apply"], ["--deep", "--apply"]], ids=" ".join)
def test_a_lone_log_file_that_lost_its_end(
    rmqcore: Run, lone_log: Path, tmp_path: Path, words: list[str], unclean: bool
) -> None:
    """`rmqcore.open` refuses it; recover gave the open the sizes that it had found, as if a person had.

    The record that was cut went away, and all later files would have got 10,000 bytes, which no Java broker opens.
    """
    if unclean:
        (lone_log / "abort").touch()
    before = tree(lone_log)
    done = rmqcore("recover", lone_log, *words)
    assert (done.code, done.out) == (2, b"")
    assert "file size is 10000, expected 1073741824" in done.err
    assert "mappedFileSizeCommitLog" in done.err
    assert tree(lone_log) == before
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=65536\n")
    assert (
        "file size is 10000, expected 65536"
        in rmqcore("recover", lone_log, *words, "--config", conf).err
    )
    assert tree(lone_log) == before
    conf.write_text("mappedFileSizeCommitLog=10000\n")  # its owner knows
    if not words:
        assert rmqcore("recover", lone_log, "--config", conf).code == 2
        return
    done = rmqcore("recover", lone_log, *words, "--config", conf)
    assert done.code == 2
    if not unclean:
        assert "after a clean exit" in done.err
        assert tree(lone_log) == before
        return
    assert tree(lone_log) == before, "it would lose the entries of the messages that were cut off"
    drop = applied(rmqcore, lone_log, *words[:-1], "--config", conf)[0]
    assert rmqcore(*drop).code == 2
    assert rmqcore("recover", lone_log, "--config", conf).code == 0


def test_a_rebuild_that_opens_the_store_first_refuses_it_too(rmqcore: Run, lone_log: Path) -> None:
    (lone_log / "abort").touch()
    before = tree(lone_log)
    done = rmqcore("rebuild", lone_log, "--apply")
    assert (done.code, "its end may be lost" in done.err) == (2, True)
    assert tree(lone_log) == before


def test_a_broker_refuses_it_too(rmqcore: Run, lone_log: Path) -> None:
    before = tree(lone_log)
    done = rmqcore("serve", lone_log, "--port", "0")
    assert (done.code, "its end may be lost" in done.err) == (2, True)
    assert tree(lone_log) == before


def test_for_people(store_copy: StoreCopy) -> None:
    store = store_copy("crash_flipped", "input")
    (drop,) = re.findall(r"--drop (\d+)", in_terminal("recover", store, COLUMNS="200")[1])
    plan, done, again = each_in_terminal(
        (("recover", store), {}),
        (("recover", store, "--apply", "--drop", drop), {}),
        (("recover", store), {}),
    )
    code, text = plan
    assert code == 2
    for word in ("not clean", "log ends at", "204236", "BODYCRC", "will cut", "something is lost"):
        assert word in text
    code, text = done
    assert code == 2
    assert "kept in" in text
    code, text = again
    assert code == 0
    assert "nothing is lost" in text


@pytest.mark.parametrize(
    "case",
    [
        "crash_running_copy",
        "crash_flipped",
        "crash_torn_clean_exit",
        "crash_garbage_tail",
        "crash_last_file_missing",
    ],
)
def test_it_says_which_messages_are_dropped(rmqcore: Run, store_copy: StoreCopy, case: str) -> None:
    """Of 21 sound records fsck said that they would be dropped; recover said "7.1 KiB ... something is lost"."""
    store = store_copy(case, "input")
    before = {row["phy_offset"]: row for row in rmqcore("cat", store).lines}
    cut_records = fsck(store).would_be_lost["broker_start"]["cut_records"]
    plan = rmqcore("recover", store, "--json").object
    assert plan["dropped_messages"] == cut_records == (21 if case == "crash_flipped" else 0)
    rmqcore(*applied(rmqcore, store)[0])
    left = {row["phy_offset"] for row in rmqcore("cat", store).lines}
    gone = [row for at, row in before.items() if at not in left]
    for queue in plan["dropped_queues"]:
        offsets = [
            row["queue_offset"]
            for row in gone
            if (row["topic"], row["queue_id"]) == (queue["topic"], queue["queue_id"])
        ]
        assert queue["messages"] == len(offsets)
        assert queue["first_queue_offset"] == min(offsets)
        assert queue["last_queue_offset"] == max(offsets)
    assert len(gone) == sum(queue["messages"] for queue in plan["dropped_queues"])


def test_people_are_told_how_many(store_copy: StoreCopy) -> None:
    _, text, _ = in_terminal("recover", store_copy("crash_flipped", "input"), COLUMNS="120")
    assert "something is lost: 21 messages of 6 queues; their bytes go to cut/" in text
    assert re.search(r"drops .* 21 messages of 6 queues +\r\n", text)
    assert re.search(r"TopicCrash[ABC] queue \d: \d, offsets \d+ to \d+ +\r\n", text)


@pytest.mark.parametrize(
    ("words", "answer", "code", "done"),
    [
        ([], b"n\n", 1, False),
        ([], b"\n", 1, False),
        ([], b"y\n", 2, True),
        (["--yes"], b"", 2, False),
        (["--yes", "--drop", "21"], b"", 2, True),
    ],
)
def test_a_person_is_asked(
    store_copy: StoreCopy, words: list[str], answer: bytes, code: int, done: bool
) -> None:
    store = store_copy("crash_flipped", "input")
    before = tree(store)
    with open_terminal() as terminal:
        with subprocess.Popen(
            [*COMMAND, "recover", str(store), "--apply", *words],
            stdin=terminal.slave,
            stdout=terminal.slave,
            stderr=terminal.slave,
            env=environment(COLUMNS="120"),
        ) as child:
            try:
                if answer:
                    terminal.wait_for(b"Drop 21 messages of 6 queues and recover")
                    assert tree(store) == before
                    os.write(terminal.master, answer)
                assert child.wait(60) == code
            finally:
                child.kill()
        text = terminal.read_to_end()
    assert ("Drop 21" in text) == bool(answer)
    assert ("kept in" in text) == done
    assert ("nothing was changed" in text) != done
    if not done:
        assert tree(store) == before


def test_the_engine_is_not_loaded_by_the_others() -> None:
    code = "import rmqcore.cli, sys; print('rmqcore.engine.store.store' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert package.__version__


@pytest.mark.parametrize("words", [("recover",), ("rebuild", "--cq", "--out", "OUT")])
def test_sizes_of_the_broker_conf_that_the_files_do_not_have(
    rmqcore: Run, golden: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """A broker with such a file does not start, and `rmqcore.open` refuses it; recover went on in silence."""
    conf, store = tmp_path / "broker.conf", golden / "basic" / "store"
    conf.write_text("mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=2000\n")
    verb, *more = (str(tmp_path / "out") if word == "OUT" else word for word in words)
    done = rmqcore(verb, store, *more, "--config", conf, "--json")
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line == (
        f"Warning: the broker.conf has mappedFileSizeCommitLog=1048576, the files of {store} have "
        "131072, which is used here: correct broker.conf before you start a broker with it"
    )


@pytest.mark.parametrize("harm", ["a flipped PHYSICALOFFSET", "every file moved by one"])
def test_damage_that_a_recovery_passes_over(rmqcore: Run, tmp_path: Path, harm: str) -> None:
    """The report named the bytes, and the exit code was 0: also where all messages lay in them."""
    size = 16 << 10
    with package.open(tmp_path, services=False, mapped_file_size_commit_log=size) as store:
        for _ in range(50):
            store.put(package.Message("T", b"x" * 900)).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    log = tmp_path / "commitlog"
    files = sorted(log.iterdir())
    if harm == "every file moved by one":
        for path in reversed(files):
            path.rename(log / f"{int(path.name) + size:020}")
    else:
        with files[-1].open("r+b") as file:
            file.seek(28 + 7)
            file.write(b"\x77")
    assert rmqcore("recover", tmp_path).code == 2
    done = rmqcore(*applied(rmqcore, tmp_path)[0], "--json")
    assert done.object["passed_over"]
    assert done.code == 2
