"""Choice of the directory for the next CommitLog file, if storePathCommitLog names several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rmqcore.disk.used_space import used_percent

# Java replaces a configured ratio outside these bounds by the nearest bound.
LEAST_RATIO, MOST_RATIO = 30, 85


class LogFolders:
    """The directories of a CommitLog for new files.

    Parameters
    ----------
    folders : sequence of Path
        Directories in which new files may be made, sorted.
    full_percent : int
        diskSpaceCleanForciblyRatio: a directory whose disk is fuller gets no file while another disk is below it.

    Notes
    -----
    Source: RocketMQ 5.5.0 MultiPathMappedFileQueue#tryCreateMappedFile, CleanCommitLogService#isSpaceToDelete. Java
    looks at the disks every ten seconds, this class whenever a file is made.
    """

    def __init__(self, folders: Sequence[Path], full_percent: int) -> None:
        self._folders = folders
        self._full_percent = min(max(full_percent, LEAST_RATIO), MOST_RATIO)

    def for_new_file(self, file_from_offset: int, file_size: int) -> Path:
        """Return the directory for the file that starts at an offset: directories take turns, full disks are skipped.

        If all disks are full, the directories take turns as if none was.
        """
        if len(self._folders) == 1:
            return self._folders[0]
        roomy = [folder for folder in self._folders if used_percent(folder) <= self._full_percent]
        folders = roomy or self._folders
        return folders[file_from_offset // file_size % len(folders)]
