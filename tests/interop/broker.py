"""A real name server and a real broker, on loopback ports that belong to this process."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from interop import java_build
from support.eventually import eventually
from support.ports import PortBlock

BOOT_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0
# A server makes itself a certificate for TLS, four seconds of a processor long; no client of ours asks for it.
NO_TLS = "-Dtls.server.mode=disabled"


class PortTakenError(AssertionError):
    """A server found its port taken by a program that holds no lock of `PortBlock`."""


class JavaServer:
    """One of RocketMQ's servers, started; ready once `wait_ready` returns."""

    def __init__(self, folder: Path, main: str, settings: Mapping[str, Any], *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.conf = folder / "server.conf"
        self.conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (folder / "home" / "conf").mkdir(parents=True, exist_ok=True)
        command = java_build.command(folder / "home", main, NO_TLS, *options)
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "-c", str(self.conf)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "ROCKETMQ_HOME": str(folder / "home")},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def wait_ready(self, word: str) -> None:
        """Wait until it says this word."""

        def is_ready() -> bool:
            said = self._log.read_text(errors="replace")
            code = self._process.poll()
            if code is None:
                return word in said
            taken = "BindException" in said or "Address already in use" in said
            raise (PortTakenError if taken else AssertionError)(f"exit code {code}: {self.log()}")

        eventually(is_ready, within_s=BOOT_TIMEOUT_S, details=self.log)

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Shut it down as an operator does, with SIGTERM."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after SIGTERM: {self.log()}") from None


class Broker:
    """Where a broker's files lie, and how to start it: more than once, over the same store.

    Its ports belong to it as long as the object lives.

    Parameters
    ----------
    replicates
        Slaves may connect to `ha_address`, or with `brokerRole=SLAVE` it follows a master; else the HA port is closed.
    """

    def __init__(
        self, folder: Path, store_config: Mapping[str, Any], *, replicates: bool = False
    ) -> None:
        self.folder = folder
        self._replicates = replicates
        self.store = folder / "store"
        self._given = store_config
        self._ports = PortBlock()

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "brokerClusterName": "InteropCluster",
            "brokerName": "interop-a",
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": self._port,
            "namesrvAddr": self.name_server,
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            "autoCreateTopicEnable": "true",
            "timerWheelEnable": "false",
            "enableCompaction": "false",
            **self._given,
        }

    @property
    def _port(self) -> int:
        """The broker also listens two below, where clients may ask instead, and one above, for its followers."""
        return self._ports.first + 3

    @property
    def name_server(self) -> str:
        return f"127.0.0.1:{self._ports.first}"

    @property
    def conf(self) -> Path:
        return self.folder / "broker" / "server.conf"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def ha_address(self) -> str:
        """Where slaves get the log."""
        return f"127.0.0.1:{self._port + 1}"

    @contextlib.contextmanager
    def running(self, *, may_move: bool = True) -> Iterator[JavaServer]:
        """Run the broker and its name server; at the end both are killed.

        A test that reads the store of a broker that ended well calls `stop` of what it is given: that takes ten seconds.

        Parameters
        ----------
        may_move
            Where a port is taken by a program that knows no locks, the start is tried once more with other ports. Not where the
            test has used the address before.
        """
        with contextlib.ExitStack() as servers:
            try:
                broker = self._start(servers)
            except PortTakenError:
                if not may_move:
                    raise
                servers.close()
                self._ports = PortBlock()
                broker = self._start(servers)
            yield broker

    def _start(self, servers: contextlib.ExitStack) -> JavaServer:
        names = {
            "listenPort": self._ports.first,
            "bindAddress": "127.0.0.1",
            "kvConfigPath": self.folder / "kvConfig.json",
            "configStorePath": self.folder / "names.properties",
        }
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        name_server = JavaServer(self.folder / "names", main, names, "-Xmx128m")
        servers.enter_context(name_server)
        name_server.wait_ready("boot success")  # a broker that finds none waits for it
        main = "org.rmqcore.interop.RegisteredBroker"
        sizes = "-Xmx512m", "-XX:MaxDirectMemorySize=512m"
        more = ("-Drmqcore.ha=true",) if self._replicates else ()
        broker = JavaServer(self.folder / "broker", main, self._settings, *sizes, *more)
        servers.enter_context(broker)
        # A topic that was made before the name server knew the broker was refused, and had no route for half a minute.
        broker.wait_ready("registered at its name server")
        return broker
