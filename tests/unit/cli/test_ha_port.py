"""Where `rmqcore serve` listens for slaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.server_process import ServerProcess

FIRST_UNPRIVILEGED = 1024


@pytest.mark.parametrize("settings", [{"haListenPort": 0}, {"brokerRole": "SYNC_MASTER"}])
def test_beside_a_free_port_the_ha_port_is_a_free_one(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """haListenPort=0 is the port above the broker's, and ``--port 0`` is any port: the one above 0 is not."""
    with ServerProcess(tmp_path, settings=settings) as server:
        assert int(server.ha.rpartition(":")[2]) >= FIRST_UNPRIVILEGED
        assert server.stop() == 0
