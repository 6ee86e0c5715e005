"""`rmqcore serve` names the keys of a ``broker.conf`` that are not true of it, with file and line, and starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.server_process import ServerProcess

from rmqcore.config.broker_keys import IGNORED_KEYS
from rmqcore.config.unused import LEFT_TO_JAVA, NOT_SERVED_KEYS, not_true_here

KEPT = {"recallMessageEnable": "false", "serverLoadBalancerEnable": "true"}
UNTRUE = {
    "timerWheelEnable": "true",
    "defaultMessageRequestMode": "POP",
    "serverLoadBalancerEnable": "false",
}


def test_keys_that_are_not_true_are_named_at_the_start(tmp_path: Path) -> None:
    settings = {**KEPT, **UNTRUE, "storePathRootDir": "/elsewhere"}
    with ServerProcess(tmp_path, settings=settings) as server:
        assert server.stop() == 0
    found = re.findall(r"^Warning: \S+serve\.conf:\d+: (\w+)", server.log, re.MULTILINE)
    assert sorted(found) == sorted([*UNTRUE, "store_path_root_dir"])
    assert "(storePathRootDir) is /elsewhere" in server.log
    assert "UnusedSettingWarning" not in server.log


def test_a_configuration_without_such_keys_is_passed_over_in_silence(tmp_path: Path) -> None:
    settings = {**KEPT, "storePathRootDir": tmp_path / "store"}
    with ServerProcess(tmp_path, settings=settings) as server:
        assert server.stop() == 0
    assert server.log == ""


@pytest.mark.parametrize("key", [*LEFT_TO_JAVA, *NOT_SERVED_KEYS])
def test_each_key_is_one_of_rocketmq_and_may_be_empty(key: str) -> None:
    assert key in IGNORED_KEYS
    tables = {**LEFT_TO_JAVA, **NOT_SERVED_KEYS}
    assert not_true_here({key: ""}, tables) == []
    assert not_true_here({key: " odd "}, tables)[0].startswith(f"{key}= odd : ")
