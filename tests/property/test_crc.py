"""The body CRC under every kernel that RMQCORE_CRC32 can force."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore import codec

PROGRAM = """
import random, sys, zlib
from rmqcore import codec
random.seed(20240229)
area = random.randbytes(300_000)
lengths = [*range(0, 700), 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 299_000]
for length in lengths:
    for start in (0, 1, 7, 15, 33):
        piece = memoryview(area)[start:start + length]
        assert codec.body_crc(piece) == zlib.crc32(piece) & 0x7FFFFFFF, (length, start)
print("all equal")
"""


@pytest.mark.parametrize("kernel", ["slicing", "pclmul", "vpclmul", "armv8", ""])
def test_a_forced_kernel_equals_zlib_or_says_that_it_cannot_run(kernel: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "RMQCORE_CRC32": kernel},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        assert done.stdout == "all equal\n"
        return
    assert kernel not in ("", "slicing"), done.stderr
    assert f"RMQCORE_CRC32={kernel!r}" in done.stderr, done.stderr
    assert "not built for this processor" in done.stderr or "CPU lacks" in done.stderr, done.stderr


def test_an_unknown_kernel_is_refused_by_name() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import rmqcore.codec"],
        env={**os.environ, "RMQCORE_CRC32": "md5"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "RMQCORE_CRC32='md5'" in done.stderr


@given(st.binary(max_size=1000), st.integers(0, 2000))
def test_body_crc_is_zlibs_without_the_top_bit(data: bytes, repeat: int) -> None:
    long = data * (repeat if len(data) < 100 else 1)
    assert codec.body_crc(long) == zlib.crc32(long) & 0x7FFFFFFF
