"""Topics of a broker: made by sends, changed, deleted, kept in topics.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeLoop

from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.state.topics import TopicConfigs
from rmqcore.broker.thens import nothing
from rmqcore.disk.paths import StorePaths
from rmqcore.remoting.bodies.topic_configs import TopicConfig


class Home:
    """The topics of a broker in a directory, opened once more at will."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.settings = replace(BrokerSettings(), **settings)
        self.loop = FakeLoop()
        self.open()

    def open(self) -> None:
        self.files = ConfigFiles(StorePaths(self.root), self.loop)
        self.topics = TopicConfigs(self.settings, self.files, self.loop.clock)

    def again(self) -> TopicConfigs:
        self.files.close()
        self.open()
        return self.topics

    def saved(self) -> dict[str, object]:
        text = (self.root / "config" / "topics.json").read_text(encoding="utf-8")
        found: dict[str, object] = json.loads(text)["topicConfigTable"]
        return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.files.close()


def test_a_send_makes_a_topic_that_is_written_before_it_is_answered(home: Home) -> None:
    told: list[TopicConfig | None] = []
    home.topics.create_for_send("orders", "TBW102", 4, 0, told.append)
    assert told == []
    assert home.topics.get("orders") is None
    home.loop.run_until(lambda: bool(told))
    assert told == [TopicConfig("orders", 4, 4, 6)]
    assert home.topics.get("orders") == told[0]
    assert "orders" in home.saved()
    assert home.again().get("orders") == told[0]


def test_all_that_send_at_once_wait_for_the_same_topic(home: Home) -> None:
    told: list[TopicConfig | None] = []
    for queues in (3, 5, 7):
        home.topics.create_for_send("orders", "TBW102", queues, 0, told.append)
    assert told == []
    home.loop.run_until(lambda: len(told) == 3)
    assert told == [TopicConfig("orders", 3, 3, 6)] * 3
    home.topics.create_for_send("orders", "TBW102", 9, 0, told.append)
    assert len(told) == 4


def test_a_topic_is_answered_only_when_it_is_registered(home: Home) -> None:
    registered: list[tuple[TopicConfig, ...]] = []
    waiting: list[Callable[[], object]] = []
    told: list[TopicConfig | None] = []

    def on_change(topics: tuple[TopicConfig, ...], done: Callable[[], object]) -> None:
        assert "orders" in home.saved()
        registered.append(topics)
        waiting.append(done)

    home.topics.on_change = on_change
    home.topics.create_for_send("orders", "TBW102", 4, 0, told.append)
    home.loop.run_until(lambda: bool(waiting))
    assert (told, home.topics.get("orders")) == ([], None)
    waiting.pop()()
    assert told == [TopicConfig("orders", 4, 4, 6)]
    assert registered == [(TopicConfig("orders", 4, 4, 6),)]


@pytest.mark.parametrize(
    ("asked", "queues"), [(4, 4), (8, 8), (1_000_000, 8), (0, 0), (-1, 0), (-(1 << 31), 0)]
)
def test_a_send_gets_no_more_queues_than_the_default_topic_has(
    home: Home, asked: int, queues: int
) -> None:
    assert made(home, asked) == TopicConfig("orders", queues, queues, 6)


def made(home: Home, queue_nums: int = 4, default: str = "TBW102") -> TopicConfig | None:
    told: list[TopicConfig | None] = []
    home.topics.create_for_send("orders", default, queue_nums, 0, told.append)
    home.loop.run_until(lambda: bool(told))
    return told[0]


def test_the_cluster_and_the_broker_are_default_topics_too(home: Home) -> None:
    assert made(home, 100, "DefaultCluster") == TopicConfig("orders", 16, 16, 6)


@pytest.mark.parametrize("default", ["", "missing", "SELF_TEST_TOPIC", "BenchmarkTest"])
def test_other_topics_allow_none(home: Home, default: str) -> None:
    assert made(home, default=default) is None
    assert not (home.root / "config").exists()


def test_no_topic_is_made_where_the_broker_makes_none(tmp_path: Path) -> None:
    home = Home(tmp_path, auto_create_topic_enable=False)
    assert home.topics.get("TBW102") is None
    assert made(home) is None
    home.files.close()


def test_a_broker_that_no_longer_makes_topics_goes_on_with_an_old_file(tmp_path: Path) -> None:
    """TBW102 is in the file of a broker that made topics; it must not make others all the same."""
    home = Home(tmp_path)
    home.topics.update(TopicConfig("known"))
    home.settings = replace(home.settings, auto_create_topic_enable=False)
    home.again()
    assert home.topics.get("TBW102") is not None
    assert made(home) is None
    home.files.close()


@pytest.mark.parametrize("name", ["../up", "a/b", "", "t" * 128])
def test_a_name_that_is_none_makes_no_topic(home: Home, name: str) -> None:
    told: list[TopicConfig | None] = []
    home.topics.create_for_send(name, "TBW102", 4, 0, told.append)
    home.topics.create_for_send_back(name, 1, 6, 0, told.append)
    assert told == [None, None]
    with pytest.raises(ValueError, match="specified topic"):
        home.topics.update(TopicConfig(name))


def test_topics_of_the_broker_need_no_leave(home: Home) -> None:
    told: list[TopicConfig | None] = []
    home.topics.create_for_send_back("%RETRY%g", 1, 6, 2, told.append)
    home.loop.run_until(lambda: bool(told))
    assert told == [TopicConfig("%RETRY%g", 1, 1, 6, topic_sys_flag=2)]
    home.topics.create_for_send_back("%RETRY%g", 5, 4, 0, told.append)
    assert told[1] == told[0]


def test_changes_are_kept(home: Home) -> None:
    done: list[str] = []
    config = TopicConfig("t", 2, 3, 4, attributes={"+message.type": "FIFO"})
    home.topics.update(config, lambda: done.append("made"))
    kept = replace(config, attributes={"message.type": "FIFO"})
    assert home.topics.get("t") == kept
    home.topics.update(replace(config, perm=6, attributes={}), lambda: done.append("changed"))
    home.loop.run_until(lambda: len(done) == 2)
    assert home.again().get("t") == replace(kept, perm=6)
    home.topics.begin_delete("t")
    home.topics.end_delete("t", lambda: done.append("deleted"))
    assert home.topics.get("t") is None
    home.loop.run_until(lambda: len(done) == 3)
    home.topics.begin_delete("t")
    home.topics.end_delete("t", lambda: done.append("not there"))
    assert done == ["made", "changed", "deleted", "not there"]
    assert home.again().get("t") is None


def test_several_changes_are_made_all_or_none(home: Home) -> None:
    with pytest.raises(ValueError, match="unsupported key"):
        home.topics.update_all([TopicConfig("a"), TopicConfig("b", attributes={"+x": "1"})])
    assert home.topics.get("a") is None


def test_a_topic_that_is_deleted_while_it_is_made_is_not_there(home: Home) -> None:
    told: list[TopicConfig | None] = []
    home.topics.create_for_send("orders", "TBW102", 4, 0, told.append)
    home.topics.begin_delete("orders")
    home.topics.end_delete("orders", nothing)
    home.loop.run_until(lambda: bool(told))
    assert told == [None]
    assert home.again().get("orders") is None


def test_a_change_while_a_topic_is_made_stays(home: Home) -> None:
    told: list[TopicConfig | None] = []
    home.topics.create_for_send("orders", "TBW102", 4, 0, told.append)
    home.topics.update(TopicConfig("orders", 1, 1, 4))
    home.loop.run_until(lambda: bool(told))
    assert told == [TopicConfig("orders", 1, 1, 4)]
    assert home.again().get("orders") == TopicConfig("orders", 1, 1, 4)


def test_each_change_is_a_new_version(home: Home) -> None:
    before = home.topics.table().data_version
    home.loop.now_ms += 5
    home.topics.update(TopicConfig("t"))
    after = home.topics.table().data_version
    assert (after.counter, after.timestamp_ms) == (before.counter + 1, home.loop.now_ms)
    assert home.again().table().data_version == after


def test_the_system_topics_are_javas(home: Home) -> None:
    """As `new TopicConfigManager(...)` makes them with the default settings of 5.5.0."""
    found = {
        name: (t.read_queue_nums, t.write_queue_nums, t.perm)
        for name, t in home.topics.known().items()
    }
    assert found == {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "TBW102": (8, 8, 7),
        "BenchmarkTest": (1024, 1024, 6),
        "DefaultCluster": (16, 16, 7),
        "broker-a": (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": (1, 1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": (1, 1, 6),
        "rmq_sys_wheel_timer": (1, 1, 6),
    }
    assert home.topics.is_system("DefaultCluster")
    assert home.topics.is_system("rmq_sys_anything")
    assert not home.topics.is_system("orders")


def test_names_of_a_file_that_are_none_are_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    topics = {name: {"topicName": name} for name in ("good", "../../evil", "a/b")}
    text = json.dumps({"topicConfigTable": topics})
    (tmp_path / "config" / "topics.json").write_text(text)
    home = Home(tmp_path)
    assert home.topics.get("good") == TopicConfig("good")
    assert home.topics.get("../../evil") is None
    assert len(home.files.problems) == 2
    assert "../../evil" in home.files.problems[0]
    home.files.close()


def test_a_file_of_a_wrong_shape_falls_back(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "topics.json").write_text('{"topicConfigTable":{"t":{"perm":"six"}}}')
    (folder / "topics.json.bak").write_text('{"topicConfigTable":{"t":{"topicName":"t","perm":4}}}')
    home = Home(tmp_path)
    assert home.topics.get("t") == TopicConfig("t", perm=4)
    assert "perm is 'six', expected a whole number" in home.files.problems[0]
    home.files.close()


def test_ordered_topics_of_the_name_server(home: Home) -> None:
    home.topics.update(TopicConfig("t"))
    version = home.topics.table().data_version
    home.topics.set_order(["t", "unknown"])
    assert home.topics.get("t") == TopicConfig("t", order=True)
    assert home.topics.table().data_version.counter == version.counter + 1
    home.topics.set_order(["t"])
    assert home.topics.table().data_version.counter == version.counter + 1
