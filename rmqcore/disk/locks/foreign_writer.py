"""Detection of a broker that writes a CommitLog without a lock on its directory, because Java locks only its own root.

Java keeps its CommitLog files open for writing. On Linux a lease shows in one call whether any process does; only then
are the processes searched, as far as this process may see them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from rmqcore.disk.inside.files import open_file
from rmqcore.disk.paths import parse_file_name

_PROC = Path("/proc")


def foreign_writer(commitlog: Path) -> int | None:
    """Return the id of another process that has a CommitLog's newest file open as a broker does; None if none has.

    A process that only keeps the file open does not count: views of messages do that, also in a forked child.
    """
    if sys.platform != "linux":
        return None
    # From the newest name on: a log of a terabyte has a thousand, and every open looks here.
    names = sorted(os.listdir(commitlog), reverse=True)
    name = next((name for name in names if parse_file_name(name) is not None), None)
    if name is None:
        return None
    newest = commitlog / name
    if not newest.is_file() or not _may_be_open_for_writing(newest):
        return None
    status = newest.stat()
    for process in _PROC.iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            with suppress(OSError):  # the process ended, or belongs to another user
                if _writes_as_a_broker(process, newest.name, (status.st_dev, status.st_ino)):
                    return int(process.name)
    return None


def _may_be_open_for_writing(path: Path) -> bool:
    """Return True if a process has a file open for writing, or if the file system does not report it."""
    file = open_file(path, os.O_RDONLY)
    fd = file.fileno()
    try:
        # If a process opens the file during the lease, the system sends this signal, which has no default effect.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOLCK):
            return True
        raise
    finally:
        file.close()
    return False


def _writes_as_a_broker(process: Path, name: str, identity: tuple[int, int]) -> bool:
    """Return True if a process has the file open for writing, and a root locked whose log can be this one.

    A JVM keeps the files of a closed store open until they are collected. So its locks decide: a locked root with its
    own ``commitlog`` writes there.
    """
    writes, roots = False, []
    for fd in (process / "fd").iterdir():
        with suppress(OSError):  # closed after it was listed
            target = fd.readlink()
            if target.name == "lock":
                roots.append(target.parent)
            elif target.name == name and not writes:
                status = fd.stat()
                flags = (process / "fdinfo" / fd.name).read_text().split("flags:")[1].split()[0]
                writes = (status.st_dev, status.st_ino) == identity and bool(
                    int(flags, 8) & os.O_ACCMODE
                )
    return writes and any(not (root / "commitlog").is_dir() for root in roots)
