"""The folder that Spark writes stores into: stores of finished tasks move to their places, then the manifest lists them.

A task writes below ``_rmqstore/staging/JOB/ATTEMPT``. A commit renames these stores, waits until the names are on disk
and replaces the manifest in one step: with that step the write has happened. The next commit removes the remains of a
commit that died before that step, and the stores that a commit replaced.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqcore.disk.durable import make_directory
from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreError, StoreFormatError, StoreLockedError, TargetNotEmptyError
from rmqcore.offline.log.log_files import holds_store
from rmqcore.spark.output.job_folder import local_folder, lock_folder
from rmqcore.spark.sink.store_task import StagedStore
from rmqcore.spark.storage.sink_folder import MANIFEST, SINK, SinkManifest, part_name

STAGING = f"{SINK}/staging"
STAGING_KEPT_S = 7 * 86_400.0
"""The folder of a job that was never ended is removed after this time without a new attempt."""
LOCK_WAIT_S = 60.0
LOCK_POLL_S = 0.05


@dataclass(frozen=True)
class SinkFolder:
    """The folder; small, and sent by pickle from the process that plans a write to the one that commits it.

    Attributes
    ----------
    out : Path
    job : str
        Name of the folder in which the tasks of this write stage their stores.

    Raises
    ------
    ValueError
        The path is empty, or a URI.
    """

    out: Path
    job: str

    @classmethod
    def at(cls, path: str) -> SinkFolder:
        """Return the folder for a new write."""
        return cls(local_folder(path), uuid.uuid4().hex)

    @property
    def job_folder(self) -> Path:
        """Where tasks stage their stores."""
        return self.out / STAGING / self.job

    def prepare(self) -> None:
        """Make the folder ready for tasks.

        Raises
        ------
        TargetNotEmptyError
            The folder is a store, lies in one, or holds files and was not made by a write of this package.
        StoreLockedError
            Another write has held the folder's lock for one minute.
        """
        for above in self.out.parents:
            if (above / "commitlog").is_dir() or above.name == "commitlog":
                raise TargetNotEmptyError(f"{self.out} is inside a store: choose another directory")
        make_directory(self.out)
        with self._locked() as out:
            names = out.names()
            if SINK not in names:
                self._refuse_content(names)
                out.make(SINK)
                out.sync()
            if out.status(MANIFEST) is None:
                self._refuse_content([name for name in names if name != SINK])
                out.write(MANIFEST, SinkManifest().encode())
            out.make(f"{STAGING}/{self.job}", exist_ok=True)

    def _refuse_content(self, names: list[str]) -> None:
        if holds_store(dict.fromkeys(names, True)):
            raise TargetNotEmptyError(
                f"{self.out} is a store: a write creates new stores in a separate directory, and "
                "does not add to existing ones"
            )
        if names:
            raise TargetNotEmptyError(
                f"{self.out} has {names[0]}, and is not a directory to which Spark wrote stores"
            )

    def has_write(self, write_id: str) -> bool:
        """Return True if a batch write of that name has been committed."""
        with Folder(self.out) as out:
            return write_id in self._manifest(out).writes

    def commit(
        self,
        staged: Sequence[StagedStore],
        *,
        overwrite: bool,
        batch: int | None = None,
        write_id: str | None = None,
    ) -> bool:
        """Commit the stores that tasks have staged; return False, without a change, if the write was committed before.

        Parameters
        ----------
        staged : sequence of StagedStore
            One for each task, in the order of the tasks.
        overwrite : bool
            The stores replace all stores in the folder.
        batch : int, optional
            The batch of a streaming query.
        write_id : str, optional
            The name of a batch write.

        Raises
        ------
        StoreError
            A task's store is missing: driver and workers do not see the same folder.
        StoreLockedError, StoreFormatError, OSError
        """
        query = next((store.query for store in staged if store.query is not None), None)
        with self._locked() as out:
            manifest = self._manifest(out)
            self._remove_uncommitted(out, manifest)
            is_new = write_id not in manifest.writes
            if batch is not None:
                if query is None:
                    raise StoreError("the tasks of a streaming batch did not name their query")
                is_new = batch > manifest.batches.get(query, -1)
            if is_new:
                parts = self._take_places(out, manifest.commits, staged)
                out.sync()
                after = SinkManifest(
                    commits=manifest.commits + 1,
                    parts=tuple(parts) if overwrite else (*manifest.parts, *parts),
                    batches=manifest.batches
                    if batch is None
                    else {**manifest.batches, str(query): batch},
                    writes=manifest.writes if write_id is None else (*manifest.writes, write_id),
                    removed=tuple(manifest.names) if overwrite else (),
                )
                out.write(MANIFEST, after.encode())
                # The write has happened: an error from here on would make Spark report a failure. The next write
                # removes the remains.
                with suppress(OSError, StoreError):
                    self._remove_uncommitted(out, after)
            with suppress(OSError, StoreError):
                self._discard(out, {self.job, *(store.job for store in staged)})
        return is_new

    def abort(self, staged: Sequence[StagedStore]) -> None:
        """Remove the stores that the tasks of a failed write have staged."""
        if (self.out / SINK).is_dir():
            with Folder(self.out) as out:
                self._discard(out, {self.job, *(store.job for store in staged)})

    @contextmanager
    def _locked(self) -> Iterator[Folder]:
        """Yield the folder, locked: writes to one folder commit one after the other."""
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            folder = Folder(self.out)
            try:
                lock_folder(folder)
                break
            except StoreLockedError:
                folder.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOCK_POLL_S)
        with folder:
            yield folder

    def _manifest(self, out: Folder) -> SinkManifest:
        try:
            return SinkManifest.parse(out.read(MANIFEST), str(out.path / MANIFEST))
        except FileNotFoundError:
            raise StoreFormatError(
                f"{out.path / MANIFEST} is missing, which lists the committed stores: restore it; "
                "nothing was changed"
            ) from None

    def _take_places(
        self, out: Folder, commit: int, staged: Sequence[StagedStore]
    ) -> list[dict[str, Any]]:
        parts = []
        for number, store in enumerate(staged):
            if store.attempt is None:
                continue
            place = f"{STAGING}/{store.job}/{store.attempt}"
            if not out.is_folder(f"{place}/commitlog"):
                raise StoreError(
                    f"{self.out / place} was written by a task but is missing on the driver: the "
                    f"driver and all workers must share {self.out}"
                )
            name = part_name(commit, number)
            out.move(place, name)
            parts.append({"part": name, "messages": store.messages, "log_bytes": store.log_bytes})
        return parts

    def _remove_uncommitted(self, out: Folder, manifest: SinkManifest) -> None:
        """Remove stores that an interrupted commit moved to their places, and those that a commit replaced."""
        begun = part_name(manifest.commits, 0).rpartition("-")[0] + "-"
        for name in out.names():
            if name.startswith(begun) or name in manifest.removed:
                out.remove(name)

    def _discard(self, out: Folder, jobs: set[str]) -> None:
        """Remove staged stores of the given jobs, which have ended, and of jobs that had no new attempt for a week."""
        staging = out.folder(STAGING)
        for name in staging.names():
            status = staging.status(name)
            old = status is not None and status.st_mtime < time.time() - STAGING_KEPT_S
            if name in jobs or old:
                # A task that still runs no longer finds its job's folder, and ends.
                trash = name if name.startswith(".trash-") else f".trash-{uuid.uuid4().hex}"
                with suppress(FileNotFoundError):
                    staging.move(name, trash)
                with suppress(OSError, StoreError):
                    staging.remove(trash)
