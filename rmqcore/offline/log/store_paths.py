"""Where the parts of a store lie: given its root, its ``commitlog`` directory, or the URL of either."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmqcore.disk.inside.links import refuse_links, refuse_part
from rmqcore.disk.paths import StorePaths, is_url, log_directories, parse_file_name
from rmqcore.disk.store_kinds import dledger_folders, is_dledger_name
from rmqcore.errors import NotAStoreError, StoreFormatError
from rmqcore.errors.arguments import check_iterable
from rmqcore.offline.log.log_files import (
    check_one_log,
    holds_log_files,
    holds_store,
    is_log_file,
)
from rmqcore.offline.remote.filesystem import RemoteFilesystem, split_uri
from rmqcore.offline.remote.remote_paths import RemotePaths
from rmqcore.offline.remote.store_url import StoreUrl

if TYPE_CHECKING:
    from rmqcore.config import MessageStoreConfig

MOST_STORES = 3
"""Stores below a directory that an error names."""

LogDirectories = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def store_paths(
    root: Path | StoreUrl,
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    *,
    follow_links: bool = False,
    leave_out_links: bool = False,
) -> StorePaths:
    """Where the parts of a store lie, given its root or its ``commitlog`` directory; the arguments are those of `StoreReader`.

    With `leave_out_links` links in the store are left out (`StorePaths.leave_out_links`); one in the CommitLog's place is not.

    Raises
    ------
    NotAStoreError
        The directory holds none of the parts of a store.
    LinkError
        As `refuse_links`.
    FileNotFoundError, NotADirectoryError
        There is no such directory.
    ValueError
        As `StorePaths.configured`; or the directory has a CommitLog, and `config` names another.
    """
    if isinstance(root, StoreUrl):
        return _url_paths(root, config, commitlog)
    names = _names_in(root)
    paths = _named_paths(root, config, commitlog, follow_links)
    if paths is not None:
        for directory in paths.commitlogs:
            os.scandir(directory).close()
    elif holds_store(names):
        paths = StorePaths(root, follow_links=follow_links)
    elif holds_log_files(root.name, names):
        inside = is_dledger_name(f"{root.parent.name}/{root.name}")
        parent = root.parent.parent if inside else root.parent
        paths = StorePaths(parent, commitlog=root, follow_links=follow_links)
    else:
        raise NotAStoreError(
            f"{root} has no commitlog/, consumequeue/, index/ or "
            f"checkpoint{_stores_below(root, names)}"
        )
    paths.leave_out_links = leave_out_links
    refuse_links(paths)
    if commitlog is None:
        add_dledger_log(paths)
    return paths


def _names_in(root: Path) -> list[str]:
    """List a store's root; one of its log's files in its place is an error that names the root."""
    try:
        return os.listdir(root)
    except NotADirectoryError as error:
        if not is_log_file(root.name):
            raise
        store = root.parent.parent if root.parent.name == "commitlog" else root.parent
        why = f"this is a file of a log, expected the store's root, the directory {store}"
        raise NotADirectoryError(errno.ENOTDIR, why, os.fspath(root)) from error


def _stores_below(root: Path, names: list[str]) -> str:
    """Name the stores that a directory holds, for one that was given instead of its store."""
    found = []
    for name in sorted(names):
        try:
            if holds_store(os.listdir(root / name)):
                found.append(os.fspath(root / name))
        except OSError:  # no directory, or one that does not show what is in it
            continue
    return f"; there is a store in {', '.join(found[:MOST_STORES])}" if found else ""


def add_dledger_log(paths: StorePaths) -> None:
    """Add the DLedger log in a store's root to the directories of its log.

    The first file of DLedger follows the last one of an older ``commitlog``, if there is one.

    Raises
    ------
    StoreFormatError
        There are several, or the DLedger log overlaps the CommitLog: the caller must name the log.
    LinkError
        It is a link.
    """
    found = dledger_folders(paths)
    if not found or set(found) & set(paths.commitlogs):
        return
    check_one_dledger_log(paths.location, list(map(str, found)))
    for place in (found[0].parent, found[0]):
        refuse_part(paths, place)
    end, begin = max(_offsets(*paths.commitlogs), default=-1), min(_offsets(found[0]))
    if begin <= end:
        raise _unsaid(
            f"{paths.location} has two logs: {paths.commitlog} extends to the file of {end}, and "
            f"{found[0]} starts at {begin}, expected behind it",
            str(found[0]),
        )
    paths.add_log(found[0])


def _offsets(*folders: Path) -> list[int]:
    names = [name for folder in folders if folder.is_dir() for name in os.listdir(folder)]
    return [offset for name in names if (offset := parse_file_name(name)) is not None]


def _unsaid(what: str, place: str) -> StoreFormatError:
    error = StoreFormatError(f"{what}: choose one of the logs")
    error.hint = f"--commitlog {place} (commitlog, store_path_commit_log)"
    return error


def check_one_dledger_log(store: str, found: Sequence[str]) -> None:
    """Check that a store has no more than one DLedger log; `found` says where they lie.

    Raises
    ------
    StoreFormatError
        There are several: the caller must name the log.
    """
    if len(found) > 1:
        raise _unsaid(
            f"{store} has the DLedger logs of {len(found)} brokers, {', '.join(found)}", found[0]
        )


def remote_dledger_logs(filesystem: RemoteFilesystem, root: str, names: Iterable[str]) -> list[str]:
    """The directories of DLedger logs in the root of a store on another filesystem, which has these names in it."""
    found = []
    for name in sorted(name for name in names if is_dledger_name(f"{name}/data")):
        folder = f"{root}/{name}/data"
        try:
            entries = filesystem.entries(folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if any(is_log_file(entry.name) for entry in entries):
            found.append(folder)
    return found


def _named_paths(
    root: Path,
    config: MessageStoreConfig | None,
    commitlog: LogDirectories | None,
    follow_links: bool,
) -> StorePaths | None:
    """The paths of a store of which it was said where the CommitLog is; None when nothing was said."""
    if isinstance(commitlog, str):
        return StorePaths.configured(root, commitlog, follow_links=follow_links)
    if commitlog is not None:
        if not isinstance(commitlog, os.PathLike):
            check_iterable("commitlog", "paths, or one path", commitlog)
        return StorePaths(root, commitlog=commitlog, follow_links=follow_links)
    if config is None:
        return None
    log, read_only = config.store_path_commit_log, config.read_only_commit_log_store_paths
    if log is None and not (read_only and read_only.strip()):
        return None
    paths = StorePaths.configured(root, log, read_only, follow_links=follow_links)
    check_one_log(paths)
    return paths


def _url_paths(
    url: StoreUrl, config: MessageStoreConfig | None, commitlog: LogDirectories | None
) -> RemotePaths:
    """The paths of a store, given the URL of its root or its ``commitlog`` directory; what is there is listed.

    Parameters
    ----------
    url : StoreUrl
    config : MessageStoreConfig, optional
        May not say where the CommitLog is: what is a path on a broker's machine leads nowhere from a URL.
    commitlog : str, path-like or sequence of path-like, optional
        URLs of the CommitLog's directories; a str with commas between them.

    Raises
    ------
    NotAStoreError
        The directory holds none of the parts of a store.
    FileNotFoundError, NotADirectoryError, RemoteStorageError
        As `RemotePaths`.
    ValueError
        `commitlog` is no URL; or `config` has paths of the CommitLog, and `commitlog` does not say where it is.
    """
    if commitlog is not None:
        return RemotePaths(url, _logs(url, commitlog))
    if config is not None and (
        config.store_path_commit_log or (config.read_only_commit_log_store_paths or "").strip()
    ):
        named = config.store_path_commit_log or config.read_only_commit_log_store_paths
        raise ValueError(
            f"the config names the CommitLog {named}, but the store is {url}: name the CommitLog's "
            "URL with commitlog"
        )
    names = [entry.name for entry in url.filesystem.entries(url.path)]
    if holds_store(names):
        found = remote_dledger_logs(url.filesystem, url.path, names)
        check_one_dledger_log(str(url), found)
        if not found:
            return RemotePaths(url)
        older = [url / "commitlog"] if "commitlog" in names else []
        return RemotePaths(url, [*older, StoreUrl(url.filesystem, found[0])])
    if holds_log_files(url.name, names):
        return RemotePaths(url.parent, [url])
    raise NotAStoreError(f"{url} has no commitlog/, consumequeue/, index/ or checkpoint")


def _logs(url: StoreUrl, commitlog: LogDirectories) -> list[StoreUrl]:
    given: Sequence[str | os.PathLike[str]]
    if isinstance(commitlog, str):
        given = log_directories(commitlog, "commitlog")
    elif isinstance(commitlog, os.PathLike):
        given = [commitlog]
    else:
        given = commitlog
    found = []
    for one in [os.fspath(directory) for directory in given]:
        if not is_url(one):
            raise ValueError(f"commitlog is {one!r}, expected a URL like that of the store: {url}")
        found.append(StoreUrl(*split_uri(one, url.filesystem.options)))
    return found
