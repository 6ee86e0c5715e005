"""Where a part of a file begins, against a slow version of the rule that says it in plain steps."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.stores.split_logs import HEADER, SUFFIX, record

from rmqcore._native.scan import places

BASE = 7 << 30
MOST = 1500


def sound(data: bytes, pos: int) -> int:
    """Size of the sound record at a place, 0 for a BLANK that ends the file, else -1."""
    try:
        found = oracle.decode_record(data, pos)
        if isinstance(found, oracle.Blank):
            return 0 if found.msg_size == len(data) - pos else -1
        here = found.phy_offset == BASE + pos
        return oracle.check_record(data, pos) if here else -1
    except oracle.Refused:
        return -1


def told(data: bytes, begin: int, boundary: int) -> int:
    """What the rule tells of data that ends where the file ends; -1 when it refuses because the data is odd."""
    candidates, ends = set(), set()
    for pos in range(begin, boundary):
        if sound(data, pos) == 0:
            return -1
        if struct.pack(">i", oracle.V1) != data[pos + 4 : pos + 8]:
            continue
        if len(data) - pos < 36:
            return -1
        if struct.unpack_from(">q", data, pos + 28)[0] == BASE + pos:
            candidates.add(pos)
    for pos in candidates:
        at = pos
        while at < boundary:
            size = sound(data, at)
            if at not in candidates or not 0 < size <= MOST:
                return -1
            at += size
        ends.add(at)
    return ends.pop() if len(ends) == 1 else -1


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Records and bodies of forged records, some bytes changed."""
    data = bytearray()
    for _ in range(draw(st.integers(1, 12))):
        at = BASE + len(data)
        body = b""
        for kind in draw(st.lists(st.sampled_from(["text", "fake", "merge", "magic"]), max_size=4)):
            text = draw(st.binary(max_size=60))
            if kind == "text":
                body += text
            elif kind == "magic":
                body += struct.pack(">ii", len(text), oracle.V1)
            elif kind == "fake" or not body:
                body += record(text, at + HEADER + len(body))
            else:
                body += record(text, at + HEADER + len(body))[:-SUFFIX]
                break
        data += record(body, at)
    data += draw(st.sampled_from([b"", bytes(50), oracle.blank(8), oracle.blank(60) + bytes(52)]))
    for _ in range(draw(st.integers(0, 2))):
        data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(data)


@given(data=logs(), boundaries=st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_the_kernel_tells_what_the_rule_says(data: bytes, boundaries: list[float]) -> None:
    for place in boundaries:
        boundary = 1 + int(place * (len(data) - 1))
        begin = max(0, boundary - MOST)
        window = data[begin:]
        end_offset = BASE + len(data)
        found = places.split_start(
            window, len(window), boundary - begin, BASE + begin, end_offset, MOST
        )
        work = sum(max(0, sound(data, pos)) for pos in range(begin, boundary))
        if found < 0:  # also where the candidates have more bytes than four windows
            assert told(data, begin, boundary) == -1 or work > 4 * len(window)
        else:
            assert found + begin == told(data, begin, boundary)
        for length in {boundary - begin, min(len(window), boundary - begin + 50)}:
            less = places.split_start(
                window, length, boundary - begin, BASE + begin, end_offset, MOST
            )
            # With fewer bytes the kernel asks for more, or says the same.
            if less not in {places.SPLIT_MORE, found}:
                assert less == places.SPLIT_NOTHING and work > 4 * length
        for later in range(0, boundary - begin, 7):
            part = window[later:]
            odd = places.split_start(
                part, len(part), boundary - begin - later, BASE + begin + later, end_offset, MOST
            )
            # Whoever cannot read what lies before says of what is odd what all say.
            assert odd != places.SPLIT_ODD or found < 0
