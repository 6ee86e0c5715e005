"""The bits of a consumer group's filter in Java's bit maps, which ``consumerFilter.json`` names.

A Java broker drops a whole file in which they are missing. This broker neither computes nor reads bit maps.

Source: RocketMQ 5.5.0 BloomFilter, with BrokerConfig's maxErrorRateOfBloomFilter and expectConsumerNumUseFilter.
"""

from __future__ import annotations

import struct

BIT_NUM = 112
"""Bits of a map: 32 groups, of which a fifth may be taken for others."""
HASHES = 3
_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def bit_positions(text: str) -> list[int]:
    """Return the bits of a text, ``group#topic``."""
    found = _murmur3_x64(text.encode("utf-8"))
    first, second = found & 0xFFFFFFFF, found >> 32
    positions = []
    for i in range(1, HASHES + 1):
        combined = (first + i * second) & 0xFFFFFFFF
        if combined >> 31:
            combined ^= 0xFFFFFFFF
        positions.append(combined % BIT_NUM)
    return positions


def _murmur3_x64(data: bytes) -> int:
    """Return the first 64 bits of the 128-bit MurmurHash3 for 64-bit processors, seed 0."""
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for k1, k2 in struct.iter_unpack("<QQ", data[:whole]):
        h1 = (_turned(h1 ^ _first(k1), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_turned(h2 ^ _second(k2), 31) + h1) * 5 + 0x38495AB5 & _MASK
    k1, k2 = struct.unpack("<QQ", data[whole:].ljust(16, b"\0"))
    h1 ^= _first(k1) ^ len(data)
    h2 ^= _second(k2) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _mixed(h1) + _mixed(h2) & _MASK


def _first(k1: int) -> int:
    return _turned(k1 * _C1 & _MASK, 31) * _C2 & _MASK


def _second(k2: int) -> int:
    return _turned(k2 * _C2 & _MASK, 33) * _C1 & _MASK


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
