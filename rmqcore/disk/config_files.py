"""Reads the JSON files in ``config/``, as a broker writes them: a whole file or an error."""

from __future__ import annotations

import json
import os
from typing import Any

from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError
from rmqcore.vocabulary.java_json import integer, quote_keys, shown_value

MOST_BYTES = 64 << 20
MOST_VALUES = 4_000_000
"""Bounds of a file: with a group on each of 100,000 topics of 16 queues it has 25 MB and 1.7 million values."""


def read_config_file(paths: StorePaths, place: str) -> dict[str, Any] | None:
    """Read a file; return None if it is missing.

    Parameters
    ----------
    paths : StorePaths
    place : str
        Relative to the root: ``config/topics.json``.

    Raises
    ------
    ValueError
        The file is empty, torn or not a JSON object.
    StoreFormatError, LinkError, OSError
        The path is not a regular file, or cannot be read.
    """
    data = _read(paths, place)
    return None if data is None else parse_config(data)


def what_is_wrong(paths: StorePaths, place: str) -> str | None:
    """Return why a file cannot be read; None if it can, or does not exist."""
    try:
        read_config_file(paths, place)
    except (StoreError, OSError, ValueError) as error:
        return str(error)
    return None


def _read(paths: StorePaths, place: str) -> bytes | None:
    """Return the bytes of a file; None if it is missing."""
    try:
        with Folder(paths.root) as root:
            file = root.open_file(place, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _read_most(file.fileno())
    finally:
        file.close()


def _read_most(fd: int) -> bytes:
    data = bytearray()
    while part := os.pread(fd, 1 << 20, len(data)):
        data += part
        if len(data) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes, more than a broker writes")
    return bytes(data)


def parse_config(data: bytes) -> dict[str, Any]:
    """Parse the object in a file; keys without quotes are accepted.

    Raises
    ------
    ValueError
        It is empty, torn or no JSON object.
    """
    text = data.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise ValueError("it is empty")
    if text.count(",") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES} values, more than a broker writes")
    try:
        saved = json.loads(quote_keys(text), parse_int=integer)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON, perhaps incomplete: {error}") from None
    if not isinstance(saved, dict):
        raise ValueError(f"it holds {shown_value(saved)}, expected a JSON object")  # noqa: TRY004  (no argument has a wrong type)
    return saved
