"""The settings of each client, for type checkers, without addresses and group; the asyncio classes describe them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from rmqcore.client.assigned_queue import ConsumeFrom
from rmqcore.client.events import OnEvent
from rmqcore.client.process_queues import HeldLimits


class ProducerSettings(TypedDict, total=False):
    """Keyword arguments of `Producer`: the parameters of `AsyncProducer`."""

    timeout: float
    retry_times: int
    default_topic_queue_nums: int
    max_message_size: int
    compress_over: int
    now_ms: Callable[[], int] | None
    on_event: OnEvent | None


class PullConsumerSettings(TypedDict, total=False):
    """Keyword arguments of `PullConsumer`: the parameters of `AsyncPullConsumer`."""

    consume_from: ConsumeFrom | str
    auto_commit: bool
    pull_batch_size: int
    now_ms: Callable[[], int] | None
    on_event: OnEvent | None


class PushConsumerSettings(TypedDict, total=False):
    """Keyword arguments of `PushConsumer`: the parameters of `AsyncPushConsumer`."""

    consume_from: ConsumeFrom | str
    max_reconsume_times: int | None
    delay_level: int
    concurrency: int
    orderly: bool
    pull_batch_size: int
    limits: HeldLimits | None
    now_ms: Callable[[], int] | None
    on_event: OnEvent | None
