"""Compiles and runs test_crc32.c: every CRC-32 kernel against zlib, at pages that trap."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
KERNEL_ROOT = HERE.parent.parent / "src" / "rmqcore" / "_native"
SOURCES = [*sorted(KERNEL_ROOT.glob("crc32/*.c")), HERE / "test_crc32.c"]
SANITIZERS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


@pytest.mark.parametrize("flags", [["-O3"], ["-O0"], SANITIZERS], ids=["O3", "O0", "sanitizers"])
def test_every_kernel_equals_zlib_and_stays_inside_its_buffer(
    tmp_path: pathlib.Path, flags: list[str]
) -> None:
    compiler = shutil.which("cc")
    assert compiler, "the native tests need a C compiler named cc"
    program = tmp_path / "test_crc32"
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run(
        [compiler, *warnings, *flags, f"-I{KERNEL_ROOT}", *SOURCES, "-lz", "-o", program],
        check=True,
    )
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "slicing: ok" in done.stdout and "failures: 0" in done.stdout, done.stdout
