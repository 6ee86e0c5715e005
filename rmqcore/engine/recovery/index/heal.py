"""The index at an open: files that differ from the log are deleted, and their messages are indexed again.

The log determines the whole index. So a file with any fault is not mended but deleted with all newer files, and the
dispatcher indexes the log again from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rmqcore.config import MessageStoreConfig
from rmqcore.engine.index.index_file import IndexFile
from rmqcore.engine.index.index_folder import Chosen
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.recovery.index.index_compare import check_chains, compare_with_log
from rmqcore.engine.recovery.index.log_look import LogLook
from rmqcore.engine.recovery.index.signs import IndexDamage, find_signs
from rmqcore.engine.recovery.scan import Progress
from rmqcore.engine.recovery.thoroughness import IndexThoroughness
from rmqcore.shown.report import Report


@dataclass(frozen=True, slots=True)
class IndexReport(Report):
    """Findings of an open in ``index/``.

    Attributes
    ----------
    files : int
        Number of files that stay.
    removed_files : tuple of str
        Files to delete: perhaps not on disk because the store was not closed, or damaged, or newer than a damaged file.
    damage : str or None
        Fault of the first of these, or that keys are missing behind the last file.
    compared_bytes : int
        CommitLog bytes whose keys were compared with the entries.
    index_from : int or None
        CommitLog offset from which messages are indexed again; None if the index is complete.
    """

    files: int = 0
    removed_files: tuple[str, ...] = ()
    damage: str | None = None
    compared_bytes: int = 0
    index_from: int | None = None

    @property
    def heals(self) -> bool:
        """True if the index had a problem, other than files that a crash leaves incomplete."""
        return self.damage is not None

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as plain JSON values."""
        return asdict(self)


def find_damage(
    files: Sequence[IndexFile],
    commitlog: CommitLog,
    config: MessageStoreConfig,
    log_end: int,
    how: IndexThoroughness,
    progress: Progress | None = None,
) -> tuple[IndexDamage | None, int]:
    """Find the first file that differs from the log; change nothing.

    Returns
    -------
    (IndexDamage or None, int)
        The second is the number of log bytes compared.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    compared = 0
    with LogLook(commitlog, log_end) as log:
        damage = find_signs(
            files, log, config, log_end, most_bytes=how.searched_bytes, behind=not how.resumes
        )
        if how.chains:
            sound = files[: damage.number] if damage else files
            found = check_chains(sound)
            sound, damage = (files[: found.number], found) if found else (sound, damage)
            found, compared = compare_with_log(
                sound, log, config, log_end, most_bytes=how.compared_bytes, progress=progress
            )
            damage = found or damage
    return damage, compared


def plan_index(
    chosen: Chosen,
    commitlog: CommitLog,
    config: MessageStoreConfig,
    log_end: int,
    how: IndexThoroughness,
    progress: Progress | None = None,
) -> IndexReport:
    """Plan the work of `heal_index`; change nothing.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    files = chosen.files
    inside = next(
        (n for n, file in enumerate(files) if file.native.end_phy_offset >= log_end), len(files)
    )
    damage, compared = find_damage(files[:inside], commitlog, config, log_end, how, progress)
    kept = min(inside, damage.number) if damage else inside
    gone = [file.name for file in files[kept:]] + chosen.rest
    resume = max((file.native.end_phy_offset for file in files[:kept]), default=0)
    again = how.resumes or gone or damage
    return IndexReport(
        files=kept,
        removed_files=tuple(gone),
        damage=damage.reason if damage else None,
        compared_bytes=compared,
        index_from=resume if again else None,
    )


def heal_index(
    index: IndexService,
    commitlog: CommitLog,
    config: MessageStoreConfig,
    log_end: int,
    how: IndexThoroughness,
    *,
    clean_exit: bool,
    index_msg_timestamp_ms: int,
    progress: Progress | None = None,
) -> IndexReport:
    """Load the index of a store, and delete wrong files; the caller indexes again from ``index.resume_offset`` on.

    Parameters
    ----------
    index : IndexService
        Not loaded yet.
    commitlog : CommitLog
        Recovered.
    log_end : int
        CommitLog offset behind the last record.
    clean_exit : bool
        True if the store had no abort file. It has one during this call: an open that ends here counts as a crash.
    index_msg_timestamp_ms : int
        indexMsgTimestamp of the checkpoint.

    Raises
    ------
    StoreFormatError
        Numbers of slots and entries differ from the configured ones, and cannot be found from the files.
    OSError
        A file cannot be read, deleted or written.
    """
    chosen = index.load(clean=clean_exit, index_msg_timestamp_ms=index_msg_timestamp_ms)
    gone = index.trim(log_end) + chosen.rest
    damage, compared = None, 0
    if index.writing:
        damage, compared = find_damage(index.files, commitlog, config, log_end, how, progress)
        if damage is not None:
            gone = index.drop_from(damage.number) + gone
        elif how.resumes:
            index.resume_at_end()
    return IndexReport(
        files=len(index.files),
        removed_files=tuple(gone),
        damage=damage.reason if damage else None,
        compared_bytes=compared,
        index_from=index.resume_offset,
    )
