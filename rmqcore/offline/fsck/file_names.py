"""Names and sizes of a store's files, its checkpoint and abort file: what a broker start looks at first."""

from __future__ import annotations

import os
from collections import Counter

from rmqcore._native.format.layout import CHECKPOINT_FILE_SIZE
from rmqcore.disk.checkpoint import StoreCheckpoint, read_checkpoint
from rmqcore.disk.paths import StorePaths, is_index_file_name, parse_file_name
from rmqcore.disk.read_range import entries_of, left_out
from rmqcore.disk.same_name import file_twice
from rmqcore.disk.store_kinds import RULES
from rmqcore.errors import CorruptionError, StoreFormatError, is_unreadable
from rmqcore.offline.fsck.file_kinds import Listed, list_folder, note_unreadable
from rmqcore.offline.fsck.findings import ERROR, INFO, WARNING, Findings
from rmqcore.offline.log.log_files import LogFile, mapped_file_size, shown_folder


def note_dledger(files: list[LogFile], findings: Findings) -> None:
    """Note that the log, or its newer part, is DLedger's."""
    first = next((file for file in files if file.dledger), None)
    if first is not None:
        findings.add(
            "store_kind",
            INFO,
            shown_folder(first.path.parent),
            f"{RULES['dledger'].sentence}; it was read and checked, and rmqcore never writes it",
            field="file",
            expected="a CommitLog",
            found="a DLedger log",
        )


def check_log_files(paths: StorePaths, files: list[LogFile], findings: Findings) -> None:
    """Check every name in ``commitlog/``: a broker refuses to start over a name that is no offset, or a file of another size."""
    size = mapped_file_size(files)
    listed: list[tuple[str, Listed]] = []
    for directory in paths.commitlogs:
        name = shown_folder(directory)
        if directory.is_dir():
            listed += [(name, entry) for entry in list_folder(directory, name, findings)]
        else:
            findings.add(
                "missing_file",
                ERROR,
                name,
                "there is no such directory",
                field="file",
                found="missing",
            )
    listed.sort(key=lambda item: item[1].name)
    _check_twins(paths, findings)
    for folder, entry in listed:
        if entry.is_directory:
            continue
        path = f"{folder}/{entry.name}"
        check_name(entry, path, size, "file_name", findings)
        last = entry is listed[-1][1]
        is_first_fault = parse_file_name(entry.name) is not None
        if entry.size == size or not is_first_fault:
            continue
        if entry.size == 0 and last:
            message = "the file is empty: a broker start deletes it"
        elif entry.size == 0:
            message = "the file is empty: a broker refuses to start"
        elif entry.size > size:
            message = f"the file has {entry.size - size} bytes too many: a broker refuses to start"
        elif not last:
            continue  # the walk tells how many bytes are missing
        else:
            message = f"the file lacks {size - entry.size} bytes: a broker refuses to start"
        findings.add(
            "file_size",
            INFO if entry.size == 0 and last else ERROR,
            path,
            message,
            phy_offset=parse_file_name(entry.name),
            field="file size",
            expected=size,
            found=entry.size,
        )


def _check_twins(paths: StorePaths, findings: Findings) -> None:
    """Check that no file of the log lies in two directories."""
    seen: dict[str, str] = {}
    for directory in {os.path.realpath(one): one for one in paths.commitlogs}.values():
        for entry in entries_of(directory, left_out):
            if parse_file_name(entry.name) is None or not entry.is_file(follow_symlinks=False):
                continue
            other = seen.setdefault(entry.name, entry.path)
            if other != entry.path:
                findings.add(
                    "file_twice",
                    ERROR,
                    os.path.relpath(entry.path, paths.root),
                    str(file_twice(other, entry.path)),
                    phy_offset=parse_file_name(entry.name),
                    field="file",
                    expected="one of this name",
                    found=other,
                )


def check_index_files(paths: StorePaths, findings: Findings) -> None:
    """Check every name in ``index/``, and that all files have the same size."""
    listed = [
        entry for entry in list_folder(paths.index, "index", findings) if not entry.is_directory
    ]
    named = [entry for entry in listed if is_index_file_name(entry.name)]
    for entry in listed:
        if not is_index_file_name(entry.name):
            findings.add(
                "file_name",
                WARNING,
                f"index/{entry.name}",
                "the name is not a 63-bit number: a broker does not load this file",
                field="file name",
                expected="digits",
                found=entry.name,
            )
    sizes = Counter(entry.size for entry in named)
    size = max(sizes, key=lambda size: (sizes[size], size), default=0)
    newest = max(named, key=lambda entry: int(entry.name), default=None)
    for entry in named:
        path = f"index/{entry.name}"
        if entry.size == 0:
            message = "a broker start extends it" if entry is newest else "its content is lost"
            findings.add(
                "index_header",
                INFO if entry is newest else ERROR,
                path,
                f"the file is empty: {message}",
                field="file size",
                expected=size or "that of an index file",
                found=0,
            )
        elif entry.size != size:
            findings.add(
                "index_header",
                WARNING,
                path,
                f"the file has {entry.size} bytes, the others {size}",
                field="file size",
                expected=size,
                found=entry.size,
            )


def check_name(entry: Listed, path: str, size: int, kind: str, findings: Findings) -> None:
    """Check that a file's name is the offset of its first byte."""
    offset = parse_file_name(entry.name)
    if offset is None:
        findings.add(
            kind,
            ERROR,
            path,
            "the name is not an offset: a broker refuses to start",
            field="file name",
            expected="20 digits",
            found=entry.name,
        )
    elif size and offset % size:
        findings.add(
            kind,
            ERROR,
            path,
            f"the offset in the name is not a multiple of the file size {size}",
            field="file name",
            expected=f"a multiple of {size}",
            found=entry.name,
        )


# ---- checkpoint and abort ---------------------------------------------------------------------------


def load_checkpoint(paths: StorePaths, findings: Findings) -> StoreCheckpoint | None:
    """Read the checkpoint; None when it is missing or cannot be read."""
    try:
        checkpoint = read_checkpoint(paths.checkpoint)
    except CorruptionError as error:
        findings.add(
            "checkpoint",
            ERROR,
            "checkpoint",
            f"the file has {error.found}: too short for its six numbers",
            field="file size",
            expected=CHECKPOINT_FILE_SIZE,
            found=error.phy_offset,
        )
        return None
    except IsADirectoryError:
        findings.add(
            "checkpoint",
            ERROR,
            "checkpoint",
            "it is a directory",
            field="file",
            expected="a file",
            found="a directory",
        )
        return None
    except StoreFormatError:
        return None  # no file: a finding of what lies in a store
    except OSError as error:
        if not is_unreadable(error):
            raise
        note_unreadable("checkpoint", error, findings)
        return None
    if checkpoint is None:
        findings.add(
            "checkpoint",
            WARNING if is_open(paths) else INFO,
            "checkpoint",
            "it is missing: after an unclean exit a broker start assumes that nothing was flushed",
            field="file",
            found="missing",
        )
        return None
    size = paths.checkpoint.lstat().st_size
    if size != CHECKPOINT_FILE_SIZE:
        findings.add(
            "checkpoint",
            WARNING,
            "checkpoint",
            f"the file has {size} bytes",
            field="file size",
            expected=CHECKPOINT_FILE_SIZE,
            found=size,
        )
    return checkpoint


def check_checkpoint(
    checkpoint: StoreCheckpoint, newest_ms: int, log_end: int, findings: Findings
) -> None:
    """Check that the checkpoint, which tells how far files are flushed, is not ahead of the log.

    Parameters
    ----------
    newest_ms : int
        The greatest store timestamp in the log, milliseconds.
    log_end : int
        CommitLog offset behind the last sound record.
    """
    limits = {
        "physic_msg_timestamp_ms": newest_ms,
        "logics_msg_timestamp_ms": newest_ms,
        "index_msg_timestamp_ms": newest_ms,
        "confirm_phy_offset": log_end,
        "logics_physical_offset": log_end,
    }
    for field, limit in limits.items():
        found = getattr(checkpoint, field)
        if not 0 <= found <= limit:
            findings.add(
                "checkpoint",
                ERROR,
                "checkpoint",
                f"{field} is {found}, the log ends at {limit}",
                field=field,
                expected=f"0 to {limit}",
                found=found,
            )


def is_open(paths: StorePaths) -> bool:
    """Return True if the abort file says that the store is in use or was not cleanly closed."""
    return os.path.lexists(paths.abort)
