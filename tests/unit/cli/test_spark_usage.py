"""What ``rmqcore spark`` answers before Spark is started. No JVM."""

from __future__ import annotations

import inspect
import io
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from support.cli.cli_runs import Run

from rmqcore.cli.common.bodies import BodyMode
from rmqcore.cli.spark import session as spark_session
from rmqcore.cli.spark.app import VERBS
from rmqcore.cli.spark.rows import plain_row
from rmqcore.cli.spark.run_options import RunOptions, spark_verb
from rmqcore.cli.spark.task_bar import TaskCounts

pytest.importorskip("numpy")


def test_the_command_line_loads_no_pyspark() -> None:
    """Each verb would take a second longer to start."""
    code = (
        "import sys\n"
        "from rmqcore.cli.app import application\n"
        "application([], print)\n"  # with all verbs
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'pyarrow') or 'rmqcore.spark' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(spark_session, "_start", start)
    monkeypatch.setattr(spark_session, "_running", lambda: None)


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["audit"], 64, "STORE"),
        (["audit", "/nowhere"], 1, "/nowhere: No such file"),
        (["audit", "{store}", "--option", "x"], 64, "'x' is not NAME=VALUE"),
        (["audit", "{store}", "--option", "maxPartionBytes=1"], 1, "did you mean maxPart"),
        (["audit", "{store}", "--conf", "=1"], 64, "not NAME=VALUE"),
        (["audit", "{store}", "--option", "topics=a"], 1, "does not apply to table=corrupt"),
        (["topic-stats", "{store}", "--option", "mode=odd"], 1, "expected one of"),
        (["find", "{store}"], 64, "missing --key or --id"),
        (["find", "{store}", "--key", "k", "--limit", "0"], 64, "--limit"),
        (["compare", "{store}"], 64, "RIGHT"),
        (["compare", "{store}", "/nowhere"], 1, "/nowhere"),
        (["export-parquet", "{store}"], 64, "--out"),
        (["export", "{store}"], 64, "--out"),
        (["rebuild-consume-queues", "/nowhere", "-o", "x"], 1, "/nowhere"),
        (["rebuild-index", "{store}"], 64, "--out"),
        (["odd"], 64, "odd"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    rmqcore: Run, golden: Path, words: list[str], code: int, says: str
) -> None:
    store = str(golden / "basic" / "store")
    done = rmqcore("spark", *(store if word == "{store}" else word for word in words))
    assert (done.code, done.out) == (code, b"")
    assert says in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example(rmqcore: Run, verb: str) -> None:
    text = rmqcore("spark", verb, "--help").out.decode()
    assert f"rmqcore spark {verb}" in text.partition("Example:")[2]


NOISE = "26/11/21 15:56:35 WARN NativeCodeLoader: Unable to load native-hadoop library\n"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "26/11/21 15:52:26 ERROR SparkContext: Error initializing it.\norg.x.SparkException: Could not parse 'x'\n\tat org\n",
            "org.x.SparkException: Could not parse 'x'",
        ),
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark\n',
            "org.apache.spark.SparkException: Master must either be yarn or start with spark",
        ),
        (
            "26/11/21 15:57:37 ERROR StandaloneSchedulerBackend: Reason: All masters are unresponsive!\n",
            "Reason: All masters are unresponsive!",
        ),
        (
            "Invalid maximum heap size: -Xmxzzz\nError: Could not create the Java Virtual Machine.\n",
            "Invalid maximum heap size: -Xmxzzz",
        ),
        ("", "An error occurred"),
    ],
)
def test_why_spark_does_not_start(said: str, reason: str) -> None:
    """The reason for a wrong master was "Error initializing SparkContext.", for an unreachable master "An error occurred"."""
    error = RuntimeError("An error occurred\nmore")
    assert spark_session._reason(error, io.BytesIO((NOISE + said).encode())) == reason


def test_rows_as_json_values() -> None:
    row = {"at": 1_767_312_000_000_999, "body": b"a\xff", "n": 1, "tags": [1.5]}
    assert plain_row(row, times=["at"]) == {
        "at": "2026-01-02T00:00:00.000+00:00",
        "body": "a\ufffd",
        "n": 1,
        "tags": [1.5],
    }
    for microseconds in (253_402_300_800_000_000, -62_135_596_800_000_001, -(2**63)):
        assert plain_row({"at": microseconds}, times=["at"]) == {"at": microseconds // 1000}
    assert plain_row({"at": None}, times=["at"]) == {"at": None}
    assert plain_row(row, BodyMode.base64)["body"] == "Yf8="
    assert plain_row(row, BodyMode.none)["body"] is None
    assert len(plain_row(row, BodyMode.sha256)["body"]) == 64


class Tracker:
    """A status tracker of two jobs, of which one has ended."""

    def __init__(self) -> None:
        self.active = {1: [10, 11]}
        self.stages = {10: (4, 4), 11: (1, 8), 12: (0, 3)}

    def getActiveJobsIds(self) -> list[int]:  # noqa: N802 - PySpark's name
        return list(self.active)

    def getJobInfo(self, job_id: int) -> object:  # noqa: N802
        return type("Job", (), {"stageIds": self.active[job_id]})

    def getStageInfo(self, stage_id: int) -> object:  # noqa: N802
        done, total = self.stages[stage_id]
        return type("Stage", (), {"numCompletedTasks": done, "numTasks": total})


def test_tasks_of_jobs_that_have_ended_stay_counted() -> None:
    tracker = Tracker()
    counts = TaskCounts(tracker)
    assert counts.look() == (5, 12)
    tracker.active = {2: [12]}
    assert counts.look() == (12, 15)
    tracker.active = {}
    assert counts.look() == (15, 15)


@pytest.mark.parametrize("verb", VERBS.values())
def test_every_verb_takes_the_options_of_a_run_after_its_own(verb: Callable[..., int]) -> None:
    names = list(inspect.signature(verb).parameters)
    shared = [field.name for field in fields(RunOptions)]
    assert names[-len(shared) :] == shared
    assert "run" not in names


def test_a_verb_gets_the_options_of_its_run() -> None:
    @spark_verb
    def verb(run: RunOptions, store: str, limit: int = 3) -> int:
        assert (run.master, run.conf, run.no_progress, store) == ("local[2]", ["a=b"], True, "s")
        return limit

    given = {"option": None, "log": None, "json": False, "no_progress": True}
    assert verb(store="s", limit=5, master="local[2]", conf=["a=b"], **given) == 5
