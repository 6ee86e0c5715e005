"""Producers and consumers of `rmqcore.client`, each in a thread of its own, which write down all that they see."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from support.history.record import History, body_of, named_in
from support.raw_client import RawClient, send_request
from support.transactions import COMMIT, ROLLBACK, end

from rmqcore.client import (
    ConsumeStatus,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from rmqcore.errors import ClientError
from rmqcore.remoting.codes import ResponseCode

PLAIN, BATCH, LATER, ORDER, DEALS = "Plain", "Batch", "Later", "Order", "Deals"
TOPICS = {PLAIN: 4, BATCH: 4, LATER: 2, ORDER: 1, DEALS: 1}
"""Topics and their queues. What has an order has one queue."""
GROUPS = {
    "manual": (PLAIN, BATCH),
    "auto": (PLAIN, LATER),
    "pushed": (PLAIN, LATER, DEALS),
    "orderly": (ORDER,),
}
ORDERED = ("orderly",)
DELAYS_S = {1: 1.0, 2: 5.0}
FIRST = "CONSUME_FROM_FIRST_OFFSET"
PAUSE_S = 0.05
RAW_TIMEOUT_S = 3.0


class Client(ABC):
    """A thread that works until it is stopped.

    Attributes
    ----------
    name : str
    unexpected : BaseException or None
        What ended the thread before its time.
    """

    def __init__(self, name: str, history: History, seed: float) -> None:
        self.name = name
        self.history = history
        self.rng = random.Random(seed)
        self.unexpected: BaseException | None = None
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end."""
        self.stopped.set()

    def join(self, seconds: float) -> bool:
        """Wait for the end; False if it does not come."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def pause(self) -> None:
        """Leave the processor to others: the load is even, and no measure of speed."""
        self.stopped.wait(self.rng.uniform(0, 2 * PAUSE_S))

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 the test that joins the thread shows it
            self.unexpected = error

    @abstractmethod
    def work(self) -> None:
        """Do it, until `stopped` is set."""


class Sender(Client):
    """Sends to one topic, each message once; batches to `BATCH`, delayed ones to `LATER`, in order of a key to `ORDER`."""

    def __init__(self, name: str, history: History, seed: float, namesrv: str, topic: str) -> None:
        super().__init__(name, history, seed)
        self._namesrv = namesrv
        self._topic = topic
        self._number = 0

    def work(self) -> None:
        with Producer(self._namesrv, group=self.name, timeout=3.0, retry_times=0) as producer:
            while not self.stopped.is_set():
                self._send(producer)
                self.pause()

    def _send(self, producer: Producer) -> None:
        uids = self._new_uids()
        padding = self.rng.choice((1, 40, 300, 6000))
        bodies = [body_of(uid, self._topic, padding) for uid in uids]
        level = self.rng.choice(list(DELAYS_S)) if self._topic == LATER else 0
        op = self.history.next_op()
        more = {"delay_s": DELAYS_S[level]} if level else {}
        key = self.name if self._topic == ORDER else None
        self.history.add(self.name, "send", op=op, topic=self._topic, uids=uids, key=key, **more)
        places: list[tuple[int, int]] = []
        try:
            if self._topic == BATCH:
                result = producer.send_many(self._topic, bodies)
            else:
                properties = {"DELAY": str(level)} if level else None
                result = producer.send(
                    self._topic, bodies[0], keys=(uids[0],), properties=properties
                )
            if not level:  # its place is in the topic of its level
                places = [
                    (result.queue.queue_id, result.queue_offset + number)
                    for number in range(len(uids))
                ]
        except ClientError as error:
            self.history.add(self.name, "sent", op=op, ok=False, error=str(error))
            return
        ok = result.status.name == "SEND_OK"
        self.history.add(self.name, "sent", op=op, ok=ok, places=places, error=result.status.name)

    def _new_uids(self) -> list[str]:
        number = self.rng.randrange(2, 12) if self._topic == BATCH else 1
        self._number += number
        return [f"{self.name}.{self._number - back}" for back in reversed(range(number))]


class Dealer(Client):
    """Sends halves of transactions, and ends each once: commits two of three."""

    def __init__(
        self, name: str, history: History, seed: float, address: Callable[[], str]
    ) -> None:
        super().__init__(name, history, seed)
        self._address = address
        self._number = 0

    def work(self) -> None:
        while not self.stopped.is_set():
            with contextlib.suppress(OSError), RawClient(self._address()) as client:
                client.socket.settimeout(RAW_TIMEOUT_S)
                while not self.stopped.is_set():
                    self._deal(client)
                    self.pause()
            self.pause()

    def _deal(self, client: RawClient) -> None:
        self._number += 1
        uid = f"{self.name}.{self._number}"
        half = send_request(DEALS, body_of(uid, DEALS), 0, uid)
        half.ext_fields["i"] += "TRAN_MSG\x01true\x02PGROUP\x01pg\x02"
        half.ext_fields["f"] = "4"  # the sysFlag of a prepared transaction
        half.ext_fields["g"] = str(time.time_ns() // 1_000_000)  # the broker gives up an old half
        op = self.history.next_op()
        self.history.add(self.name, "send", op=op, topic=DEALS, uids=[uid], half=True)
        answer = client.ask(half)
        ok = answer.code == ResponseCode.SUCCESS
        self.history.add(self.name, "sent", op=op, ok=ok, error=answer.remark)
        if not ok:
            return
        commit = self.rng.random() < 0.67
        request = end(answer, COMMIT if commit else ROLLBACK)
        self.history.add(self.name, "end", op=op, commit=commit)
        answer = client.ask(request)
        ok = answer.code == ResponseCode.SUCCESS
        self.history.add(self.name, "ended", op=op, ok=ok, error=answer.remark)


class Reader(Client):
    """A member of a group that reads all topics of the group."""

    def __init__(self, name: str, history: History, seed: float, namesrv: str, group: str) -> None:
        super().__init__(name, history, seed)
        self.namesrv = namesrv
        self.group = group
        self._queues: list[str] = []

    def note(self, message: ReceivedMessage) -> None:
        """Write down that a message came."""
        uid, named = named_in(message.body)
        self.history.add(
            self.name,
            "got",
            group=self.group,
            topic=message.topic,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            uid=uid,
            named=named,
            tries=message.view.reconsume_times,
        )

    def note_queues(self, queues: list[str]) -> None:
        """Write down which queues this member has, if they are others than before."""
        if queues != self._queues:
            self._queues = queues
            self.history.add(self.name, "member", group=self.group, queues=queues)

    def subscribed(self, subscribe: Callable[[str], None]) -> bool:
        """Subscribe to all topics of the group, again and again while the broker is away."""
        for topic in GROUPS[self.group]:
            while not self.stopped.is_set():
                try:
                    subscribe(topic)
                    break
                except ClientError:
                    self.pause()
        return not self.stopped.is_set()


class Puller(Reader):
    """Polls; commits now and then where `commits` says so, else by `auto_commit`.

    With `leaves` it closes now and then, and comes back.
    """

    def __init__(
        self,
        name: str,
        history: History,
        seed: float,
        namesrv: str,
        group: str,
        *,
        commits: bool,
        leaves: bool = False,
    ) -> None:
        super().__init__(name, history, seed, namesrv, group)
        self._commits = commits
        self._leaves = leaves

    def work(self) -> None:
        while not self.stopped.is_set():
            self._live()
            self.note_queues([])

    def _live(self) -> None:
        auto = not self._commits
        with PullConsumer(
            self.namesrv, self.group, consume_from=FIRST, auto_commit=auto
        ) as consumer:
            if not self.subscribed(consumer.subscribe):
                return
            following: dict[str, int] = {}
            while not self.stopped.is_set():
                self.note_queues(queues_of(consumer))
                for message in consumer.poll(timeout=0.5):
                    self.note(message)
                    following[f"{message.topic}/{message.queue_id}"] = message.queue_offset + 1
                if self._commits and following and self.rng.random() < 0.2:
                    self._commit(consumer, following)
                    following = {}
                if self._leaves and self.rng.random() < 0.02:
                    return

    def _commit(self, consumer: PullConsumer, following: dict[str, int]) -> None:
        self.history.add(self.name, "commit", group=self.group, next=following)
        try:
            consumer.commit()
        except ClientError as error:
            self.history.add(self.name, "committed", group=self.group, ok=False, error=str(error))
        else:
            held = queues_of(consumer)
            self.history.add(self.name, "committed", group=self.group, ok=True, held=held)


def queues_of(consumer: PullConsumer) -> list[str]:
    """Return the queues of a member, as the history names them."""
    return [f"{queue.topic}/{queue.queue_id}" for queue in consumer.assignment()]


class Pushed(Reader):
    """Is called for each message; now and then it fails once, and the message comes again."""

    def __init__(
        self,
        name: str,
        history: History,
        seed: float,
        namesrv: str,
        group: str,
        *,
        orderly: bool,
    ) -> None:
        super().__init__(name, history, seed, namesrv, group)
        self._orderly = orderly
        self._consumer: PushConsumer | None = None

    def work(self) -> None:
        with PushConsumer(
            self.namesrv,
            self.group,
            consume_from=FIRST,
            orderly=self._orderly,
            concurrency=3,
            delay_level=1,
        ) as consumer:
            self._consumer = consumer
            if self.subscribed(consumer.subscribe):
                consumer.run(self._handle)

    def stop(self) -> None:
        super().stop()
        if self._consumer is not None:
            self._consumer.stop()

    def _handle(self, message: ReceivedMessage) -> ConsumeStatus:
        self.note(message)
        if message.reconsume_times == 0 and self.rng.random() < 0.02:
            return ConsumeStatus.RECONSUME_LATER
        return ConsumeStatus.CONSUME_SUCCESS
