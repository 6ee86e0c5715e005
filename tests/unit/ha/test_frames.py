"""Reports and frames, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples

from rmqcore.errors import HaProtocolError
from rmqcore.ha.frames import (
    HEADER_SIZE,
    MOST_BODY,
    FrameReader,
    ReportReader,
    encode_header,
    encode_report,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The bytes in pieces."""
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[begin:end] for begin, end in pairwise(ends)]


def test_bytes_of_reports_and_headers() -> None:
    """As `DefaultHAClient` and `DefaultHAConnection` write them."""
    assert encode_report(258) == bytes([0, 0, 0, 0, 0, 0, 1, 2])
    assert encode_header(1, 3) == bytes([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3])
    assert HEADER_SIZE == 12


@given(reports=st.lists(INT64, min_size=1), places=st.lists(st.integers(0, 1000)))
@examples(1)
def test_the_last_whole_report_of_a_piece_counts(reports: list[int], places: list[int]) -> None:
    data = b"".join(map(encode_report, reports))
    reader, taken = ReportReader(), 0
    for piece in cut(data, places):
        before = taken // 8
        taken += len(piece)
        found = reader.feed(piece)
        assert found == (reports[taken // 8 - 1] if taken // 8 > before else None)


@given(
    frames=st.lists(st.tuples(INT64.filter(lambda at: at < 1 << 62), st.binary(max_size=40))),
    places=st.lists(st.integers(0, 1000)),
)
@examples(1)
def test_frames_come_as_they_were_sent(frames: list[tuple[int, bytes]], places: list[int]) -> None:
    data = b"".join(encode_header(at, len(body)) + body for at, body in frames)
    reader = FrameReader()
    found: list[tuple[int, bytearray]] = []
    for piece in cut(data, places):
        for phy_offset, part in reader.feed(memoryview(piece)):
            if not part:
                found.append((phy_offset, bytearray()))
                continue
            first, body = found[-1]
            assert phy_offset == first + len(body)
            body += part
    assert [(at, bytes(body)) for at, body in found] == frames


@pytest.mark.parametrize("body_size", [-1, -12, -(1 << 31), MOST_BODY + 1, (1 << 31) - 1])
def test_a_body_of_no_size(body_size: int) -> None:
    """A Java slave loops for ever at -12, and waits for what never comes above 4 MiB."""
    reader = FrameReader()
    with pytest.raises(HaProtocolError, match=f"body_size is {body_size}, expected 0 to 4194292"):
        list(reader.feed(memoryview(encode_header(0, body_size))))
