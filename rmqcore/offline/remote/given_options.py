"""Conversion of ``storage_options`` as in fsspec to the options of a pyarrow filesystem."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rmqcore.offline.remote.filesystem_options import ALIASES, Options, OptionValue, uses_fsspec

OTHER_NAMES: dict[str, dict[str, str]] = {
    "s3": {
        "key": "access_key",
        "secret": "secret_key",
        "token": "session_token",
        "anon": "anonymous",
        "endpoint_url": "endpoint_override",
        "region_name": "region",
        "aws_access_key_id": "access_key",
        "aws_secret_access_key": "secret_key",
        "aws_session_token": "session_token",
        "aws_region": "region",
        "aws_endpoint_url": "endpoint_override",
    },
    "gs": {"project": "project_id", "endpoint_url": "endpoint_override"},
    "hdfs": {},
    "abfs": {},
}
"""The names in s3fs, gcsfs, boto and the object stores of other libraries for the parameters of pyarrow's filesystems."""


def given_options(scheme: str, given: Mapping[str, Any] | None) -> Options:
    """Return the options of a filesystem as `split_uri` accepts them.

    Parameters
    ----------
    scheme : str
    given : mapping of str to any, optional
        Parameters of the pyarrow filesystem, also by their names in s3fs and gcsfs; with ``filesystem="fsspec"``, and
        for schemes that pyarrow lacks, those of the fsspec filesystem.

    Raises
    ------
    TypeError
        A value is an object that cannot be written as text.
    """
    texts = {
        name: _plain(name, value) for name, value in (given or {}).items() if value is not None
    }
    if not uses_fsspec(scheme, tuple((name, str(value)) for name, value in texts.items())):
        texts = dict(_renamed(ALIASES.get(scheme, scheme), given or {}))
    return tuple(sorted(texts.items()))


def _renamed(scheme: str, given: Mapping[str, Any]) -> Iterator[tuple[str, OptionValue]]:
    for name, value in given.items():
        if value is None:
            continue
        if scheme == "s3" and name == "client_kwargs" and isinstance(value, Mapping):
            yield from _renamed(scheme, value)
        elif scheme == "s3" and name == "use_ssl":
            yield "scheme", "https" if value else "http"
        elif scheme == "gs" and name == "token" and value == "anon":
            yield "anonymous", "true"
        else:
            known = OTHER_NAMES[scheme].get(name, name)
            plain = _plain(name, value)
            if known == "endpoint_override" and "://" in str(plain):
                protocol, _, plain = str(plain).partition("://")
                plain = plain.rstrip("/")
                yield "scheme", protocol
            yield known, plain


def _plain(name: str, value: Any) -> OptionValue:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return value
    try:
        return json.dumps(value)
    except TypeError:
        raise TypeError(
            f"storage_options[{name!r}] is a {type(value).__name__}, expected a text, a number, or "
            "a list or dict of these"
        ) from None
