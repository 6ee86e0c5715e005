"""``rmqcore top``: samples as lines and on a screen, Ctrl-C, a store that goes meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from support.cli.cli_runs import COMMAND, Run, environment, in_terminal, open_terminal
from support.stores.live_log import LiveLog

from rmqcore.cli.reports.top_screen import Sort, screen, sorted_topics
from rmqcore.cli.verbs import top
from rmqcore.offline.stats.live import LiveSample, LiveStats

HARMFUL = "\x1b[31m\u202e[b]"


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    found = LiveLog(tmp_path / "store", file_size=1 << 16)
    for _ in range(5):
        found.append()
    (found.root / "config").mkdir()
    table = {"Orders@slow": {"0": 3}, f"Orders@{HARMFUL}": {"0": 1 << 40}}
    (found.root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    return found


@contextmanager
def appending(log: LiveLog, *topics: str) -> Iterator[None]:
    """Somebody appends messages all the time."""
    ended = threading.Event()

    def append() -> None:
        while not ended.wait(0.01):
            for topic in topics or ("Orders",):
                log.append(topic)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def in_each_interval(step: Callable[[], object]) -> Iterator[None]:
    """In here `top` of this process makes a step between two looks at the store, however fast the machine is."""

    def sleep(seconds: float) -> None:
        step()
        time.sleep(seconds)

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top, "time", clock)
        yield


def test_samples_in_a_pipe_are_lines(rmqcore: Run, log: LiveLog) -> None:
    with in_each_interval(lambda: (log.append("A"), log.append("B"))):
        done = rmqcore("top", log.root, "--count", "3", "--interval", "0.2", "--sort", "topic")
    assert (done.code, done.err) == (0, "")
    assert len(done.lines) == 3
    for sample in done.lines:
        assert [one["topic"] for one in sample["topics"]] == ["A", "B"]
        assert sample["seconds"] > 0.1
        assert sample["total"]["messages"] == sum(one["messages"] for one in sample["topics"])
    assert [one["group"] for one in done.lines[0]["consumers"]] == sorted([HARMFUL, "slow"])


def test_slow_samples_wait_for_half_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks = 0.0, list[float]()

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    def sample() -> None:
        looks.append(now)
        wait(takes.pop(0))

    takes = [0.25, 1.5, 0.75, 0.0, 0.0]
    monkeypatch.setattr(top, "time", SimpleNamespace(monotonic=lambda: now, sleep=wait))
    for _ in top._samples(SimpleNamespace(sample=sample), 1.0, 5):  # type: ignore[arg-type]
        pass
    assert looks == [1.0, 2.0, 4.0, 5.25, 6.25]


def test_damage_is_2(rmqcore: Run, log: LiveLog) -> None:
    def damage() -> None:
        bad = log.append(body=b"y" * 100)
        log.write(bad + 100, b"Z")
        log.append()

    with in_each_interval(damage):
        done = rmqcore("top", log.root, "--once", "--interval", "0.1")
    assert (done.code, done.object["damaged_ranges"]) == (2, 1)


def test_usage(rmqcore: Run, log: LiveLog, tmp_path: Path) -> None:
    assert rmqcore("top", tmp_path / "nothing", "--once").code == 1
    assert rmqcore("top", log.root, "--interval", "0", "--once").code == 64
    assert rmqcore("top", log.root, "--count", "0").code == 64
    assert rmqcore("top", log.root, "--sort", "color", "--once").code == 64


@pytest.mark.parametrize("columns", [30, 40, 80, 200])
def test_one_sample_on_a_terminal(log: LiveLog, columns: int) -> None:
    with appending(log, "Orders", f"T{HARMFUL}"):
        code, text, _ = in_terminal(
            "top", log.root, "--once", "--interval", "0.5", COLUMNS=str(columns), NO_COLOR="1"
        )
    assert code == 0
    assert "\x1b[31m" not in text
    assert "\u202e" not in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= columns
    assert "slow" in plain


def sample_of(log: LiveLog) -> LiveSample:
    live = LiveStats(log.root)
    for number in range(60):
        log.append(f"T{number % 30}")
    return live.sample()


@pytest.mark.parametrize("height", [5, 10, 24, 100])
@pytest.mark.parametrize("width", [30, 40, 80, 120])
def test_a_screen_fits_its_terminal(log: LiveLog, width: int, height: int) -> None:
    console = Console(width=width, height=height)
    with console.capture() as captured:
        console.print(screen(console, sample_of(log), Sort.bytes))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height, 14)


def test_orders(log: LiveLog) -> None:
    live = LiveStats(log.root)
    for topic, count in (("B", 3), ("C", 2), ("Orders", 1)):
        for _ in range(count):
            log.append(topic, body=b"x" * (100 if topic == "C" else 1))
    sample = live.sample()
    names = {
        sort: "".join(str(one.topic)[0] for one in sorted_topics(sample, sort)) for sort in Sort
    }
    assert names == {
        Sort.bytes: "BCO" if sample.topics[0].topic == "B" else "CBO", Sort.messages: "BCO", Sort.average: "BCO",
        Sort.lag: names[Sort.lag], Sort.topic: "BCO",
    }  # fmt: skip


def test_ctrl_c_on_a_terminal(log: LiveLog) -> None:
    """The other screen is left, the last sample stays, and there is no traceback; a resize meanwhile does nothing."""
    script = (
        "import fcntl, sys, termios\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "from rmqcore.cli import main\n"
        "sys.exit(main())\n"
    )
    import fcntl
    import termios

    with open_terminal() as terminal, appending(log):
        fcntl.ioctl(terminal.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        child = subprocess.Popen(
            [sys.executable, "-c", script, "top", str(log.root), "--interval", "0.2"],
            stdin=terminal.slave,
            stdout=terminal.slave,
            stderr=terminal.slave,
            start_new_session=True,
            env=environment(),
        )
        terminal.wait_for(b"slow")
        fcntl.ioctl(terminal.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 8, 40, 0, 0))
        os.killpg(child.pid, signal.SIGWINCH)
        terminal.wait_for(b"msg/s")
        os.write(terminal.master, b"\x03")
        assert child.wait(60) == 130
        text = terminal.read_to_end()
    assert "Traceback" not in text
    left = text.rpartition("\x1b[?1049l")[2]
    assert "msg/s" in left


def test_ctrl_c_in_a_pipe(log: LiveLog) -> None:
    call = [*COMMAND, "top", str(log.root), "--interval", "0.1"]
    with subprocess.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert json.loads(child.stdout.readline())["total"]["messages"] == 0
        log.root.rename(log.root.with_name("away"))
        problems = (json.loads(line)["problems"] for line in islice(child.stdout, 100))
        assert any("the log has no files now" in str(found) for found in problems)
        log.root.with_name("away").rename(log.root)
        problems = (json.loads(line)["problems"] for line in islice(child.stdout, 100))
        assert not all(problems)
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
        assert child.stderr.read() == b""


@pytest.mark.parametrize("width", [60, 120])
def test_the_disk_is_never_cut_off(log: LiveLog, width: int) -> None:
    """At 60 columns the line of log and disk ended before the free bytes, which people look for when a disk fills."""
    console = Console(width=width, height=24)
    with console.capture() as captured:
        console.print(screen(console, sample_of(log), Sort.bytes))
    lines = captured.get().splitlines()
    assert sum(line.rstrip().endswith(" free") for line in lines) == 1
    assert any(line.startswith("disk ") for line in lines) == (width == 60)
