"""A real name server and a real broker, on loopback ports that were free."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from interop import java_build

from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.testing.served_broker import ask_once

BOOT_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.1
FIRST_PORT = 12_000
FIRST_OF_CONNECTIONS = 32_000
"""Linux gives connections ports from 32,768 on, and other systems from 49,152 on."""


def free_ports() -> tuple[int, int]:
    """A port for the name server, and one for the broker, whose other listeners are two below and one above.

    The system gives none of them to a connection: a JVM binds its ports seconds later, and found one taken once in twenty rounds.
    """
    for _ in range(100):
        name_port = random.randrange(FIRST_PORT, FIRST_OF_CONNECTIONS)
        broker_port = random.randrange(FIRST_PORT, FIRST_OF_CONNECTIONS)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in (name_port, broker_port - 2, broker_port, broker_port + 1):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return name_port, broker_port
    raise OSError("no ports are free")


class JavaServer:
    """One of RocketMQ's servers, started; ready once `wait_ready` returns."""

    def __init__(self, folder: Path, main: str, settings: Mapping[str, Any], *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.conf = folder / "server.conf"
        self.conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (folder / "home" / "conf").mkdir(parents=True, exist_ok=True)
        command = [*java_build.command(folder / "home", main, *options), "-c", str(self.conf)]
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "ROCKETMQ_HOME": str(folder / "home")},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def wait_ready(self) -> None:
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while "boot success" not in self._log.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                code = self._process.poll()
                self._process.kill()
                raise AssertionError(f"no server (exit code {code}): {self.log()}")
            time.sleep(POLL_S)

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Shut it down as an operator does, with SIGTERM."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise AssertionError(f"still running after SIGTERM: {self.log()}") from None


class Broker:
    """Where a broker's files lie, and how to start it: more than once, over the same store."""

    def __init__(self, folder: Path, store_config: Mapping[str, Any]) -> None:
        self.folder = folder
        self.name_port, port = free_ports()
        self.store = folder / "store"
        self._settings = {
            "brokerClusterName": "InteropCluster",
            "brokerName": "interop-a",
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": port,
            "namesrvAddr": self.name_server,
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            "autoCreateTopicEnable": "true",
            "timerWheelEnable": "false",
            "enableCompaction": "false",
            **store_config,
        }

    @property
    def name_server(self) -> str:
        return f"127.0.0.1:{self.name_port}"

    @property
    def conf(self) -> Path:
        return self.folder / "broker" / "server.conf"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._settings['listenPort']}"

    @contextlib.contextmanager
    def running(self) -> Iterator[JavaServer]:
        """The broker and its name server run; at the end the broker is shut down, unless the test has killed it."""
        names = {
            "listenPort": self.name_port,
            "bindAddress": "127.0.0.1",
            "kvConfigPath": self.folder / "kvConfig.json",
            "configStorePath": self.folder / "names.properties",
        }
        package = "org.apache.rocketmq"
        small, bigger = ("-Xmx128m",), ("-Xmx512m", "-XX:MaxDirectMemorySize=512m")
        with JavaServer(
            self.folder / "names", f"{package}.namesrv.NamesrvStartup", names, *small
        ) as name_server:
            name_server.wait_ready()  # a broker that finds none tries again half a minute later
            with JavaServer(
                self.folder / "broker", f"{package}.broker.BrokerStartup", self._settings, *bigger
            ) as broker:
                broker.wait_ready()
                self._wait_registered(broker)
                yield broker
            name_server.kill()  # it has nothing to lose

    def _wait_registered(self, broker: JavaServer) -> None:
        """Wait until the name server knows the broker, which says that it is ready before.

        A topic that was made in between was refused by the name server, and had no route for half a minute.
        """
        request = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while self.address.encode() not in ask_once(self.name_server, request).body:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.address} is not registered: {broker.log()}")
            time.sleep(POLL_S)
