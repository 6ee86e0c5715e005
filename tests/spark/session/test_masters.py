"""A master that cannot be reached is said before Spark starts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqcore.cli import main
from rmqcore.errors import SparkMasterError
from rmqcore.spark import sessions
from rmqcore.spark.runtime import masters
from rmqcore.spark.runtime.masters import check_master


@pytest.fixture
def listening() -> Iterator[int]:
    """A port that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> Iterator[int]:
    """A port that nobody else gets and that takes none."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_master_that_nobody_runs(closed: int) -> None:
    """Spark tried for a minute without a word, and then told of an SparkContext that was stopped."""
    told = rf"^cannot reach a master of spark://127.0.0.1:{closed}: 127.0.0.1:{closed}: connection refused$"
    with pytest.raises(SparkMasterError, match=told) as caught:
        check_master(f"spark://127.0.0.1:{closed}")
    assert "spark:// URL" in caught.value.hint


def test_one_of_several_must_answer(closed: int, listening: int) -> None:
    check_master(f"spark://127.0.0.1:{closed},127.0.0.1:{listening}")
    check_master(f"SPARK://127.0.0.1:{listening}, 127.0.0.1:{closed}")
    with pytest.raises(SparkMasterError, match=f"{closed}: connection refused; .*:0: "):
        check_master(f"spark://127.0.0.1:{closed},127.0.0.1:0")


def test_a_name_that_nobody_knows_and_a_port_that_cannot_be() -> None:
    with pytest.raises(SparkMasterError, match=r"no-such-host\.invalid:7077: \w+"):
        check_master("spark://no-such-host.invalid:7077")
    with pytest.raises(SparkMasterError, match=r"127\.0\.0\.1:77777: \w+"):
        check_master("spark://127.0.0.1:77777")


def test_a_master_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall drops what it is sent; or the name server does not answer, for which there is no timeout."""

    def drops(address: tuple[str, int], timeout: float) -> socket.socket:
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", drops)
    with pytest.raises(SparkMasterError, match="a:1: does not answer within 4 s; b:2: does not"):
        check_master("spark://a:1,b:2")
    monkeypatch.setattr(masters, "_ask", lambda *_: None)
    with pytest.raises(SparkMasterError, match=r"a:1: does not answer within 0\.01 s$"):
        check_master("spark://a:1", 0.01)


@pytest.mark.parametrize(
    "master",
    [
        "",
        "local[2]",
        "yarn",
        "k8s://https://a:1",
        "local-cluster[1,1,1024]",
        "spark://a",
        "spark://a:b,c:1",
    ],
)
def test_nothing_is_asked_of_others(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masters, "_ask", lambda *_: pytest.fail("asked"))
    check_master(master)


@pytest.mark.parametrize("way", ["argument", "conf", "environment"])
def test_a_session_asks_before_java_starts(
    way: str, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(sessions, "set_java_home", lambda: pytest.fail("started"))
    master = f"spark://127.0.0.1:{closed}"
    if way == "environment":
        monkeypatch.setenv("MASTER", master)
    with pytest.raises(SparkMasterError, match="connection refused"):
        sessions.session(
            master if way == "argument" else None,
            conf={"spark.master": master} if way == "conf" else None,
        )


def test_the_command_line_says_it(
    closed: int, golden: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(sessions, "set_java_home", lambda: pytest.fail("started"))
    store = str(golden / "basic" / "store")
    assert main(["spark", "audit", store, "--master", f"spark://127.0.0.1:{closed}"]) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error.endswith(f": 127.0.0.1:{closed}: connection refused")
    assert hint.startswith("Hint: check that it runs")
