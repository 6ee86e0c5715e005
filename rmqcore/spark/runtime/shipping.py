"""Functions that Spark pickles and sends to its Python workers, together with the code of this module (`send_code_along`).

Thus a worker without rmqcore can report that. Otherwise pickle would send only the names of these functions, and the
worker would fail before it ran a line of them. So the top of this module imports nothing of rmqcore and nothing that
PySpark 3.5 lacks.
"""

from __future__ import annotations

import pickle
import socket
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

NEEDED = ("rmqcore", "numpy", "pyarrow")
"""Packages that a worker imports: rmqcore, and those that it and PySpark require."""


def read_sent(sent: bytes, part: bytes) -> Iterator[Any]:
    """Read a part of a table in a worker; table and part arrive as pickled bytes."""
    prepare_worker()
    table, wanted = pickle.loads(sent), pickle.loads(part)  # noqa: S301 - from our own driver
    return table.read(wanted)  # type: ignore[no-any-return]


def read_partition(sent: bytes, partition: Any) -> Iterator[Any]:
    """Read the part in an ``InputPartition``. For a read without parts Spark still runs one task, without a partition."""
    if partition is None or partition.value is None:
        return iter(())
    return read_sent(sent, partition.value)


def call_sent(sent: bytes, method: str, *arguments: Any) -> Any:
    """Call a method of a pickled object, in a worker."""
    prepare_worker()
    return getattr(pickle.loads(sent), method)(*arguments)  # noqa: S301 - from our own driver


def check_worker() -> None:
    """Raise an error that names what this Python lacks, before an import fails that would name neither host nor Python."""
    lacking = [name for name in NEEDED if sys.modules.get(name) is None and find_spec(name) is None]
    if lacking:
        raise ImportError(f"{_this_worker()} cannot import {', '.join(lacking)}. {_way_on()}")


def _this_worker() -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    return f"the Python of Spark's workers on {socket.gethostname()} ({sys.executable}, {version})"


def _way_on() -> str:
    return (
        f"Install it there ({sys.executable} -m pip install 'rmqcore[spark]' on every node, or "
        "spark.archives), or set spark.pyspark.python to a Python that has it"
    )


def prepare_worker() -> None:
    """Make sure that this worker has rmqcore, and freeze its heap so that later tasks lose no time."""
    check_worker()
    try:
        from rmqcore.spark.runtime.workers import freeze_worker_heap
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{_this_worker()} cannot import rmqcore.spark: {error}. {_way_on()}"
        ) from error
    except ImportError as error:  # rmqcore is installed; its own message names the fault
        raise ImportError(f"{_this_worker()} finds rmqcore but cannot load it: {error}") from error
    freeze_worker_heap()


def task_function(sent: bytes) -> Any:
    """Return a function for ``mapInArrow`` that calls the pickled task with the batches."""

    def run_task(batches: Iterator[Any]) -> Iterator[Any]:
        prepare_worker()
        task = pickle.loads(sent)  # noqa: S301 - from our own driver
        yield from task(batches)

    return run_task


def part_reader(sent: bytes) -> Any:
    """Return a function for ``mapInArrow``: its input is one column of pickled parts, its output the rows of these parts."""

    def read_parts(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield from read_sent(sent, part)

    return read_parts


def sent_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for UDFs that calls another, which a worker unpickles at the first call and not with the UDF."""
    from pyspark import cloudpickle

    sent: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    found: Callable[..., Any] | None = None

    def call(*columns: Any, **named: Any) -> Any:
        nonlocal found
        if found is None:
            check_worker()
            found = pickle.loads(sent)  # noqa: S301 - from our own driver
        return found(*columns, **named)

    call.__annotations__ = {}  # from annotations Spark would infer another kind of UDF
    call.__name__ = function.__name__
    send_code_along()
    return call


def send_code_along(*modules: str) -> None:
    """Have this process pickle the code of this module and of the given modules, not only their names."""
    from pyspark.cloudpickle import register_pickle_by_value

    for name in (__name__, *modules):
        register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
