"""The error of a database that cannot be read."""

from __future__ import annotations

import errno
import os

from rmqcore.errors import RocksdbError


def rocksdb_error(path: str | os.PathLike[str], what: str) -> RocksdbError:
    """Make the error of a database, or of a file in it."""
    return RocksdbError(errno.EIO, what, os.fspath(path))
