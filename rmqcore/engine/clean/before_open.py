"""Make room on a full disk before an open: delete the files that its first round of cleaning would delete."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.durable import delete_file
from rmqcore.disk.load_files import load_files
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.used_space import free_bytes
from rmqcore.engine.clean.disks import disk_use
from rmqcore.engine.clean.rules import CleanRules
from rmqcore.vocabulary.clock import wall_clock_ms

NEWEST = 2  # files that stay: the newest may have been made ahead and be empty


def clean_before_open(
    paths: StorePaths, config: MessageStoreConfig, done_up_to: int
) -> Sequence[Path]:
    """Delete the oldest CommitLog files, by the rules of a cleaning round, until the disk is below the limit.

    Parameters
    ----------
    paths : StorePaths
        Locked by the caller.
    config : MessageStoreConfig
    done_up_to : int
        CommitLog offset up to which all messages are in the queues, which are on disk.

    Returns
    -------
    sequence of Path
        The deleted files; each deletion is on disk before the next one starts.

    Raises
    ------
    OSError
        A file cannot be deleted.
    """
    rules = CleanRules(config)
    found, _ = load_files(paths.commitlogs, config.mapped_file_size_commit_log)
    deleted: list[Path] = []
    for start, name in found[:-NEWEST]:
        now_ms = wall_clock_ms()
        trigger = rules.look(now_ms, disk_use(paths, config))
        due = trigger.pulled and (trigger.at_once or rules.expired(name, now_ms))
        if not due or start + config.mapped_file_size_commit_log > done_up_to:
            break
        deleted.append(Path(name))
        delete_file(deleted[-1])
    return deleted


def no_room_to_open(error: OSError, paths: StorePaths) -> OSError:
    """Return an error that names the free space and the next step."""
    path = error.filename or os.fspath(paths.root)
    return OSError(
        error.errno,
        f"{error.strerror}; {free_bytes(path)} bytes are free, an open needs some kilobytes, and "
        "no CommitLog file can be deleted: none has expired by the rules (file_reserved_time, "
        "clean_file_forcibly_enable), or the expired ones are among the newest or not yet "
        "dispatched to the queues. rmqcore.read can read the store without changing it",
        path,
    )
