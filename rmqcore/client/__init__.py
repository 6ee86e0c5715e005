"""Clients of name servers and brokers, real ones and ours: producers, consumers, administration; for asyncio and ordinary code.

Stands beside `rmqcore.namesrv` on `rmqcore.remoting`; knows neither engine nor broker. Decisions are made in modules
without sockets (`routes`, `send_message`, `pull_message`, `allocation`, ...); asyncio begins with `connection`, threads
with `loop_thread`.
"""

from __future__ import annotations

from rmqcore.client.async_admin import AsyncAdmin
from rmqcore.client.async_consumer import AsyncPullConsumer
from rmqcore.client.async_producer import AsyncProducer
from rmqcore.client.async_push_consumer import AsyncPushConsumer
from rmqcore.client.blocking import Admin, Producer, PullConsumer
from rmqcore.client.blocking_push import PushConsumer
from rmqcore.client.events import ClientEvent
from rmqcore.client.messages.consume_status import ConsumeStatus
from rmqcore.client.messages.group_lag import GroupLag, QueueLag
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.send_result import SendResult, SendStatus
from rmqcore.client.process_queues import HeldLimits

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncProducer",
    "AsyncPullConsumer",
    "AsyncPushConsumer",
    "ClientEvent",
    "ConsumeStatus",
    "GroupLag",
    "HeldLimits",
    "MessageQueue",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "QueueLag",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
]
