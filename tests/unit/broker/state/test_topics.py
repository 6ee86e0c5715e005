"""Topics of a broker: made by sends, changed, deleted, kept in topics.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.broker import FakeLoop

from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.state.topics import TopicConfigs
from rmqcore.disk.paths import StorePaths
from rmqcore.remoting.bodies.topic_configs import TopicConfig


class Home:
    """The topics of a broker in a directory, opened once more at will."""

    def __init__(self, root: Path, **settings: object) -> None:
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
