"""Warnings that peers cause: each once, and only so many."""

from __future__ import annotations

import logging

import pytest

from rmqcore.remoting.codes import LanguageCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.said_once import AGAIN_AFTER_MS, MOST_SAID, SaidOnce, warn_unserved

LOG = logging.getLogger("rmqcore.test_said_once")


def test_a_request_that_is_not_served_is_named_once_for_each_host_and_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = SaidOnce(LOG)
    for peer in ("10.0.0.1:1", "10.0.0.1:2", "[::1]:3", "10.0.0.1:1"):
        for code in (200050, 77777):
            warn_unserved(
                said,
                0,
                "broker",
                peer,
                RemotingCommand(code, language=LanguageCode.GO, remark="x" * 99),
            )
    assert [record.getMessage() for record in caplog.records] == [
        f"GO client {host}: this broker does not support request {name}; the response code is 3"
        for host in ("10.0.0.1", "[::1]")
        for name in ("200050 POP_MESSAGE", "77777")
    ]


def test_neither_log_nor_memory_grows_with_what_a_peer_invents(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = SaidOnce(LOG)
    for what in range(10 * MOST_SAID):
        said.warn(1, what, "no %d", what)
    assert len(caplog.records) == MOST_SAID + 1
    assert "not logged for 60 minutes" in caplog.records[-1].getMessage()
    said.warn(AGAIN_AFTER_MS, "new", "new")
    assert len(caplog.records) == MOST_SAID + 1
    for _ in range(2):
        said.warn(AGAIN_AFTER_MS + 1, "new", "new")
    assert [record.getMessage() for record in caplog.records[MOST_SAID + 1 :]] == ["new"]
