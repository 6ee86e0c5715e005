"""Find messages by key: in the index, and in the log itself when the index is lost or does not have the key.

    pip install rmqcore
    python find_key.py /data/store TOPIC ORDER_1

The index answers at once. The log always has the answer, but is read from end to end; it needs neither
`index/` nor `consumequeue/`.
"""

from __future__ import annotations

import sys

import rmqcore


def main(path: str, topic: str, key: str) -> int:
    """Print the messages that are found; answer 1 when there are none."""
    reader = rmqcore.read(path)
    found = list(reader.query(topic, key))
    how = "index"
    if not found:
        found = list(reader.messages(topics=[topic], keys=[key]))
        how = "log"
    for message in found:
        print(
            f"{how}: {message.msg_id} queue {message.queue_id} offset {message.queue_offset} {message.properties}"
        )
        print(message.decompress()[:80])
    for damage in reader.damage:
        print(damage, file=sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("Usage: python find_key.py STORE TOPIC KEY")
    sys.exit(main(*sys.argv[1:]))
