"""RocketMQ's Go and C++ clients at the real broker and at ours: the same tests, the same outcome."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from interop import go_build
from interop.broker import Broker
from interop.client_manners import said
from interop.workload import SIZES
from support.eventually import eventually
from support.raw_client import RawClient
from support.server_process import ServerProcess

from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

pytestmark = pytest.mark.slow
NUMBER = 6
SECONDS = 240.0
TESTS = Path(__file__).parent.parent
CPP = TESTS / "interop" / "cpp_client.py"
HAS_CPP = platform.machine() == "x86_64"  # there are wheels for no other processor
Message = dict[str, Any]


class Served(NamedTuple):
    """A broker that runs."""

    namesrv: str
    address: str


@pytest.fixture(scope="module", params=["java", "rmqcore"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("broker")
    if request.param == "java":
        java = Broker(folder, SIZES)
        with java.running():
            yield Served(java.name_server, java.address)
    else:
        with ServerProcess(folder) as ours:
            yield Served(ours.namesrv, ours.broker)
            assert ours.stop() == 0
            assert "Traceback" not in ours.log


class Client:
    """A program over a client.

    Attributes
    ----------
    name : str
    batches : tuple of str
        The kind of message that it sends as a batch, if it does.
    """

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.batches = ("batch",) if name == "go" else ()
        cpp = [sys.executable, "-P", str(CPP)]
        self._words = [str(go_build.program())] if name == "go" else cpp
        # Logs go below HOME. The program over the C++ client imports what lies below tests.
        more = {"HOME": str(home), "ROCKETMQ_GO_LOG_LEVEL": "error", "PYTHONPATH": str(TESTS)}
        self._env = {**os.environ, **more}
        self._home = home

    def run(self, *words: str) -> list[Message]:
        """Run it to its end."""
        done = subprocess.run(
            [*self._words, *words],
            env=self._env,
            cwd=self._home,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return said(done.stdout.splitlines())

    @contextmanager
    def running(self, *words: str) -> Iterator[Callable[[], list[Message]]]:
        """Run it until the context ends, which gives what it has said so far."""
        errors = self._home / "stderr"
        with errors.open("wb") as log:
            process = subprocess.Popen(
                [*self._words, *words],
                env=self._env,
                cwd=self._home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        lines: list[bytes] = []
        reader = threading.Thread(target=lines.extend, args=(process.stdout,))
        reader.start()
        try:
            yield lambda: said(list(lines))
            process.stdin.close()
            assert process.wait(SECONDS) == 0, errors.read_bytes()[-4000:]
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            reader.join()
            process.stdout.close()


OURS = pytest.param("rmqcore", marks=pytest.mark.smoke)
GO = pytest.param("go", marks=pytest.mark.needs("go"))


@pytest.fixture(params=[GO, "cpp"] if HAS_CPP else [GO])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    return Client(request.param, tmp_path)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name for this test, without what no topic may have."""
    return "Other" + "".join(c if c.isalnum() else "_" for c in request.node.name)


def expected(client: Client, tags: str) -> set[tuple[str, str, str]]:
    """Give body, tag and key of what a client sends with one of these tags."""
    kinds = [(kind, i) for kind in ("sync", *client.batches, "oneway") for i in range(NUMBER)]
    made = {(f"{k} {i}", "abc"[i % 3], f"{k}-{i}") for k, i in [*kinds, ("last", 0)]}
    return {one for one in made if one[1] in tags}


def got_of(messages: list[Message]) -> set[tuple[str, str, str]]:
    return {(m["body"], m["tags"], m["keys"].strip()) for m in messages}


def committed(served: Served, topic: str, group: str, queue_id: int) -> int:
    """Give the offset that the broker has of a group; -1 where it has none."""
    code = RequestCode.QUERY_CONSUMER_OFFSET
    fields: dict[str, Value] = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
    fields["setZeroIfNotFound"] = False
    with RawClient(served.address) as asker:
        found = asker.ask(RemotingCommand(code, ext_fields=encode_fields(code, fields)))
    return int(found.ext_fields["offset"]) if found.code == ResponseCode.SUCCESS else -1


def all_committed(served: Served, topic: str, group: str, messages: list[Message]) -> bool:
    ends: dict[int, int] = {}
    for message in messages:
        ends[message["queue_id"]] = max(
            message["queue_offset"] + 1, ends.get(message["queue_id"], 0)
        )
    return all(committed(served, topic, group, queue) >= end for queue, end in ends.items())


@pytest.mark.parametrize("served", ["java", OURS], indirect=True)
def test_what_is_sent_is_consumed_once(served: Served, client: Client, topic: str) -> None:
    sent = client.run("send", served.namesrv, topic, str(NUMBER))
    assert [one["kind"] for one in sent] == ["sync"] * NUMBER + [*client.batches, "last"]
    assert all(one["status"] == 0 for one in sent)
    consume = ("consume", served.namesrv, topic, f"G{topic}", "a || c")
    with client.running(*consume) as messages:
        eventually(lambda: len(messages()) >= len(expected(client, "ac")), within_s=SECONDS)
        first = messages()
        eventually(lambda: all_committed(served, topic, f"G{topic}", first), within_s=SECONDS)
    assert got_of(first) == expected(client, "ac")
    assert len(first) == len(expected(client, "ac"))
    assert all(m["reconsume_times"] == 0 for m in first)
    # Each place of a queue is there once, and what one send was told is where it lies.
    assert len({(m["queue_id"], m["queue_offset"]) for m in first}) == len(first)
    # A member that comes later goes on where the group was: it gets what is new, and nothing else.
    client.run("send", served.namesrv, topic, str(NUMBER))
    with client.running(*consume) as messages:
        eventually(lambda: len(messages()) >= len(expected(client, "ac")), within_s=SECONDS)
        second = messages()
    assert got_of(second) == expected(client, "ac")
    places = {(m["queue_id"], m["queue_offset"]) for m in first}
    assert places.isdisjoint((m["queue_id"], m["queue_offset"]) for m in second)


@pytest.mark.skipif(not HAS_CPP, reason="no wheel has the C++ client for this processor")
def test_the_pull_consumer_of_cpp(served: Served, tmp_path: Path, topic: str) -> None:
    client = Client("cpp", tmp_path)
    client.run("send", served.namesrv, topic, str(NUMBER))
    got: list[Message] = []

    def pulled() -> bool:
        got[:] = client.run("pull", served.namesrv, topic, f"G{topic}", "b")
        return len(got) >= len(expected(client, "b"))

    eventually(pulled, within_s=SECONDS)  # one-way messages may come a moment later
    assert got_of(got) == expected(client, "b")
    assert len(got) == len(expected(client, "b"))
