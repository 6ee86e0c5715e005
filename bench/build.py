"""Compiles the native and the Java benches, again after each change of their sources."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ROOT / "src" / "rmqcore" / "_native"
BENCH = ROOT / "bench"
BUILD = ROOT / "build" / "bench"
# The flags with which setup.py builds the kernels.
FLAGS = ("-std=gnu11", "-O3", "-Wall", "-Wextra")


def _newest(paths: list[pathlib.Path]) -> float:
    return max(path.stat().st_mtime for path in paths)


def program(name: str, *more: str) -> pathlib.Path:
    """Compile ``bench/native/NAME.c`` (and ``more``) with the product's kernels; answer the program."""
    out = BUILD / "bin" / name
    sources = [BENCH / "native" / f"{part}.c" for part in (name, *more)] + sorted(
        KERNELS.glob("*/*.c")
    )
    headers = [*KERNELS.glob("*/*.h"), *(BENCH / "native").glob("*.h")]
    if not out.exists() or out.stat().st_mtime < _newest([*sources, *headers]):
        out.parent.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CC", "cc")
        subprocess.run(
            [compiler, *FLAGS, f"-I{KERNELS}", *sources, "-lz", "-lpthread", "-o", out], check=True
        )
    return out


def output(command: list[str | pathlib.Path]) -> list[list[str]]:
    """Run a bench program; give the lines of its output, split into words."""
    done = subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True
    )
    return [line.split() for line in done.stdout.splitlines()]


def java_command(main: str, heap: str = "2g", *more: str) -> list[str | pathlib.Path] | None:
    """The command that runs a class of ``bench/java`` or of RocketMQ, or None where Java or Maven is missing.

    `more` are options of the JVM. The jars of RocketMQ come from Maven Central on first use and stay in Maven's own cache.
    """
    if not all(shutil.which(tool) for tool in ("java", "javac", "mvn")):
        return None
    maker = ROOT / "tests" / "interop" / "java_build.py"
    path = output(["env", f"PYTHONPATH={ROOT / 'tests'}", sys.executable, maker, "bench"])[0][0]
    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED".split()
    home = BUILD / "java-home"
    home.mkdir(parents=True, exist_ok=True)
    places = [f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"]
    heaps = [f"-Xms{heap}", f"-Xmx{heap}"]
    return ["java", *heaps, "-XX:+UseG1GC", *opens, *places, *more, "-cp", path, main]
