"""Bodies as stored and as sent: ZLIB, LZ4, ZSTD, and data that is not what SYSFLAG says."""

from __future__ import annotations

import builtins
import zlib
from typing import Any

import pytest

from rmqcore import Message, codec
from rmqcore.errors import CompressionError, CompressionLibraryError

PLAIN = b"a body that packs well " * 300


def packed(kind: str) -> bytes:
    if kind == "ZLIB":
        return zlib.compress(PLAIN, 5)
    if kind == "LZ4":
        frame = pytest.importorskip(
            "lz4.frame", reason="the extra rmqcore[compress] is not installed"
        )
        return bytes(frame.compress(PLAIN))
    zstandard = pytest.importorskip(
        "zstandard", reason="the extra rmqcore[compress] is not installed"
    )
    return bytes(zstandard.compress(PLAIN))


def view(body: bytes, sys_flag: int) -> codec.MessageView:
    message = Message("t", body, sys_flag=sys_flag)
    return codec.decode(codec.encode(message, phy_offset=0, queue_offset=0, store_timestamp_ms=0))


FLAGS = [("ZLIB", 0x301), ("ZLIB", 0x001), ("LZ4", 0x101), ("ZSTD", 0x201)]


@pytest.mark.parametrize(("kind", "sys_flag"), FLAGS)
def test_the_body_stays_as_stored_and_decompress_gives_it_plain(kind: str, sys_flag: int) -> None:
    body = packed(kind)
    assert view(body, sys_flag).body == body
    assert view(body, sys_flag).decompress() == PLAIN
    assert view(body, sys_flag).decompress(len(PLAIN)) == PLAIN


@pytest.mark.parametrize("sys_flag", [0, 0x100, 0x300, 0x700])
def test_without_the_compressed_bit_the_body_is_plain_whatever_the_type(sys_flag: int) -> None:
    assert view(b"plain", sys_flag).decompress() == b"plain"


@pytest.mark.parametrize(("kind", "sys_flag"), FLAGS)
def test_a_body_that_is_something_else_is_refused(kind: str, sys_flag: int) -> None:
    for body in (b"", b"x", b"not compressed at all", bytes(100), b"\xff" * 100):
        with pytest.raises(CompressionError, match=kind):
            view(body, sys_flag).decompress()


@pytest.mark.parametrize(("kind", "sys_flag"), FLAGS)
def test_a_body_that_is_cut_off_is_refused(kind: str, sys_flag: int) -> None:
    body = packed(kind)
    for size in range(1, len(body)):
        with pytest.raises(CompressionError, match=kind):
            view(body[:size], sys_flag).decompress()


@pytest.mark.parametrize(("kind", "sys_flag"), FLAGS)
@pytest.mark.parametrize("most", [0, 1, len(PLAIN) - 1])
def test_a_body_larger_than_wanted_is_refused(kind: str, sys_flag: int, most: int) -> None:
    with pytest.raises(CompressionError, match=f"larger than {most} bytes"):
        view(packed(kind), sys_flag).decompress(most)


def test_types_that_do_not_exist_are_named() -> None:
    for kind in (4, 5, 6, 7):
        with pytest.raises(CompressionError, match=f"has the unknown compression type {kind}"):
            view(b"x", kind << 8 | 1).decompress()


@pytest.mark.parametrize(("sys_flag", "name"), [(0x101, "LZ4"), (0x201, "ZSTD")])
def test_a_missing_extra_is_named(
    sys_flag: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_import = builtins.__import__

    def refuse(module: str, *args: Any, **kwargs: Any) -> Any:
        if module.split(".", maxsplit=1)[0] in ("lz4", "zstandard"):
            raise ImportError(module)
        return real_import(module, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setattr("importlib.import_module", refuse)
    with pytest.raises(
        CompressionLibraryError,
        match=rf"{name} bodies need an extra: pip install 'rmqcore\[compress\]'",
    ) as told:
        view(b"x", sys_flag).decompress()
    assert "compress" in told.value.hint and told.value.exit_code == 1


def test_only_a_missing_library_is_told_to_be_installed() -> None:
    """A ZLIB body that is none came with the hint to install the extra `compress`, which has nothing to do with it."""
    for body, sys_flag, most in ((b"no zlib", 0x301, 9), (b"x", 0x701, 9), (packed("ZLIB"), 1, 9)):
        with pytest.raises(CompressionError) as told:
            view(body, sys_flag).decompress(most)
        assert type(told.value) is CompressionError
        assert not told.value.hint


def test_bytes_behind_the_packed_body_do_not_change_it() -> None:
    assert view(packed("ZLIB") + b"behind", 0x301).decompress() == PLAIN
