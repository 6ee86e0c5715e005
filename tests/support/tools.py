"""Programs outside of Python that some tests need: where they are, and what brings those that are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

DEBIAN = {
    "javac": "openjdk-17-jdk-headless",
    "mvn": "maven",
    "go": "golang-go",
    "c++": "g++",
    "git": "git",
}
"""Debian's package of each program that `needs` may name."""
HOMEBREW = {"javac": "openjdk@17", "mvn": "maven", "go": "go", "c++": "gcc", "git": "git"}


def find(name: str) -> str | None:
    """Return the path of a program: one of the JDK in JAVA_HOME if it is there, else on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and name in ("java", "javac") and (at := Path(home, "bin", name)).exists():
        return str(at)
    found = shutil.which(name)
    # macOS has programs of these names that do nothing but offer to install a JDK.
    if found == f"/usr/bin/{name}" and name in ("java", "javac") and sys.platform == "darwin":
        home = subprocess.run(["/usr/libexec/java_home"], capture_output=True, check=False)
        return found if home.returncode == 0 else None
    return found


def missing(names: Iterable[str]) -> list[str]:
    """Return those programs that this machine lacks."""
    return [name for name in names if find(name) is None]


def how_to_install(names: Iterable[str]) -> str:
    """Return the command that brings all of these programs."""
    if sys.platform == "darwin":
        return f"brew install {' '.join(HOMEBREW[name] for name in names)}"
    packages = " ".join(DEBIAN[name] for name in names)
    return f"sudo apt-get install --no-install-recommends {packages}"


if (
    __name__ == "__main__"
):  # for make: exit code 0 if all the programs of the command line are there
    sys.exit(bool(missing(sys.argv[1:])))
