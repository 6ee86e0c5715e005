"""Send a message to a cluster and receive it: python send_and_receive.py NAMESRV, for instance 127.0.0.1:9876."""

import sys

from rmqcore.client import Producer, PullConsumer

if len(sys.argv) != 2:
    sys.exit("Usage: python send_and_receive.py NAMESRV, for instance 127.0.0.1:9876")
namesrv = sys.argv[1]

with Producer(namesrv) as producer, PullConsumer(namesrv, "example") as consumer:
    consumer.subscribe("Example", tags="greeting || farewell")
    for body, tag in [(b"hello", "greeting"), (b"noise", "other"), (b"bye", "farewell")]:
        result = producer.send("Example", body, tags=tag)
        print(f"sent {body!r}: {result.status}, queue {result.queue_id}@{result.queue_offset}")
    wanted = {b"hello", b"bye"}
    while wanted:
        messages = consumer.poll(timeout=30)
        for message in messages:
            print(f"got {message.body!r}, tag {message.tags}")
            wanted.discard(message.body)
        consumer.commit()
        if not messages:
            sys.exit("nothing came in 30 seconds")
