"""Names of the files and directories of a store."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rmqcore.errors import StoreClosedError
from rmqcore.errors.arguments import wrong_type
from rmqcore.vocabulary.units import INT_MAX, LONG_MAX

FILE_NAME_DIGITS = 20
PATH_SPLITTER = ","
MAX_OFFSET = LONG_MAX
MAX_QUEUE_ID = INT_MAX
READ_BY_URL = "only rmqcore.read, scan, duckdb_view, fsck, export and stats read stores behind URLs"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SECRETS_OF_URL = re.compile(r"(?<=://)[^/]*@|[?].*", re.DOTALL)


class StorePaths:
    """Paths of a store's parts under its root (storePathRootDir).

    All paths are made absolute, so a later `os.chdir` does not change them.

    Parameters
    ----------
    root : path-like
    commitlog : path-like or sequence of path-like, optional
        The directories of storePathCommitLog, if the CommitLog lies elsewhere; see `log_directories` for the setting's
        text.
    read_only : sequence of path-like
        The directories of readOnlyCommitLogStorePaths: their files are part of the log, new files are made elsewhere.
    follow_links : bool
        ``commitlog``, ``consumequeue`` and ``index`` in the root may be links (`rmqcore.disk.inside.links`).

    Attributes
    ----------
    commitlog : Path
        The directory of the CommitLog; the first if it has several.
    commitlogs : tuple of Path
        All directories of the CommitLog, read-only ones too. Its files, sorted by the offsets in their names, are one
        sequence.
    new_file_folders : tuple of Path
        Directories of the CommitLog in which new files may be made, sorted by name as in Java.
    leave_out_links : bool
        Listings of the store leave out a link that is not followed, instead of raising `LinkError`; `fsck` notes it. Of
        a file that lies in two directories of the log the first is listed, instead of raising `LogFileTwiceError`.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        As `absolute_path`. ValueError also if all directories of the log are read-only.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        commitlog: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        read_only: Sequence[str | os.PathLike[str]] = (),
        follow_links: bool = False,
    ) -> None:
        self.root = absolute_path(root, "path")
        self.follow_links = follow_links
        self.leave_out_links = False
        self._named_log = commitlog is not None
        if commitlog is None:
            named = [self.root / "commitlog"]
        else:
            given = [commitlog] if isinstance(commitlog, str | os.PathLike) else commitlog
            named = [absolute_path(path, "store_path_commit_log") for path in given]
        kept = [absolute_path(path, "read_only_commit_log_store_paths") for path in read_only]
        self.commitlogs = tuple(dict.fromkeys([*named, *kept]))
        self.new_file_folders = tuple(sorted(set(named) - set(kept)))
        if not self.new_file_folders:
            raise ValueError(
                "read_only_commit_log_store_paths contains every directory of "
                "store_path_commit_log: new files need at least one"
            )
        self.commitlog = named[0]
        self.consumequeue = self.root / "consumequeue"
        self.consumequeue_ext = self.root / "consumequeue_ext"
        self.batchconsumequeue = self.root / "batchconsumequeue"
        self.compaction = self.root / "compaction"
        self.compaction_log = self.compaction / "compactionLog"
        self.compaction_entries = self.compaction / "compactionCq"
        self.index = self.root / "index"
        self.config = self.root / "config"
        self.checkpoint = self.root / "checkpoint"
        self.abort = self.root / "abort"
        self.lock = self.root / "lock"
        self.cut = self.root / "cut"
        self.closed = False

    @property
    def location(self) -> str:
        """Location of the store, as messages and reports name it."""
        return str(self.root)

    def add_log(self, folder: Path) -> None:
        """Add a directory whose files follow those of the CommitLog; directories of it that do not exist are dropped."""
        there = tuple(path for path in self.commitlogs if path.is_dir())
        self.commitlogs = (*there, folder)
        self.commitlog = self.commitlogs[0]

    def bring_in(
        self,
        *parts: Path,
        beginnings: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> int:
        """Fetch remote files below some directories in advance; return their bytes.

        The files of a local directory are here: the call returns 0.

        Parameters
        ----------
        *parts : Path
        beginnings : bool
            Fetch only the first bytes of each file.
        progress : callable, optional
            Called with (bytes done, bytes in all).
        """
        del parts, beginnings, progress
        return 0

    def close(self) -> None:
        """Remove files fetched from a URL; a local directory needs nothing."""

    def check_open(self) -> None:
        """Check that the files are still here.

        Raises
        ------
        StoreClosedError
            They were brought here, and `close` has removed them.
        """
        if self.closed:
            raise StoreClosedError(f"the reader of {self.location} is closed")

    @classmethod
    def configured(
        cls,
        root: str | os.PathLike[str],
        log: str | None,
        read_only: str | None = None,
        *,
        follow_links: bool = False,
    ) -> StorePaths:
        """Return the paths of a store whose configuration has these texts.

        Parameters
        ----------
        root : path-like
        log, read_only : str or None
            ``store_path_commit_log`` and ``read_only_commit_log_store_paths``.
        follow_links : bool

        Raises
        ------
        TypeError, ValueError, FileNotFoundError
            As `StorePaths` and `log_directories`.
        """
        named = None if log is None else log_directories(log, "store_path_commit_log")
        kept: list[str] = []
        if read_only is not None and read_only.strip():
            kept = log_directories(read_only, "read_only_commit_log_store_paths")
        return cls(root, commitlog=named, read_only=kept, follow_links=follow_links)

    def follows(self, part: Path) -> bool:
        """Return True if ``commitlog``, ``consumequeue`` or ``index`` in the root may be a link."""
        return self.follow_links or (self._named_log and part in self.commitlogs)

    def queue(self, topic: str, queue_id: int) -> Path:
        """Return the directory of one queue's files.

        Raises
        ------
        ValueError
            The topic cannot name a directory: it is empty, ``.`` or ``..``, or contains a separator or NUL.
        """
        if topic in ("", ".", "..") or "/" in topic or os.sep in topic or "\0" in topic:
            raise ValueError(f"topic {topic!r} cannot be used as a directory name")
        return self.consumequeue / topic / str(queue_id)

    def __repr__(self) -> str:
        return f"StorePaths({str(self.root)!r})"


def absolute_path(path: str | os.PathLike[str], what: str) -> Path:
    """Return an absolute path, which leads to the same directory after a change of the working directory.

    Links are not resolved, so a root that is a link keeps its name. A path with ``..`` in it is resolved: behind a link
    ``..`` is not the directory that the text names.

    Parameters
    ----------
    path : path-like
    what : str
        Name of the argument in errors.

    Raises
    ------
    TypeError
        The path is neither str nor path-like of str.
    ValueError
        The path is empty, or has a NUL or half of a surrogate pair in it; or it is a URL.
    FileNotFoundError
        The path is relative, and the working directory was deleted.
    """
    try:
        text = os.fspath(path)
    except TypeError:
        raise wrong_type(what, "str or a path-like of str", path) from None
    if not isinstance(text, str):
        raise wrong_type(what, "str or a path-like of str", text)
    if is_url(text):
        raise ValueError(f"{what} is {shown_url(text)}, expected a local directory: {READ_BY_URL}")
    if not text:
        raise ValueError(f"{what} is empty, expected a directory")
    if "\0" in text:
        raise ValueError(f"{what} {text!r} contains a NUL")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError(
            f"{what} {text!r} contains a character that file names cannot have"
        ) from None
    try:
        found = Path(text).absolute()
    except FileNotFoundError:
        why = "the working directory was deleted, so a relative path cannot be resolved"
        raise FileNotFoundError(errno.ENOENT, why, text) from None
    return Path(os.path.realpath(found)) if ".." in found.parts else found


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return True if a path starts with a scheme: ``s3://bucket/store``, ``file:///data/store``."""
    return _URL.match(os.fspath(path)) is not None


def shown_url(text: str) -> str:
    """A URL without the user, the password and the query that it may have."""
    return _SECRETS_OF_URL.sub("", text)


def log_directories(text: str, field: str) -> list[str]:
    """Parse the directories of a setting, separated by commas: ``/disk1/commitlog,/disk2/commitlog``.

    Raises
    ------
    ValueError
        A part is empty, or begins or ends with white space. Java would take such a part for a directory of that name:
        for the root of the file system, or for `` /disk2/commitlog`` below the working directory.

    Notes
    -----
    As in Java, empty parts at the end are ignored. Source: RocketMQ 5.5.0 MultiPathMappedFileQueue#getPaths,
    MixAll#MULTI_PATH_SPLITTER.
    """
    several = PATH_SPLITTER in text
    parts = (text.strip() if several else text).split(PATH_SPLITTER)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    for part in parts:
        if not part:
            raise ValueError(f"{field} is {text!r}, expected directories separated by commas")
        if part != part.strip():
            raise ValueError(f"{field}: {part!r} begins or ends with white space")
    return parts


def file_name(file_from_offset: int) -> str:
    """Name the mapped file that starts at an offset: 20 digits, zero-padded.

    The offset counts bytes, also in a ConsumeQueue: its second file of the default size is ``00000000000006000000``.

    Raises
    ------
    ValueError
        The offset is negative or not a Java long.

    Notes
    -----
    Source: RocketMQ 5.5.0 UtilAll#offset2FileName.
    """
    if not 0 <= file_from_offset <= MAX_OFFSET:
        raise ValueError(f"file offset {file_from_offset} is not between 0 and {MAX_OFFSET}")
    return f"{file_from_offset:0{FILE_NAME_DIGITS}d}"


def parse_file_name(name: str) -> int | None:
    """Parse the name of a mapped file: the offset at which it starts; None for any other name."""
    if len(name) != FILE_NAME_DIGITS or not (name.isascii() and name.isdigit()):
        return None
    offset = int(name)
    return offset if offset <= MAX_OFFSET else None


def is_index_file_name(name: str) -> bool:
    """Return whether a name in ``index/`` is an index file for Java: a decimal number that fits a long."""
    return name.isascii() and name.isdigit() and len(name) <= 19 and int(name) <= MAX_OFFSET


def is_utf8(name: str) -> bool:
    """Return whether the bytes of a name in a directory are UTF-8, as all names that a store makes are."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_queue_id(name: str) -> int | None:
    """Parse the name of a directory below ``consumequeue/TOPIC/``: the queue id; None for any other name.

    Java reads the name as an int, and finds the directory by that int again: a name with leading zeros is not a queue
    id.
    """
    if not (name.isascii() and name.isdigit()):
        return None
    queue_id = int(name)
    return queue_id if queue_id <= MAX_QUEUE_ID and str(queue_id) == name else None
