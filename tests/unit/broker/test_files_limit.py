"""Connections that a server takes fit the file descriptors of its process, with what the store needs left over."""

from __future__ import annotations

import resource

import pytest

from rmqcore.broker.network import files_limit
from rmqcore.broker.network.files_limit import COMING, OTHER_FILES, allowed_connections
from rmqcore.disk.descriptors import most_open_files

INFINITE = resource.RLIM_INFINITY


class Limits:
    """What `resource` says, and is told."""

    def __init__(self, soft: int, hard: int) -> None:
        self.now = soft, hard

    def get(self, _which: int) -> tuple[int, int]:
        return self.now

    def set(self, _which: int, new: tuple[int, int]) -> None:
        assert new[1] == self.now[1]
        assert new[1] == INFINITE or new[0] <= new[1]
        self.now = new


@pytest.mark.parametrize(
    ("soft", "hard", "ports", "wanted"),
    [(1024, 1024, 2, 1000), (256, 1024, 1, 1000), (1024, 2048, 2, 1000), (600, 600, 2, 1000)],
)
def test_what_the_store_may_need_is_left_over(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    soft: int,
    hard: int,
    ports: int,
    wanted: int,
) -> None:
    limits = Limits(soft, hard)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    store_has = most_open_files()  # by the limit at its open, which comes first
    allowed = allowed_connections(ports, wanted)
    assert limits.now == (hard, hard)
    assert files_limit.LEAST_CONNECTIONS <= allowed < wanted
    assert ports * (allowed + COMING) + store_has + OTHER_FILES <= hard
    (line,) = caplog.messages
    assert (
        f"--max-connections lowered to {allowed} from {wanted}: the limit of open files is {hard} "
        in line
    )


@pytest.mark.parametrize(
    ("soft", "hard"), [(INFINITE, INFINITE), (65536, 65536), (1024, 65536), (1024, INFINITE)]
)
def test_where_there_are_enough_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, soft: int, hard: int
) -> None:
    limits = Limits(soft, hard)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    assert allowed_connections(2, 1000) == 1000
    assert limits.now[0] == INFINITE or limits.now[0] >= 2 * 1000 + OTHER_FILES
    assert not caplog.messages


def test_a_tiny_limit_leaves_a_few(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = Limits(64, 64)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    assert allowed_connections(2, 1000) == files_limit.LEAST_CONNECTIONS
    assert allowed_connections(1, 4) == 4
    assert len(caplog.messages) == 1
