"""The request for a broker's state, which ``mqadmin clusterList`` and ``brokerStatus`` show.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#prepareRuntimeInfo, StoreStatsService#getRuntimeInfo,
DefaultMessageStore#getRuntimeInfo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqcore.broker.broker import Broker
from rmqcore.broker.call import Call
from rmqcore.broker.handlers.admin.ha import replication_info
from rmqcore.broker.handlers.in_background import answer_in_background
from rmqcore.broker.queue_times import earliest_of_all
from rmqcore.broker.state.stats import BrokerStats
from rmqcore.disk.used_space import disk_space, used_percent
from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.codes import OUR_VERSION, RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.topics import SCHEDULE_TOPIC

VERSION = "V5_5_0"
SPANS_S = 10, 60, 600
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60
_POOLS = "send", "pull", "litePull", "query", "ack"
_UNITS = "KMGTPE"
_PUT_TIMES = "[<=0ms] [0~10ms] [10~50ms] [50~100ms] [100~200ms] [200~500ms] [500ms~1s] [1~2s] [2~3s] [3~4s] [4~5s] [5~10s] [10s~]"
"""Spans of the time that a put takes.

Source: RocketMQ 5.5.0 StoreStatsService."""
_NOT_MEASURED = {
    "putMessageDistributeTime": "".join(f"{span}:0 " for span in _PUT_TIMES.split()),
    "putMessageEntireTimeMax": "0",
    "putMessageFailedTimes": "0",
    "getMessageEntireTimeMax": "0",
    "dispatchMaxBuffer": "0",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "pageCacheLockTimeMills": "0",
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
    "remainTransientStoreBufferNumbs": "0",
}
"""What Java's tools show, and what is not measured here, or is not there: times of single calls, timers, a pool of buffers."""


def _get_broker_runtime_info(call: Call) -> RemotingCommand | None:
    """Return the broker's state as a table of texts.

    Notes
    -----
    The broker has no pools of threads: their queues are shown empty, with a capacity of 0. ``brokerVersion`` and
    ``getTransferedTps`` are names of brokers before 5.0, which the released rocketmq-exporter needs. Java does not have
    ``brokerName``, ``brokerClusterName``, ``brokerId``, ``storeState`` and ``storeStateReason``, which ``rmqcore ping``
    shows.
    """
    broker = call.broker
    known = {**_NOT_MEASURED, **_counted(broker.stats, broker.now_ms()), **_pools()}
    known["brokerActive"] = "true"
    known |= _identity(broker)
    known["storeState"], known["storeStateReason"] = _store_state(broker)
    known["brokerVersion"] = str(OUR_VERSION)
    known["brokerVersionDesc"] = VERSION
    known["startAcceptSendRequestTimeStamp"] = "0"
    known.update(replication_info(broker))
    delayed = broker.schedule.offsets()

    def work() -> RemotingCommand:
        of_store = {**_store_info(broker), **_schedule_info(broker.store, delayed)}
        return call.respond(body=encode_json({"table": {**known, **of_store}}))

    return answer_in_background(call, work)


def _identity(broker: Broker) -> dict[str, str]:
    settings = broker.settings
    return {
        "brokerName": settings.broker_name,
        "brokerClusterName": settings.broker_cluster_name,
        "brokerId": str(settings.broker_id),
    }


def _store_state(broker: Broker) -> tuple[str, str]:
    """Return the store's state, ``ok``, ``full``, ``refusing`` or ``failed``, and the reason."""
    refusal = broker.store.refusal
    if broker.store.failed:
        return "failed", str(refusal)
    if broker.disk_guard.is_full():
        return "full", f"more than diskMaxUsedSpaceRatio is used: {broker.disk_guard.describe()}"
    return ("ok", "") if refusal is None else ("refusing", str(refusal))


def _counted(stats: BrokerStats, now_ms: int) -> dict[str, str]:
    stats.take_counts()
    puts = max(stats.put, 1)
    found, missed = _rates(stats, "found"), _rates(stats, "missed")
    transferred = _joined(_rates(stats, "transferred"))
    return {
        "bootTimestamp": str(stats.boot_timestamp_ms),
        "runtime": _span_text((now_ms - stats.boot_timestamp_ms) // 1_000),
        "putMessageTimesTotal": str(puts),
        "putMessageSizeTotal": str(stats.put_bytes),
        "putMessageAverageSize": str(stats.put_bytes / puts),
        "putTps": _joined(_rates(stats, "put")),
        "getFoundTps": _joined(found),
        "getMissTps": _joined(missed),
        "getTotalTps": _joined([one + other for one, other in zip(found, missed, strict=True)]),
        "getTransferredTps": transferred,
        "getTransferedTps": transferred,
        "msgPutTotalYesterdayMorning": str(stats.put_days.yesterday_morning),
        "msgPutTotalTodayMorning": str(stats.put_days.today_morning),
        "msgPutTotalTodayNow": str(stats.put_days.total),
        "msgGetTotalYesterdayMorning": str(stats.get_days.yesterday_morning),
        "msgGetTotalTodayMorning": str(stats.get_days.today_morning),
        "msgGetTotalTodayNow": str(stats.get_days.total),
    }


def _rates(stats: BrokerStats, kind: str) -> list[float]:
    return [stats.rate(kind, seconds) for seconds in SPANS_S]


def _joined(rates: list[float]) -> str:
    return " ".join(map(str, rates))


def _span_text(seconds: int) -> str:
    days, rest = divmod(max(0, seconds), _DAY_S)
    hours, rest = divmod(rest, _HOUR_S)
    minutes, rest = divmod(rest, _MINUTE_S)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {rest} seconds ]"


def _pools() -> dict[str, str]:
    found = {}
    for pool in _POOLS:
        found[f"{pool}ThreadPoolQueueSize"] = "0"
        found[f"{pool}ThreadPoolQueueCapacity"] = "0"
        found[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return {
        **found,
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": "0",
    }


def _store_info(broker: Broker) -> dict[str, str]:
    """Return the numbers of disks and log."""
    store = broker.store
    paths = store.paths
    ratios = {str(folder): used_percent(folder) / 100 for folder in paths.new_file_folders}
    root = disk_space(paths.root)
    found = {f"commitLogDiskRatio_{folder}": str(ratio) for folder, ratio in ratios.items()}
    if root is not None:
        total, free = _bytes_text(root.used_bytes + root.free_bytes), _bytes_text(root.free_bytes)
        found["commitLogDirCapacity"] = f"Total : {total}, Free : {free}."
    return {
        **found,
        "commitLogDiskRatio": str(min(ratios.values())),
        "consumeQueueDiskRatio": str(used_percent(paths.consumequeue) / 100),
        "commitLogMinOffset": str(store.min_phy_offset),
        "commitLogMaxOffset": str(store.max_phy_offset),
        "dispatchBehindBytes": str(store.dispatch_behind_bytes),
        "remainHowManyDataToFlush": _bytes_text(store.max_phy_offset - store.flushed_phy_offset),
        "earliestMessageTimeStamp": str(earliest_of_all(store)),
    }


def _schedule_info(store: MessageStore, delayed: Mapping[int, int]) -> dict[str, str]:
    """Return by delay level the offset of the next message to deliver, and the end of the queue."""
    return {
        f"scheduleMessageOffset_{level}": (
            f"{queue_offset},{store.max_offset(SCHEDULE_TOPIC, level - 1)}"
        )
        for level, queue_offset in delayed.items()
    }


def _bytes_text(many: int) -> str:
    """Return a number of bytes in a unit for people.

    Source: RocketMQ 5.5.0 MixAll#humanReadableByteCount.
    """
    if many < 1024:
        return f"{many} B"
    exponent = (many.bit_length() - 1) // 10
    return f"{many / 1024**exponent:.1f} {_UNITS[exponent - 1]}iB"


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.GET_BROKER_RUNTIME_INFO: _get_broker_runtime_info,
}
