"""A broker and name server for tests of applications: ``rmqcore serve`` in a process that tests can kill and restart.

The pytest fixtures ``rocketmq_broker`` and ``rocketmq_broker_session`` pass one to a test; other test runners and
scripts use `rmqcore.testing.ServedBroker` as a context manager. The process ends with its parent process, however that
ends.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import rmqcore
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.state.deleted_topics import begin_phy_offset
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.reader import read
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.testing import served_process
from rmqcore.vocabulary.topics import DEFAULT_TOPIC

START_SECONDS = 60.0
STOP_SECONDS = 60.0
ANSWER_SECONDS = 30.0
SMALL: Mapping[str, object] = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 20 * 6_000,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 40_000,
    "diskMaxUsedSpaceRatio": 100,
    "cleanFileForciblyEnable": False,
}
"""Files for some thousand messages: they are made and deleted in no time, on a disk that may be rather full."""


class ServedBroker:
    """A broker with its name server; `start` starts them, and as a context manager they are started and closed.

    The broker's process ends when this process ends, also by a signal. It loads no module of the application, and
    listens on 127.0.0.1.

    Parameters
    ----------
    folder : Path, optional
        A directory for store, configuration and log; by default a temporary directory, which `close` deletes.
    settings : mapping, optional
        Keys of a ``broker.conf``, which extend and override `SMALL`.

    Attributes
    ----------
    namesrv : str
        ``host:port`` of the name server; the same after a restart.
    address : str
        ``host:port`` of the broker; the same after a restart.
    store : Path
        The store's root.
    """

    def __init__(
        self, folder: Path | None = None, settings: Mapping[str, object] | None = None
    ) -> None:
        self.namesrv = ""
        self.address = ""
        self._temporary = folder is None
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="rmqcore-broker-"))
            self._delete = weakref.finalize(self, _delete_own, folder, os.getpid())
        folder = folder.absolute()  # the broker has another working directory
        self._folder = folder
        self.store = folder / "store"
        self._config = folder / "broker.conf"
        self._log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        given = {**SMALL, **(settings or {})}
        self._broker_name = str(given.get("brokerName", BrokerSettings().broker_name))
        lines = [f"{name}={_text(value)}\n" for name, value in given.items()]
        self._config.write_text("".join(lines), encoding="utf-8")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            self._delete_temporary()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker, and wait until it can serve clients.

        Raises
        ------
        RuntimeError
            The broker did not start (the message has the end of its log), or is already running.
        """
        if self._process is not None:
            if self._process.poll() is None:
                raise RuntimeError("the broker runs already: restart() stops it first")
            self._ended(self._process)
        command = [*self._python(), "serve", str(self.store), "--json"]
        command += ["--config", str(self._config), "--port", self.address.rpartition(":")[2] or "0"]
        if self.namesrv:
            command += ["--namesrv-port", self.namesrv.rpartition(":")[2]]
        environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # the broker ends when this pipe closes
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=self._folder,
            )
        ready = json.loads(self._ready_line(self._process))
        self.address, self.namesrv = ready["broker"], ready["namesrv"]

    def stop(self) -> None:
        """End the broker with SIGTERM: all accepted messages are on disk then. Without a running broker do nothing.

        Raises
        ------
        RuntimeError
            The broker ended with an error, or did not end; the message has the end of its log.
        """
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the broker went on after SIGTERM: {self.log()}") from None
        self._ended(process)
        if code:
            raise RuntimeError(f"the broker ended with exit code {code}: {self.log()}")

    def close(self) -> None:
        """Stop the broker, and delete its directory if it is temporary. A second call does nothing.

        Raises
        ------
        RuntimeError
            As for `stop`.
        """
        try:
            self.stop()
        finally:
            self._delete_temporary()

    def kill(self) -> None:
        """End the broker with SIGKILL: the store has all acknowledged messages. Without a running broker do nothing."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            self._ended(process)

    def restart(self) -> None:
        """Start the broker again on the same store and ports, after stopping a running one.

        Raises
        ------
        RuntimeError
            As for `start` and `stop`.
        """
        self.stop()
        self.start()

    def log(self) -> str:
        """Return the end of the broker's log."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-4000:]

    # ---- requests of tests ------------------------------------------------------------------------

    def create_topic(self, name: str, queues: int = 4) -> None:
        """Create a topic, or change its number of queues; clients find it when this returns.

        Raises
        ------
        RuntimeError
            The broker refuses the request; the message has its remark.
        """
        code = RequestCode.UPDATE_AND_CREATE_TOPIC
        fields: dict[str, Value] = {
            "topic": name,
            "defaultTopic": DEFAULT_TOPIC,
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        ask_once(self.address, RemotingCommand(code, ext_fields=encode_fields(code, fields)))

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """Read all messages of a topic from the store, in the order of the log; also while the broker is down.

        They are as a consumer gets them: ``body`` is decompressed if a producer has compressed it, and ``msg_id`` is
        the producer's. The record itself is in ``view``. Messages that were deleted with their topic are left out.
        """
        begin = begin_phy_offset(StorePaths(self.store), topic)
        found = read(self.store).messages(topics=[topic])
        return [
            ReceivedMessage(
                view, MessageQueue(topic, self._broker_name, view.queue_id), view.queue_offset
            )
            for view in found
            if view.phy_offset >= begin
        ]

    # ---- inside -----------------------------------------------------------------------------------

    def _python(self) -> list[str]:
        """Return the Python command that runs this rmqcore, with this process's packages that are not installed."""
        home = Path(rmqcore.__file__).absolute().parent.parent
        paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
        temporary = str(self._folder) if self._temporary else served_process.KEEP
        return [sys.executable, "-P", served_process.__file__, str(home), paths, temporary]

    def _delete_temporary(self) -> None:
        if self._temporary:
            self._delete()

    def _ready_line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + START_SECONDS
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            readable = select.select([process.stdout], [], [], max(left, 0))[0]
            piece = os.read(process.stdout.fileno(), 4096) if readable else b""
            if not piece:
                self.kill()
                why = f"exit code {process.returncode}" if readable else "it took too long"
                raise RuntimeError(f"the broker has not started, {why}: {self.log()}")
            line += piece
        return line

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        self._process = None


def _delete_own(folder: Path, pid: int) -> None:
    """Delete a directory, but not in a forked child of the process that created it."""
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def ask_once(address: str, request: RemotingCommand) -> RemotingCommand:
    """Send one request over a connection of its own, and return the answer.

    Raises
    ------
    RuntimeError
        The answer is not a success.
    """
    host, _, port = address.rpartition(":")
    decoder = FrameDecoder()
    with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS) as connection:
        connection.sendall(encode_command(request))
        while (frame := decoder.next_frame()) is None:
            data = connection.recv(1 << 16)
            if not data:
                raise RuntimeError(f"{address} has closed the connection without an answer")
            decoder.feed(data)
    response = decode_command(frame)
    if response.code != ResponseCode.SUCCESS:
        raise RuntimeError(f"{address}: code {response.code}: {response.remark}")
    return response
