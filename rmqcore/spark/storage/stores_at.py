"""The stores that lie in one directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rmqcore.errors import NotAStoreError
from rmqcore.offline.log.log_files import holds_log_files, holds_store
from rmqcore.spark.storage.directories import Directories, RemoteDirectories, utf8_text
from rmqcore.spark.storage.globs import MatchedPath
from rmqcore.spark.storage.sink_folder import MANIFEST, SINK, SinkManifest
from rmqcore.spark.storage.store_location import StoreLocation
from rmqcore.spark.storage.store_names import names_by_path

SHOWN_STORES = 3
"""The most paths that a message names; it counts the others."""


@dataclass(frozen=True)
class Candidate:
    """A store that has no name yet.

    Attributes
    ----------
    store : StoreLocation
    given_name : str
        Empty if the user gave no name.
    by_path : tuple of str
        See `names_by_path`.
    """

    store: StoreLocation
    given_name: str
    by_path: tuple[str, ...]


def stores_at(where: Directories, found: MatchedPath, name: str) -> list[Candidate]:
    """Return the store in a directory, or the committed stores if Spark has written stores into the directory.

    Parameters
    ----------
    where : Directories
    found : MatchedPath
    name : str
        Given by the user, else empty.

    Raises
    ------
    NotAStoreError
        The directory holds no part of a store.
    FileNotFoundError, NotADirectoryError, PermissionError, RemoteStorageError
        The directory cannot be listed.
    """
    entries = where.entries(found.path or "/")
    if not entries.get(SINK):
        return [_store_at(where, found, name, entries)]
    manifest = f"{found.path}/{MANIFEST}"
    written = SinkManifest.parse(where.read(manifest), where.shown(manifest))
    stores = []
    for part in written.names:
        path = f"{found.path}/{part}"
        one = _store_at(where, MatchedPath(path), "", where.entries(path))
        base = name or found.matched or _name_of(found.path)
        stores.append(
            replace(
                one,
                given_name=name and f"{name}.{part}",
                by_path=names_by_path(where.shown(found.path), f".{part}"),
                store=replace(one.store, is_named=bool(name), former_name=f"{base}.{part}"),
            )
        )
    return stores


def _store_at(
    where: Directories, found: MatchedPath, name: str, entries: Mapping[str, bool]
) -> Candidate:
    parent, _, directory = found.path.rpartition("/")
    root, log = found.path, "commitlog"
    if not holds_store(entries):
        if not holds_log_files(directory, entries):
            raise NotAStoreError(_what_else(where, found.path, entries))
        root, log = parent, directory
    named_by = root if log == "commitlog" else found.path
    former = found.matched or _name_of(named_by) or where.shown(root)
    storage = where.filesystem.options if isinstance(where, RemoteDirectories) else ()
    store = StoreLocation(
        "",
        where.shown(root),
        storage,
        log,
        is_named=bool(name),
        former_name=utf8_text(name or former),
    )
    return Candidate(store, utf8_text(name), names_by_path(where.shown(named_by)))


def why_no_store(where: Directories, path: str, *, look_into: bool = False) -> str:
    """Return why a directory that a glob found is neither a store nor a folder of stores; an empty text if it is one.

    Parameters
    ----------
    where : Directories
    path : str
    look_into : bool
        Include in the text whether its subdirectories are stores.
    """
    try:
        entries = where.entries(path or "/")
    except NotADirectoryError:
        return f"{where.shown(path)} is not a directory"
    except FileNotFoundError:  # named by the braces, or removed since
        return f"{where.shown(path)} does not exist"
    if entries.get(SINK) or holds_store(entries) or holds_log_files(_name_of(path), entries):
        return ""
    return _what_else(where, path, entries) if look_into else _lacks(where, path)


def _lacks(where: Directories, path: str) -> str:
    return f"{where.shown(path)} has no commitlog/, consumequeue/, index/ or checkpoint"


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _what_else(where: Directories, path: str, entries: Mapping[str, bool]) -> str:
    """Return a sentence that a directory is not a store, and whether its subdirectories are stores."""
    text = _lacks(where, path)
    stores = []
    for name in sorted(name for name, is_dir in entries.items() if is_dir):
        try:
            if holds_store(where.entries(f"{path}/{name}")):
                stores.append(name)
        except OSError:  # an error in making the hint must not hide the main error
            continue
    if not stores:
        return text
    shown = ", ".join(stores[:SHOWN_STORES]) + (", ..." if len(stores) > SHOWN_STORES else "")
    return f"{text}, but {len(stores)} of its directories have ({shown}): use {where.shown(path)}/*"
