"""Names of a store as people type them: those that there are, and those that a shell completes."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import typer

from rmqcore.disk.paths import StorePaths
from rmqcore.disk.read_range import left_out
from rmqcore.disk.topics_file import configured_topics
from rmqcore.errors import StoreError
from rmqcore.offline.queues.queues import queue_names
from rmqcore.offline.reader import store_paths

COMPLETES = "_RMQCORE_COMPLETE"
"""Set in the environment by a shell that asks for completions."""
LINE_OF_TYPER = "_TYPER_COMPLETE_ARGS"


def topics_with_queues(paths: StorePaths) -> set[str]:
    """Topics that have a queue; none where the store has no queues, or they cannot be listed."""
    return {topic for topic, _ in queue_names(paths, left_out)}


def words_to_complete() -> list[str]:
    """Return the words behind ``rmqcore`` of the line that a shell asks to complete; an empty list if no shell asks.

    The verb decides what is loaded: a shell that waits a second for each tab is no help. Without the line, which Typer's scripts
    for zsh and fish give in a variable that is Typer's own, all verbs are: Typer tells the line to nobody before all commands are
    made. So that variable decides on the time a tab takes, and on nothing else (tests/unit/cli/test_completion.py).
    """
    if COMPLETES not in os.environ:
        return []
    line = os.environ.get("COMP_WORDS") or os.environ.get(LINE_OF_TYPER, "")
    try:
        return shlex.split(line)[1:]
    except ValueError:  # a quote that is not closed yet
        return line.split()[1:]


_IS_HARMLESS = re.compile(r"[%A-Za-z0-9_-]+").fullmatch


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the topics of the store named earlier on the line that start with some letters, for the shell.

    Only names of RocketMQ's letters, but for ``|``: zsh runs what stands in ``$(...)`` of an answer, every shell what stands
    behind a ``|`` once it is typed, and a store may be a stranger's.

    The store is the first directory among the arguments. A shell shows nothing where there is no such store, or none that can be
    read: an error would land in the line being typed.
    """
    try:
        for word in ctx.args:  # an option that waits for its value leaves them there
            if Path(word).expanduser().is_dir():
                paths = store_paths(Path(word).expanduser(), leave_out_links=True)
                found = topics_with_queues(paths) | configured_topics(paths)
                return sorted(
                    topic for topic in found if topic.startswith(incomplete) and _IS_HARMLESS(topic)
                )
    except (StoreError, OSError, ValueError, RuntimeError):
        return []
    return []
