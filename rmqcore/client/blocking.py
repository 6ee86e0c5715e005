"""The clients for code without an event loop: each runs its asyncio client on a loop in a thread of its own."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Self, Unpack

from typing_extensions import Buffer

from rmqcore.client.async_admin import MOST_TIME_MS, AsyncAdmin, StoreTime
from rmqcore.client.async_consumer import AsyncPullConsumer
from rmqcore.client.async_producer import DEFAULT_GROUP, AsyncProducer
from rmqcore.client.events import OnEvent
from rmqcore.client.handover import Handover
from rmqcore.client.instance import CLOSE_SECONDS
from rmqcore.client.loop_thread import LoopThread
from rmqcore.client.messages.group_lag import GroupLag
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.send_result import SendResult
from rmqcore.client.settings import ProducerSettings, PullConsumerSettings
from rmqcore.codec.message import Message
from rmqcore.remoting.bodies.routes import TopicRoute
from rmqcore.remoting.bodies.topic_configs import READ, WRITE


class Producer:
    """Sends messages to the brokers of a cluster. Safe to use from several threads.

    Has the parameters and methods of `AsyncProducer`; the methods block.
    """

    def __init__(
        self,
        namesrv: str | Iterable[str],
        group: str = DEFAULT_GROUP,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        self._client = AsyncProducer(namesrv, group, **settings)
        self._thread = LoopThread(f"rmqcore-producer-{group}")
        self._end = weakref.finalize(self, _end, self._thread, self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        body: Buffer,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Send a message, and wait until a broker has stored it: `AsyncProducer.send`."""
        return self._thread.run(lambda: self._client.send(topic, body, tags, keys, properties))

    def send_many(
        self,
        topic: str,
        bodies: Iterable[Buffer],
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Send messages as one batch, which is stored whole or not at all: `AsyncProducer.send_many`."""
        whole = list(bodies)  # made in the caller's thread
        return self._thread.run(
            lambda: self._client.send_many(topic, whole, tags, keys, properties)
        )

    def send_messages(self, messages: Iterable[Message]) -> list[SendResult]:
        """Send `Message` objects, of several topics too: `AsyncProducer.send_messages`."""
        listed = list(messages)  # made in the caller's thread
        return self._thread.run(lambda: self._client.send_messages(listed))

    def send_oneway(
        self,
        topic: str,
        body: Buffer,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Send a message without waiting for an answer: `AsyncProducer.send_oneway`."""
        self._thread.run(lambda: self._client.send_oneway(topic, body, tags, keys, properties))

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Unregister at the brokers and close all connections: `AsyncProducer.close`. No effect in a forked process."""
        if self._end.alive and self._thread.is_ours:
            self._thread.run(lambda: self._client.close(timeout))
            self._end()


class PullConsumer:
    """Reads topics as a member of a consumer group, whose members share the queues. Safe to use from several threads.

    Has the parameters and methods of `AsyncPullConsumer`; the methods block.
    """

    def __init__(
        self, namesrv: str | Iterable[str], group: str, **settings: Unpack[PullConsumerSettings]
    ) -> None:
        self._client = AsyncPullConsumer(namesrv, group, **settings)
        self._thread = LoopThread(f"rmqcore-consumer-{group}")
        self._end = weakref.finalize(self, _end, self._thread, self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(commit=kind is None)

    def subscribe(self, topic: str, tags: str = "*", timeout: float = 30.0) -> None:
        """Add a topic, or change its tags: `AsyncPullConsumer.subscribe`."""
        self._thread.run(lambda: self._client.subscribe(topic, tags, timeout))

    def unsubscribe(self, topic: str, timeout: float = 5.0) -> None:
        """Stop reading a topic: `AsyncPullConsumer.unsubscribe`."""
        self._thread.run(lambda: self._client.unsubscribe(topic, timeout))

    def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:
        """Return the next messages, or none after `timeout` seconds: `AsyncPullConsumer.poll`.

        With `auto_commit` and several threads, a poll's messages count as done when its thread polls again or ends.
        """
        handover = Handover(threading.current_thread())
        try:
            messages = self._thread.run(lambda: self._client.hand_over(handover, timeout))
            # The last step: after an exception before it, the messages are returned again.
            handover.received = True
            return messages  # noqa: TRY300  an else block would be behind the handler
        except BaseException:
            handover.failed = True
            raise

    def commit(self, timeout: float = 5.0) -> None:
        """Store the group's offsets behind the returned messages: `AsyncPullConsumer.commit`."""
        self._thread.run(lambda: self._client.commit(timeout))

    def seek(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        broker_name: str | None = None,
        timeout: float = 5.0,
    ) -> None:
        """Continue a queue at another offset: `AsyncPullConsumer.seek`."""
        self._thread.run(
            lambda: self._client.seek(
                topic, queue_id, queue_offset, broker_name=broker_name, timeout=timeout
            )
        )

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer reads, sorted."""

        async def assignment() -> list[MessageQueue]:
            return self._client.assignment()

        return self._thread.run(assignment)

    def close(self, *, commit: bool = True, timeout: float = 5.0) -> None:
        """Unregister and close all connections: `AsyncPullConsumer.close`. No effect in a forked process."""
        if self._end.alive and self._thread.is_ours:
            self._thread.run(lambda: self._client.close(commit=commit, timeout=timeout))
            self._end()


class Admin:
    """Administers a cluster: topics, groups, their offsets, single messages. Safe to use from several threads.

    Has the parameters and methods of `AsyncAdmin`; the methods block.
    """

    def __init__(
        self,
        namesrv: str | Iterable[str],
        *,
        timeout: float = 5.0,
        on_event: OnEvent | None = None,
    ) -> None:
        self._client = AsyncAdmin(namesrv, timeout=timeout, on_event=on_event)
        self._thread = LoopThread("rmqcore-admin")
        self._end = weakref.finalize(self, _end, self._thread, self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_topic(
        self, topic: str, queues: int = 8, *, perm: int = READ | WRITE, cluster: str | None = None
    ) -> None:
        """Create a topic, or change how many queues it has: `AsyncAdmin.create_topic`."""
        self._thread.run(
            lambda: self._client.create_topic(topic, queues, perm=perm, cluster=cluster)
        )

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics: `AsyncAdmin.list_topics`."""
        return self._thread.run(lambda: self._client.list_topics(internal=internal))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic: `AsyncAdmin.delete_topic`."""
        self._thread.run(lambda: self._client.delete_topic(topic))

    def topic_route(self, topic: str) -> TopicRoute:
        """Return the brokers of a topic and the queues of each: `AsyncAdmin.topic_route`."""
        return self._thread.run(lambda: self._client.topic_route(topic))

    def topic_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic: `AsyncAdmin.topic_queues`."""
        return self._thread.run(lambda: self._client.topic_queues(topic))

    def list_groups(self, *, internal: bool = False) -> list[str]:
        """Return the names of all consumer groups: `AsyncAdmin.list_groups`."""
        return self._thread.run(lambda: self._client.list_groups(internal=internal))

    def delete_group(self, group: str) -> None:
        """Delete a consumer group with its offsets: `AsyncAdmin.delete_group`."""
        self._thread.run(lambda: self._client.delete_group(group))

    def reset_offsets(self, group: str, topic: str, to: StoreTime) -> dict[MessageQueue, int]:
        """Reset the offsets of a group in a topic: `AsyncAdmin.reset_offsets`."""
        return self._thread.run(lambda: self._client.reset_offsets(group, topic, to))

    def lag(self, group: str, topic: str | None = None) -> GroupLag:
        """Return how many messages a group has not consumed: `AsyncAdmin.lag`."""
        return self._thread.run(lambda: self._client.lag(group, topic))

    def message_by_id(self, topic: str, msg_id: str) -> ReceivedMessage | None:
        """Return the message with an id: `AsyncAdmin.message_by_id`."""
        return self._thread.run(lambda: self._client.message_by_id(topic, msg_id))

    def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_messages: int = 32,
        begin_ms: int = 0,
        end_ms: int = MOST_TIME_MS,
    ) -> list[ReceivedMessage]:
        """Return the newest messages with a key: `AsyncAdmin.messages_by_key`."""
        return self._thread.run(
            lambda: self._client.messages_by_key(
                topic, key, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms
            )
        )

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Close all connections: `AsyncAdmin.close`. No effect in a forked process."""
        if self._end.alive and self._thread.is_ours:
            self._thread.run(lambda: self._client.close(timeout))
            self._end()


def _end(thread: LoopThread, client: AsyncAdmin | AsyncProducer | AsyncPullConsumer) -> None:
    """End the thread of a client that was closed or garbage collected."""
    thread.stop(client.abandon)
