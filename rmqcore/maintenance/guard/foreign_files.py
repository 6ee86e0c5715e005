"""Files in ``consumequeue/`` and ``index/`` that are not files of queues or of the index: no repair deletes them."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from itertools import islice

from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import (
    StorePaths,
    is_index_file_name,
    is_utf8,
    parse_file_name,
    parse_queue_id,
)
from rmqcore.errors import ForeignFilesError

MOST_NAMED = 5


def check_no_foreign_files(paths: StorePaths, parts: Sequence[str]) -> None:
    """Check that the folders that a repair replaces hold files of queues and of the index alone.

    Parameters
    ----------
    paths : StorePaths
    parts : sequence of str
        ``consumequeue``, ``index``.

    Raises
    ------
    ForeignFilesError
        Another file or folder lies there.
    OSError
        A folder cannot be listed.
    """
    with Folder(paths.root) as root:
        for part in parts:
            if root.is_folder(part):
                with root.folder(part) as folder:
                    _check(folder, part)


def _check(folder: Folder, part: str) -> None:
    found = list(islice(_foreign(folder, part), MOST_NAMED + 1))
    if not found:
        return
    named = ", ".join(found[:MOST_NAMED]) + (" and more" if len(found) > MOST_NAMED else "")
    what = "queues" if part == "consumequeue" else "the index"
    raise ForeignFilesError(
        f"{folder.path} holds files that do not belong to {what}: {named}; nothing was changed"
    )


def _foreign(folder: Folder, part: str) -> Iterator[str]:
    if part == "index":
        for name in folder.names():
            if not (is_index_file_name(name) and _is_file(folder, name)):
                yield name
        return
    for topic in folder.names():
        if not is_utf8(topic) or not folder.is_folder(topic):
            yield topic
            continue
        with folder.folder(topic) as queues:
            for queue_id in queues.names():
                if parse_queue_id(queue_id) is None or not queues.is_folder(queue_id):
                    yield f"{topic}/{queue_id}"
                    continue
                with queues.folder(queue_id) as files:
                    for name in files.names():
                        if parse_file_name(name) is None or not _is_file(files, name):
                            yield f"{topic}/{queue_id}/{name}"


def _is_file(folder: Folder, name: str) -> bool:
    status = folder.status(name)
    return status is None or stat.S_ISREG(status.st_mode)
