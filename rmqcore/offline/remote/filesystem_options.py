"""The options ``storage.*``: the parameters of each filesystem of pyarrow, parsed from text; and secrets kept out of messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from rmqcore.errors.near_names import nearest

OptionValue = str | int | float
Options = tuple[tuple[str, OptionValue], ...]
"""Names and values: texts from Spark and the command line, from Python also numbers."""


def _flag(text: str) -> bool:
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise ValueError("true or false is expected")
    return values[text.lower()]


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=float(text))


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected")  # noqa: TRY004 - JSON's own errors are ValueErrors too
    return value


def _json_or_value(value: OptionValue) -> Any:
    if not isinstance(value, str):
        return value
    return json.loads(value) if value[:1] in ("{", "[") or value in ("true", "false") else value


Parsers = dict[str, Callable[[str], Any]]

# Parameters of pyarrow.fs.S3FileSystem, ... by scheme; listed here because the classes do not expose their parameters.
PARAMETERS: dict[str, Parsers] = {
    "s3": {
        "access_key": str,
        "secret_key": str,
        "session_token": str,
        "anonymous": _flag,
        "region": str,
        "request_timeout": float,
        "connect_timeout": float,
        "scheme": str,
        "endpoint_override": str,
        "background_writes": _flag,
        "role_arn": str,
        "session_name": str,
        "external_id": str,
        "load_frequency": int,
        "proxy_options": str,
        "allow_delayed_open": _flag,
        "allow_bucket_creation": _flag,
        "allow_bucket_deletion": _flag,
        "check_directory_existence_before_creation": _flag,
        "force_virtual_addressing": _flag,
        "tls_ca_file_path": str,
    },
    "gs": {
        "anonymous": _flag,
        "access_token": str,
        "target_service_account": str,
        "credential_token_expiration": datetime.fromisoformat,
        "default_bucket_location": str,
        "scheme": str,
        "endpoint_override": str,
        "retry_time_limit": _seconds,
        "project_id": str,
    },
    "hdfs": {
        "user": str,
        "replication": int,
        "buffer_size": int,
        "default_block_size": int,
        "kerb_ticket": str,
        "extra_conf": _object,
    },
    "abfs": {
        "account_name": str,
        "account_key": str,
        "blob_storage_authority": str,
        "blob_storage_scheme": str,
        "client_id": str,
        "client_secret": str,
        "dfs_storage_authority": str,
        "dfs_storage_scheme": str,
        "sas_token": str,
        "tenant_id": str,
    },
}
ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "viewfs": "hdfs", "abfss": "abfs"}
OF_PYARROW = frozenset((*PARAMETERS, *ALIASES))
"""Schemes for which pyarrow has a filesystem."""
_SECRET_WORDS = ("key", "secret", "token", "password", "credential", "proxy", "sas")


def parse_options(scheme: str, options: Options) -> dict[str, Any]:
    """Parse the options of a filesystem and check that its scheme has them.

    Options of an fsspec filesystem are not checked here: its constructor refuses wrong parameters.

    Raises
    ------
    ValueError
        An option is unknown (the message names the nearest option), or a value is invalid. The message never holds the
        value of a secret.
    """
    given = dict(options)
    if uses_fsspec(scheme, options):
        return {name: _json_or_value(text) for name, text in given.items() if name != "filesystem"}
    known = PARAMETERS.get(ALIASES.get(scheme, scheme), {})
    parsed = {}
    for name, text in given.items():
        if name not in known:
            near = nearest(name, known)
            hint = _choices(known) if near is None else f"did you mean storage.{near}?"
            raise ValueError(f"storage.{name} is not an option of {scheme}://: {hint}")
        try:
            parsed[name] = known[name](str(text))
        except ValueError as error:
            why = "" if is_secret(name) else f": {error}"
            raise ValueError(f"storage.{name} has the wrong type{why}") from None
    return parsed


def uses_fsspec(scheme: str, options: Options) -> bool:
    """Return True if fsspec is used: pyarrow does not know the scheme, or ``storage.filesystem=fsspec`` was given.

    Raises
    ------
    ValueError
        The option has another value.
    """
    kind = dict(options).get("filesystem", "")
    if kind not in ("", "fsspec"):
        raise ValueError(f"storage.filesystem is {kind!r}; expected fsspec")
    return kind == "fsspec" or scheme not in OF_PYARROW


def redact(text: str, options: Options) -> str:
    """Replace the values of secret options in a text, for instance in the message of a server's error."""
    secrets = [str(value) for name, value in options if is_secret(name) and value]
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def is_secret(name: str) -> bool:
    """Return True if the value of this option must be hidden in messages and from other users."""
    return any(word in name.lower() for word in _SECRET_WORDS)


def _choices(known: Iterable[str]) -> str:
    names = ", ".join(known)
    return (
        f"its options are {names}"
        if names
        else "it has no options; storage.filesystem=fsspec chooses another implementation"
    )
