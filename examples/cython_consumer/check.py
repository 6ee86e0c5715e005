"""Compares commitlog_tags with rmqcore.codec, over a log of every kind of record: python check.py."""

import struct
from collections import Counter

import commitlog_tags

from rmqcore import Message, codec, sysflag

MESSAGES = [
    Message("Orders", b"paid", tags="TagA", keys=("K1", "K2")),
    Message("Orders", b"", tags="TagB"),
    Message("Orders", b"body" * 1000),
    Message("T" * 200, b"a long topic", tags="TagA"),
    Message("Orders", b"other hosts", tags="Grüße", born_host="[::1]:10911"),
    Message("Orders", b"prepared", tags="TagA", sys_flag=sysflag.TRANSACTION_PREPARED),
]
BLANK = struct.pack(">ii", 64, -875286124).ljust(64, b"\0")


def refusal(damaged: bytes) -> str:
    """Return the message of the ValueError."""
    try:
        commitlog_tags.tags(damaged)
    except ValueError as error:
        return str(error)
    raise AssertionError("not refused")


records: list[bytes] = []
for number, message in enumerate(MESSAGES * 50):
    position = sum(map(len, records))
    records.append(
        codec.encode(message, phy_offset=position, queue_offset=number, store_timestamp_ms=number)
    )
log = b"".join(records)
views = [codec.decode(record) for record in records]

messages, sizes = Counter(view.tags for view in views), Counter[str | None]()
for view in views:
    sizes[view.tags] += view.msg_size
expected = {tag: (messages[tag], sizes[tag]) for tag in messages}
entries = b"".join(
    codec.pack_cq(view.phy_offset, view.msg_size, view.tags_code)
    for view in views
    if view.sys_flag != sysflag.TRANSACTION_PREPARED
)
for end in (b"", BLANK, bytes(100)):  # the last record, a BLANK, and a file that is not full
    assert commitlog_tags.tags(bytearray(log + end)) == expected
    assert commitlog_tags.queue_entries(log + end) == entries
assert commitlog_tags.tags(b"") == {}

for damaged, said in [
    (log[:-1], "code -1"),
    (log.replace(b"paid", b"Paid", 1), "BODYCRC"),
    (log + b"\1" * 100, "code -3"),
]:
    assert said in refusal(damaged)

for tag, (count, size) in expected.items():
    print(f"{tag}: {count} messages, {size} bytes")
