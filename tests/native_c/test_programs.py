"""Compiles and runs the C tests of the kernels at the edges of memory that traps."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
KERNEL_ROOT = HERE.parent.parent / "src" / "rmqcore" / "_native" / "kernels"
KERNELS = [
    *KERNEL_ROOT.glob("crc32/*.c"),
    *(KERNEL_ROOT / "format" / f"{name}.c" for name in ("record", "properties", "utf8", "jhash")),
]
REQUESTS = [KERNEL_ROOT / "broker" / f"request_{name}.c" for name in ("frame", "json", "binary")]
MORE = {
    "send": [
        KERNEL_ROOT / "format" / "text.c",
        *REQUESTS,
        *(KERNEL_ROOT / "broker" / f"send_{name}.c" for name in ("properties", "topics")),
    ],
    "text_out": [KERNEL_ROOT / "format" / f"{name}.c" for name in ("text", "text_out")],
    "pull": [*REQUESTS, KERNEL_ROOT / "broker" / "pull.c"],
}
"""Further kernels of a program."""
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wsign-compare", "-Werror"]
FLAGS = {
    "O3": ["-O3"],
    "sanitizers": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    "no SSE2": ["-O2", "-U__SSE2__"],
}


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(
    "name", ["record", "properties", "utf8", "text_out", "crc32_states", "send", "pull"]
)
def test_program(tmp_path: pathlib.Path, name: str, flags: str) -> None:
    compiler = shutil.which("cc")
    assert compiler, "the native tests need a C compiler named cc"
    program = tmp_path / name
    sources = [*KERNELS, *MORE.get(name, []), HERE / f"test_{name}.c"]
    subprocess.run(
        [compiler, *WARNINGS, *FLAGS[flags], f"-I{KERNEL_ROOT}", *sources, "-o", program],
        check=True,
    )
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{name}: 0 failures\n"
