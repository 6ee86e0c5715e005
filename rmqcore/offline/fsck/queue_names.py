"""Names and sizes of all that lies below ``consumequeue/``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.paths import StorePaths, is_utf8, parse_file_name
from rmqcore.disk.read_range import Unreadable, left_out
from rmqcore.offline.fsck.file_kinds import Listed, OtherNames, list_folder
from rmqcore.offline.fsck.file_names import check_name
from rmqcore.offline.fsck.findings import ERROR, INFO, WARNING, Findings

MOST_SIZES = 10_000
"""Different sizes of files that are counted: none of more of them is the size of most files."""


class QueueNames:
    """Checks every name below ``consumequeue/``.

    It lists all once, and a second time where not all files have one size, or a name is odd. Nothing is kept of a file.

    Parameters
    ----------
    paths : StorePaths
    findings : Findings

    Attributes
    ----------
    other_names : OtherNames
        Which files are other names of a file before them.
    total_bytes : int
        Bytes of all files.
    unlisted : set of str
        Directories of topics and queues that cannot be listed, as findings name them.
    unreadable : callable
        Receives what cannot be listed once more, which is a finding already.
    """

    def __init__(self, paths: StorePaths, findings: Findings) -> None:
        self.other_names = OtherNames(findings)
        self.total_bytes = 0
        self.unlisted: set[str] = set()
        self.unreadable: Unreadable = left_out
        self._paths = paths
        self._findings = findings
        self._sizes: Counter[int] = Counter()
        self._plain = True  # all files have the size of the first one, and names that fit it
        self._files = 0

    def check(self) -> None:
        """Check all."""
        for folder, path in self._queues(self._findings):
            for file in self._files_of(folder, path, self._findings):
                self._count(file)
        if not self._files:
            return
        size = max(
            (size for size in self._sizes if size),
            key=lambda size: (self._sizes[size], size),
            default=0,
        )
        if self.other_names.any_twice() or not self._plain:
            self._check_again(size)
        if size % CQ_STORE_UNIT_SIZE:
            self._findings.add(
                "cq_file_size",
                ERROR,
                "consumequeue",
                f"the files' size {size} is not a whole number of entries",
                field="file size",
                expected=f"a multiple of {CQ_STORE_UNIT_SIZE}",
                found=size,
            )

    def _count(self, file: Listed) -> None:
        self.other_names.count(file)
        self._files += 1
        size, sizes = file.size, self._sizes
        self.total_bytes += size
        start = parse_file_name(file.name)
        self._plain &= start is not None and size > 0 and start % size == 0
        if size in sizes or len(sizes) < MOST_SIZES:
            sizes[size] += 1
        else:  # one of each size goes; a size that many files have stays
            self._sizes = Counter({known: count - 1 for known, count in sizes.items() if count > 1})
        self._plain &= len(sizes) == 1

    def _queues(self, findings: Findings) -> Iterator[tuple[str, str]]:
        """Each queue's directory, and how findings name it."""
        for topic in list_folder(self._paths.consumequeue, "consumequeue", findings):
            if not topic.is_directory:
                continue
            folder = f"{self._paths.consumequeue}/{topic.name}"
            above = f"consumequeue/{topic.name}"
            if not is_utf8(topic.name):
                findings.add(
                    "file_name",
                    WARNING,
                    above,
                    "the name is not UTF-8, so it cannot be a topic; brokers ignore this directory",
                    field="file name",
                    expected="a topic",
                    found=topic.name,
                )
                continue
            for queue in list_folder(folder, above, findings, self.unlisted):
                if not queue.is_directory:
                    continue
                path = f"{above}/{queue.name}"
                if queue.name.isascii() and queue.name.isdigit():
                    yield f"{folder}/{queue.name}", path
                    continue
                findings.add(
                    "file_name",
                    WARNING,
                    path,
                    "the name is not a queue id; brokers ignore this directory",
                    field="file name",
                    expected="a queue id",
                    found=queue.name,
                )

    def _files_of(self, folder: str, path: str, findings: Findings) -> Iterator[Listed]:
        listed = list_folder(folder, path, findings, self.unlisted)
        return (file for file in listed if not file.is_directory)

    def _check_again(self, size: int) -> None:
        """Check names and sizes of files, most of which have this size."""
        known = Findings(0)  # what is no file was noted before
        for folder, path in self._queues(known):
            files: Iterator[Listed | None] = iter(self._files_of(folder, path, known))
            for file, following in pairwise(chain(files, [None])):
                if file is not None:
                    self.other_names.look(folder, path, file)
                    self._check_file(file, path, size, is_last=following is None)

    def _check_file(self, file: Listed, path: str, size: int, *, is_last: bool) -> None:
        check_name(file, f"{path}/{file.name}", size, "file_name", self._findings)
        if file.size == size or parse_file_name(file.name) is None:
            return
        empty_last = file.size == 0 and is_last
        self._findings.add(
            "cq_file_size",
            INFO if empty_last else ERROR,
            f"{path}/{file.name}",
            "the file is empty: a broker start deletes it"
            if empty_last
            else f"the file has {file.size} bytes, the others {size}: a broker refuses to start",
            field="file size",
            expected=size,
            found=file.size,
        )
