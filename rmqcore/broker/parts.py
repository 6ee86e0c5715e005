"""The parts of a broker that its puts, delay levels and transactions use; these never import `broker`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rmqcore.broker.channel import Loop
from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.offset_waits import OffsetWaits
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.state.disk_guard import DiskGuard
from rmqcore.broker.state.offsets import Offsets
from rmqcore.broker.state.producers import Producers
from rmqcore.broker.state.stats import BrokerStats
from rmqcore.broker.state.topics import TopicConfigs
from rmqcore.broker.worker import Worker
from rmqcore.engine.store.store import MessageStore


class BrokerParts(Protocol):
    """The attributes of a `Broker`, which documents them."""

    store: MessageStore
    settings: BrokerSettings
    loop: Loop
    address: str
    store_host: str
    now_ms: Callable[[], int]
    steady_ms: Callable[[], int]
    puts_in_flight: int
    safe_waits: tuple[OffsetWaits, ...]
    config_files: ConfigFiles
    topics: TopicConfigs
    stats: BrokerStats
    disk_guard: DiskGuard
    offsets: Offsets
    producers: Producers
    readers: Worker

    def every(self, period_ms: int, step: Callable[[], object]) -> None:
        """Call `step` in the loop's thread each `period_ms`."""
        ...
