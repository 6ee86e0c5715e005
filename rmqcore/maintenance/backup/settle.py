"""The engine finishes a copy: it dispatches the messages that the store had not yet dispatched at the watermark.

Queues and index were copied before the log, so they never lead it; they lack messages written during the copy, and
their newest entries may be torn. The copy is like a store after a crash, and recovery makes it whole. Recovery may
write only into files that the copy does not share: if it would cut the log, which in a copy means that the store's log
is damaged, it does not run.
"""

from __future__ import annotations

from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.preview import preview_recovery
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.errors import StoreError
from rmqcore.offline.log.walk import Progress
from rmqcore.opening import open as open_store


def settle(dest: Path, config: MessageStoreConfig, progress: Progress | None = None) -> str:
    """Recover a copy and close it cleanly; return why it was left as after a crash, or an empty text.

    Parameters
    ----------
    dest : Path
    config : MessageStoreConfig
        With the sizes of the files.
    progress : callable, optional
    """
    settings = config.changed(
        store_path_root_dir=None,
        store_path_commit_log=None,
        read_only_commit_log_store_paths=None,
        clean_file_forcibly_enable=False,
    )
    paths = StorePaths(dest)
    try:
        plan, _ = preview_recovery(paths, settings, RecoverMode(progress=progress))
    except (StoreError, ValueError) as error:
        return f"the store cannot be opened: {error}"
    if plan.cut_bytes:
        cut = f"{plan.cut_bytes} bytes behind {plan.end_phy_offset}"
        return f"the store's log is damaged: an open would cut {cut}, so the copy was not opened"
    try:
        store = open_store(dest, settings, create=False, services=False, progress=progress)
    except (StoreError, ValueError) as error:
        return f"the store cannot be opened: {error}"
    with store:
        while store.dispatch_once():
            pass
        # Deletes queue and index files whose messages are no longer in the log: the store's cleaner may have run between the
        # copies of both. With a time of 0 no file of the log is old enough to be deleted.
        store.clean_once(now_ms=0, disk_ratio=0.0)
    return ""
