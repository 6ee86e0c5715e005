"""Apache RocketMQ's storage engine for Python.

``rmqcore.open(path)`` opens a store for writing, ``rmqcore.read(path)`` reads any store directory, `rmqcore.codec` is the record
codec alone. What the command line does to a whole store is a function of its path here too, and answers with a report.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

try:
    from rmqcore import codec
    from rmqcore.codec import message
    from rmqcore.codec.message import Message, MessageView
    from rmqcore.vocabulary import status, sysflag
except KeyboardInterrupt:
    # The extensions take a while, and the command cannot say before that what Ctrl-C means. With `python -m rmqcore` the first
    # word is "-m" as long as Python looks for the module that it is to run.
    from pathlib import Path

    if sys.argv[0] != "-m" and Path(sys.argv[0]).stem != "rmqcore":
        raise
    from rmqcore.errors.exit_codes import INTERRUPTED

    raise SystemExit(INTERRUPTED) from None

if TYPE_CHECKING:
    from rmqcore.c_api import get_include
    from rmqcore.config import MessageStoreConfig
    from rmqcore.config.unused import UnusedSettingWarning
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
    from rmqcore.offline.lazy.duckdb_view import duckdb_view
    from rmqcore.offline.lazy.polars_scan import scan
    from rmqcore.offline.log.damage import DamageWarning
    from rmqcore.offline.reader import StoreReader, read
    from rmqcore.offline.stats.count import stats
    from rmqcore.opening import open  # noqa: A004

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
    "status",
    "sysflag",
]
__version__ = "0.1.0"

# Programs import these by names of one part, whatever room of the package they are in.
sys.modules.update(
    {f"{__name__}.message": message, f"{__name__}.status": status, f"{__name__}.sysflag": sysflag}
)

# The codec alone must not pay for the rest at import.
_LATER = {
    "DamageWarning": "rmqcore.offline.log.damage",
    "ElsewhereWarning": "rmqcore.offline.elsewhere",
    "MessageStore": "rmqcore.engine.store.store",
    "MessageStoreConfig": "rmqcore.config",
    "StoreReader": "rmqcore.offline.reader",
    "UnusedSettingWarning": "rmqcore.config.unused",
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
