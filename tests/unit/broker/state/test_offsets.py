"""Committed offsets: in memory, in consumerOffset.json, and what is done with a file that is odd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeLoop
from support.sends import Sender

from rmqcore import Message
from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.state.offsets import FILE, UPDATE_VERSION_STEP, Offsets, OffsetsFullError
from rmqcore.disk.consumer_offsets import read_consumer_offsets
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreFormatError

MOST = 1_000


class Home:
    """The offsets of a broker in a directory, opened once more at will."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.loop = FakeLoop()
        self.files = ConfigFiles(StorePaths(root), self.loop)
        self.offsets = Offsets(self.files, self.loop.clock, most=MOST)

    def again(self) -> Offsets:
        self.offsets.save_if_changed()
        self.files.close()
        self.files = ConfigFiles(StorePaths(self.root), self.loop)
        self.offsets = Offsets(self.files, self.loop.clock, most=MOST)
        return self.offsets


@pytest.fixture
def home(tmp_path: Path) -> Any:
    made = Home(tmp_path)
    yield made
    made.files.close()


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SLAVE"])
def test_offsets_behind_the_end_of_a_queue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, role: str
) -> None:
    """The log lost messages that a group had received: it was never given the next ones, which got their queue offsets."""
    sender = Sender(tmp_path)
    for _ in range(7):
        sender.store.put(Message("t", b"body", queue_id=1)).raise_for_status()
    assert sender.store.wait_dispatched(60)
    committed = [("t", 0, 3), ("t", 1, 6), ("t", 1, 7), ("t", 1, 9), ("other", 1, 9)]
    for number, (topic, queue_id, queue_offset) in enumerate(committed):
        sender.broker.offsets.commit(f"g{number}", topic, queue_id, queue_offset)
    sender.close()

    again = Sender(tmp_path, store={"broker_role": role})
    again.broker.start()
    found = [
        again.broker.offsets.query(f"g{number}", topic, queue_id)
        for number, (topic, queue_id, _) in enumerate(committed)
    ]
    again.close()
    is_master = role != "SLAVE"
    assert found == [3, 6, 7, 7 if is_master else 9, 9]
    told = "are set to the ends (1): group 'g3', topic 't', queue 1: from 9 to 7"
    assert (told in caplog.text) == is_master
    groups = read_consumer_offsets(StorePaths(tmp_path)).groups
    assert groups["g3"] == {("t", 1): found[3]}


def test_offsets_are_there_after_a_restart(home: Home) -> None:
    assert home.offsets.query("g", "t", 0) == -1
    home.offsets.commit("g", "t", 0, 5)
    home.offsets.commit("g", "t", 3, 7)
    home.offsets.commit("h", "%RETRY%h", 0, 0)
    again = home.again()
    assert [again.query("g", "t", queue_id) for queue_id in (0, 1, 3)] == [5, -1, 7]
    assert again.query("h", "%RETRY%h", 0) == 0
    assert again.topics_of("g") == ["t"]
    assert again.groups_of("t") == ["g"]
    assert again.queues("g", "t") == {0: 5, 3: 7}
    read = read_consumer_offsets(StorePaths(home.root))
    assert read.groups == {"g": {("t", 0): 5, ("t", 3): 7}, "h": {("%RETRY%h", 0): 0}}
    assert read.problems == ()


def test_an_offset_may_go_back(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.offsets.commit("g", "t", 0, 5, "1.2.3.4:5")
    home.offsets.commit("g", "t", 0, 4, "1.2.3.4:5")
    assert home.offsets.query("g", "t", 0) == 4
    assert (
        "1.2.3.4:5 sets the offset of group 'g', topic 't', queue 0 back from 5 to 4" in caplog.text
    )


def test_the_file_is_written_only_where_an_offset_is_another_one(home: Home) -> None:
    path = home.root / "config" / FILE
    home.offsets.save_if_changed()
    home.offsets.commit("g", "t", 0, 5)
    home.again()
    path.unlink()
    home.offsets.commit("g", "t", 0, 5)
    home.again()
    assert not path.exists()


def test_pulls_are_not_saved(home: Home) -> None:
    home.offsets.commit("g", "t", 0, 5)
    assert home.offsets.query_pull("g", "t", 0) == 5
    home.offsets.note_pull("g", "t", 0, 9)
    assert home.offsets.query_pull("g", "t", 0) == 9
    assert home.offsets.query_pull("g", "t", 1) == -1
    assert home.again().query_pull("g", "t", 0) == 5


def test_groups_and_topics_are_forgotten(home: Home) -> None:
    for group in ("g", "h"):
        for topic in ("t", "u"):
            home.offsets.commit(group, topic, 0, 1)
            home.offsets.note_pull(group, topic, 0, 2)
    home.offsets.remove("g")
    home.offsets.remove_topic("u")
    again = home.again()
    assert again.whole()["offsetTable"] == {"t@h": {"0": 1}}


def test_the_version_counts_commits(home: Home) -> None:
    before = home.offsets.whole()["dataVersion"]
    for number in range(UPDATE_VERSION_STEP):
        assert home.offsets.whole()["dataVersion"] == before
        home.offsets.commit("g", "t", 0, number)
    after = home.offsets.whole()["dataVersion"]
    assert after["counter"] == before["counter"] + 1
    assert home.again().whole()["dataVersion"] == after


def test_what_is_no_offset_is_left_out_and_told(home: Home) -> None:
    config = home.root / "config"
    config.mkdir(exist_ok=True)
    table = {"t@g": {"0": 5, "1": -3, "x": 1}, "nothing": {"0": 1}}
    (config / FILE).write_text(json.dumps({"offsetTable": table}))
    again = home.again()
    assert again.whole()["offsetTable"] == {"t@g": {"0": 5}}
    assert len(home.files.problems) == 3


def test_a_torn_file_without_another_is_no_empty_one(home: Home) -> None:
    config = home.root / "config"
    config.mkdir(exist_ok=True)
    (config / FILE).write_text('{"offsetTable":{"t@g":{"0"')
    with pytest.raises(StoreFormatError):
        home.again()
    (config / f"{FILE}.bak").write_text('{"offsetTable":{"t@g":{0:4}}}')
    assert home.again().query("g", "t", 0) == 4


LMQ = {
    "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1},
    "groupTopicMap": {},
    "lmqOffsetTable": {"T@%LMQ%light": 4},
    "offsetTable": {"T@g": {"0": 8}},
    "pullOffsetTable": {},
}


def test_with_light_queues_all_offsets_are_in_the_file_that_java_reads(tmp_path: Path) -> None:
    file = tmp_path / "config" / "lmqConsumerOffset.json"
    file.parent.mkdir()
    file.write_text(json.dumps(LMQ))
    files = ConfigFiles(StorePaths(tmp_path), FakeLoop())
    offsets = Offsets(files, FakeLoop().clock, lmq=True, most=MOST)
    assert offsets.query("g", "T", 0) == 8
    assert offsets.query("%LMQ%light", "T", 0) == 4
    offsets.commit("g", "T", 0, 9)
    offsets.commit("%LMQ%light", "T", 0, 5)
    offsets.save_if_changed()
    files.close()
    saved = json.loads(file.read_text())
    assert saved["offsetTable"] == {"T@g": {"0": 9}}
    assert saved["lmqOffsetTable"] == {"T@%LMQ%light": 5}
    assert not (tmp_path / "config" / "consumerOffset.json").exists()
    read = read_consumer_offsets(StorePaths(tmp_path))
    assert read.groups == {"g": {("T", 0): 9}, "%LMQ%light": {("T", 0): 5}}
    assert read.source == file


@pytest.mark.parametrize("lmq", [True, False])
def test_a_broker_whose_enable_lmq_was_changed_forgets_no_group(tmp_path: Path, lmq: bool) -> None:
    names = ("consumerOffset.json", "lmqConsumerOffset.json")
    other, own = names if lmq else names[::-1]
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / other).write_text(json.dumps(LMQ))
    files = ConfigFiles(StorePaths(tmp_path), FakeLoop())
    offsets = Offsets(files, FakeLoop().clock, lmq=lmq, most=MOST)
    assert offsets.query("g", "T", 0) == 8
    assert files.problems == [f"{own} is missing, and the offsets of {other} are continued there"]
    offsets.save_if_changed()
    files.close()
    table = json.loads((tmp_path / "config" / own).read_text())["offsetTable"]
    assert table["T@g"] == {"0": 8}
    assert lmq or table["T@%LMQ%light"] == {"0": 4}


def test_a_snapshot_has_the_groups_of_its_time(tmp_path: Path) -> None:
    loop = FakeLoop()
    files = ConfigFiles(StorePaths(tmp_path), loop)
    offsets = Offsets(files, loop.clock, most=MOST)
    offsets.commit("g", "t", 0, 1)
    make = offsets.snapshot()
    offsets.commit("other", "t", 0, 1)
    offsets.commit("g", "t", 1, 5)
    assert make()["offsetTable"] == {"t@g": {"0": 1, "1": 5}}, "each offset is one of then or later"
    files.close()


def test_offsets_have_a_bound(home: Home) -> None:
    """A client committed for each group and queue that has a name, and the broker kept all of it."""
    offsets = home.offsets
    greedy = "127.0.0.1:1"

    def fill() -> None:
        for number in range(MOST):
            offsets.commit("g", "t", number, 5, greedy)

    with pytest.raises(OffsetsFullError, match="maxConsumerOffsets"):
        fill()
    made = len(offsets.queues("g", "t"))
    assert made == MOST * 9 // 10
    offsets.commit("g", "t", 0, 6, greedy)
    for number in range(MOST - made):
        offsets.commit("h", "t", number, 5, f"127.0.0.1:{2 + number // 5}")
    with pytest.raises(OffsetsFullError):
        offsets.commit("i", "t", 0, 5, "127.0.0.1:900")
    with pytest.raises(OffsetsFullError):
        offsets.clone("g", "i", "t")
    offsets.commit("own", "t", 0, 5, is_own=True)
    offsets.remove("h")
    offsets.commit("i", "t", 0, 5, "127.0.0.1:900")
    assert offsets.query("i", "t", 0) == 5
    offsets.client_closed(greedy)
    offsets.commit("i", "t", 1, 5, greedy)
    again = home.again()
    assert again.query("own", "t", 0) == 5
    assert len(again.queues("g", "t")) == made


def test_offsets_of_pulls_have_a_bound(home: Home) -> None:
    for number in range(3 * MOST):
        home.offsets.note_pull(f"g{number % 1500}", "t", number, 7)
    assert home.offsets.query_pull("g1499", "t", 3 * MOST - 1) == 7
    assert home.offsets.query_pull("g0", "t", 0) == -1
    assert sum(map(len, home.offsets._pulled.values())) <= MOST
