"""A producer and consumers of RocketMQ's C++ client; a program of its own, since that library ends a process as it likes.

``send NAMESRV TOPIC NUMBER``, ``consume NAMESRV TOPIC GROUP TAGS``, ``pull NAMESRV TOPIC GROUP TAGS``. It prints one JSON object
for each message that it sent or got.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer

TAGS = "abc"
ROUTE_SECONDS = 30


def say(**what: Any) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def message(topic: str, kind: str, number: int) -> Any:
    made = Message(topic)
    made.set_body(f"{kind} {number}")
    made.set_tags(TAGS[number % len(TAGS)])
    made.set_keys(f"{kind}-{number}")
    return made


def send(namesrv: str, topic: str, number: int) -> None:
    """Send messages one by one, and as many one-way.

    No batch: this client writes ``batch=1``, which Java's broker takes for no batch, and stores as one message.
    """
    producer = Producer("cpp-producers")
    producer.set_namesrv_addr(namesrv)
    producer.start()
    for i in range(number):
        made = message(topic, "sync", i)
        sent = sent_with_route(producer, made) if i == 0 else producer.send_sync(made)
        say(kind="sync", status=int(sent.status), msg_id=sent.msg_id, queue_offset=sent.offset)
    for i in range(number):
        producer.send_oneway(message(topic, "oneway", i))
    sent = producer.send_sync(message(topic, "last", 0))
    say(kind="last", status=int(sent.status), msg_id=sent.msg_id, queue_offset=sent.offset)
    producer.shutdown()


def sent_with_route(producer: Producer, made: Any) -> Any:
    """Send the first message of a topic.

    This client asks the name server once for a route, for as long as its own time limit, and gives the message up then: a Java
    name server on a busy machine once answered later.
    """
    end = time.monotonic() + ROUTE_SECONDS
    while True:
        try:
            return producer.send_sync(made)
        except Exception as error:
            if "No route info" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.5)


def tell(got: Any) -> None:
    say(
        body=got.body.decode(),
        tags=got.tags.decode(),
        keys=got.keys.decode(),
        queue_id=got.queue_id,
        queue_offset=got.queue_offset,
        reconsume_times=got.reconsume_times,
    )


def consume(namesrv: str, topic: str, group: str, tags: str) -> None:
    """Print messages of these tags until standard input ends."""
    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, tell, tags)
    consumer.start()
    sys.stdin.read()
    consumer.shutdown()


def pull(namesrv: str, topic: str, group: str, tags: str) -> None:
    """Print all messages of these tags."""
    consumer = PullConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.start()
    for got in consumer.pull(topic, tags):
        tell(got)
    consumer.shutdown()


if __name__ == "__main__":
    verb, *words = sys.argv[1:]
    if verb == "send":
        send(words[0], words[1], int(words[2]))
    elif verb == "consume":
        consume(*words)
    else:
        pull(*words)
    os._exit(0)  # the library's threads may not end
