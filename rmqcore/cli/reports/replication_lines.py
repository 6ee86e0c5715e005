"""Master and slave as ``ping`` and ``top`` show them: a line for the broker, and one for each slave."""

from __future__ import annotations

from rmqcore.cli.common.output import counted
from rmqcore.client.peer_status import PeerStatus


def replication_lines(found: PeerStatus) -> list[str]:
    """Return the lines; none for a broker that does not report its role, and for a master that no slave can reach."""
    told = found.replication
    if told is None:
        return []
    slaves, master = told["slaves"], told["master"]
    if master is not None:
        where = f"{told['role']} of {master['ha_address'] or 'an unknown master'}"
        if master["error"]:
            return [f"{where}, log up to {told['log_end']}, not followed: {master['error']}"]
        state = "connected" if master["connected"] else "not connected"
        return [f"{where}, {state}, log up to {told['log_end']}: {_lag(master)}"]
    if not slaves and told["ha_address"] is None:
        return []
    lines = [f"{told['role']}, log up to {told['log_end']}, {counted(len(slaves), 'slave')}"]
    for one in slaves:
        sync = "in sync" if one["in_sync"] else "NOT in sync"
        lines.append(
            f"slave {one['address']} has the log up to {one['phy_offset']}: {_lag(one)}, {sync}"
        )
    return lines


def _lag(one: dict[str, object]) -> str:
    return f"{one['lag_bytes']} bytes, {one['lag_seconds']} s behind"
