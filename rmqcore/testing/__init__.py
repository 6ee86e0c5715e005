"""Proofs that a store keeps acknowledged messages: kills, power cuts, failing system calls, damage; on any machine.

`torture` is the command, ``python -m rmqcore.testing.torture DIR``; the other modules are its parts, which the tests of this
project use too. `ServedBroker` is a broker for tests of applications, which the pytest plugin gives to a test; it is imported
when it is first used. The package sits beside the command line and may import everything below; nothing imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmqcore.testing.served_broker import ServedBroker

__all__ = ["ServedBroker"]


def __getattr__(name: str) -> Any:
    if name != "ServedBroker":
        raise AttributeError(f"module 'rmqcore.testing' has no attribute {name!r}")
    from rmqcore.testing.served_broker import ServedBroker

    globals()[name] = ServedBroker
    return ServedBroker
