"""Replaces queues and index of a store by new ones made from its log, under the store's lock.

Before the swap the old folders are compared with the new ones. If the old ones have more entries they stay, unless the
caller agreed to lose exactly these.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.abort import AbortFile
from rmqcore.disk.inside.folder import remove_made
from rmqcore.disk.locks.store_locks import StoreLocks
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import refuse_to_write
from rmqcore.disk.swap import check_swappable, finish_swaps, swap_in
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.errors import StoreError
from rmqcore.maintenance.guard.foreign_files import check_no_foreign_files
from rmqcore.maintenance.guard.knowledge import check_drop, lost_knowledge
from rmqcore.maintenance.guard.missing_log import check_log_is_there
from rmqcore.maintenance.guard.recovery import approved
from rmqcore.maintenance.rebuild.report import RebuildReport
from rmqcore.offline.log.log_files import list_log_files, mapped_file_size
from rmqcore.opening import open_by_mode


def rebuild_in_place(
    paths: StorePaths,
    config: MessageStoreConfig,
    build: Callable[[], RebuildReport],
    parts: list[str],
    folder: Path,
    *,
    drop: int | None = None,
) -> RebuildReport:
    """Build folders while this process holds the store's lock, and replace the store's folders by them.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
        Configuration of the open, if the store must be recovered first.
    build : callable
        Builds the parts in `folder`, as `rebuild` does.
    parts : list of str
        ``consumequeue``, ``index``.
    folder : Path
        On the store's file system.
    drop : int, optional
        The number of entries of the old folders that may be lost, as a KnowsLessError says it. The old folders are kept
        then.

    Returns
    -------
    RebuildReport
        Its `kept` names the old folders that were kept.

    Raises
    ------
    KnowsLessError
        The old folders have entries that the new ones lack, and `drop` is another number. Nothing was changed.
    ForeignFilesError
        The old folders hold files of another program. Nothing was changed.
    CommitLogMissingError
        The log is missing, but other parts of the store name messages. Nothing was changed.
    StoreKindError
        rmqcore does not write this kind of store.
    LinkError, StoreLockedError, StoreError, OSError
        As of `swap_in`, of an open, and of `rebuild`.
    """
    made = not os.path.lexists(folder)
    refuse_to_write(paths)
    check_swappable(paths, parts)
    check_no_foreign_files(paths, parts)
    check_log_is_there(paths)
    abort = AbortFile(paths.abort)
    if abort.exists:
        mode = RecoverMode(approve=approved(paths, drop))
        open_by_mode(paths.root, config, mode, follow_links=paths.follow_links).close()
    with StoreLocks(paths):
        if abort.exists:
            raise StoreError(
                f"{paths.root} was opened and not cleanly closed during the rebuild: run the "
                "command again"
            )
        finish_swaps(paths)
        check_no_foreign_files(paths, parts)  # the lock is held: no other process adds any
        report = build()
        try:
            files = list_log_files(paths)
            begin = files[0].file_from_offset if files else 0
            losses = lost_knowledge(
                paths, StorePaths(folder), parts, begin, mapped_file_size(files) if files else 0
            )
            check_drop(losses, os.fspath(paths.root), drop)
            kept = swap_in(paths, folder, parts, keep=losses.count > 0)
        except BaseException:
            # Also after Ctrl-C: the store has the old or the new folders, never none.
            finish_swaps(paths)
            if made:
                remove_made(folder)
            raise
        if made:
            remove_made(folder)
    return replace(report, kept=tuple(kept), dropped_entries=losses.count)
