"""Ctrl-C while modules are loaded, in the first 0.2 s: exit code 130 and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli.cli_runs import environment

INTERRUPTS = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED_AT"]:
            sys.meta_path.remove(self)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.kill(os.getpid(), signal.SIGINT)
        return None

sys.meta_path.insert(0, Interrupts())
"""


def interrupted(folder: Path, module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python, which gets SIGINT when it begins to load a module."""
    (folder / "sitecustomize.py").write_text(INTERRUPTS)
    paths = os.pathsep.join([str(folder), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, *words],
        env=environment(INTERRUPTED_AT=module, PYTHONPATH=paths),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["rmqcore", "rmqcore.cli"])
@pytest.mark.parametrize(
    "module",
    [
        "numpy",
        "rmqcore.codec",
        "rich",
        "typer",
        "rmqcore.cli.app",
        "rmqcore.cli.verbs.info",
        "rmqcore.offline.reader",
    ],
)
def test_no_traceback(tmp_path: Path, golden: Path, module: str, command: str) -> None:
    store = str(golden / "basic" / "store")
    done = interrupted(tmp_path, module, "-m", command, "info", store)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_script_of_that_name_is_the_command(tmp_path: Path) -> None:
    script = tmp_path / "rmqcore"
    script.write_text("import sys\nfrom rmqcore.cli import main\nsys.exit(main(['--version']))\n")
    done = interrupted(tmp_path, "rmqcore.codec", "-P", str(script))
    assert (done.returncode, done.stderr) == (130, "")


def test_a_program_that_uses_the_package_gets_its_interrupt(tmp_path: Path) -> None:
    code = "try:\n    import rmqcore\nexcept KeyboardInterrupt:\n    print('mine')"
    assert interrupted(tmp_path, "rmqcore.codec", "-c", code).stdout == "mine\n"


def test_a_module_that_uses_the_package_gets_its_interrupt(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "try:\n    import rmqcore\nexcept KeyboardInterrupt:\n    print('mine')"
    )
    assert interrupted(tmp_path, "rmqcore.codec", "-m", "mine").stdout == "mine\n"
