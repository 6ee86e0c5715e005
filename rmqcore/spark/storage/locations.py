"""Stores that a user names: by a path, a list of paths, globs, or ``name=path`` pairs, on local disks and elsewhere."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from rmqcore.disk.inside.links import refuse_links
from rmqcore.errors import NotAStoreError
from rmqcore.offline.remote.filesystem_options import Options
from rmqcore.spark.storage.directories import Directories, directories_of, is_uri
from rmqcore.spark.storage.globs import expand, split_list
from rmqcore.spark.storage.store_location import StoreLocation
from rmqcore.spark.storage.store_names import unique_names
from rmqcore.spark.storage.stores_at import SHOWN_STORES, Candidate, stores_at, why_no_store

__all__ = [
    "NoStoreWarning",
    "Paths",
    "StoreLocation",
    "absolute_paths",
    "find_stores",
    "given_paths",
]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A store, a list of stores, or a glob; see `find_stores`."""

_NAMED = re.compile(r"(?P<name>[^/=:]+)=(?P<path>.+)", re.DOTALL)


class NoStoreWarning(UserWarning):
    """Directories that match a glob are not read: they are not stores, or are other names of stores that match too."""


def find_stores(
    path: Paths,
    storage: Mapping[str, str] | None = None,
    *,
    follow_links: bool = False,
) -> list[StoreLocation]:
    """Resolve the paths that a user gave, in the given order.

    Parameters
    ----------
    path : str, path-like or an iterable of them
        A store's root, or its CommitLog directory; a folder into which Spark has written stores; a glob with ``{a,b}``, ``*``,
        ``?`` and ``[...]``; ``name=path``. A text may hold several, as a JSON list or separated by commas. A path is local, or a
        URI: ``file:///data/store``, ``s3://bucket/store``, ``hdfs://namenode/store``.
    storage : mapping of str to str, optional
        Options of the filesystem that URIs name, for S3 ``region`` or ``endpoint_override``.
    follow_links : bool
        ``commitlog``, ``consumequeue`` and ``index`` of a store on a local disk may be links to another.

    Returns
    -------
    list of StoreLocation
        A store bears the name given in ``name=path``, else one by its path; see `rmqcore.spark.storage.store_names`.

    Raises
    ------
    NotAStoreError
        A named directory holds no part of a store, or none of the directories that match a glob does.
    LinkError
        A name that every store has is a link, and `follow_links` is off.
    FileNotFoundError, NotADirectoryError
        The directory does not exist, or no directory matches the glob.
    PermissionError, RemoteStorageError
        The directory may not be listed, or its server does not answer.
    ValueError
        Two stores are given the same name, a store is given twice, an option is unknown, or no path is given at all.

    Warns
    -----
    NoStoreWarning
        Directories that match a glob are not stores, or lead to a store that the glob matches under its own path.
    """
    options = tuple(sorted((storage or {}).items()))
    found: list[Candidate] = []
    given = given_paths(path)
    if not given:
        raise ValueError("path is missing: it names one or more stores")
    for text in given:
        found += _stores_of(text, options, follow_links=follow_links)
    if options and found and all(one.store.is_local for one in found):
        raise ValueError(
            f"storage.{options[0][0]} does not apply to {found[0].store.root}, a local path"
        )
    names = unique_names([(one.given_name, one.by_path) for one in found])
    stores = [replace(one.store, broker=name) for one, name in zip(found, names, strict=True)]
    _check_distinct(stores)
    return stores


def given_paths(path: Paths) -> list[str]:
    """Return the single paths that a user gave: the items of an iterable, or those of a text, a JSON list or split at commas.

    Commas inside braces belong to a glob: ``/data/{a,b}/store``.
    """
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
    return [part for part in split_list(text) if part]


def _stores_of(text: str, options: Options, *, follow_links: bool) -> list[Candidate]:
    if not text:  # an empty path would stand for the working directory
        raise ValueError("one of the paths is empty")
    name, text = _name_and_path(text)
    where, path = directories_of(text, options)
    matches = expand(where, path)
    met: list[tuple[Candidate, bool]] = []
    passed = []
    for one in matches.found:
        if matches.is_glob and why_no_store(where, one.path):
            passed.append(one.path)
        else:
            met += [(store, bool(one.matched)) for store in stores_at(where, one, name)]
    found = _without_aliases(met)
    if len(found) < len(met):
        _tell_aliases(where.shown(path), [store for store, _ in met if store not in found])
    if passed or matches.absent:
        _tell_passed(where, path, [*matches.absent, *passed], len(found))
    found = [replace(one, store=replace(one.store, follow_links=follow_links)) for one in found]
    for candidate in found:
        if candidate.store.is_local:
            refuse_links(candidate.store.paths)
    return found


def _without_aliases(met: list[tuple[Candidate, bool]]) -> list[Candidate]:
    """Leave out links, met by a wildcard (the second of each pair), to stores that occur under another path too."""
    by_place: dict[tuple[str, str], list[tuple[Candidate, bool]]] = {}
    for one in met:
        by_place.setdefault(_place(one[0].store), []).append(one)
    left_out: list[Candidate] = []
    for place, same in by_place.items():
        # A path that the user spelled out comes first, then the one without links.
        first = min(same, key=lambda one: (one[1], one[0].store.root != place[0]))[0]
        left_out += [store for store, by_wildcard in same if by_wildcard and store is not first]
    return [store for store, _ in met if store not in left_out]


def _place(store: StoreLocation) -> tuple[str, str]:
    """Return the real paths of a store's directory and log, without links."""
    return (os.path.realpath(store.root) if store.is_local else store.root), store.log


def _tell_aliases(glob: str, aliases: list[Candidate]) -> None:
    shown = [f"{one.store.root} points to {_place(one.store)[0]}" for one in aliases[:SHOWN_STORES]]
    more = "; ..." if len(aliases) > SHOWN_STORES else ""
    warnings.warn(
        f"{glob} matches {len(aliases)} stores under a second name, which are read once: "
        f"{'; '.join(shown)}{more}",
        NoStoreWarning,
        stacklevel=2,
    )


def _tell_passed(where: Directories, glob: str, passed: list[str], store_count: int) -> None:
    whys = [why_no_store(where, path, look_into=not store_count) for path in passed[:SHOWN_STORES]]
    shown = "; ".join(whys) + ("; ..." if len(passed) > SHOWN_STORES else "")
    if not store_count:
        raise NotAStoreError(
            f"{where.shown(glob)} matches no store. {len(passed)} paths match but are not stores: "
            f"{shown}"
        )
    warnings.warn(
        f"{where.shown(glob)} matches {store_count} stores; {len(passed)} other matching paths are "
        f"not read: {shown}",
        NoStoreWarning,
        stacklevel=2,
    )


def _name_and_path(text: str) -> tuple[str, str]:
    """Split ``name=path``; the name is empty where the text has no name."""
    named = _NAMED.fullmatch(text)
    if named is None or os.path.lexists(text):
        return "", text
    return named["name"], named["path"]


def absolute_paths(path: Paths) -> list[str]:
    """Return the single paths that a user gave, with absolute local paths for processes in other working directories."""
    found = []
    for text in given_paths(path):
        name, where = _name_and_path(text)
        if where and not is_uri(where):
            where = os.path.join(Path.cwd(), where)
        found.append(f"{name}={where}" if name else where)
    return found


def _check_distinct(stores: list[StoreLocation]) -> None:
    names: dict[str, StoreLocation] = {}
    roots: dict[str, StoreLocation] = {}
    for store in stores:
        real, _ = _place(store)
        if real in roots:
            raise ValueError(f"{store.root} is named twice: each of its rows would be read twice")
        other = names.get(store.broker)
        if other is not None:
            raise ValueError(
                f"two stores have the name {store.broker}: {other.root} and {store.root}; name "
                "them, as in broker-a=/data/a/store"
            )
        names[store.broker], roots[real] = store, store
