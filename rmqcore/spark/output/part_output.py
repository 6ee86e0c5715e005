"""The output folder of a job for one part of a store, whose files all appear at once or not at all.

Tasks write below ``OUT/_temporary/JOB/ATTEMPT/``, each attempt into a folder of its own, so that two attempts of a task never
write to the same file. When all tasks have succeeded the driver gathers the files that the successful attempts named, and puts
them in their place by one rename (`rmqcore.spark.output.journal`).
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rmqcore.disk.durable import make_directory
from rmqcore.disk.inside.files import remove_empty
from rmqcore.disk.inside.folder import Folder, open_target
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import in_rocksdb
from rmqcore.disk.swap import PARTS
from rmqcore.errors import ForeignFilesError, StoreError, TargetNotEmptyError
from rmqcore.spark.output.job_folder import (
    TEMPORARY,
    check_outside,
    local_folder,
    lock_folder,
    refuse_foreign_work,
)
from rmqcore.spark.output.journal import (
    ASSEMBLED,
    Journal,
    commit,
    discard,
    finish,
    read_manifest,
    unknown_names,
)
from rmqcore.spark.storage.store_location import StoreLocation


@dataclass(frozen=True)
class StagedFile:
    """A file that a task has written and synced.

    Attributes
    ----------
    staged : str
        Path of the file, relative to the job's folder.
    byte_count : int
    sha256 : str
    rows : int
        Number of entries.
    start_phy_offset, end_phy_offset : int
        CommitLog offsets of the first and the last record that have an entry in the file; -1 without entries.
    """

    staged: str
    byte_count: int
    sha256: str
    rows: int
    start_phy_offset: int
    end_phy_offset: int


class PartOutput:
    """One part of `out`, written by one job; a context manager on the driver.

    Parameters
    ----------
    out : str or path-like
        On a file system that the driver and all workers have mounted at the same place.
    part : str
        ``consumequeue`` or ``index``.
    store : StoreLocation
        The store from which the part is made. If an earlier job made the part from the same store, this job replaces it.
    overwrite : bool
        Replace the part also if another program made it, or if it was made from another store.

    Attributes
    ----------
    job_folder : Path
        Where tasks write; it exists between `__enter__` and `commit`.

    Raises
    ------
    TargetNotEmptyError
        `out` holds files that this job may not replace.
    ForeignFilesError
        The part that would be replaced is a RocksDB database.
    StoreLockedError
        Another job writes to `out`.
    ValueError
        `out` is a URI, or lies in the store.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        part: str,
        *,
        store: StoreLocation,
        overwrite: bool = False,
    ) -> None:
        self.out = local_folder(out)
        check_outside(self.out, [store], (TEMPORARY, *PARTS))
        self._part = part
        self._store = store.root
        self._overwrite = overwrite
        self._job = uuid.uuid4().hex
        self._made = False
        self._inside: Folder | None = None
        self._root = Path(store.root) if store.is_local else self.out
        self.job_folder = self.out / TEMPORARY / self._job

    def __enter__(self) -> Self:
        self._made = not self.out.exists()
        if self._made:
            make_directory(self.out)
        self._inside = open_target(self.out, self._root)
        try:
            self._refuse_unknown()
            lock_folder(self.inside)
            refuse_foreign_work(self.inside)
            finish(self.inside)
            self._refuse_foreign_part()
            discard(self.inside)
            self.inside.make(f"{TEMPORARY}/{self._job}", exist_ok=True)
        except BaseException:
            self.inside.close()
            raise
        return self

    @property
    def inside(self) -> Folder:
        """The folder, open and locked."""
        assert self._inside is not None
        return self._inside

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            finish(self.inside)  # a commit that this process began and did not finish
            discard(self.inside)
            if kind is not None and self._made:
                with suppress(OSError):  # not empty: a commit was begun and has ended
                    remove_empty(self.out)
        finally:
            self.inside.close()

    def _refuse_unknown(self) -> None:
        unknown = unknown_names(self.inside, PARTS)
        if unknown:
            raise TargetNotEmptyError(f"{self.out} is not empty: it has {', '.join(unknown[:5])}")

    def _refuse_foreign_part(self) -> None:
        if self._part == PARTS[0] and in_rocksdb(StorePaths(self.out)) == self.out / self._part:
            raise ForeignFilesError(
                f"{self.out / self._part} is a RocksDB database; nothing was changed"
            )
        if self._overwrite:
            return
        known = read_manifest(self.inside)
        for part in PARTS:
            if self.inside.is_folder(part) and part not in known:
                raise TargetNotEmptyError(
                    f"{self.out / part} exists, but was not created by a Spark rebuild"
                )
        store = known.get(self._part, {}).get("store", self._store)
        if store != self._store:
            raise TargetNotEmptyError(
                f"{self.out / self._part} was made from another store, {store}"
            )

    # ---- commit -------------------------------------------------------------------------------------

    def commit(self, files: dict[str, StagedFile], facts: dict[str, Any]) -> None:
        """Move the files to their place, and list them in ``manifest.json``.

        Parameters
        ----------
        files : dict
            Path below the part, with ``/`` -> staged file.
        facts : dict
            Further fields of the part's entry in the manifest; plain JSON values, the same in every run.

        Raises
        ------
        StoreError
            A file is missing, or its size differs from its task's report: driver and workers do not see the same `out`.
        OSError
            A rename or a sync failed.
        """
        job = self.inside.folder(f"{TEMPORARY}/{self._job}")
        assembled = job.folder(f"{ASSEMBLED}/{self._part}", make=True)
        for name, file in sorted(files.items()):
            above = name.rpartition("/")[0]
            if above:
                assembled.make(above, exist_ok=True)
            self._take(job, file, f"{ASSEMBLED}/{self._part}/{name}")
        assembled.sync_names()
        listed = [
            {"file": f"{self._part}/{name}", **_without_place(file)}
            for name, file in sorted(files.items())
        ]
        entry = {"store": self._store, **facts, "files": listed}
        commit(self.inside, Journal(self._job, self._part, entry))

    def _take(self, job: Folder, file: StagedFile, target: str) -> None:
        staged = self.job_folder / file.staged
        status = job.status(file.staged)
        if status is None:
            raise StoreError(
                f"{staged} was written by a task but is missing on the driver: the driver and all "
                f"workers must share {self.out}"
            )
        if status.st_size != file.byte_count:
            raise StoreError(f"{staged} has {status.st_size} bytes, expected {file.byte_count}")
        job.move(file.staged, target)


def _without_place(file: StagedFile) -> dict[str, Any]:
    fields = asdict(file)
    del fields["staged"]
    return fields
