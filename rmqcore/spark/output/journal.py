"""The last steps of a commit: a part's folder takes its place in `out`, then the manifest and ``_SUCCESS`` say so.

Names in `out`: ``consumequeue`` and ``index``, the parts; ``manifest.json``; ``_SUCCESS``, which exists whenever the manifest
tells the truth about all parts; ``_temporary``, which exists only while a job runs or after a job was killed. The journal is
``_temporary/commit.json``: once it is on disk the commit happens, and if this process dies, the next process that is given the
folder ends the commit.

A crash before the journal leaves `out` as it was. After the journal every step can be repeated: `finish` does the steps that
are left.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rmqcore.disk.durable import sync_directory, write_durable
from rmqcore.errors import TargetNotEmptyError
from rmqcore.spark.output.job_folder import JOURNAL, TEMPORARY, discard_jobs

SUCCESS, MANIFEST = "_SUCCESS", "manifest.json"
ASSEMBLED, REPLACED = "commit", "replaced"
VERSION = 1


@dataclass(frozen=True)
class Journal:
    """A folder that is to take its place in `out`.

    Attributes
    ----------
    job : str
        Folder below ``_temporary``; its ``commit/PART`` is the new folder.
    part : str
        ``consumequeue`` or ``index``.
    entry : dict
        The manifest's entry for the part.
    """

    job: str
    part: str
    entry: dict[str, Any]


def read_manifest(out: Path) -> dict[str, dict[str, Any]]:
    """Give the parts that the manifest of a folder names; an empty dict when there is no manifest.

    Raises
    ------
    TargetNotEmptyError
        The file is no manifest of ours.
    """
    try:
        found = json.loads((out / MANIFEST).read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise TargetNotEmptyError(
            f"{out / MANIFEST} is no manifest of a rebuild: {error}"
        ) from error
    parts = found.get("parts") if isinstance(found, dict) else None
    if (
        not isinstance(parts, dict)
        or found.get("version") != VERSION
        or not all(isinstance(part, dict) for part in parts.values())
    ):
        raise TargetNotEmptyError(f"{out / MANIFEST} is no manifest of a rebuild")
    return parts


def read_journal(out: Path, fields: set[str]) -> dict[str, Any] | None:
    """Give the journal of a commit that was begun and not ended; None when there is none.

    Raises
    ------
    TargetNotEmptyError
        The journal is that of another kind of job, and only that kind of job can end its commit.
    """
    path = out / TEMPORARY / JOURNAL
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        found = None
    if not isinstance(found, dict) or set(found) != fields:
        raise TargetNotEmptyError(
            f"{path} belongs to a job of another kind that was killed while it committed: run that job again, or remove "
            f"{path.parent} and what it left"
        )
    return found


def commit(out: Path, journal: Journal) -> None:
    """Put an assembled folder, whose files are synced, in its place."""
    write_durable(out / TEMPORARY / JOURNAL, json.dumps(asdict(journal)).encode())
    finish(out)


def finish(out: Path) -> None:
    """End a commit that was begun, if there is such a commit."""
    found = read_journal(out, {"job", "part", "entry"})
    if found is None:
        return
    journal = Journal(**found)
    job = out / TEMPORARY / journal.job
    assembled, place = job / ASSEMBLED / journal.part, out / journal.part
    (out / SUCCESS).unlink(missing_ok=True)
    sync_directory(out)
    if assembled.exists():  # else an earlier try has moved it to its place
        if place.exists():
            place.rename(job / REPLACED)
        assembled.rename(place)
        sync_directory(out)
    parts = read_manifest(out) | {journal.part: journal.entry}
    document = {"version": VERSION, "parts": dict(sorted(parts.items()))}
    write_durable(out / MANIFEST, json.dumps(document, indent=1).encode() + b"\n")
    write_durable(out / SUCCESS, b"")
    (out / TEMPORARY / JOURNAL).unlink()


def discard(out: Path) -> None:
    """Remove what jobs left behind."""
    discard_jobs(out)
    for name in (MANIFEST, SUCCESS):  # `write_durable` may have died before it renamed its file
        (out / f".{name}.tmp").unlink(missing_ok=True)
    sync_directory(out)


def unknown_names(out: Path, parts: tuple[str, ...]) -> list[str]:
    """Names in a folder that no rebuild made."""
    ours = {TEMPORARY, SUCCESS, MANIFEST, f".{MANIFEST}.tmp", f".{SUCCESS}.tmp", *parts}
    return sorted(set(os.listdir(out)) - ours)
