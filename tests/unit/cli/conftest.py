"""The command line in this process: quick, and with stdout that is no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli.cli_runs import Result, Run

from rmqcore.cli import main

pytest.importorskip("typer")
pytest.importorskip("rich")


@pytest.fixture
def rmqcore(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    def run(*words: str | Path) -> Result:
        capsysbinary.readouterr()
        code = main([str(word) for word in words])
        out, err = capsysbinary.readouterr()
        return Result(code, out, err.decode())

    return run
