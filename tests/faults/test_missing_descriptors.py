"""A process that may open no more files: what was acknowledged stays, and all goes on once it may."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.eventually import eventually
from support.raw_client import RawClient, send_request
from support.server_process import OPENED, ServerProcess

import rmqcore
from rmqcore.codec.message import Message
from rmqcore.errors import TooManyFilesError
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.testing.crash_check import TINY

BODY = bytes(100_000)
CALM_S = 2.0
LEAST = 3
"""Descriptors that stay allowed: fewer than are open, so that nothing more can be opened."""


@contextmanager
def no_descriptors(pid: int = 0) -> Iterator[None]:
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (LEAST, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def bodies_of(root: Path) -> list[bytes]:
    with rmqcore.read(root) as reader:
        return [view.body for view in reader.messages()]


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_an_embedded_store_goes_on_by_itself(tmp_path: Path, mode: str) -> None:
    root = tmp_path / "store"
    stored: list[bytes] = []

    def put() -> bool:
        body = b"%d:" % len(stored) + bytes(1000)
        result = store.put(Message(f"T{len(stored) % 50}", body))
        if result.stored:
            stored.append(body)
        return result.stored

    with rmqcore.open(root, flush_disk_type=mode, disk_max_used_space_ratio=95, **TINY) as store:
        assert put()
        with no_descriptors():
            while put():
                pass
            assert "Too many open files" in str(store.refusal)
            assert not put()
        eventually(put)
        assert store.refusal is None
        for _ in range(100):
            assert put()
        assert store.wait_dispatched(60)
        eventually(lambda: not store.stats()["errors"])
    assert not (root / "abort").exists()
    assert bodies_of(root) == stored


@pytest.mark.parametrize(
    "step", ["flush", "flush_consume_queues", "write_checkpoint", "prepare_space", "dispatch_once"]
)
def test_a_step_without_a_descriptor_is_repeated(tmp_path: Path, step: str) -> None:
    """Without threads the step raises and names the cause; the same step goes on later, and so does the store."""
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, **TINY) as store:
        for number in range(12):
            assert store.put(Message(f"T{number}", bytes(1000))).stored
            store.flush()
        while step != "dispatch_once" and store.dispatch_once():
            pass
        arguments = (0,) if step == "flush_consume_queues" else ()
        with no_descriptors():
            try:
                getattr(store, step)(*arguments)
            except TooManyFilesError as error:
                assert "Too many open files" in str(error)  # noqa: PT017  (some steps need no descriptor)
        getattr(store, step)(*arguments)
        store.clean_once(disk_ratio=0.5)
        assert store.put(Message("T", b"last")).stored
        while store.dispatch_once():
            pass
    assert len(bodies_of(root)) == 13


def test_a_close_without_descriptors_loses_nothing(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = rmqcore.open(root, **TINY)
    for number in range(30):
        assert store.put(Message(f"T{number}", bytes(300))).stored
    with no_descriptors(), pytest.raises(TooManyFilesError, match="Too many open files"):
        store.close()
    with rmqcore.open(root, **TINY) as store:
        assert store.wait_dispatched(60)
    assert len(bodies_of(root)) == 30


# ---- serve -------------------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_served_store_goes_on_and_clients_read_the_cause(tmp_path: Path, loop: str) -> None:
    before = ["env", f"PYTHONPATH={tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"]
    if loop == "asyncio":
        (tmp_path / "uvloop.py").write_text("raise ImportError")
    with ServerProcess(tmp_path, before=before) as server, RawClient(server.broker) as client:
        sent = 0

        def send() -> RemotingCommand:
            nonlocal sent
            answer = client.ask(send_request("orders", BODY))
            sent += answer.code == ResponseCode.SUCCESS
            return answer

        assert send().code == ResponseCode.SUCCESS
        pid = server.process.pid
        with no_descriptors(pid):
            eventually(lambda: send().code != ResponseCode.SUCCESS)
            remark = str(send().remark)
            assert "Too many open files" in remark
            assert "full" not in remark
            waiting = RawClient(server.broker)  # the system has it; the server cannot accept it
            began, used = time.monotonic(), cpu_seconds(pid)
            eventually(lambda: time.monotonic() - began > CALM_S)
            assert cpu_seconds(pid) - used < CALM_S / 2, "the server spins"
        with waiting:
            eventually(lambda: send().code == ResponseCode.SUCCESS)
            with RawClient(server.broker) as later:
                ask = RemotingCommand(RequestCode.GET_BROKER_CONFIG)
                assert later.ask(ask).code == ResponseCode.SUCCESS
        eventually(lambda: "messages are accepted again" in server.log)
        assert server.log.count("messages are refused for now") >= 1
        assert server.log.count("cannot accept new connections") == 1
        assert "Traceback" not in server.log
        assert server.stop() == 0
        assert len(bodies_of(server.store)) == sent


def test_fewer_connections_than_descriptors_are_taken(tmp_path: Path) -> None:
    """1,020 idle connections under a limit of 1,024 left the store without a file, and it failed for good."""
    before = ("sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))  # for us
    with ServerProcess(tmp_path, before=before) as server, ExitStack() as idle:
        client = idle.enter_context(RawClient(server.broker))
        for port in (server.broker, server.namesrv):
            for _ in range(520):
                idle.enter_context(RawClient(port))
        eventually(lambda: "connections is reached" in server.log)
        for _ in range(30):
            assert client.ask(send_request("orders", BODY)).code == ResponseCode.SUCCESS
        (line,) = [line for line in server.log.splitlines() if "--max-connections" in line]
        assert "from 1000: the limit of open files is 1024" in line
        assert server.open_files() < 1024
        assert server.stop() == 0
    with rmqcore.open(server.store, **OPENED) as store:
        assert store.max_offset("orders", 0) == 30
