"""Globs: the paths that braces and wildcards stand for, as in Hadoop."""

from __future__ import annotations

import errno
import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rmqcore.spark.storage.directories import Directories

MOST_ALTERNATIVES = 10_000
"""Patterns that the braces of one path may stand for."""
_DEEPEST = 50
_WILDCARD = re.compile(r"[*?\[]")
_SET = re.compile(r"\[([!^]?)(\]?[^\]/]*\])")
_MARK = re.compile(rf"{_SET.pattern}|[{{}},]")


@dataclass(frozen=True)
class MatchedPath:
    """A directory that a path or glob matches.

    Attributes
    ----------
    path : str
    matched : str
        All names from the first name with a wildcard to the last name with a wildcard, ``broker-a`` of ``/data/*/store``; empty
        without wildcards.
    """

    path: str
    matched: str = ""


@dataclass(frozen=True)
class Matches:
    """Stores that a path or glob matches.

    Attributes
    ----------
    found : list of MatchedPath
        Sorted by path, each once.
    is_glob : bool
    absent : list of str
        Paths that the braces of a glob spell out and that do not exist.
    """

    found: list[MatchedPath]
    is_glob: bool = False
    absent: tuple[str, ...] = ()


def expand(where: Directories, path: str) -> Matches:
    """Return the directories that match a path, with or without ``{a,b}``, ``*``, ``?`` and ``[...]``.

    As in a shell, a wildcard matches neither a slash nor a leading dot. A path that exists as written is not treated as
    a glob.

    Raises
    ------
    FileNotFoundError
        No directory matches the pattern.
    ValueError
        The braces stand for too many patterns.
    """
    if not (_WILDCARD.search(path) or _groups(path)) or where.exists(path):
        return Matches([MatchedPath(path)])
    found: dict[str, MatchedPath] = {}
    absent = []
    for alternative in alternatives(path):
        pattern = alternative.rstrip("/")
        if _WILDCARD.search(pattern):
            found |= {one.path: one for one in _matching(where, pattern)}
        elif where.exists(pattern):
            found[pattern] = MatchedPath(pattern)
        else:
            absent.append(pattern)
    if not found:
        raise FileNotFoundError(errno.ENOENT, "nothing matches the pattern", where.shown(path))
    return Matches([found[path] for path in sorted(found, key=_by_names)], True, tuple(absent))


def split_list(text: str) -> list[str]:
    """Split a list of paths at its commas; those inside braces belong to a glob."""
    groups = _groups(text)
    cuts = [
        at
        for at, character in enumerate(text)
        if character == "," and not any(start < at < end for start, _, end in groups)
    ]
    return [
        text[start + 1 : end].strip()
        for start, end in zip([-1, *cuts], [*cuts, len(text)], strict=True)
    ]


def alternatives(pattern: str, depth: int = 0) -> list[str]:
    """Return the patterns for a pattern with braces: ab, acd and ace for ``a{b,c{d,e}}``.

    A brace without its partner stands for itself.

    Raises
    ------
    ValueError
        Their number is too large.
    """
    if depth > _DEEPEST:
        raise ValueError(f"braces are nested more than {_DEEPEST} deep")
    found, pos = [""], 0
    for start, commas, end in _groups(pattern):
        cuts = [start, *commas, end]
        inner = [
            text
            for left, right in pairwise(cuts)
            for text in alternatives(pattern[left + 1 : right], depth + 1)
        ]
        if len(found) * len(inner) > MOST_ALTERNATIVES:
            raise ValueError(
                f"the braces of {pattern} expand to more than {MOST_ALTERNATIVES} patterns"
            )
        found = [left + pattern[pos:start] + text for left in found for text in inner]
        pos = end + 1
    return [left + pattern[pos:] for left in found]


def _groups(text: str) -> list[tuple[int, list[int], int]]:
    """Return the outermost pairs of braces, with the commas between their alternatives; ``[...]`` is skipped."""
    opened: list[tuple[int, list[int]]] = []
    closed: list[tuple[int, list[int], int]] = []
    for mark in _MARK.finditer(text):
        if mark[0] == "{":
            opened.append((mark.start(), []))
        elif mark[0] == "," and opened:
            opened[-1][1].append(mark.start())
        elif mark[0] == "}" and opened:
            start, commas = opened.pop()
            while closed and closed[-1][0] > start:
                closed.pop()
            closed.append((start, commas, mark.start()))
    return closed


def _matching(where: Directories, pattern: str) -> Iterator[MatchedPath]:
    names = pattern.split("/")
    with_wildcard = [at for at, name in enumerate(names) if _WILDCARD.search(name)]
    first, last = with_wildcard[0], with_wildcard[-1]
    paths = ["/".join(names[:first])]
    for name in names[first:]:
        paths = [
            f"{parent}/{child}" for parent in paths for child in _children(where, parent, name)
        ]
    for path in paths:
        yield MatchedPath(path, "/".join(path.split("/")[first : last + 1]))


def _children(where: Directories, parent: str, pattern: str) -> list[str]:
    """Return the directories in `parent` whose names match the pattern; an empty list if `parent` is not a directory."""
    try:
        entries = where.entries(parent or "/")
    except (FileNotFoundError, NotADirectoryError):
        return []
    # Hadoop writes [^a] for what fnmatch, as a shell, writes [!a].
    plain = _SET.sub(lambda found: f"[{found[1] and '!'}{found[2]}", pattern)
    return [
        name
        for name, is_dir in entries.items()
        if is_dir
        and fnmatch.fnmatchcase(name, plain)
        and (pattern.startswith(".") or not name.startswith("."))
    ]


def _by_names(path: str) -> list[str]:
    return path.split("/")
