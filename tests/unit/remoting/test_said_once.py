"""Warnings that peers cause: each once, and only so many."""

from __future__ import annotations

import logging

import pytest

from rmqcore.remoting.codes import LanguageCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.said_once import AGAIN_AFTER_S, MOST_SAID, SaidOnce, warn_unserved

LOG = logging.getLogger("rmqcore.test_said_once")


def test_a_request_that_is_not_served_is_named_once_for_each_host_and_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = SaidOnce(LOG)
    for peer in ("10.0.0.1:1", "10.0.0.1:2", "[::1]:3", "10.0.0.1:1"):
        for code in (200050, 77777):
            warn_unserved(
                said,
                "broker",
                peer,
                RemotingCommand(code, language=LanguageCode.GO, remark="x" * 99),
            )
    assert [record.getMessage() for record in caplog.records] == [
        f"GO client {host}: this broker does not serve request {name}; it is answered with code 3"
        for host in ("10.0.0.1", "[::1]")
        for name in ("200050 POP_MESSAGE", "77777")
    ]


def test_neither_log_nor_memory_grows_with_what_a_peer_invents(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    said = SaidOnce(LOG, lambda: now)
    for what in range(10 * MOST_SAID):
        said.warn(what, "no %d", what)
    assert len(caplog.records) == MOST_SAID + 1
    assert "left out for 60 minutes" in caplog.records[-1].getMessage()
    now = AGAIN_AFTER_S
    said.warn("new", "new")
    said.warn("new", "new")
    assert [record.getMessage() for record in caplog.records[MOST_SAID + 1 :]] == ["new"]
