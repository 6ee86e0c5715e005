"""Finds Java and Maven, and builds our Java projects when their sources are newer than what was built.

``PYTHONPATH=tests python tests/interop/java_build.py NAME`` builds one and prints its class path: the benches and make do it so.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.tools import find, how_to_install

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECTS = {
    "interop": ROOT / "tests" / "interop" / "java",
    "versions": ROOT / "tests" / "interop" / "versions" / "java",
    "bench": ROOT / "bench" / "java",
}
BUILD = ROOT / "build" / "java"
BUILD_TIMEOUT_S = 600  # the first build of a machine fetches about a hundred jars
# The better compiler would cost more than it gains.
SHORT_LIFE = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
OPENED = (  # what RocketMQ reaches into, as its own start scripts open it
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
)


class JavaBuildError(Exception):
    """A tool that these tests need is not installed, or the build failed."""


def tool(name: str) -> str:
    """Path of a program of the JDK, or of Maven: in JAVA_HOME, else on PATH."""
    found = find(name)
    if found is None:
        raise JavaBuildError(
            f"no {name} on PATH, and none in JAVA_HOME: the real RocketMQ needs a JDK 17 or later and Maven;"
            f" {how_to_install(['javac', 'mvn'])}"
        )
    return found


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One process at a time builds: two that wrote the same classes, or fetched the same jars, would spoil them."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "java.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@functools.cache
def class_path(project: str, version: str | None = None) -> str:
    """Class path of a project: its classes and the jars of RocketMQ in Maven's own cache. Built first where needed.

    Parameters
    ----------
    version
        A release of RocketMQ, for the project that is built for each release.
    """
    with _alone():
        return _class_path(project, version)


def _class_path(project: str, version: str | None) -> str:
    folder, built = PROJECTS[project], BUILD / project / (version or "")
    options = [f"-Drocketmq.version={version}"] if version else []
    jars = built / "classpath"
    newest = max(path.stat().st_mtime for path in folder.rglob("*") if path.is_file())
    if not jars.exists() or jars.stat().st_mtime < newest:
        tool("javac")  # Maven's own message for a JRE without a compiler helps nobody
        done = subprocess.run(
            [tool("mvn"), "-q", "-B", "-f", str(folder / "pom.xml"), *options, "compile"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise JavaBuildError(f"Maven answered {done.returncode}:\n{done.stdout}")
        jars.touch()  # Maven leaves it as it is when no jar changed
    return os.pathsep.join([str(built / "classes"), jars.read_text().strip()])


def command(home: Path, main: str, *options: str, version: str | None = None) -> list[str]:
    """Command line of a JVM with RocketMQ, whose files all go into `home`; with `version` the store of that release alone."""
    home.mkdir(parents=True, exist_ok=True)
    path = class_path("versions", version) if version else class_path("interop")
    return [
        tool("java"),
        *OPENED,
        f"-Duser.home={home}",
        f"-Djava.io.tmpdir={home}",
        f"-Drocketmq.client.logRoot={home}",
        f"-Drmq.logback.configurationFile={BUILD / 'interop' / 'classes' / 'interop-logback.xml'}",
        "-Dfile.encoding=UTF-8",
        *SHORT_LIFE,
        *options,
        "-cp",
        path,
        main,
    ]


if __name__ == "__main__":
    try:
        sys.stdout.write(class_path(sys.argv[1]) + "\n")
    except JavaBuildError as error:
        sys.exit(str(error))
