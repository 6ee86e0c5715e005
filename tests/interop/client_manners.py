"""What RocketMQ's own clients and servers do by themselves, and what a test does about it: each habit, its cause, its answer.

The side that a test looks at is not at fault, so each test that meets one of these habits uses the function here.
Four more are met where they arise: `RegisteredBroker.java` (a broker that starts registers before it has found its name
server), `ShortWaits.java` (a client that ends waits for an event of the network), `Admin.java` (a client that ends logs that a
heartbeat, a connection or an executor of Netty was cut off, and mqadmin prints its log among its words) and `Consumers.java`
(a broker refuses the pulls of a member whose subscription it knows an older version of, until the next heartbeat).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from support.eventually import eventually

if TYPE_CHECKING:  # the program over the C++ client has no use for them
    from interop.java_process import JavaProcess

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
MOST_SECONDS = 120.0
MOST_SECONDS_ONLINE = 240.0
"""A broker that missed a client's goodbye counts it as online for 120 seconds."""


# ---- any client ---------------------------------------------------------------------------------------


def once_each(messages: Iterable[T], key: Callable[[T], K]) -> dict[K, T]:
    """Give each message once.

    A producer sends again what was not answered in time, and a pull can be repeated: a message may be there, or come, twice.
    """
    return {key(message): message for message in messages}


def create_topic(java: JavaProcess, name_server: str, broker: str, topic: str) -> None:
    """Make a topic of four queues that has a route.

    A broker tells its name server once of a new topic. Where that fails, clients find no route before the broker's next report,
    up to half a minute later: so the topic is made until the name server knows it.
    """
    java.call(
        "createTopic",
        nameServer=name_server,
        broker=broker,
        topic=topic,
        timeoutMs=int(MOST_SECONDS * 1000),
    )


def consume(java: JavaProcess, name_server: str, topic: str, wanted: int) -> list[dict[str, Any]]:
    """Give each entry of a topic's queues once, as a consumer of Java's gets it; this many different messages are among them."""
    got: list[dict[str, Any]] = java.call(
        "consume",
        nameServer=name_server,
        topic=topic,
        wanted=wanted,
        timeoutMs=int(MOST_SECONDS * 1000),
    )
    assert len({message["uniq_key"] for message in got}) == wanted
    return list(once_each(got, lambda m: (m["queue_id"], m["queue_offset"])).values())


def said(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Read the lines that our programs wrote: the libraries of Go and C++ print words of their own among them."""
    return [json.loads(line) for line in lines if line.startswith(b"{")]


# ---- the C++ client -----------------------------------------------------------------------------------


def with_route(send: Callable[[], T]) -> T:
    """Send a message.

    The C++ client asks the name server once for a route, for as long as its own time limit, and gives the message up then: a
    Java name server on a busy machine may answer later. It finds the route in a later send.
    """
    sent: list[T] = []

    def is_sent() -> bool:
        try:
            sent.append(send())
        except Exception as error:  # the library has one class for all errors
            if "No route info" not in str(error):
                raise
        return bool(sent)

    eventually(is_sent, within_s=MOST_SECONDS, poll_s=0.1)
    return sent[0]


def end_process() -> None:
    """End this process at once: threads of the C++ library may never end."""
    os._exit(0)


# ---- mqadmin ------------------------------------------------------------------------------------------


def admin(java: JavaProcess, command: str, name_server: str) -> str:
    """Give what a command of mqadmin prints.

    ``clusterList -m`` shows zeros where the broker has not answered in time, and says no word of it. It is asked again then,
    so ask it of a broker that has messages.
    """
    words = [*command.split(), "-n", name_server]

    def counted() -> str:
        text: str = java.call("admin", words=words)
        return "" if re.search(r"(\s+0){4}\s*$", text, re.MULTILINE) else text

    if command == "clusterList -m":
        return eventually(counted, within_s=MOST_SECONDS)
    printed: str = java.call("admin", words=words)
    return printed


def wait_left(java: JavaProcess, broker: str, name_server: str, group: str) -> None:
    """Wait until a broker has no client any more.

    The clients of ``consumeMessage`` beat once more while they leave, and a broker then counts their consumer or their inner
    producer as online for a while.
    """

    def have_left() -> bool:
        consumers = admin(java, f"consumerConnection -g {group}", name_server)
        return "not online" in consumers and "clientId=" not in admin(
            java, f"producer -b {broker}", name_server
        )

    eventually(have_left, within_s=MOST_SECONDS_ONLINE, poll_s=0.1)
