"""The brokers that are compared: ours and the real one, each with its name server, on one disk and with the same settings."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

from bench import build
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.testing.served_broker import ask_once

QUEUES = 8
START_S = 90.0
STOP_S = 60.0
CPUCLOCK_SCHED = 2
"""With the complement of a process's number above it: the clock that clock_getcpuclockid(3) gives."""
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
LOGBACK = """<configuration>
  <appender name="stderr" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%d{HH:mm:ss.SSS} %p %c{0} %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="stderr"/></root>
</configuration>
"""
"""The real broker logs what it warns of, as ours does: a log of each connection would cost it time."""


class Server:
    """A broker that runs.

    Attributes
    ----------
    name : str
    address, namesrv : str
        ``host:port`` each.
    process : Popen
        The broker's.
    start_s : float
        What it took from its start until it said that it is ready; 0 where nothing says so.
    ha : str
        Where slaves get the log; empty: nowhere.
    """

    def __init__(
        self,
        name: str,
        address: str,
        namesrv: str,
        process: subprocess.Popen[bytes],
        start_s: float = 0.0,
        ha: str = "",
    ) -> None:
        self.name = name
        self.address = address
        self.namesrv = namesrv
        self.process = process
        self.start_s = start_s
        self.ha = ha

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def cpu_seconds(self) -> float:
        """User and system time of the process up to now."""
        return cpu_seconds(self.process.pid)

    def cpu_clock(self) -> float:
        """User and system time of all threads, in seconds, as fine as `time.process_time`; for short differences."""
        return time.clock_gettime(~self.process.pid << 3 | CPUCLOCK_SCHED)

    def anonymous_mib(self) -> float:
        """Memory that is the process's own: neither files nor what it maps of them."""
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        line = next(line for line in text.splitlines() if line.startswith("Anonymous:"))
        return int(line.split()[1]) / 1024

    def ask(self, code: RequestCode, **fields: Value) -> RemotingCommand:
        return ask_once(self.address, RemotingCommand(code, ext_fields=encode_fields(code, fields)))

    def create_topic(self, topic: str) -> None:
        self.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            topic=topic,
            defaultTopic="TBW102",
            readQueueNums=QUEUES,
            writeQueueNums=QUEUES,
            perm=6,
            topicFilterType="SINGLE_TAG",
            topicSysFlag=0,
            order=False,
        )

    def runtime(self) -> dict[str, str]:
        """What GET_BROKER_RUNTIME_INFO tells."""
        table: dict[str, str] = json.loads(self.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)[
            "table"
        ]
        return table

    def max_queue_offsets(self, topic: str) -> list[int]:
        code = RequestCode.GET_MAX_OFFSET
        answers = [self.ask(code, topic=topic, queueId=queue_id) for queue_id in range(QUEUES)]
        return [int(answer.ext_fields["offset"]) for answer in answers]

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """It does nothing at all while others are measured."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


def cpu_seconds(pid: int) -> float:
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    words = stat.rpartition(")")[2].split()  # from the third field on
    return (int(words[11]) + int(words[12])) / TICKS_A_SECOND


@contextlib.contextmanager
def ours(folder: pathlib.Path, *options: str, **settings: object) -> Iterator[Server]:
    """`rmqcore serve` on the store in `folder`, which is made if it is missing; `options` are of its command line."""
    folder.mkdir(parents=True, exist_ok=True)
    config = write_properties(folder / "broker.conf", {**COMMON, **settings})
    command = [sys.executable, "-m", "rmqcore", "serve", str(folder / "store"), "--port", "0"]
    command += options
    begin = time.monotonic()
    with ended(
        subprocess.Popen([*command, "--json", "--config", config], stdout=subprocess.PIPE)
    ) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        start_s = time.monotonic() - begin
        yield Server(
            "rmqcore", ready["broker"], ready["namesrv"], process, start_s, ready["ha"] or ""
        )


@contextlib.contextmanager
def java(folder: pathlib.Path, **settings: object) -> Iterator[Server | None]:
    """The real name server and broker on a new store in `folder`; None where there is no Java."""
    package = "org.apache.rocketmq"
    options = [
        *quiet_logs(folder),
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    ]
    names = build.java_command(f"{package}.namesrv.NamesrvStartup", "128m", *options)
    broker = build.java_command(f"{package}.broker.BrokerStartup", "1g", *options)
    if names is None or broker is None:
        yield None
        return
    names_port, port = free_ports()
    namesrv, store = f"127.0.0.1:{names_port}", folder / "store"
    of_names = {
        "listenPort": names_port,
        "bindAddress": "127.0.0.1",
        "kvConfigPath": folder / "kvConfig.json",
        "configStorePath": folder / "names.properties",
    }
    of_broker = {
        **COMMON,
        "listenPort": port,
        "bindAddress": "127.0.0.1",
        "namesrvAddr": namesrv,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "timerWheelEnable": "false",  # ours has none
        "waitTimeMillsInSendQueue": 10_000,  # else it refuses sends when the machine pauses
        **settings,
    }
    with (
        booted(folder / "names", names, of_names),
        booted(folder / "broker", broker, of_broker) as process,
    ):
        yield Server("Java", f"127.0.0.1:{port}", namesrv, process)


def quiet_logs(folder: pathlib.Path) -> list[str]:
    """Options of a JVM that logs into `folder`, which is made, and no more than `LOGBACK` says."""
    folder.mkdir(parents=True)
    (folder / "logback.xml").write_text(LOGBACK)
    return [
        f"-Drmq.logback.configurationFile={folder / 'logback.xml'}",
        f"-Drocketmq.client.logRoot={folder}",
    ]


COMMON: Mapping[str, object] = {
    "brokerClusterName": "BenchCluster",
    "brokerName": "bench-a",
    "brokerIP1": "127.0.0.1",
    "autoCreateTopicEnable": "true",
    "flushDiskType": "ASYNC_FLUSH",
}


@contextlib.contextmanager
def booted(
    home: pathlib.Path, command: list[str | pathlib.Path], settings: Mapping[str, object]
) -> Iterator[subprocess.Popen[bytes]]:
    """One of RocketMQ's servers, from when it says that it has booted."""
    (home / "conf").mkdir(parents=True)
    config, log = write_properties(home / "server.conf", settings), home / "log"
    with log.open("wb") as out:
        started = subprocess.Popen(
            [*map(str, command), "-c", config],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "ROCKETMQ_HOME": str(home)},
        )
    with ended(started) as process:
        deadline = time.monotonic() + START_S
        while "boot success" not in (said := log.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[-1]} has not started: {said[-2000:]}")
            time.sleep(0.1)
        yield process


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended with SIGTERM, and with SIGKILL where that does not do."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def write_properties(path: pathlib.Path, settings: Mapping[str, object]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def free_ports() -> tuple[int, int]:
    """A port for a name server, and one for a broker, which listens two below as well, and for slaves one above."""
    while True:
        with contextlib.ExitStack() as held:
            first, second, below, above = (held.enter_context(socket.socket()) for _ in range(4))
            first.bind(("127.0.0.1", 0))
            second.bind(("127.0.0.1", 0))
            names_port, port = first.getsockname()[1], second.getsockname()[1]
            with contextlib.suppress(OSError):
                below.bind(("127.0.0.1", port - 2))
                above.bind(("127.0.0.1", port + 1))
                return names_port, port
