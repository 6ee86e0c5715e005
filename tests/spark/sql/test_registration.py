"""How a session gets the source: PySpark finds it, or it is registered, or both."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import warnings
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.places import ROOT
from support.spark.found_packages import installed

import rmqcore.spark

pytest.importorskip("pyspark.sql.datasource")


def session_that_knows_the_source(found_by: str, asked_for: str) -> Any:
    """What `register` asks of a session whose Java ran `found_by` to look for sources.

    It was asked for `PythonUtils.defaultPythonExec`, which PySpark 4.0 does not have: no session could be made there.
    """
    from pyspark.errors import AnalysisException

    class AlreadyExists(AnalysisException):
        def getCondition(self) -> str:  # noqa: N802 - Spark's name
            return "DATA_SOURCE_ALREADY_EXISTS"

    def register(source: type) -> None:
        raise AlreadyExists("there is a data source rmqstore")

    environment = {"PYSPARK_DRIVER_PYTHON": found_by} if found_by != "python3" else {}
    return SimpleNamespace(
        dataSource=SimpleNamespace(register=register),
        conf={"spark.python.unix.domain.socket.enabled": "true"},
        sparkContext=SimpleNamespace(pythonExec=asked_for),
        _jvm=SimpleNamespace(
            java=SimpleNamespace(
                lang=SimpleNamespace(System=SimpleNamespace(getenv=environment.get))
            )
        ),
    )


@pytest.fixture
def _without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark runs behind such a session, so no task can look at its workers."""
    monkeypatch.setattr("rmqcore.spark.source.registration.check_workers", lambda spark: None)


@pytest.mark.usefixtures("_without_workers")
def test_a_source_that_is_there_is_not_registered_again() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rmqcore.spark.register(session_that_knows_the_source("python3", "python3"))


@pytest.mark.usefixtures("_without_workers")
def test_a_source_that_another_python_has_found_is_told() -> None:
    """Spark runs a source that it has found with the Python that found it, in the workers too, whatever they are to have."""
    with pytest.warns(
        UserWarning,
        match=r"with jupyter, and will also run jupyter in the workers, not ./env/bin/python",
    ):
        rmqcore.spark.register(session_that_knows_the_source("jupyter", "./env/bin/python"))


def number_in(stream: BytesIO) -> int:
    """A number as PySpark sends it."""
    return int(struct.unpack("!i", stream.read(4))[0])


def test_pyspark_lists_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PySpark looks, it finds a class that it can pickle, and that becomes the source."""
    from pyspark.serializers import SpecialLengths
    from pyspark.sql.worker import lookup_data_sources

    from rmqcore.spark.source.datasource import RmqStoreDataSource

    monkeypatch.syspath_prepend(installed(tmp_path))
    out = BytesIO()
    if hasattr(lookup_data_sources, "_main"):
        lookup_data_sources._main(BytesIO(), out)
    else:  # PySpark 4.0: all that comes before and behind it as well
        for name in (
            "check_python_version",
            "setup_memory_limits",
            "setup_spark_files",
            "setup_broadcasts",
        ):
            monkeypatch.setattr(lookup_data_sources, name, lambda *_: None)
        lookup_data_sources.main(BytesIO(struct.pack("!i", SpecialLengths.END_OF_STREAM)), out)
    out.seek(0)
    found = {}
    for _ in range(number_in(out)):
        name = out.read(number_in(out)).decode()
        found[name] = pickle.loads(out.read(number_in(out)))
    source = found["rmqstore"]({"path": "/data/store"})
    assert type(source) is RmqStoreDataSource
    assert source.options == {"path": "/data/store"}


def test_the_package_that_pyspark_lists_loads_nothing() -> None:
    program = (
        "import sys, pyspark_rmqstore\n"
        "assert not hasattr(pyspark_rmqstore, 'Other')\n"
        "print({n.partition('.')[0] for n in sys.modules} & {'pyspark', 'rmqcore', 'numpy', 'pyarrow'})\n"
        "if pyspark_rmqstore.DefaultSource.name() == 'rmqstore': print('rmqcore' in sys.modules)"
    )
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.stdout.split("\n")[:2] == ["set()", "False"], done.stderr


def test_a_source_of_a_function_goes_to_workers_itself() -> None:
    """A class that was derived from the source inside a function went by its name, which no worker finds: the query failed."""
    from pyspark import cloudpickle

    from rmqcore.spark.source.datasource import RmqStoreDataSource

    def derived() -> type[Any]:
        class Derived(RmqStoreDataSource):
            @classmethod
            def name(cls) -> str:
                return "derived"

        # What cloudpickle makes of such a class in another process has a plain name.
        Derived.__qualname__ = "Derived"
        return Derived

    source = derived()(options={"path": "somewhere"})
    found = pickle.loads(cloudpickle.dumps(source))  # type: ignore[no-untyped-call]
    assert (found.name(), found.options) == ("derived", {"path": "somewhere"})
    stock = RmqStoreDataSource({"path": "elsewhere"})
    named = pickle.loads(cloudpickle.dumps(stock))  # type: ignore[no-untyped-call]
    assert (type(named), named.options) == (RmqStoreDataSource, {"path": "elsewhere"})
