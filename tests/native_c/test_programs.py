"""Compiles and runs the C tests of the kernels at the edges of memory that traps."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
KERNEL_ROOT = HERE.parent.parent / "src" / "rmqcore" / "_native"
KERNELS = [
    path
    for pattern in (
        "crc32/*.c",
        "format/record.c",
        "format/properties.c",
        "format/utf8.c",
        "format/jhash.c",
        "format/text.c",
        "text/text_out.c",
        "broker/request_*.c",
        "broker/send_*.c",
        "broker/pull.c",
        "scan/dledger.c",
    )
    for path in KERNEL_ROOT.glob(pattern)
]
"""What the programs call."""
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wsign-compare", "-Werror"]
FLAGS = {
    "O3": ["-O3"],
    "sanitizers": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    "no SSE2": ["-O2", "-U__SSE2__"],
}


@pytest.fixture(scope="module", params=FLAGS)
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], pathlib.Path]:
    """Compile the kernels once for each set of flags; return the command that compiles a program, and their library."""
    compiler = shutil.which("cc")
    assert compiler, "the native tests need a C compiler named cc"
    folder = tmp_path_factory.mktemp("kernels")
    command = [compiler, *WARNINGS, *FLAGS[request.param], f"-I{KERNEL_ROOT}"]
    subprocess.run([*command, "-c", *KERNELS], cwd=folder, check=True)
    library = folder / "libkernels.a"  # a program gets those kernels that it calls
    subprocess.run(["ar", "rcs", library, *folder.glob("*.o")], check=True)
    return command, library


@pytest.mark.parametrize(
    "name", ["record", "properties", "utf8", "text_out", "crc32_states", "send", "pull", "dledger"]
)
def test_program(
    compiled: tuple[list[str], pathlib.Path], tmp_path: pathlib.Path, name: str
) -> None:
    program = tmp_path / name
    command, library = compiled
    subprocess.run([*command, HERE / f"test_{name}.c", library, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{name}: 0 failures\n"
