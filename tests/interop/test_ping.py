"""``rmqcore ping`` at the real broker and name server, and at ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from interop.served import KINDS, serving
from support.eventually import eventually

from rmqcore.client.peer_status import ask_status
from rmqcore.errors import RefusedError


def is_answered(address: str) -> bool:
    try:
        asyncio.run(ask_status(address, 20))
    except RefusedError:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_and_a_name_server_are_ready(kind: str, tmp_path: Path) -> None:
    with serving(kind, tmp_path) as served:
        # Java's broker answers with an exception until it has counted for a second.
        eventually(lambda: is_answered(served.address))
        found = asyncio.run(ask_status(served.address, 20))
        assert (found.ready, found.role, found.store) == (True, "broker", "ok")
        assert (found.version, found.broker_id) == ("V5_5_0", 0)
        names = asyncio.run(ask_status(served.namesrv, 20))
        assert (names.ready, names.role, names.brokers) == (True, "name server", [found.name])
