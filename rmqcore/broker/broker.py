"""A broker without its sockets: the store, what the broker knows beside it, and the clock and loop that it goes by.

Source: RocketMQ 5.5.0 BrokerController.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rmqcore.broker.channel import Channel, Loop, Timer
from rmqcore.broker.client_requests import ClientRequests
from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.state.groups import SubscriptionGroups
from rmqcore.broker.state.stats import BrokerStats
from rmqcore.broker.state.topics import TopicConfigs
from rmqcore.engine.store.store import MessageStore


class Broker:
    """All that the handlers of requests share. Its methods are called by the loop's thread only.

    Parameters
    ----------
    store : MessageStore
        Open, with its threads. The broker does not close it.
    settings : BrokerSettings
    loop : Loop
    address : str
        ``host:port`` that clients are told, and that stored records name.
    now_ms : callable, optional
        The clock: milliseconds since the epoch.

    Attributes
    ----------
    client_requests : ClientRequests
        Requests of the broker that a client is to answer.
    config_files : ConfigFiles
        Whoever stops the broker closes them.
    topics : TopicConfigs
    groups : SubscriptionGroups
    stats : BrokerStats
    """

    def __init__(
        self,
        store: MessageStore,
        settings: BrokerSettings,
        loop: Loop,
        *,
        address: str,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self.loop = loop
        self.address = address
        self.now_ms = now_ms or _wall_clock_ms
        self.client_requests = ClientRequests(loop)
        self._repeated: list[_Repeated] = []
        self.config_files = ConfigFiles(store.paths, loop)
        self.topics = TopicConfigs(settings, self.config_files, self.now_ms)
        self.groups = SubscriptionGroups(settings, self.config_files, self.now_ms)
        self.stats = BrokerStats(settings.broker_cluster_name, self.now_ms)
        self.every(1_000, self.stats.every_second)
        self.every(10_000, self.stats.every_ten_seconds)

    def every(self, period_ms: int, step: Callable[[], object]) -> None:
        """Call `step` in the loop's thread each `period_ms`, from one period from now on, until `stop`."""
        self._repeated.append(_Repeated(self.loop, period_ms / 1000, step))

    def channel_closed(self, channel: Channel) -> None:
        """Forget a connection that was closed."""
        self.client_requests.channel_closed(channel)

    def stop(self) -> None:
        """End what `every` has begun."""
        for repeated in self._repeated:
            repeated.stop()
        self._repeated.clear()


class _Repeated:
    """A step that the loop makes again and again; one that raises is made again as well."""

    def __init__(self, loop: Loop, period: float, step: Callable[[], object]) -> None:
        self._loop = loop
        self._period = period
        self._step = step
        self._timer: Timer | None = loop.call_later(period, self._run)

    def _run(self) -> None:
        if self._timer is None:
            return
        self._timer = self._loop.call_later(self._period, self._run)
        self._step()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
