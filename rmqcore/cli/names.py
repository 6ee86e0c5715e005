"""Names of a store that users type: its topics, and completions for the shell."""

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
    """Return the topics with a queue; none if the store has no queues, or they cannot be listed."""
    return {topic for topic, _ in queue_names(paths, left_out)}


def words_to_complete() -> list[str]:
    """Return the words behind ``rmqcore`` of the line that a shell asks to complete; an empty list if no shell asks.

    Only the verb in this line is loaded, to keep a tab below one second. Without the line, which Typer's scripts
    for zsh and fish pass in a variable internal to Typer, all verbs are loaded, because Typer has no interface for the
    line before all commands are made. So that variable affects only the time of a tab
    (tests/unit/cli/test_completion.py).
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

    Only names of RocketMQ's letters without ``|`` are returned: zsh runs the text in ``$(...)`` of a completion, every
    shell the text behind a ``|`` after Enter, and an attacker may have made the store.

    The store is the first directory among the arguments. If it is missing or cannot be read, the list is empty: an
    error would be printed into the line being typed.
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
