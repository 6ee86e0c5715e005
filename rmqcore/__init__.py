"""Apache RocketMQ's storage engine for Python.

``rmqcore.open(path)`` opens a store for writing, ``rmqcore.read(path)`` reads any store directory, `rmqcore.codec` is the record
codec alone. What the command line does to a whole store is a function of its path here too, and answers with a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


def _is_the_command() -> bool:
    """Return True if this process is the ``rmqcore`` command, and no program that uses the package."""
    import sys
    from pathlib import Path

    script, words = sys.argv[0], sys.orig_argv
    if script == "-m" and "-m" in words[:-1]:  # ``python -m rmqcore``, or of what is in it
        return words[words.index("-m") + 1].partition(".")[0] == "rmqcore"
    return Path(script).stem == "rmqcore"


try:
    from rmqcore import codec
    from rmqcore.message import Message, MessageView
except KeyboardInterrupt:
    # The extensions take a while, and the command cannot say before that what Ctrl-C means.
    if not _is_the_command():
        raise
    from rmqcore.errors.exit_codes import INTERRUPTED

    raise SystemExit(INTERRUPTED) from None

if TYPE_CHECKING:
    from rmqcore.c_api import get_include
    from rmqcore.config import MessageStoreConfig
    from rmqcore.engine.store.store import MessageStore
    from rmqcore.maintenance.backup.backup import backup
    from rmqcore.maintenance.convert.convert import convert
    from rmqcore.maintenance.doctor.doctor import doctor
    from rmqcore.maintenance.rebuild.rebuild import rebuild
    from rmqcore.maintenance.retention.retention import retention
    from rmqcore.maintenance.salvage.salvage import salvage
    from rmqcore.offline.diff.diff import diff
    from rmqcore.offline.elsewhere import ElsewhereWarning
    from rmqcore.offline.export.export import export
    from rmqcore.offline.found_config import find_config
    from rmqcore.offline.fsck.fsck import fsck
    from rmqcore.offline.lazy.damage_warning import DamageWarning
    from rmqcore.offline.lazy.duckdb_view import duckdb_view
    from rmqcore.offline.lazy.polars_scan import scan
    from rmqcore.offline.reader import StoreReader, read
    from rmqcore.offline.stats.count import stats
    from rmqcore.opening import open  # noqa: A004
    from rmqcore.unused_settings import UnusedSettingWarning

__all__ = [
    "DamageWarning",
    "ElsewhereWarning",
    "Message",
    "MessageStore",
    "MessageStoreConfig",
    "MessageView",
    "StoreReader",
    "UnusedSettingWarning",
    "backup",
    "codec",
    "convert",
    "diff",
    "doctor",
    "duckdb_view",
    "export",
    "find_config",
    "fsck",
    "get_include",
    "open",
    "read",
    "rebuild",
    "retention",
    "salvage",
    "scan",
    "stats",
]
__version__ = "0.1.0"

# The codec alone must not pay for the rest at import.
_LATER = {
    "DamageWarning": "rmqcore.offline.lazy.damage_warning",
    "ElsewhereWarning": "rmqcore.offline.elsewhere",
    "MessageStore": "rmqcore.engine.store.store",
    "MessageStoreConfig": "rmqcore.config",
    "StoreReader": "rmqcore.offline.reader",
    "UnusedSettingWarning": "rmqcore.unused_settings",
    "backup": "rmqcore.maintenance.backup.backup",
    "convert": "rmqcore.maintenance.convert.convert",
    "diff": "rmqcore.offline.diff.diff",
    "doctor": "rmqcore.maintenance.doctor.doctor",
    "duckdb_view": "rmqcore.offline.lazy.duckdb_view",
    "export": "rmqcore.offline.export.export",
    "find_config": "rmqcore.offline.found_config",
    "fsck": "rmqcore.offline.fsck.fsck",
    "get_include": "rmqcore.c_api",
    "open": "rmqcore.opening",
    "read": "rmqcore.offline.reader",
    "rebuild": "rmqcore.maintenance.rebuild.rebuild",
    "retention": "rmqcore.maintenance.retention.retention",
    "salvage": "rmqcore.maintenance.salvage.salvage",
    "scan": "rmqcore.offline.lazy.polars_scan",
    "stats": "rmqcore.offline.stats.count",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'rmqcore' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATER])
