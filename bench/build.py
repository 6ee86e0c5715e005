"""Compiles the native and the Java benches, once a source change."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
NATIVE = ROOT / "src" / "rmqcore" / "_native"
BENCH = ROOT / "bench"
BUILD = ROOT / "build" / "bench"
JAVA_CACHE = pathlib.Path.home() / ".cache" / "rmqcore-java"
# As setup.py builds the extensions.
FLAGS = ("-std=gnu11", "-O3", "-Wall", "-Wextra")


def _newest(paths: list[pathlib.Path]) -> float:
    return max(path.stat().st_mtime for path in paths)


def program(name: str, *more: str) -> pathlib.Path:
    """Compile ``bench/native/NAME.c`` (and ``more``) with the product's kernels; answer the program."""
    out = BUILD / "bin" / name
    sources = [BENCH / "native" / f"{part}.c" for part in (name, *more)] + sorted(
        NATIVE.glob("*.c")
    )
    headers = [*NATIVE.glob("*.h"), *(BENCH / "native").glob("*.h")]
    if not out.exists() or out.stat().st_mtime < _newest([*sources, *headers]):
        out.parent.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CC", "cc")
        subprocess.run(
            [compiler, *FLAGS, f"-I{NATIVE}", *sources, "-lz", "-lpthread", "-o", out], check=True
        )
    return out


def output(command: list[str | pathlib.Path]) -> list[list[str]]:
    """Run a bench program; its output's lines, split into words."""
    done = subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True
    )
    return [line.split() for line in done.stdout.splitlines()]


def java_command(main: str) -> list[str | pathlib.Path] | None:
    """The command that runs a class of ``bench/java``, or None where Java or Maven is missing.

    The RocketMQ jars come from Maven Central on first use and stay in ``~/.cache/rmqcore-java``.
    """
    if not all(shutil.which(tool) for tool in ("java", "javac", "mvn")):
        return None
    jars, classes = JAVA_CACHE / "bench-lib", BUILD / "java"
    pom = BENCH / "java" / "pom.xml"
    if not jars.exists() or jars.stat().st_mtime < pom.stat().st_mtime:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *goal], check=True)
        jars.touch()
    sources = sorted((BENCH / "java").glob("*.java"))
    path = f"{classes}{os.pathsep}{jars}/*"
    if not classes.exists() or classes.stat().st_mtime < _newest(sources):
        classes.mkdir(parents=True, exist_ok=True)
        subprocess.run(["javac", "-nowarn", "-cp", path, "-d", classes, *sources], check=True)
        classes.touch()
    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED".split()
    home = f"-Duser.home={BUILD / 'java-home'}"
    return ["java", "-Xms2g", "-Xmx2g", "-XX:+UseG1GC", *opens, home, "-cp", path, main]
