"""Stores that a user names: by a path, a list of paths, globs, or ``name=path`` pairs, on local disks and elsewhere."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from rmqcore.disk.inside.links import refuse_links
from rmqcore.errors import NotAStoreError
from rmqcore.offline.reader import holds_log_files, holds_store
from rmqcore.spark.storage.directories import (
    Directories,
    Found,
    RemoteDirectories,
    directories_of,
    expand,
    is_uri,
    utf8_text,
)
from rmqcore.spark.storage.filesystem_options import Options
from rmqcore.spark.storage.sink_folder import MANIFEST, SINK, SinkManifest
from rmqcore.spark.storage.store_location import StoreLocation

__all__ = ["Paths", "StoreLocation", "absolute_paths", "find_stores", "given_paths"]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A store, a list of stores, or a glob; see `find_stores`."""

_NAMED = re.compile(r"(?P<name>[^/=:]+)=(?P<path>.+)", re.DOTALL)
_SHOWN_STORES = 3


def find_stores(
    path: Paths,
    storage: Mapping[str, str] | None = None,
    *,
    follow_links: bool = False,
) -> list[StoreLocation]:
    """Resolve what a user gave as path, in the order given.

    Parameters
    ----------
    path : str, path-like or an iterable of them
        A store's root, or its CommitLog directory; a folder into which Spark has written stores; a glob; ``name=path``. A text
        may hold several, as a JSON list or separated by commas. A path is local, or a URI: ``file:///data/store``,
        ``s3://bucket/store``, ``hdfs://namenode/store``.
    storage : mapping of str to str, optional
        Options of the filesystem that URIs name, for S3 ``region`` or ``endpoint_override``.
    follow_links : bool
        ``commitlog``, ``consumequeue`` and ``index`` of a store on a local disk may be links to another.

    Returns
    -------
    list of StoreLocation
        A store bears the name given in ``name=path``. Without such a name, a store that a glob found is named by what the
        wildcards stand for (``broker-a`` of ``/data/*/store``), and any other store by its directory.

    Raises
    ------
    NotAStoreError
        A directory holds none of the parts of a store.
    LinkError
        A name that every store has is a link which the caller did not ask for.
    FileNotFoundError, NotADirectoryError
        There is no such directory, or no directory fits the glob.
    PermissionError, RemoteStorageError
        The directory may not be listed, or its server does not answer.
    ValueError
        Two stores have the same name, a store is given twice, an option is unknown, or no path is given at all.
    """
    options = tuple(sorted((storage or {}).items()))
    found: list[StoreLocation] = []
    given = given_paths(path)
    if not given:
        raise ValueError("no path is given: it names a store, or several")
    for text in given:
        found += _stores_of(text, options, follow_links=follow_links)
    if options and found and all(store.is_local for store in found):
        raise ValueError(
            f"storage.{options[0][0]} has no meaning for {found[0].root}, a local path"
        )
    _check_distinct(found)
    return found


def given_paths(path: Paths) -> list[str]:
    """The single paths that a user gave: the items of an iterable, or a text taken apart as a JSON list or at its commas."""
    if not isinstance(path, str | os.PathLike):
        return [os.fspath(item) for item in path]
    text = os.fspath(path)
    if text.lstrip().startswith("[") and not os.path.lexists(text):
        try:
            listed = json.loads(text)
        except ValueError:
            return [text]  # a glob may begin with a bracket
        return [str(item) for item in listed]
    if "," not in text or os.path.lexists(text):
        return [text] if text else []
    return [part.strip() for part in text.split(",") if part.strip()]


def _stores_of(text: str, options: Options, *, follow_links: bool) -> list[StoreLocation]:
    if not text:  # an empty path would stand for the working directory
        raise ValueError("one of the paths is empty")
    name, text = _name_and_path(text)
    where, path = directories_of(text, options)
    stores = [
        replace(store, follow_links=follow_links)
        for found in expand(where, path)
        for store in _stores_at(where, found, name)
    ]
    for store in stores:
        if store.is_local:
            refuse_links(store.paths)
    return stores


def _name_and_path(text: str) -> tuple[str, str]:
    """Split ``name=path``; the name is empty where the text has no name."""
    named = _NAMED.fullmatch(text)
    if named is None or os.path.lexists(text):
        return "", text
    return named["name"], named["path"]


def absolute_paths(path: Paths) -> list[str]:
    """The single paths that a user gave, local paths made absolute: a process with another working directory can use them."""
    found = []
    for text in given_paths(path):
        name, where = _name_and_path(text)
        if where and not is_uri(where):
            where = os.path.join(Path.cwd(), where)
        found.append(f"{name}={where}" if name else where)
    return found


def _stores_at(where: Directories, found: Found, name: str) -> list[StoreLocation]:
    """The store in a directory, or, where Spark has written stores into it, those that were committed."""
    entries = where.entries(found.path or "/")
    if not entries.get(SINK):
        return [_store_at(where, found, name, entries)]
    manifest = f"{found.path}/{MANIFEST}"
    written = SinkManifest.parse(where.read(manifest), where.shown(manifest))
    base = name or found.matched or found.path.rpartition("/")[2]
    stores = []
    for part in written.names:
        of_part = Found(f"{found.path}/{part}", f"{base}.{part}")
        stores.append(_store_at(where, of_part, "", where.entries(of_part.path)))
    return stores


def _store_at(
    where: Directories, found: Found, name: str, entries: Mapping[str, bool]
) -> StoreLocation:
    """The store in a directory that holds `entries`."""
    parent, _, directory = found.path.rpartition("/")
    root, log = found.path, "commitlog"
    if not holds_store(entries):
        if not holds_log_files(directory, entries):
            raise NotAStoreError(_what_else(where, found.path, entries))
        root, log = parent, directory
    named_by = root if log == "commitlog" else found.path
    name = name or found.matched or named_by.rpartition("/")[2] or where.shown(root)
    storage = where.filesystem.options if isinstance(where, RemoteDirectories) else ()
    return StoreLocation(utf8_text(name), where.shown(root), storage, log)


def _what_else(where: Directories, path: str, entries: Mapping[str, bool]) -> str:
    """Say that a directory is no store, and whether its subdirectories are stores."""
    text = f"{where.shown(path)} holds no commitlog/, consumequeue/, index/ or checkpoint"
    stores = []
    for name in sorted(name for name, is_dir in entries.items() if is_dir):
        try:
            if holds_store(where.entries(f"{path}/{name}")):
                stores.append(name)
        except (
            OSError
        ):  # an error while the hint is made must not hide the error that it belongs to
            continue
    if not stores:
        return text
    shown = ", ".join(stores[:_SHOWN_STORES]) + (", ..." if len(stores) > _SHOWN_STORES else "")
    return f"{text}, but {len(stores)} of its directories do ({shown}): give {where.shown(path)}/*"


def _check_distinct(stores: list[StoreLocation]) -> None:
    names: dict[str, StoreLocation] = {}
    roots: dict[str, StoreLocation] = {}
    for store in stores:
        real = os.path.realpath(store.root) if store.is_local else store.root
        if real in roots:
            raise ValueError(f"{store.root} is given twice: each of its rows would be there twice")
        other = names.get(store.broker)
        if other is not None:
            raise ValueError(
                f"two stores are named {store.broker}: {other.root} and {store.root}; "
                "give names, as in broker-a=/data/a/store"
            )
        names[store.broker], roots[real] = store, store
