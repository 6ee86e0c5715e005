"""The folder of one attempt of one task, below that of its job."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

from rmqcore.disk.durable import sync_directory
from rmqcore.disk.inside.files import make_folder, open_file
from rmqcore.errors import StoreError
from rmqcore.spark.output.part_output import StagedFile


class Attempt:
    """The folder of one attempt. Another attempt of the same task, at the same time or later, has a folder of its own.

    Parameters
    ----------
    job_folder : Path
        The job's folder, made by the driver.
    """

    def __init__(self, job_folder: Path) -> None:
        self._job_folder = job_folder
        self._folder = job_folder / uuid.uuid4().hex
        self._made = False

    @property
    def folder(self) -> Path:
        """The folder to write into, made on the first access: most tasks of a small job write nothing."""
        self.check()
        if not self._made:
            make_folder(self._folder)
            self._made = True
        return self._folder

    @property
    def name(self) -> str:
        """The name of the folder, which may not be made yet."""
        return self._folder.name

    def check(self) -> None:
        """Stop a task whose job has ended, before the task makes the job's folder anew.

        Raises
        ------
        StoreError
            The job's folder does not exist here: the job has ended, or the driver made the folder on another disk.
        """
        if not self._job_folder.is_dir():
            raise StoreError(
                f"{self._job_folder} is missing: the job has ended, or the driver and workers do "
                "not share its directory"
            )

    def stage(
        self, path: Path, rows: int, start_phy_offset: int, end_phy_offset: int
    ) -> StagedFile:
        """Sync a file to disk, and describe it."""
        opened = open_file(path, os.O_RDONLY)
        with os.fdopen(opened.fileno(), "rb", closefd=False) as file:
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            byte_count = file.tell()
        opened.close()
        staged = path.relative_to(self._job_folder).as_posix()
        return StagedFile(staged, byte_count, digest, rows, start_phy_offset, end_phy_offset)

    def sync(self) -> None:
        """Sync the folders, so that the names of all files are on disk."""
        if self._made:
            for folder, _, _ in os.walk(self._folder, topdown=False):
                sync_directory(folder)
            sync_directory(self._job_folder)
