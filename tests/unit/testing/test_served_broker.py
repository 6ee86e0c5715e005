"""The broker for tests of applications: a process of its own, killed and started again; and the pytest plugin that gives one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.eventually import eventually
from support.places import ROOT

import rmqcore.testing
from rmqcore.client import Producer, PullConsumer
from rmqcore.errors import NoRouteError
from rmqcore.offline.fsck import fsck
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.testing.served_broker import ServedBroker, ask_once

POLL_SECONDS = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("served")) as served:
        yield served


def bodies(broker: ServedBroker, topic: str) -> list[bytes]:
    return [message.body for message in broker.messages(topic)]


def test_what_a_test_can_ask(broker: ServedBroker) -> None:
    for address in (broker.namesrv, broker.address):
        host, _, port = address.rpartition(":")
        assert host == "127.0.0.1"
        assert 1024 <= int(port) < 65_536
    broker.create_topic("Six", queues=6)
    assert broker.messages("Six") == []
    with Producer(broker.namesrv) as producer:
        results = [producer.send("Six", b"%d" % number, tags="A") for number in range(6)]
        assert {result.queue_id for result in results} == set(range(6))
        producer.send("Other", b"x" * 10_000)  # a producer compresses that
    assert sorted(bodies(broker, "Six")) == [b"%d" % number for number in range(6)]
    assert {message.uniq_key for message in broker.messages("Six")} == {
        result.msg_id for result in results
    }
    (long,) = broker.messages("Other")
    assert long.body == b"x" * 10_000
    assert len(long.view.body) < 1_000
    assert broker.store.is_dir()


def test_a_topic_that_is_refused(broker: ServedBroker) -> None:
    with pytest.raises(RuntimeError, match="illegal"):
        broker.create_topic("a b")


def test_after_a_kill_all_that_was_answered_is_there_and_clients_go_on(
    tmp_path: Path,
) -> None:
    with ServedBroker(tmp_path) as broker:
        broker.create_topic("T", queues=1)
        places = broker.namesrv, broker.address
        with (
            Producer(broker.namesrv) as producer,
            PullConsumer(broker.namesrv, "g", consume_from="CONSUME_FROM_FIRST_OFFSET") as consumer,
        ):
            for number in range(50):
                producer.send("T", b"%d" % number)
            consumer.subscribe("T")
            found: list[bytes] = []
            while len(found) < 50:
                found += [message.body for message in consumer.poll(POLL_SECONDS)]
            consumer.commit()
            broker.kill()
            broker.kill()
            assert len(bodies(broker, "T")) == 50  # also while it is down
            broker.restart()
            assert (broker.namesrv, broker.address) == places
            producer.send("T", b"after")
            while b"after" not in found:
                found += [message.body for message in consumer.poll(POLL_SECONDS)]
        broker.stop()
        broker.stop()
        assert [f.kind for f in fsck(broker.store).findings if f.severity == "error"] == []
        broker.start()
        broker.restart()
        assert len(bodies(broker, "T")) == 51


def test_settings_of_the_broker(tmp_path: Path) -> None:
    with (
        ServedBroker(tmp_path, {"autoCreateTopicEnable": False, "brokerName": "mine"}) as broker,
        Producer(broker.namesrv) as producer,
    ):
        broker.create_topic("T")
        assert producer.send("T", b"x").queue.broker_name == "mine"
        with pytest.raises(NoRouteError):
            producer.send("New", b"x")


def test_the_answer_to_a_large_batch(broker: ServedBroker) -> None:
    """It has all message ids in its header, too long for the client: the batch was stored three times, and the send failed."""
    broker.create_topic("Large", queues=1)
    with Producer(broker.namesrv) as producer:
        result = producer.send_many("Large", [b"%d" % number for number in range(5_000)])
    assert len(result.msg_id.split(",")) == 5_000
    assert bodies(broker, "Large") == [b"%d" % number for number in range(5_000)]


def test_a_test_may_run_on_a_rather_full_disk(tmp_path: Path) -> None:
    """A disk of 76 % failed every test of an application: its broker refused all messages, as one that is to last does."""
    with ServedBroker(tmp_path) as served:
        config = ask_once(served.address, RemotingCommand(code=RequestCode.GET_BROKER_CONFIG))
    lines = (config.body or b"").decode().splitlines()
    assert "diskMaxUsedSpaceRatio=100" in lines
    assert "cleanFileForciblyEnable=false" in lines


def test_a_broker_that_runs_is_not_started_again(broker: ServedBroker) -> None:
    """The second process got no port, and the first one, which served on, was forgotten: `close` did not stop it."""
    with pytest.raises(RuntimeError, match="runs already: restart"):
        broker.start()
    broker.create_topic("StillServed")
    assert broker.messages("StillServed") == []


def test_a_broker_that_has_ended_by_itself_is_started_again(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as served:
        assert served._process is not None
        os.kill(served._process.pid, signal.SIGKILL)
        served._process.wait()
        served.start()
        served.create_topic("Again")


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    broker = ServedBroker(tmp_path, {"flushDiskType": "WRONG"})
    with pytest.raises(
        RuntimeError,
        match=r"has not started, exit code 1: .*broker\.conf:\d+: flushDiskType: expected one of",
    ):
        broker.start()
    broker.stop()


# ---- how it ends ------------------------------------------------------------------------------------

APPLICATION = """
import os, sys, time
from rmqcore.testing import ServedBroker

broker = ServedBroker()
broker.start()
if not os.fork():
    time.sleep(600)  # a child that has the pipe too
print(broker._process.pid, os.getpid(), broker.store.parent, flush=True)
{}
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended, and whose new parent does not collect it.
    state = subprocess.run(
        ["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return state.stdout.strip()[:1] not in ("", "Z")


@pytest.mark.forks
@pytest.mark.parametrize(
    ("end", "number"),
    [
        ("time.sleep(600)", signal.SIGTERM),
        ("time.sleep(600)", signal.SIGKILL),
        ("os._exit(1)", None),
    ],
    ids=["SIGTERM", "SIGKILL", "_exit"],
)
def test_the_broker_ends_with_the_process_that_started_it(
    tmp_path: Path, end: str, number: signal.Signals | None
) -> None:
    """It stayed, with its ports and its store, whenever that ended without running its `finally`."""
    process = subprocess.Popen(
        [sys.executable, "-c", APPLICATION.format(end)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        words = process.stdout.readline().split()
        pid, folder = int(words[0]), Path(words[2])
        assert folder.parent == tmp_path
        if number is not None:
            process.send_signal(number)
        process.wait()
        eventually(lambda: not is_running(pid))
        eventually(lambda: not folder.exists())
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()


def test_without_a_directory_it_has_a_temporary_one() -> None:
    with rmqcore.testing.ServedBroker() as broker:
        broker.create_topic("T")
        with Producer(broker.namesrv) as producer:
            producer.send("T", b"x")
        broker.restart()
        assert bodies(broker, "T") == [b"x"]
        broker.stop()
        assert bodies(broker, "T") == [b"x"]
        folder = broker.store.parent
    assert not folder.exists()
    broker.close()


def test_one_that_does_not_start_leaves_no_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match="has not started"):
        ServedBroker(settings={"flushDiskType": "WRONG"}).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_dropped_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broker = ServedBroker()
    assert len(list(tmp_path.iterdir())) == 1
    del broker
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on
@pytest.mark.forks
def test_a_forked_child_leaves_the_broker_of_its_parent_alone() -> None:
    with ServedBroker() as broker:
        child = os.fork()
        if not child:
            broker.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        broker.create_topic("T")
        assert broker.store.is_dir()


def test_a_directory_that_is_given_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ServedBroker(Path()) as broker:
        monkeypatch.chdir("/")
        broker.create_topic("T")
        assert broker.messages("T") == []
    assert (tmp_path / "store").is_dir()


# ---- the plugin -------------------------------------------------------------------------------------


def test_the_plugin_costs_a_run_without_a_broker_nothing() -> None:
    """Pytest loads the plugin wherever rmqcore is installed: NumPy and the kernels took a tenth of a second."""
    code = "import pytest, sys; import pytest_rmqcore; print('rmqcore' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_importing_the_package_loads_no_broker() -> None:
    code = "import sys, rmqcore; old = set(sys.modules); import rmqcore.testing; print(*(set(sys.modules) - old))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["rmqcore.testing"]
    with pytest.raises(AttributeError, match="no attribute 'Served'"):
        rmqcore.testing.Served  # noqa: B018


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"pytest_rmqcore": "pytest_rmqcore"}
    assert "pytest_rmqcore" in project["tool"]["setuptools"]["packages"]["find"]["include"]


USERS_TESTS = """
import pytest
from rmqcore.client import Producer, PullConsumer

@pytest.fixture
def rocketmq_broker_settings():
    return {"brokerName": "mine"}

@pytest.mark.parametrize("number", [1, 2])
def test_orders(rocketmq_broker, number):
    rocketmq_broker.create_topic("Orders", queues=1)
    with Producer(rocketmq_broker.namesrv) as producer:
        assert producer.send("Orders", b"one").queue_offset == 0  # a new store for each test
    rocketmq_broker.kill()
    rocketmq_broker.restart()
    with PullConsumer(rocketmq_broker.namesrv, "g", consume_from="CONSUME_FROM_FIRST_OFFSET") as consumer:
        consumer.subscribe("Orders")
        (message,) = consumer.poll(60)
    assert message.body == b"one" and message.broker_name == "mine"
    assert [m.body for m in rocketmq_broker.messages("Orders")] == [b"one"]
"""


USERS_SESSION = """
import pytest
from rmqcore.client import Producer

@pytest.fixture(scope="session")
def rocketmq_broker_session_settings():
    return {"brokerName": "mine"}

@pytest.mark.parametrize("number", [1, 2])
def test_orders(rocketmq_broker_session, number):
    rocketmq_broker_session.create_topic(f"Orders{number}", queues=1)
    with Producer(rocketmq_broker_session.namesrv) as producer:
        assert producer.send(f"Orders{number}", b"one").queue.broker_name == "mine"
    print("at", rocketmq_broker_session.address)
"""
USERS_UNITTEST = """
import unittest
from rmqcore.client import Producer
from rmqcore.testing import ServedBroker

class Orders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = cls.enterClassContext(ServedBroker())

    def test_orders(self):
        with Producer(self.broker.namesrv) as producer:
            producer.send("Orders", b"one")
        self.assertEqual([m.body for m in self.broker.messages("Orders")], [b"one"])
"""


def run_users_tests(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # -P: a checkout in the working directory would come before what is installed.
    return subprocess.run(
        [sys.executable, "-P", "-W", "error", "-m", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def run_pytest(folder: Path, *words: str) -> str:
    options = ["-q", "-W", "error", "-p", "pytest_rmqcore", "-p", "no:cacheprovider"]
    options += ["--rootdir", str(folder), f"--basetemp={folder / 'base'}", *words, str(folder)]
    done = run_users_tests(folder, "pytest", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_fixture_in_a_users_tests(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    assert "2 passed" in run_pytest(tmp_path)


def test_a_broker_for_all_tests_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_SESSION)
    found = run_pytest(tmp_path, "-s", "-p", "no:xdist")
    assert "2 passed" in found
    assert len({line.strip(".") for line in found.splitlines() if "at 127" in line}) == 1


def test_with_xdist_each_worker_has_one(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_SESSION)
    found = run_pytest(tmp_path, "-rA", "-p", "xdist", "-n", "2", "--dist", "each")
    assert "4 passed" in found
    assert len({line for line in found.splitlines() if line.startswith("at ")}) == 2


def test_with_unittest(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_UNITTEST)
    done = run_users_tests(tmp_path, "unittest", "discover", "-s", str(tmp_path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("place", "mode"), [("tests", "prepend"), ("tests", "append"), ("", "importlib")]
)
def test_no_module_of_the_application_replaces_one_of_python(
    tmp_path: Path, place: str, mode: str
) -> None:
    """The broker did not start beside a file tests/queue.py: it imported that in place of Python's."""
    folder = tmp_path / "tests"
    folder.mkdir()
    # pytest itself has loaded Python's before its path begins with this folder.
    for name in ("queue", "socketserver", "sched", "typer", "rmqcore"):
        (tmp_path / place / f"{name}.py").write_text("raise RuntimeError('of the application')")
    (folder / "test_users.py").write_text(
        "def test_one(rocketmq_broker):\n    rocketmq_broker.create_topic('Orders')\n"
    )
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}"]
    options += ["--import-mode", mode, "--rootdir", str(tmp_path), "tests"]
    code = "import sys, rmqcore.testing.served_broker, pytest, pytest_rmqcore; sys.path.insert(0, ''); "
    code += f"sys.exit(pytest.main({options!r}))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_example_of_the_clients(broker: ServedBroker) -> None:
    command = [sys.executable, str(ROOT / "examples" / "send_and_receive.py"), broker.namesrv]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "got b'hello', tag greeting" in done.stdout
    assert "got b'noise'" not in done.stdout
