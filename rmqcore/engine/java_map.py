"""The order in which Java's HashMap gives its entries, for properties that Java encodes anew from a map."""

from __future__ import annotations

from rmqcore.codec import java_hash

CAPACITY = 128  # of the map that MessageDecoder#string2messageProperties makes


def in_map_order(properties: dict[str, str]) -> dict[str, str]:
    """Give the properties in the order of a HashMap into which they were put in the order given.

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageDecoder#string2messageProperties, #messageProperties2String; OpenJDK 17 HashMap#hash.
    """
    capacity = CAPACITY
    while len(properties) > capacity * 3 // 4:
        capacity *= 2

    def bucket(name: str) -> int:
        code = java_hash(name) & 0xFFFFFFFF
        return (code ^ code >> 16) & (capacity - 1)

    return {name: properties[name] for name in sorted(properties, key=bucket)}
