"""The store of one release of RocketMQ in a JVM of its own: it opens a folder, answers, puts, answers again and ends."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from interop import java_build

FILE_SIZE = 1 << 20
SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}
"""Sizes of files so small that a few thousand messages fill several of each kind."""
_JAVA_SETTINGS = (
    f"mappedFileSizeCommitLog={FILE_SIZE}",
    "mappedFileSizeConsumeQueue=20000",
    "maxHashSlotNum=1000",
    "maxIndexNum=4000",
)
RUN_TIMEOUT_S = 600


def run(
    release: str, root: Path, home: Path, *, puts: int, seed: int = 1, halt: bool = False
) -> dict[str, Any]:
    """Open a store with a release, put messages, and return what the store said ``before`` and ``after`` them.

    Parameters
    ----------
    release
        Such as ``"4.9.8"``.
    root
        The store's folder; it is made where it is missing.
    home
        Where logs and the answers go.
    puts
        The number of puts; some are batches. With 0 there is no ``after``.
    halt
        End the JVM without a shutdown, as a crash does.
    """
    out = home / "answers.json"
    words = [str(root), str(out), str(puts), "halt" if halt else "close", str(seed), str(FILE_SIZE)]
    command = java_build.command(home, "org.rmqcore.versions.Main", "-Xmx1g", version=release)
    done = subprocess.run(
        [*command, *words, *_JAVA_SETTINGS],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, (
        f"RocketMQ {release} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    )
    answers: dict[str, Any] = json.loads(out.read_text())
    return answers
