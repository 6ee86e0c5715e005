"""A store whose log is missing although queues, index or checkpoint know messages: nothing may be built from it."""

from __future__ import annotations

from rmqcore.disk.paths import StorePaths
from rmqcore.errors import CommitLogMissingError
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.missing_log import known_messages


def check_log_is_there(paths: StorePaths) -> None:
    """Check that a store without a CommitLog file names no message in its other parts.

    Raises
    ------
    CommitLogMissingError
        Queues, index or checkpoint know messages.
    OSError
        A file cannot be read.
    """
    if list_log_files(paths):
        return
    newest = max(known_messages(paths), default=None, key=lambda one: one.end_phy_offset)
    if newest is None:
        return
    where = ", ".join(map(str, paths.commitlogs))
    error = CommitLogMissingError(
        f"{where}: there is no CommitLog file, but {newest.source} names a message that ends at "
        f"CommitLog offset {newest.end_phy_offset}"
    )
    error.hint = "check that the CommitLog's disk is mounted; nothing was changed"
    raise error
