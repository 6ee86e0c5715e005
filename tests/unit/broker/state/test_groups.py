"""Consumer groups of a broker: made when they are asked for, changed, deleted, kept in subscriptionGroup.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeLoop

from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.state.groups import SubscriptionGroups
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import RequestError
from rmqcore.remoting.bodies.json_object import encode_json, parse_body
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig, subscription_group


class Home:
    """The groups of a broker in a directory, opened once more at will."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.settings = replace(BrokerSettings(), **settings)
        self.loop = FakeLoop()
        self.open()

    def open(self) -> None:
        self.files = ConfigFiles(StorePaths(self.root), self.loop)
        self.groups = SubscriptionGroups(self.settings, self.files, self.loop.clock)

    def again(self) -> SubscriptionGroups:
        self.files.close()
        self.open()
        return self.groups


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.files.close()


def test_a_group_is_made_when_it_is_asked_for_and_kept(home: Home) -> None:
    assert home.groups.get("g") is None
    assert home.groups.find("g") == SubscriptionGroupConfig("g")
    assert home.groups.find("g") is home.groups.get("g")
    assert home.again().get("g") == SubscriptionGroupConfig("g")


def test_a_broker_that_makes_no_groups(tmp_path: Path) -> None:
    home = Home(tmp_path, auto_create_subscription_group=False)
    assert home.groups.find("g") is None
    assert home.groups.find("TOOLS_CONSUMER") is not None
    assert home.groups.find("CID_RMQ_SYS_new") == SubscriptionGroupConfig("CID_RMQ_SYS_new")
    home.files.close()


@pytest.mark.parametrize("name", ["", "a/b", "../g", "g" * 121])
def test_a_name_that_is_none_makes_no_group(home: Home, name: str) -> None:
    assert home.groups.find(name) is None
    with pytest.raises(ValueError, match="specified group"):
        home.groups.update(SubscriptionGroupConfig(name))


def test_changes_are_kept(home: Home) -> None:
    done: list[str] = []
    config = SubscriptionGroupConfig("g", consume_enable=False, retry_max_times=3)
    home.groups.update(config, lambda: done.append("made"))
    home.loop.run_until(lambda: bool(done))
    assert home.again().get("g") == config
    home.groups.delete("g", lambda: done.append("deleted"))
    home.loop.run_until(lambda: len(done) == 2)
    home.groups.delete("g", lambda: done.append("not there"))
    assert done == ["made", "deleted", "not there"]
    assert home.again().get("g") is None


def test_no_attribute_is_known(home: Home) -> None:
    with pytest.raises(ValueError, match="unsupported key: a"):
        home.groups.update(SubscriptionGroupConfig("g", attributes={"+a": "1"}))


def test_what_java_keeps_of_groups_is_kept(tmp_path: Path) -> None:
    """Members that mean nothing to a broker without POP came from a Java broker, and go back to one."""
    group = {
        **SubscriptionGroupConfig("g").as_json(),
        "groupRetryPolicy": {
            "type": "EXPONENTIAL",
            "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2},
        },
        "subscriptionDataSet": [
            {"topic": "t", "expressionType": "TAG", "expression": "*", "version": 7}
        ],
    }
    saved = {
        "dataVersion": {"counter": 3, "stateVersion": 0, "timestamp": 5},
        "forbiddenTable": {"g": {"t": 1}},
        "subscriptionGroupTable": {"g": group},
    }
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "subscriptionGroup.json").write_text(json.dumps(saved))
    home = Home(tmp_path)
    home.groups.update(SubscriptionGroupConfig("other"))
    table = home.again().table().as_json()
    assert table["subscriptionGroupTable"]["g"] == group
    assert table["forbiddenTable"] == {"g": {"t": 1}}
    assert table["dataVersion"]["counter"] == 4
    home.groups.delete("g")
    assert home.groups.table().forbidden == {}
    home.files.close()


def test_a_name_in_the_file_that_is_none_is_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    text = json.dumps({"subscriptionGroupTable": {"a/b": {"groupName": "a/b"}}})
    (tmp_path / "config" / "subscriptionGroup.json").write_text(text)
    home = Home(tmp_path)
    assert home.groups.get("a/b") is None
    assert "a/b" in home.files.problems[0]
    home.files.close()


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("consumeEnable", "yes"),
        ("retryMaxTimes", 1 << 31),
        ("brokerId", 1 << 63),
        ("groupRetryPolicy", {"type": "NEVER"}),
        ("groupRetryPolicy", {"customizedRetryPolicy": {"next": ["soon"]}}),
        ("subscriptionDataSet", "all"),
        ("groupName", 7),
        ("attributes", {"a": 1}),
    ],
)
def test_bodies_that_are_refused(member: str, value: object) -> None:
    body = encode_json({"groupName": "g", member: value})
    with pytest.raises(RequestError, match=member):
        subscription_group(parse_body("200", body))


def test_the_system_groups_are_javas(home: Home) -> None:
    assert sorted(home.groups.table().groups) == [
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "TOOLS_CONSUMER",
    ]
