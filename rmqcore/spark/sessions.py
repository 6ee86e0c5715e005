"""A Spark session with settings that fit this work."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rmqcore.spark.runtime.connect import is_connect
from rmqcore.spark.runtime.java import set_java_home
from rmqcore.spark.runtime.masters import check_master
from rmqcore.spark.runtime.versions import check_versions
from rmqcore.spark.source.registration import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLY = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
# Spark reads these settings when it starts; they cannot be changed later.
STATIC = {
    # Tasks talk to their Python over a socket file: an empty task took 16 ms instead of 60 (with frozen heaps).
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",  # a new worker imports pandas and pyarrow for 1 s
    "spark.ui.enabled": "false",
    **EARLY,
}
# These settings belong to a session, and a running session accepts them too.
DYNAMIC = {
    # Off by default: Spark would apply filters only after everything is read.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# For a driver and workers that are all on this machine: Spark looks up no host name and opens no port to other machines.
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def session(
    master: str | None = None,
    *,
    app_name: str | None = None,
    conf: Mapping[str, object] | None = None,
) -> SparkSession:
    """Start Spark, or use the running session; register the data source ``rmqstore`` in it.

    Settings of ``spark-submit``, ``spark-defaults.conf`` or the program are kept; other settings get values that fit
    rmqcore.

    Parameters
    ----------
    master : str, optional
        As in Spark: ``local[2]``, ``spark://host:7077``, ``yarn``. None: ``spark.master`` from `conf` or the
        environment (``spark-submit``), else ``local[*]``.
    app_name : str, optional
        None: the name from `conf` or ``spark-submit``, else ``rmqcore``.
    conf : mapping, optional
        Spark's own settings; they override all others.

    Raises
    ------
    SparkMissingError
        PySpark, pyarrow or pandas is not installed, or too old.
    JavaMissingError
        No Java is installed, or its version is too old.
    SparkMasterError
        A new session would wait for a standalone master that does not accept connections.
    SparkJobError
        Spark's workers lack a package.

    Notes
    -----
    A running session keeps the settings that Spark reads at its start: a warning names those that differ. If
    ``spark.remote`` or SPARK_REMOTE names a server of Spark Connect, the session is one of that server.
    """
    check_versions()
    from pyspark.sql import SparkSession

    given = {name: _text(value) for name, value in (conf or {}).items()}
    running = SparkSession.getActiveSession()
    if running is not None:
        known = running.conf.getAll
        _warn_of_static(running, given if is_connect(running) else _free(STATIC, known) | given)
        _set(running, _free(DYNAMIC, known) | given)
    elif "SPARK_REMOTE" in os.environ or "spark.remote" in given:
        running = _connect(SparkSession.builder, master, app_name, given)
        _set(running, _free(DYNAMIC, running.conf.getAll))
    else:
        running = _start(SparkSession.builder, master, app_name, given)
    register(running)
    return running


def _set(running: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if running.conf.isModifiable(name):
            running.conf.set(name, value)


def _free(settings: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return those of our settings that are not set already."""
    return {name: value for name, value in settings.items() if name not in known}


def _start(
    builder: SparkSession.Builder, master: str | None, app_name: str | None, given: dict[str, str]
) -> SparkSession:
    asked = master or given.get("spark.master") or os.environ.get("MASTER") or ""
    check_master(asked)
    set_java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    known = _launch(given)
    # Not before: with a source that PySpark has found by itself, Java would run this Python in the workers too.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    chosen = asked or known.get("spark.master", "local[*]")
    if not asked:
        check_master(chosen)
    ours = STATIC | DYNAMIC | (LOCAL if chosen.startswith("local") else {})
    name = app_name or given.get("spark.app.name") or known.get("spark.app.name", "rmqcore")
    for setting, value in (_free(ours, known) | given).items():
        builder = builder.config(setting, value)
    return builder.master(chosen).appName(name).getOrCreate()


def _connect(
    builder: SparkSession.Builder, master: str | None, app_name: str | None, given: dict[str, str]
) -> SparkSession:
    """Connect to a server of Spark Connect, which has a master and settings of its own; ``local[2]`` starts one."""
    if given.get("spark.remote", os.environ.get("SPARK_REMOTE", "")).startswith("local"):
        set_java_home()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    named = {"spark.master": master, "spark.app.name": app_name}
    for setting, value in (given | {name: text for name, text in named.items() if text}).items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def _launch(given: Mapping[str, str]) -> dict[str, str]:
    """Start Java, as the first session would do, unless it runs already; return the settings made by the user."""
    from pyspark import SparkConf, SparkContext

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    # What Java reads before there is a session, and the name and the progress bar that it would take for wanted in a shell.
    early = {} if submitted else {"spark.app.name": "rmqcore", **EARLY}
    with interrupts_wait():
        SparkContext._ensure_initialized(  # noqa: SLF001
            conf=SparkConf().setAll(list((early | dict(given)).items()))
        )
    return dict(SparkConf().getAll())


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C until the body has ended.

    If PySpark is interrupted before Java has told it a port, it removes the folder into which Java writes that port. Java then
    fails before it reaches the check whether its parent is still there, and its process stays for ever.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if (
        not is_main or signal.getsignal(signal.SIGINT) is None
    ):  # None: a handler in C, which Python cannot set back
        yield
        return
    waiting: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            signal.raise_signal(signal.SIGINT)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _warn_of_static(running: SparkSession, wanted: Mapping[str, str]) -> None:
    different = []
    for name, value in wanted.items():
        if running.conf.isModifiable(name):
            continue
        if running.conf.get(name, "") != value and name != "spark.log.level":
            different.append(f"{name}={value}")
    if different:
        warnings.warn(
            "Spark is already running and reads these settings only at its start: "
            f"{', '.join(different)}",
            stacklevel=3,
        )
