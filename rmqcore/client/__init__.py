"""Clients of name servers and brokers, real ones and ours: producers and consumers, for asyncio and for ordinary code.

Stands beside `rmqcore.namesrv` on `rmqcore.remoting`; knows neither engine nor broker. What decides is in modules without sockets
(`routes`, `send_message`, `pull_message`, `allocation`, ...), asyncio begins with `connection`, threads with `loop_thread`.
"""

from __future__ import annotations

from rmqcore.client.async_consumer import AsyncPullConsumer
from rmqcore.client.async_producer import AsyncProducer
from rmqcore.client.async_push_consumer import AsyncPushConsumer
from rmqcore.client.blocking import Producer, PullConsumer
from rmqcore.client.blocking_push import PushConsumer
from rmqcore.client.messages.consume_status import ConsumeStatus
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.send_result import SendResult, SendStatus
from rmqcore.client.process_queues import HeldLimits

__all__ = [
    "AsyncProducer",
    "AsyncPullConsumer",
    "AsyncPushConsumer",
    "ConsumeStatus",
    "HeldLimits",
    "MessageQueue",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
]
