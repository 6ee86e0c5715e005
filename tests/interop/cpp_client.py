"""A producer and consumers of RocketMQ's C++ client; a program of its own, since that library ends a process as it likes.

``send NAMESRV TOPIC NUMBER``, ``consume NAMESRV TOPIC GROUP TAGS``, ``pull NAMESRV TOPIC GROUP TAGS``. It prints one JSON object
for each message that it sent or got.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import Any

from interop.client_manners import end_process, with_route
from rocketmq.client import Message, Producer, PullConsumer, PushConsumer

TAGS = "abc"


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
        one_send = partial(producer.send_sync, message(topic, "sync", i))
        sent = with_route(one_send) if i == 0 else one_send()
        say(kind="sync", status=int(sent.status), msg_id=sent.msg_id, queue_offset=sent.offset)
    for i in range(number):
        producer.send_oneway(message(topic, "oneway", i))
    sent = producer.send_sync(message(topic, "last", 0))
    say(kind="last", status=int(sent.status), msg_id=sent.msg_id, queue_offset=sent.offset)
    producer.shutdown()


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
    end_process()
