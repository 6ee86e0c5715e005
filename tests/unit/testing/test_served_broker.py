"""The broker for tests of applications: a process of its own, killed and started again; and the pytest plugin that gives one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT

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
        producer.send("Other", b"x")
    assert sorted(bodies(broker, "Six")) == [b"%d" % number for number in range(6)]
    assert {message.uniq_key for message in broker.messages("Six")} == {
        result.msg_id for result in results
    }
    assert broker.store.is_dir()


def test_a_topic_that_is_refused(broker: ServedBroker) -> None:
    with pytest.raises(RuntimeError, match="illegal"):
        broker.create_topic("a b")


def test_after_a_kill_all_that_was_answered_is_there_and_clients_go_on(
    tmp_path: Path,
) -> None:
    settings = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
    with ServedBroker(tmp_path) as broker:
        broker.create_topic("T", queues=1)
        places = broker.namesrv, broker.address
        with (
            Producer(broker.namesrv) as producer,
            PullConsumer(broker.namesrv, "g", **settings) as consumer,
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


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    broker = ServedBroker(tmp_path, {"flushDiskType": "WRONG"})
    with pytest.raises(
        RuntimeError,
        match=r"has not started, exit code 1: .*broker\.conf:\d+: flushDiskType: expected one of",
    ):
        broker.start()
    broker.stop()


# ---- the plugin -------------------------------------------------------------------------------------


def test_the_plugin_costs_a_run_without_a_broker_nothing() -> None:
    """Pytest loads the plugin wherever rmqcore is installed: NumPy and the kernels took a tenth of a second."""
    code = "import pytest, sys; import pytest_rmqcore; print('rmqcore' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


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


def test_the_fixture_in_a_users_tests(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    # -P: a checkout in the working directory would come before what is installed.
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-W", "error", "-p", "pytest_rmqcore"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_the_example_of_the_clients(broker: ServedBroker) -> None:
    command = [sys.executable, str(ROOT / "examples" / "send_and_receive.py"), broker.namesrv]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "got b'hello', tag greeting" in done.stdout
    assert "got b'noise'" not in done.stdout
