"""Terminals and pipes: tables for people, JSON Lines for programs, progress only where somebody looks, Ctrl-C, `| head`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli.cli_runs import COMMAND, environment, in_terminal, open_terminal
from support.stores.live_log import LiveLog

CLEAR = "\x1b[2K"
"""How rich wipes a progress bar's line."""


def test_a_terminal_gets_a_table(golden: Path) -> None:
    code, text, _ = in_terminal("cat", golden / "basic" / "store", "--limit", "3", COLUMNS="100")
    header, below, *rows = text.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert code == 0
    assert header.split()[:2] == ["store_time", "topic"]
    assert below == "  tags, keys, body"
    assert len(rows) == 6
    assert rows[0].startswith("2023-11-15 22:13:20.018  TopicBasicA ")
    code, text, _ = in_terminal("info", golden / "basic" / "store")
    assert "commit log" in text
    code, text, _ = in_terminal("info", golden / "basic" / "store", "--json")
    assert len(text.splitlines()) > 100
    assert json.loads(text)["queue_count"] == 12


def test_rows_fit_the_terminal(golden: Path) -> None:
    with open_terminal() as terminal:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(terminal.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 90, 0, 0))
        subprocess.run(
            [*COMMAND, "cat", str(golden / "basic" / "store"), "--limit", "20"],
            env=environment(NO_COLOR="1"),
            stdin=terminal.slave,
            stdout=terminal.slave,
            stderr=terminal.slave,
            check=True,
        )
        lines = terminal.read_to_end().splitlines()
    assert len(lines) == 2 + 2 * 20
    assert all(len(line) <= 90 for line in lines)
    assert "\x1b" not in "".join(lines)


def test_binary_is_not_for_a_terminal(golden: Path) -> None:
    for kind in ("arrow", "parquet"):
        code, text, _ = in_terminal("cat", golden / "basic" / "store", "--format", kind)
        assert code == 64
        assert "-o FILE" in text


@pytest.mark.parametrize("verb", [["fsck", "--json"], ["export", "--format", "jsonl", "-o", "OUT"]])
@pytest.mark.parametrize(
    ("words", "more", "shown"),
    [([], {}, True), (["--no-progress"], {}, False), ([], {"NO_COLOR": "1"}, False)],
    ids=["default", "no_progress", "no_color"],
)
def test_progress_is_on_stderr_and_for_people(
    golden: Path,
    tmp_path: Path,
    verb: list[str],
    words: list[str],
    more: dict[str, str],
    *,
    shown: bool,
) -> None:
    verb, rest = verb[:1], [str(tmp_path / "out") if word == "OUT" else word for word in verb[1:]]
    code, text, other = in_terminal(
        *verb, golden / "basic" / "store", *rest, *words, streams="stderr", COLUMNS="200", **more
    )
    assert code == 0
    assert (CLEAR in text) == shown
    assert (f"{verb[0]} " in text) == shown
    assert [json.loads(line) for line in other.splitlines()]


def test_progress_has_rate_and_time_left() -> None:
    script = (
        "from rmqcore.cli.common import progress\n"
        "progress.REFRESH_SECONDS = 0\n"
        "with progress.progress_bar('fsck', no_progress=False) as advance:\n"
        "    for done in range(0, 101):\n"
        "        advance(done << 24, 200 << 24)\n"
    )
    with open_terminal() as terminal:
        call = [sys.executable, "-c", script]
        subprocess.run(call, stderr=terminal.slave, env=environment(COLUMNS="200"), check=True)
        text = terminal.read_to_end()
    assert "fsck" in text
    assert "1.6/3.1 GiB" in text
    assert re.search(r"[0-9.]+ [KMGT]iB/s", text)
    assert not re.search(r"[0-9.]+ [kMGTP]?B/s", text)
    assert re.search(r"\d:\d\d:\d\d", text)


def test_no_bar_among_rows_that_a_pipe_brings_back(golden: Path, tmp_path: Path) -> None:
    """`rmqcore cat BIG | head -1` put its row behind a bar, and left a bar below it; there is one when a file takes the rows."""
    command = f"'{sys.executable}' -m rmqcore.cli cat '{golden}/basic/store'"
    for more, bar in (("| head -1 | cut -c1-16", False), (f"> '{tmp_path}/rows'", True)):
        with open_terminal() as terminal:
            subprocess.run(
                ["bash", "-c", f"{command} {more}"],
                stdout=terminal.slave,
                stderr=terminal.slave,
                env=environment(COLUMNS="100"),
                check=True,
            )
            text = terminal.read_to_end()
        assert (CLEAR in text) == bar
        assert bar or text == '{"phy_offset": 0\r\n'


def test_no_progress_in_a_pipe_or_over_rows_on_the_terminal(golden: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "fsck", golden / "basic" / "store", "--json"],
        env=environment(),
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    code, text, _ = in_terminal("cat", golden / "basic" / "store", "--limit", "5")
    assert code == 0
    assert CLEAR not in text


def test_export_summary_on_a_terminal(golden: Path, tmp_path: Path) -> None:
    words = ["--format", "jsonl", "-o", str(tmp_path / "out"), "--no-progress"]
    code, text, _ = in_terminal("export", golden / "crash_flipped" / "input", *words)
    assert code == 2
    assert "580 messages" in text
    assert "3 jsonl files" in text
    assert "damaged: 204236..204678" in text


@pytest.mark.parametrize(
    "words", [["cat"], ["cat", "--format", "csv"], ["cat", "--format", "table"], ["cat", "--json"]]
)
def test_a_reader_that_stops_early_is_no_failure(golden: Path, words: list[str]) -> None:
    """`rmqcore cat | head -1` used to be where Python tools print BrokenPipeError."""
    call = [*COMMAND, words[0], str(golden / "basic" / "store"), *words[1:]]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 0


def test_head(golden: Path) -> None:
    call = f"'{sys.executable}' -m rmqcore.cli cat '{golden}/basic/store' | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", call], capture_output=True, text=True, check=True, env=environment()
    )
    row, status = done.stdout.splitlines()
    assert json.loads(row)["phy_offset"] == 0
    assert (status, done.stderr) == ("0", "")


@pytest.mark.parametrize("words", [["--help"], ["cat", "--help"]])
def test_help_into_a_closed_pipe(words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, *words], stdout=write, stderr=subprocess.PIPE, check=False, env=environment()
    )
    os.close(write)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.fixture
def live(tmp_path: Path) -> LiveLog:
    log = LiveLog(tmp_path / "store", file_size=1024)
    for _ in range(5):
        log.append()
    return log


def follow(
    live: LiveLog, *words: str
) -> Iterator[tuple[subprocess.Popen[bytes], Iterator[dict[str, object]]]]:
    call = [*COMMAND, "tail", str(live.root), "-f", *words]
    with subprocess.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as child:
        assert child.stdout is not None
        try:
            yield child, (json.loads(line) for line in child.stdout)
        finally:
            child.kill()


def test_tail_follows_and_ctrl_c_ends_it(live: LiveLog) -> None:
    for child, rows in follow(live, "-n", "2"):
        assert [next(rows)["queue_offset"], next(rows)["queue_offset"]] == [3, 4]
        first_file = live.path(live.end)
        while live.path(live.end) == first_file:
            at = live.append()
            assert next(rows)["phy_offset"] == at
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
        assert child.stderr is not None
        assert child.stderr.read() == b""
        assert list(rows) == []


def test_tail_reports_damage_once_and_goes_on(live: LiveLog) -> None:
    for child, rows in follow(live, "-n", "1"):
        assert next(rows)["queue_offset"] == 4
        bad = live.append(body=b"y" * 100)
        live.write(bad + 100, b"Z")
        good = live.append()
        last = live.append()
        seen = [next(rows)["phy_offset"]]
        while seen[-1] != last:
            seen.append(next(rows)["phy_offset"])
        assert seen == [bad, good, last]
        assert child.stderr is not None
        assert child.stderr.readline().startswith(f"damaged: {bad}..{good} ".encode())
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
        assert child.stderr.read() == b""


def test_ctrl_c_in_a_terminal_prints_no_traceback(live: LiveLog) -> None:
    # The terminal has to be the child's controlling terminal, or Ctrl-C reaches nobody.
    script = (
        "import fcntl, sys, termios\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "from rmqcore.cli import main\n"
        "sys.exit(main())\n"
    )
    with open_terminal() as terminal:
        child = subprocess.Popen(
            [sys.executable, "-c", script, "tail", str(live.root), "-f"],
            stdin=terminal.slave,
            stdout=terminal.slave,
            stderr=terminal.slave,
            env=environment(COLUMNS="200"),
            start_new_session=True,
        )
        terminal.wait_for(b"message 4")
        os.write(terminal.master, b"\x03")
        assert child.wait(60) == 130
        text = terminal.read_to_end()
    assert "Traceback" not in text
    assert "Abort" not in text


def test_an_interrupted_export_leaves_nothing(golden: Path, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from rmqcore.offline.export import part_files\n"
        "from rmqcore.cli import main\n"
        "def write(self, view):\n"
        "    os.kill(os.getpid(), getattr(signal, sys.argv[1]))\n"
        "part_files.TextParts.write = write\n"
        "sys.exit(main(['export', sys.argv[2], '--format', 'jsonl', '-o', sys.argv[3]]))\n"
    )
    for name, code in (("SIGINT", 130), ("SIGTERM", 143)):
        out = tmp_path / "out"
        done = subprocess.run(
            [sys.executable, "-c", script, name, golden / "basic" / "store", out],
            capture_output=True,
            check=False,
        )
        assert done.returncode == code
        assert b"Traceback" not in done.stderr
        assert not out.exists()
