"""Follow a store that grows: its log goes through a pipe, byte for byte, into a store that may become a broker's.

    python follow.py send /data/store | python follow.py take /data/copy

The sender opens the store as a broker does, so it belongs into the program that puts; the two ends may be on two machines, as in
`... | ssh other python follow.py take /data/copy`. It ends where the log ends. What each side calls is what `rmqcore serve` calls
for a master and its slave.
"""

from __future__ import annotations

import struct
import sys

import rmqcore
from rmqcore.errors import StoreError

HEADER = struct.Struct(">qi")  # CommitLog offset and bytes, as RocketMQ's master sends them


def send(path: str) -> None:
    """Write all of the log to stdout, from its first byte on."""
    with rmqcore.open(path) as store:
        phy_offset = store.min_phy_offset
        # A log is copied into files of the same size.
        sys.stdout.buffer.write(HEADER.pack(phy_offset, store.config.mapped_file_size_commit_log))
        while data := store.read_range(phy_offset, 32 << 10):
            sys.stdout.buffer.write(HEADER.pack(phy_offset, len(data)) + data)
            phy_offset += len(data)


def take(path: str) -> None:
    """Append what stdin brings to a store that follows."""
    first, file_size = HEADER.unpack(sys.stdin.buffer.read(HEADER.size))
    with rmqcore.open(path, broker_role="SLAVE", mapped_file_size_commit_log=file_size) as store:
        print(f"{path} begins at phy_offset {first}")
        while header := sys.stdin.buffer.read(HEADER.size):
            phy_offset, size = HEADER.unpack(header)
            store.append_raw(phy_offset, sys.stdin.buffer.read(size))
        store.wait_dispatched(60)
        print(f"{path} ends at phy_offset {store.max_phy_offset}")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("send", "take"):
        sys.exit("Usage: python follow.py send|take STORE")
    try:
        {"send": send, "take": take}[sys.argv[1]](sys.argv[2])
    except (StoreError, ValueError) as error:
        sys.exit(f"follow.py: {error}")
