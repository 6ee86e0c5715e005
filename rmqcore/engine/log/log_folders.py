"""Which directory gets the next file of the CommitLog, when storePathCommitLog names several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rmqcore.disk.used_space import used_percent

# Java takes a configured ratio outside of this for the nearer of the two.
LEAST_RATIO, MOST_RATIO = 30, 85


class LogFolders:
    """The directories of a CommitLog for new files.

    Parameters
    ----------
    folders : sequence of Path
        Where new files may be made, sorted.
    full_percent : int
        diskSpaceCleanForciblyRatio: a directory whose disk is used by more gets no file while another one is below.

    Notes
    -----
    Source: RocketMQ 5.5.0 MultiPathMappedFileQueue#tryCreateMappedFile, CleanCommitLogService#isSpaceToDelete. Java looks at the
    disks every ten seconds, this class whenever a file is made.
    """

    def __init__(self, folders: Sequence[Path], full_percent: int) -> None:
        self._folders = folders
        self._full_percent = min(max(full_percent, LEAST_RATIO), MOST_RATIO)

    def for_new_file(self, file_from_offset: int, file_size: int) -> Path:
        """Return the directory for the file that starts at an offset: the directories take turns, full disks are passed over.

        Where all are full they take turns as if none was.
        """
        if len(self._folders) == 1:
            return self._folders[0]
        roomy = [folder for folder in self._folders if used_percent(folder) <= self._full_percent]
        folders = roomy or self._folders
        return folders[file_from_offset // file_size % len(folders)]
