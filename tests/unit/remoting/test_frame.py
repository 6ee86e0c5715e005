"""Frames out of pieces: every length is checked before anything is waited for, and nothing but what came is held."""

from __future__ import annotations

import struct

import pytest

from rmqcore.errors import ProtocolError
from rmqcore.remoting.codes import SerializeType
from rmqcore.remoting.frame import MAX_FRAME_SIZE, Frame, FrameDecoder, encode_frame

PLAIN = Frame(SerializeType.JSON, b"{}", b"body")


def words(length: int, header_word: int) -> bytes:
    return struct.pack(">iI", length, header_word)


def frames_of(decoder: FrameDecoder) -> list[Frame]:
    return list(iter(decoder.next_frame, None))


def failure(data: bytes) -> ProtocolError:
    decoder = FrameDecoder()
    decoder.feed(data)
    with pytest.raises(ProtocolError) as caught:
        decoder.next_frame()
    return caught.value


def test_a_frame_comes_back() -> None:
    data = encode_frame(PLAIN)
    assert data == words(10, 2) + b"{}body"
    decoder = FrameDecoder()
    decoder.feed(data)
    assert decoder.next_frame() == PLAIN
    assert decoder.next_frame() is None
    assert decoder.pending == 0


def test_single_bytes_and_two_frames_in_one_piece() -> None:
    decoder = FrameDecoder()
    data = encode_frame(PLAIN)
    for byte in data[:-1]:
        decoder.feed(bytes([byte]))
        assert decoder.next_frame() is None
    decoder.feed(data[-1:] + data + data[:5])
    assert frames_of(decoder) == [PLAIN, PLAIN]
    assert decoder.pending == 5


def test_an_empty_header_and_no_body_are_a_frame() -> None:
    decoder = FrameDecoder()
    decoder.feed(words(4, 1 << 24))
    assert decoder.next_frame() == Frame(SerializeType.ROCKETMQ, b"", b"")


@pytest.mark.parametrize("length", [-1, -(1 << 31), 0, 3, MAX_FRAME_SIZE - 3, (1 << 31) - 1])
def test_a_length_is_refused_as_soon_as_it_is_there(length: int) -> None:
    error = failure(struct.pack(">i", length))
    assert (error.part, error.pos, error.field, error.found) == ("frame", 0, "length", length)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        (b"GET / HTTP/1.1", 0x47455420),
        (b"\x16\x03\x01\x02\x00", 0x16030102),
        (b"PRI * HTTP/2.0", 0x50524920),
    ],
)
def test_other_protocols_are_told_by_their_first_bytes(text: bytes, length: int) -> None:
    assert failure(text).found == length


def test_a_header_that_is_longer_than_its_frame_or_than_64_kib() -> None:
    assert str(failure(words(10, 7))) == "frame@5: header length is 7, expected at most 6"
    assert failure(words(1 << 20, (64 << 10) + 1)).expected == "at most 65536"
    decoder = FrameDecoder()
    decoder.feed(words(1 << 20, 64 << 10))
    assert decoder.next_frame() is None


def test_an_unknown_serialize_type() -> None:
    error = failure(words(10, 2 << 24 | 2))
    assert (error.field, error.found) == ("serialize type", 2)


def test_the_longest_frame_is_that_of_java() -> None:
    longest = Frame(SerializeType.JSON, b"{}", bytes(MAX_FRAME_SIZE - 10))
    decoder = FrameDecoder()
    decoder.feed(encode_frame(longest))
    assert decoder.next_frame() == longest
    with pytest.raises(ValueError, match=r"a frame of 16777217 bytes, the limit is 16777216"):
        encode_frame(Frame(SerializeType.JSON, b"{}", longest.body + b"x"))


def test_frames_before_a_bad_one_are_given_and_the_error_stays() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_frame(PLAIN) + b"\xff\xff\xff\xff" + encode_frame(PLAIN))
    assert decoder.next_frame() == PLAIN
    for _ in range(2):
        with pytest.raises(ProtocolError, match="length is -1"):
            decoder.next_frame()
        decoder.feed(encode_frame(PLAIN))
    assert decoder.pending == 0


def test_an_announced_frame_takes_no_memory() -> None:
    """A peer that announces 16 MiB and sends nothing would otherwise cost 16 MiB a connection."""
    decoder = FrameDecoder()
    decoder.feed(words(MAX_FRAME_SIZE - 4, 2))
    assert decoder.next_frame() is None
    assert decoder._bytes.__alloc__() < 1024
    for _ in range(64):
        decoder.feed(bytes(1024))
        assert decoder.next_frame() is None
    assert decoder._bytes.__alloc__() < 2 * decoder.pending


def test_the_last_frame_that_came_leaves_no_bytes() -> None:
    decoder = FrameDecoder()
    for _ in range(3):
        decoder.feed(encode_frame(Frame(SerializeType.JSON, b"{}", bytes(60_000))))
        assert decoder.next_frame() is not None
        assert len(decoder._bytes) == 0


def test_the_memory_of_a_large_frame_is_given_back() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_frame(Frame(SerializeType.JSON, b"{}", bytes(8 << 20))) + b"\0")
    assert len(frames_of(decoder)) == 1
    decoder.feed(b"\0\0")
    assert decoder.pending == 3
    assert decoder._bytes.__alloc__() < 1024
