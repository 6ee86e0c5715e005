"""Every error of the package, grouped by when it occurs.

Imports nothing of the package, so that native code may raise these too. Each class has a stable ``code``, a ``hint``
that says what to do, and the exit code the command line answers with (`exit_codes`).
"""

from __future__ import annotations

from rmqcore.errors.jobs import (
    JavaMissingError,
    OtherStoreError,
    RowRefusedError,
    SparkJobError,
    SparkMasterError,
    SparkMissingError,
    TargetNotEmptyError,
    WatermarkError,
)
from rmqcore.errors.network import (
    AnswerTimeoutError,
    BadAnswerError,
    ClientClosedError,
    ClientError,
    FilterExpressionError,
    NoRouteError,
    NotAssignedError,
    NotReachedError,
    ProtocolError,
    RefusedError,
    RequestError,
    SendFailedError,
)
from rmqcore.errors.stores import (
    HOW_TO_FOLLOW,
    CommitLogMissingError,
    CompressionError,
    CompressionLibraryError,
    CorruptConsumeQueueError,
    CorruptIndexError,
    CorruptionError,
    CorruptMessageError,
    DamagedStreamError,
    DataLossError,
    DiskFullError,
    LinkError,
    LostPagesError,
    NotAStoreError,
    PutFailedError,
    RemoteChangedError,
    RemoteStorageError,
    SplitError,
    StoreClosedError,
    StoreError,
    StoreFailedError,
    StoreFormatError,
    StoreLockedError,
    SyncFailedError,
    is_no_room,
    is_of_the_system,
)

__all__ = [
    "HOW_TO_FOLLOW",
    "AnswerTimeoutError",
    "BadAnswerError",
    "ClientClosedError",
    "ClientError",
    "CommitLogMissingError",
    "CompressionError",
    "CompressionLibraryError",
    "CorruptConsumeQueueError",
    "CorruptIndexError",
    "CorruptMessageError",
    "CorruptionError",
    "DamagedStreamError",
    "DataLossError",
    "DiskFullError",
    "FilterExpressionError",
    "JavaMissingError",
    "LinkError",
    "LostPagesError",
    "NoRouteError",
    "NotAStoreError",
    "NotAssignedError",
    "NotReachedError",
    "OtherStoreError",
    "ProtocolError",
    "PutFailedError",
    "RefusedError",
    "RemoteChangedError",
    "RemoteStorageError",
    "RequestError",
    "RowRefusedError",
    "SendFailedError",
    "SparkJobError",
    "SparkMasterError",
    "SparkMissingError",
    "SplitError",
    "StoreClosedError",
    "StoreError",
    "StoreFailedError",
    "StoreFormatError",
    "StoreLockedError",
    "SyncFailedError",
    "TargetNotEmptyError",
    "WatermarkError",
    "is_no_room",
    "is_of_the_system",
]

for _name in __all__:
    # Their public name is what messages and pickles bear, wherever their file is.
    if isinstance(_error := globals()[_name], type):
        _error.__module__ = __name__
