"""A broker without its sockets: the store, the broker's own state, and the clock and loop that it uses.

Source: RocketMQ 5.5.0 BrokerController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmqcore.broker.channel import Channel, Loop, Timer
from rmqcore.broker.client_requests import ClientRequests
from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.log_limit import LogLimit
from rmqcore.broker.put_message import safe_waits
from rmqcore.broker.schedule import ScheduleMessages
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.state.client_memory import ClientMemory
from rmqcore.broker.state.consumer_filters import SAVE_PERIOD_MS, ConsumerFilters
from rmqcore.broker.state.consumers import Consumers
from rmqcore.broker.state.deleted_topics import DeletedTopics
from rmqcore.broker.state.disk_guard import DiskGuard
from rmqcore.broker.state.groups import SubscriptionGroups
from rmqcore.broker.state.held_pulls import CHECK_PERIOD_MS, HeldPulls
from rmqcore.broker.state.offsets import Offsets
from rmqcore.broker.state.producers import Producers
from rmqcore.broker.state.queue_locks import QueueLocks
from rmqcore.broker.state.replication import Replication
from rmqcore.broker.state.stats import BrokerStats
from rmqcore.broker.state.store_watch import LOOK_MS, StoreWatch
from rmqcore.broker.state.topics import TopicConfigs
from rmqcore.broker.state.uniq_keys import UniqKeys
from rmqcore.broker.transactions.service import Transactions
from rmqcore.broker.worker import Worker
from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.bodies.routes import BrokerData, QueueData, TopicRoute
from rmqcore.remoting.said_once import SaidOnce
from rmqcore.vocabulary.clock import steady_clock_ms, wall_clock_ms

READERS = 4
"""Threads that wait for pages of the log: so many reads a disk is asked for at once."""
SCAN_PERIOD_MS = 10_000
"""So often is looked for clients that are silent."""
FindRoute = Callable[[str, Callable[[TopicRoute | None], object]], object]
"""Called with a topic, and the function to call with its route, at once or later; None if no broker has the topic."""
_LOG = logging.getLogger("rmqcore.broker")


class Broker:
    """The state that all request handlers share. Its methods are called by the loop's thread only.

    Parameters
    ----------
    store : MessageStore
        Open, with its threads. The broker does not close it.
    settings : BrokerSettings
    loop : Loop
    address : str
        ``host:port`` that clients receive.
    store_host : str, optional
        ``ip:port`` that stored records name, and that message ids have in them; `address` where that is one already.
    now_ms : callable, optional
        The clock: milliseconds since the epoch.
    steady_ms : callable, optional
        Milliseconds of a clock that is never set, for timeouts.

    Attributes
    ----------
    client_requests : ClientRequests
        Requests of the broker that a client is to answer.
    config_files : ConfigFiles
    worker : Worker
        For requests of administrators that read the disk.
    parser : Worker
        For long bodies of requests and answers.
    readers : Worker
        For messages that memory does not hold. At most one piece of work waits per request, and requests are bounded.
    topics : TopicConfigs
    deleted_topics : DeletedTopics
    groups : SubscriptionGroups
    stats : BrokerStats
    consumers : Consumers
    producers : Producers
    consumer_filters : ConsumerFilters
    offsets : Offsets
    queue_locks : QueueLocks
    held_pulls : HeldPulls
    disk_guard : DiskGuard
    uniq_keys : UniqKeys
    schedule : ScheduleMessages
    transactions : Transactions
    replication : Replication
    find_route : FindRoute
        Asks a name server; without one, the broker's own queues are the route.
    said_once : SaidOnce
        Warnings that clients cause by requests that are not served.
    puts_in_flight : int
        Messages that are appended, and that the disk or followers have not confirmed yet.
    safe_waits : tuple of OffsetWaits
        What waiting messages wait for: the disk, followers, both; see `put_message.when_safe`.
    """

    def __init__(
        self,
        store: MessageStore,
        settings: BrokerSettings,
        loop: Loop,
        *,
        address: str,
        store_host: str | None = None,
        now_ms: Callable[[], int] | None = None,
        steady_ms: Callable[[], int] | None = None,
    ) -> None:
        self._log_limit = LogLimit()
        _LOG.addFilter(self._log_limit)
        self.store = store
        self.settings = settings
        self.loop = loop
        self.address = address
        self.store_host = store_host or address
        self.now_ms = now_ms or wall_clock_ms
        self.steady_ms = steady_ms or steady_clock_ms
        self.puts_in_flight = 0
        self.safe_waits = safe_waits(loop, store)
        self.said_once = SaidOnce(_LOG)
        self.find_route: FindRoute = self._own_route
        self.client_requests = ClientRequests(loop)
        self._repeated: list[_Repeated] = []
        self.config_files = ConfigFiles(store.paths, loop)
        self.worker = Worker(loop)
        self.parser = Worker(loop, "rmqcore-parse", makes_objects=True)
        self.readers = Worker(loop, "rmqcore-read", threads=READERS, most_waiting=None)
        self.topics = TopicConfigs(settings, self.config_files, self.now_ms)
        self.deleted_topics = DeletedTopics(self.config_files, store)
        self.groups = SubscriptionGroups(settings, self.config_files, self.now_ms)
        self.stats = BrokerStats(
            settings.broker_cluster_name,
            self.now_ms,
            self.topics.is_system,
            settings.max_stats_items,
        )
        self.disk_guard = DiskGuard(store.paths, store.config, self.now_ms)
        self.uniq_keys = UniqKeys(self.store_host, self.now_ms)
        self.replication = Replication()
        self.schedule = ScheduleMessages(self)
        self.transactions = Transactions(self)
        self.every(1_000, self.stats.every_second)
        self.every(10_000, self.stats.every_ten_seconds)
        self.consumer_filters = ConsumerFilters(
            self.config_files, self.now_ms(), settings.max_dead_filter_bytes
        )
        client_memory = ClientMemory(
            settings.max_client_bytes_per_connection, settings.max_client_bytes, self._evict
        )
        self.consumers = Consumers(
            settings.channel_expired_timeout,
            notify=settings.notify_consumer_ids_changed_enable,
            filters=self.consumer_filters,
            memory=client_memory,
        )
        self.producers = Producers(settings.channel_expired_timeout, client_memory)
        self.offsets = Offsets(
            self.config_files,
            self.now_ms,
            lmq=store.config.enable_lmq,
            most=settings.max_consumer_offsets,
        )
        self.queue_locks = QueueLocks(self.now_ms, settings.max_queue_locks, self._evict)
        self.held_pulls = HeldPulls(loop, store, self.steady_ms, settings.max_held_pull_bytes)
        self.store_watch = StoreWatch(store)
        self.every(LOOK_MS, self.store_watch.look)
        self.every(SCAN_PERIOD_MS, self.drop_silent)
        self.every(settings.flush_consumer_offset_interval, self.offsets.save_if_changed)
        self.every(SAVE_PERIOD_MS, self.consumer_filters.save_if_changed)
        self.every(CHECK_PERIOD_MS, self.held_pulls.check)

    def every(self, period_ms: int, step: Callable[[], object]) -> None:
        """Call `step` in the loop's thread each `period_ms`, from one period from now on, until `stop`."""
        self._repeated.append(_Repeated(self.loop, period_ms / 1000, step))

    def _own_route(self, topic: str, then: Callable[[TopicRoute | None], object]) -> None:
        found, settings = self.topics.get(topic), self.settings
        if found is None:
            then(None)
            return
        cluster, name = settings.broker_cluster_name, settings.broker_name
        then(
            TopicRoute(
                (BrokerData(cluster, name, {settings.broker_id: self.address}),),
                (QueueData(name, found.read_queue_nums, found.write_queue_nums, found.perm),),
            )
        )

    def channel_closed(self, channel: Channel) -> None:
        """Forget a connection that was closed."""
        self.client_requests.channel_closed(channel)
        self.held_pulls.channel_closed(channel)
        self.consumers.channel_closed(channel, self.now_ms())
        self.producers.channel_closed(channel)
        self.offsets.client_closed(channel.peer)

    def _evict(self, channel: Channel) -> None:
        """Close a connection that takes too much memory, and forget its clients now, before its peer notices."""
        channel.close()
        self.channel_closed(channel)

    def change_settings(self, settings: BrokerSettings) -> None:
        """Use other settings from now on; parts that read them at the start keep the earlier ones."""
        self.settings = self.topics.settings = self.groups.settings = settings

    def drop_silent(self) -> None:
        """Forget clients, filters and locks that were not renewed in time.

        Source: RocketMQ 5.5.0 ClientHousekeepingService#scanExceptionChannel.
        """
        now_ms = self.now_ms()
        self.consumers.drop_silent(now_ms)
        self.producers.drop_silent(now_ms)
        self.consumer_filters.clean(now_ms)
        self.queue_locks.drop_expired()

    def start(self) -> None:
        """Start the delivery of delayed messages and the checks of transactions; log what clients will miss."""
        self.disk_guard.is_full()
        self.topics.tell_of_unknown(self.store.topics())
        if not self.store.config.is_slave:  # a slave gets again from its master what its log lost
            self.offsets.cut_back(self.store.queues())
        self.schedule.start()
        self.transactions.start()

    def stop(self) -> None:
        """End what `start` and `every` have begun, drop held pulls, and write all files; wait for the disk."""
        self.worker.close()
        self.parser.close()
        self.readers.close()
        self.transactions.stop()
        self.schedule.stop()
        self.held_pulls.close()
        self.offsets.save_if_changed()
        self.consumer_filters.save_if_changed()
        for repeated in self._repeated:
            repeated.stop()
        self._repeated.clear()
        self.config_files.close()
        _LOG.removeFilter(self._log_limit)


class _Repeated:
    """A step that the loop repeats, also after the step raised."""

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
