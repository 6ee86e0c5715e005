"""Many runs of the command line by one process, whose start takes more than most of the runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.cli.cli_runs import environment, in_terminal

Words = Sequence[str | Path]

_IN_TERMINAL = """
import json, os, sys
from rmqcore.cli import main

before = dict(os.environ)
for words, variables in json.loads(sys.argv[1]):
    os.environ.clear()
    os.environ.update(before | variables)
    code = main(words)
    sys.stderr.flush()
    print(f"\\x1e{code}", end="\\x1e", flush=True)
"""


def each_in_terminal(
    *runs: tuple[Words, dict[str, str]], streams: str = "stdout stderr"
) -> list[tuple[int, str]]:
    """Exit code of each run, and what a terminal got of it; a run has its words and its variables of the environment."""
    asked = json.dumps([([str(word) for word in words], more) for words, more in runs])
    program = [sys.executable, "-c", _IN_TERMINAL]
    ended, text, _ = in_terminal(asked, streams=streams, program=program)
    parts = text.split("\x1e")
    assert (ended, len(parts)) == (0, 2 * len(runs) + 1), text
    return [(int(code), part) for part, code in zip(parts[::2], parts[1::2], strict=False)]


_IN_PIPES = """
import json, os, sys, tempfile
from rmqcore.cli import main

answers, out = [], os.dup(1)
for words in json.loads(sys.argv[1]):
    files = [tempfile.TemporaryFile() for _ in range(2)]
    for fd, file in enumerate(files, 1):
        os.dup2(file.fileno(), fd)
    code = main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    for file in files:
        file.seek(0)
    answers.append([code, *(file.read().decode() for file in files)])
os.write(out, json.dumps(answers).encode())
"""


def each_run(*runs: Words, before: Sequence[str] = ()) -> list[subprocess.CompletedProcess[str]]:
    """What each run answers where nothing is a terminal; `before` are words before the program, as ``setpriv``."""
    asked = json.dumps([[str(word) for word in words] for words in runs])
    done = subprocess.run(
        [*before, sys.executable, "-c", _IN_PIPES, asked],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        subprocess.CompletedProcess(list(words), code, out, err)
        for words, (code, out, err) in zip(runs, json.loads(done.stdout), strict=True)
    ]
