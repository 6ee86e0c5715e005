"""The next place that proves itself: a window's answer against a slow one, for any bytes, windows and budgets.

A walk's splits rely on it: the answer depends on the file's bytes alone.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle

from rmqcore._native.scan import places
from rmqcore.disk import log_window
from rmqcore.disk.log_window import LogWindow

BASE = 7 << 20


def proves_itself(data: bytes, pos: int) -> bool:
    """Whether a record or a BLANK at `pos` satisfies all that docs/reading-damaged-stores.md asks for."""
    try:
        found = oracle.decode_record(data, pos)
        if isinstance(found, oracle.Blank):
            return found.msg_size == len(data) - pos
        oracle.check_record(data, pos)
    except oracle.Refused:
        return False
    return found.phy_offset == BASE + pos


def own_ends(data: bytes, pos: int) -> list[int]:
    """Where the damaged record at `pos` would end, by TOTALSIZE and by its other lengths."""
    if len(data) - pos < 91:
        return []
    total, magic = struct.unpack_from(">ii", data, pos)
    ends = [pos + total] if 91 <= total <= len(data) - pos else []
    (sys_flag,) = struct.unpack_from(">i", data, pos + 36)
    at = pos + 84 + (12 if sys_flag & 16 else 0) + (12 if sys_flag & 32 else 0)
    for form in ("i", "h" if magic == oracle.V2 else "b", "h"):
        width = struct.calcsize(form)
        if at + width > len(data):
            return ends
        (length,) = struct.unpack_from(">" + form, data, at)
        if length < 0:
            return ends
        at += width + length
    return [*ends, at] if at <= len(data) else ends


def slow_next(data: bytes, pos: int, *, after_zeros: bool) -> tuple[int | None, int]:
    for end in [] if after_zeros else own_ends(data, pos):
        if end < len(data) and proves_itself(data, end):
            return end, end
    for at in range(pos + 1, len(data)):
        if proves_itself(data, at):
            return at, at
    return None, max(len(data.rstrip(b"\0")), pos)


# ---- logs that somebody has made up ---------------------------------------------------------------------

sound = st.builds(
    lambda body, topic, v6: ("sound", body, topic, v6),
    st.binary(max_size=200),
    st.sampled_from([b"", b"T", b"a topic of more than 127 bytes" * 5]),
    st.booleans(),
)
bodies = st.builds(lambda size: ("sound", b"\x05" * size, b"T", False), st.integers(300, 9000))
forged = st.builds(
    lambda *fields: ("forged", *fields),
    st.one_of(st.integers(-2, 400), st.integers(0, 20_000), st.just(2**31 - 1)),  # TOTALSIZE
    st.one_of(st.just(None), st.integers(-2, 20_000)),  # body length; None: what fits TOTALSIZE
    st.booleans(),  # the place is right
    st.sampled_from([oracle.V1, oracle.V2]),
)
others = st.one_of(
    st.builds(lambda n: ("raw", bytes(n)), st.integers(1, 5000)),
    st.builds(lambda data: ("raw", data), st.binary(min_size=1, max_size=60)),
    st.builds(lambda n: ("raw", struct.pack(">i", oracle.V1) * n), st.integers(1, 20)),
    st.builds(lambda by: ("blank", by), st.sampled_from([0, 0, 8, -8, 1 << 20])),
    st.just(("cut", b"")),
)
logs = st.lists(st.one_of(sound, forged, forged, bodies, others), min_size=1, max_size=14)


def build(parts: list[tuple[Any, ...]]) -> tuple[bytes, list[int]]:
    """The bytes, and where each part begins."""
    data, starts, blanks = bytearray(), [], []
    for part in parts:
        starts.append(len(data))
        kind, *args = part
        if kind == "sound":
            body, topic, v6 = args
            host = oracle.Host(bytes(16 if v6 else 4), 1)
            record = oracle.Record(
                topic, body, b"p\x01v", phy_offset=BASE + len(data), born_host=host
            )
            data += oracle.encode_record(record)
        elif kind == "forged":
            total, body_len, placed, magic = args
            assert isinstance(total, int)
            least = 92 if magic == oracle.V2 else 91
            length = total - least if body_len is None else body_len
            phy_offset = BASE + len(data) if placed else 5
            data += struct.pack(">iiiiiqqi", total, magic, 0, 0, 0, 0, phy_offset, 0)
            data += bytes(44) + struct.pack(">i", length)
        elif kind == "blank":
            blanks.append((len(data), args[0]))
            data += bytes(8)
        elif kind == "cut":
            del data[-7:]
        else:
            data += args[0]
    for at, by in blanks:
        if at + 8 <= len(data):
            data[at : at + 8] = oracle.blank(len(data) - at + by)
    return bytes(data), starts


def window_over(data: bytes, room: int) -> LogWindow:
    def read_into(buf: memoryview, pos: int) -> int:
        got = data[pos : pos + len(buf)]
        buf[: len(got)] = got
        return len(got)

    return LogWindow(read_into, BASE, len(data), room=room)


def check(data: bytes, starts: list[int], room: int) -> None:
    for pos in starts:
        if pos >= len(data):
            continue
        for after_zeros in (False, True):
            window = window_over(data, room)
            found = window.next_proven(pos, after_zeros=after_zeros)
            assert found == slow_next(data, pos, after_zeros=after_zeros), (pos, after_zeros)


@given(logs, st.sampled_from([8, 64, 100, 256, 1 << 20]))
def test_it_is_what_the_rule_says(parts: list[tuple[Any, ...]], room: int) -> None:
    check(*build(parts), room)


@given(logs, st.sampled_from([8, 64, 100, 256, 1 << 20]))
def test_also_where_nothing_may_be_hashed_in_vain(parts: list[tuple[Any, ...]], room: int) -> None:
    """Every body's CRC comes from states then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_window, "FREE_BYTES", -(1 << 40))
        check(*build(parts), room)


@given(logs, st.sampled_from([64, 256, 1 << 20]))
def test_one_window_for_all_of_a_file(parts: list[tuple[Any, ...]], room: int) -> None:
    """As a walk does, from damage to damage, with states from the first place that asks for them."""
    data, starts = build(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_window, "FREE_BYTES", 300)
        window = window_over(data, room)
        for pos in starts:
            if pos < len(data):
                found = window.next_proven(pos, after_zeros=False)
                assert found == slow_next(data, pos, after_zeros=False), pos
                assert window.step(pos).code == window_over(data, 1 << 20).step(pos).code


def test_a_place_says_the_same_in_any_window() -> None:
    """A record with wrong lengths that went past a window of 2 MiB was called a wrong TOTALSIZE, whatever was wrong."""
    data = bytearray(
        oracle.encode_record(oracle.Record(b"T", bytes(3 << 20), b"", phy_offset=BASE))
    )
    data[88 + (3 << 20)] = 0xFF  # TOPICLENGTH -1
    place = window_over(bytes(data), 1 << 20).step(0)
    assert (
        place.describe()
        == places.step(bytes(data), len(data), 0, BASE, BASE + len(data)).describe()
    )
    assert place.describe()[0] == "TOPICLENGTH"
