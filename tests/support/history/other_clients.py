"""The clients of Java and Go beside those of Python, by the programs of tests/interop.

They send again what was not answered in time, so a message of theirs may be stored twice.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from interop import go_build
from interop.client_manners import said
from interop.java_process import JavaError, JavaProcess
from support.history.clients import Client
from support.history.record import History
from support.tools import missing

GO_TOPIC, JAVA_TOPIC = "FromGo", "FromJava"
GO_GROUP, JAVA_GROUP = "go", "java"
GO_BROADCAST, JAVA_BROADCAST = "go-broadcast", "java-broadcast"
"""Groups whose members get all messages each: as many readers, of which the history has a group each."""
BROADCAST_MEMBERS = 2
OTHER_TOPICS = {GO_TOPIC: 4, JAVA_TOPIC: 4}
GO_SENDS = 5
JAVA_TURN_MS = 8_000
SECONDS = 120.0
POLL_S = 0.2


def other_clients(
    folder: Path, history: History, namesrv: str
) -> tuple[dict[str, str], list[Client], list[Client]]:
    """Return the topic of each group, producers and consumers; none of a language whose programs are missing."""
    groups: dict[str, str] = {}
    senders: list[Client] = []
    readers: list[Client] = []
    if not missing(["go"]):
        groups[GO_GROUP] = GO_TOPIC
        senders.append(GoSender(folder / "go-sender", history, namesrv))
        readers.append(GoReader(folder / "go-reader", history, namesrv, GO_GROUP))
        for name in member_names(GO_BROADCAST):
            groups[name] = GO_TOPIC
            readers.append(GoReader(folder / name, history, namesrv, GO_BROADCAST, alone=name))
    if not missing(["javac", "mvn"]):
        groups[JAVA_GROUP] = JAVA_TOPIC
        senders.append(JavaSender(folder / "java-sender", history, namesrv))
        readers.append(JavaReader(folder / "java-reader", history, namesrv, JAVA_GROUP))
        for name in member_names(JAVA_BROADCAST):
            groups[name] = JAVA_TOPIC
            readers.append(JavaReader(folder / name, history, namesrv, JAVA_BROADCAST, alone=name))
    return groups, senders, readers


def member_names(group: str) -> list[str]:
    """Name the members of a group that broadcasts."""
    return [f"{group}-{number}" for number in range(BROADCAST_MEMBERS)]


class GoSender(Client):
    """Runs the Go producer again and again: messages one by one, one-way ones and a batch."""

    def __init__(self, home: Path, history: History, namesrv: str) -> None:
        super().__init__("go-sender", history, 0)
        self._home, self._namesrv = home, namesrv

    def work(self) -> None:
        turn = 0
        while not self.stopped.is_set():
            turn += 1
            self._send(f"{turn}-")
            self.pause()

    def _send(self, prefix: str) -> None:
        ops: dict[str, int] = {}
        for kind in ("sync", "batch", "oneway", "last"):
            numbers = range(1 if kind == "last" else GO_SENDS)
            sends = [[n] for n in numbers] if kind == "sync" else [list(numbers)]
            for send in sends:
                ops[f"{kind} {send[0]}"] = op = self.history.next_op()
                uids = [f"{prefix}{kind} {number}" for number in send]
                self.history.add(self.name, "send", op=op, topic=GO_TOPIC, uids=uids, retries=True)
        words = ("send", self._namesrv, GO_TOPIC, str(GO_SENDS), prefix)
        done = subprocess.run(
            go_command(*words),
            env=go_environment(self._home),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        self._note(ops, said(done.stdout.splitlines()))

    def _note(self, ops: dict[str, int], sent: Iterable[dict[str, Any]]) -> None:
        syncs = 0
        for one in sent:
            number, syncs = (syncs, syncs + 1) if one["kind"] == "sync" else (0, syncs)
            place = [one["queue_id"], one["queue_offset"]]
            self.history.add(
                self.name,
                "sent",
                op=ops[f"{one['kind']} {number}"],
                ok=one["status"] == 0,
                places=[place],
                error=None,
            )


class GoReader(Client):
    """Runs the Go push consumer until the end; `alone` names a member of a group that broadcasts."""

    def __init__(
        self, home: Path, history: History, namesrv: str, group: str, *, alone: str = ""
    ) -> None:
        super().__init__(alone or "go-reader", history, 0)
        self._home, self._namesrv = home, namesrv
        self._words = [GO_TOPIC, group, "*", *(["broadcast"] if alone else [])]
        self._judged = alone or group

    def work(self) -> None:
        while not self.stopped.is_set():  # one that meets a broker that is away ends at once
            self._live()
            self.pause()

    def _live(self) -> None:
        process = subprocess.Popen(
            go_command("consume", self._namesrv, *self._words),
            env=go_environment(self._home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            while process.poll() is None and not self.stopped.wait(POLL_S):
                pass
            process.stdin.close()
            code = process.wait(SECONDS)
            self.history.add(self.name, "note", error=f"exit code {code}")
        finally:
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()

    def _read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            for one in said([line]):
                self.history.add(
                    self.name,
                    "got",
                    group=self._judged,
                    topic=GO_TOPIC,
                    queue_id=one["queue_id"],
                    queue_offset=one["queue_offset"],
                    uid=one["body"],
                    named="",
                    tries=one["reconsume_times"],
                )


class JavaSender(Client):
    """Sends by the Java producer; its program says whether a message was stored, not where."""

    def __init__(self, home: Path, history: History, namesrv: str) -> None:
        super().__init__("java-sender", history, 0)
        self._home, self._namesrv = home, namesrv

    def work(self) -> None:
        number = 0
        with JavaProcess(self._home) as java:
            while not self.stopped.is_set():
                number += 1
                op = self.history.next_op()
                self.history.add(
                    self.name, "send", op=op, topic=JAVA_TOPIC, uids=[str(number)], retries=True
                )
                error = None
                try:
                    java.call(
                        "produce",
                        nameServer=self._namesrv,
                        topic=JAVA_TOPIC,
                        first=number,
                        count=1,
                    )
                except JavaError as failed:
                    error = str(failed)[:300]
                self.history.add(self.name, "sent", op=op, ok=error is None, error=error)
                self.pause()


class JavaReader(Client):
    """Lets a Java push consumer come, read and go, again and again; `alone` names a member of a group that broadcasts."""

    def __init__(
        self, home: Path, history: History, namesrv: str, group: str, *, alone: str = ""
    ) -> None:
        super().__init__(alone or "java-reader", history, 0)
        self._home, self._namesrv = home, namesrv
        self._more: dict[str, Any] = {"broadcasting": True, "instance": alone} if alone else {}
        self._group, self._judged = group, alone or group

    def work(self) -> None:
        with JavaProcess(self._home) as java:
            while not self.stopped.is_set():
                try:
                    (got,) = java.call(
                        "push",
                        nameServer=self._namesrv,
                        topic=JAVA_TOPIC,
                        group=self._group,
                        tags="*",
                        members=1,
                        wanted=1 << 30,
                        timeoutMs=JAVA_TURN_MS,
                        **self._more,
                    )
                except JavaError as error:
                    self.history.add(self.name, "note", error=str(error)[:300])
                    self.stopped.wait(POLL_S)
                    continue
                for one in got:
                    self.history.add(
                        self.name,
                        "got",
                        group=self._judged,
                        topic=JAVA_TOPIC,
                        queue_id=one["queue_id"],
                        queue_offset=one["queue_offset"],
                        uid=str(one["key"]),
                        named="",
                    )


def go_command(*words: str) -> list[str]:
    """Return the command line of the program over the Go client."""
    return [str(go_build.program()), *words]


def go_environment(home: Path) -> dict[str, str]:
    """Return the variables of the program: its logs go below `home`."""
    home.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "HOME": str(home), "ROCKETMQ_GO_LOG_LEVEL": "fatal"}
